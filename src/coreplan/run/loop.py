"""The loop of a run (ask, simulate, tell) in two forms that give the same bits.

`PythonLoop` drives any planner and any model through the public protocol. `CompiledLoop` runs the same
steps inside Numba, if model, features and planner all have kernels. Both consume the two random
streams in the same order and call the same kernels, so that their results agree bit by bit (a test checks it).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from numba.core.errors import NumbaError
from numba.extending import overload

from ..base import (
    CoreplanError,
    FloatArray,
    InputError,
    IntArray,
    Interrupt,
    SimulatorError,
    States,
    as_states,
    fenced,
    planner_stream,
    restore,
    simulator_stream,
    state_of,
    text_of,
)
from ..features import CompiledFeatures, Phi, arrays, checked, first_fault, raise_fault
from ..planners import Kernels, Planner, broken, following_ask, require_ask, require_state
from ..problem import CompiledModel
from ..simulate import (
    REPEATED,
    Answers,
    Ask,
    First,
    Simulator,
    first_bad_reward,
    first_not_finite,
    to_unit,
)

_PATIENCE = 0.1  # seconds of asks after which the caller may look at progress, checkpoints and Ctrl-C


class Loop(Protocol):
    """Drives a planner. `state` is the planner's state, which a checkpoint stores."""

    state: Any
    torn: bool  # whether a failed `tell` may have left the state half changed

    def size(self) -> int | None:
        """The number of queries of the next ask; None when the planner is done."""

    def warm_up(self) -> None:
        """Compile everything that will be called."""

    def advance(self, until: int, budget: int, interrupt: Interrupt) -> None:
        """Make at least one ask, and stop once the number of queries reaches `until`, if not earlier.

        Never exceeds `budget`; the caller has made sure that one more ask fits.
        After an error the faulty ask has left no trace: state, streams and counters are as they were before it
        (if compiled code raises by itself, as they were before the chunk of asks).
        """


class PythonLoop:
    """The loop for any model, one batch at a time."""

    def __init__(self, planner: Planner, simulator: Simulator, rng: np.random.Generator) -> None:
        self.planner, self.simulator, self.rng = planner, simulator, rng
        self.state = require_state(planner, planner.init(rng))
        self.torn = False

    def size(self) -> int | None:
        return self.planner.size(self.state)

    def warm_up(self) -> None:
        """Compile the kernels on made-up answers, so that compilation does not count as planning time.

        No query is made and nothing is changed.
        """
        if self.simulator.core is not None:
            self.planner.warm_up(self.state, self._made_up, planner_stream(0))

    def _made_up(self, ask: Ask) -> Answers:
        """Answers without a simulator: every core pair pays 0 and leads back to its own state; initial states are core's."""
        core, features = self.simulator.core, self.simulator.problem.features
        assert core is not None and ask.core_index is not None
        states, initial = core.states[ask.core_index], None
        if ask.n_initial:  # a feature map need not accept an empty batch
            initial = checked(features, core.states[np.resize(ask.core_index, ask.n_initial)])
        return Answers(
            ask=ask, rewards=np.zeros(len(states)), next_states=states, next_features=checked(features, states),
            initial_features=initial,
        )  # fmt: skip

    def _require_room(self, ask: Ask, budget: int) -> None:
        """Raise InputError, before any query is made, if an ask is larger than announced or than the budget allows."""
        size = self.size()
        if ask.size != size:
            what = f"asks for {ask.size} pairs where `size` says {size}"
            raise broken(self.planner, what, "`size(state)` is the size of the next ask, and is not random")
        first = ask.noise is not None and not self.simulator.guard.repeated
        if first and self.simulator.queries + ask.size + REPEATED > budget:
            what = f"asks for {ask.size} pairs by noise of its own with {budget - self.simulator.queries} queries left"
            raise broken(
                self.planner,
                what,
                f"the first such ask takes {REPEATED} queries more, to check the simulator",
            )

    def advance(self, until: int, budget: int, interrupt: Interrupt) -> None:
        begin = time.perf_counter()
        while True:
            mark, before = self.simulator.mark(), state_of(self.rng)
            try:
                ask = require_ask(self.planner, self.planner.ask(self.state, self.rng))
                if ask is None:
                    return
                self._require_room(ask, budget)
                following = None
                if (
                    self.simulator.engine is not None and not interrupt.asked
                ):  # only workers have a use for it
                    left = budget - self.simulator.queries - ask.size
                    following = following_ask(self.planner, self.state, ask, left)
                try:  # only here, in the user's own code, may a second Ctrl-C interrupt; then the whole ask is undone
                    interrupt.abandon = True
                    answers = self.simulator.answer(ask, following)
                finally:  # before anything is undone, which must not be interrupted
                    interrupt.abandon = False
                self.torn = True  # until `tell` returns, since it may have begun to change the state in place
                told = self.planner.tell(self.state, answers, self.rng)
                self.torn = False
                self.state = require_state(self.planner, told, self.state)
            except BaseException:
                self.simulator.return_to(mark)
                restore(self.rng, before)
                raise
            queries, size = self.simulator.queries, self.size()
            if queries >= until or size is None or queries + size > budget:
                return
            if interrupt.asked or time.perf_counter() - begin > _PATIENCE:
                return


class Buffers(NamedTuple):
    """The arrays of one ask, reused by every iteration of the compiled loop."""

    ask_draws: FloatArray
    tell_draws: FloatArray
    core_index: IntArray
    states: States
    actions: IntArray
    rewards: FloatArray
    next_states: States
    initial_states: States
    initial_phi: Phi
    next_phi: Phi


def fill(rng: np.random.Generator, u: FloatArray) -> None:
    """Fill `u` with uniforms; compiled code draws them one by one, with the same numbers."""
    rng.random(out=u)


@overload(fill)
def _fill(rng, u):
    def one_by_one(rng, u):
        for i in range(u.shape[0]):
            u[i] = rng.random()

    return one_by_one


@njit(nogil=True)  # not cached: it takes functions as arguments, so Numba's cache would never hit
def _loop(
    n, rng, stream, initial_stream, ask, tell, initial, step, features, data, core, declared, planner, b
):
    """Do `n` iterations; returns how many were done: fewer if an answer is invalid, which stays in the buffers."""
    model_data, feature_data = data
    core_states, core_actions, core_features = core
    dimension, radius, limits = declared
    state, hyper, scratch = planner
    for i in range(n):
        fill(rng, b.ask_draws)
        ask(b.ask_draws, state, hyper, b.core_index)
        for q in range(b.core_index.shape[0]):
            b.states[q] = core_states[b.core_index[q]]
            b.actions[q] = core_actions[b.core_index[q]]
        initial(initial_stream, model_data, b.initial_states)
        features(feature_data, b.initial_states, b.initial_phi)
        step(stream, model_data, b.states, b.actions, b.rewards, b.next_states)
        features(feature_data, b.next_states, b.next_phi)
        if (
            first_not_finite(b.initial_states) >= 0
            or first_not_finite(b.next_states) >= 0
            or first_bad_reward(b.rewards, limits) >= 0
            or first_fault(b.initial_phi, dimension, radius) >= 0
            or first_fault(b.next_phi, dimension, radius) >= 0
        ):
            return i
        to_unit(b.rewards, limits)
        fill(rng, b.tell_draws)
        tell(
            b.tell_draws,
            state,
            hyper,
            core_features,
            b.core_index,
            b.rewards,
            b.initial_phi,
            b.next_phi,
            scratch,
        )
    return n


class CompiledLoop:
    """The loop inside Numba, in chunks that end where a block of noise ends."""

    def __init__(
        self, planner: Planner, kernels: Kernels, simulator: Simulator, rng: np.random.Generator
    ) -> None:
        model, features = simulator.problem.model, simulator.problem.features
        assert isinstance(model, CompiledModel) and isinstance(features, CompiledFeatures)
        self.planner, self.kernels, self.simulator, self.rng = planner, kernels, simulator, rng
        self.state = planner.init(rng)
        n, n_initial = kernels.n_queries, kernels.n_initial
        assert simulator.core is not None
        core_states = as_states(simulator.core.states, model.state_shape, model.state_dtype, "The model")
        self.buffers = Buffers(
            ask_draws=np.empty(kernels.ask_draws), tell_draws=np.empty(kernels.tell_draws),
            core_index=np.empty(n, dtype=np.int64), states=model.empty_states(n), actions=np.empty(n, dtype=np.int64),
            rewards=fenced((n,), np.float64), next_states=model.empty_states(n),
            initial_states=model.empty_states(n_initial), initial_phi=features.empty(n_initial), next_phi=features.empty(n),
        )  # fmt: skip
        self.core = (core_states, np.array(simulator.core.actions), planner.setup.core_features)
        self.model, self.features = model, features
        self.torn = False

    def size(self) -> int:
        return self.kernels.n_queries

    def warm_up(self) -> None:
        try:
            states = self._check_kernels()
            self._run(0)
        except CoreplanError:
            raise
        except (NumbaError, TypeError) as error:
            raise InputError(
                "Numba cannot compile the model or the features together with the planner: "
                f"{str(error).strip().splitlines()[-1].strip()}. Check the kernels' arguments against the "
                "docstrings of CompiledModel and CompiledFeatures, or use FunctionModel and FunctionFeatures."
            ) from None
        except Exception as error:
            raise _raised(error) from error
        self.simulator.box_watch.see(*states)

    def _check_kernels(self) -> tuple[States, States]:
        """Run every kernel twice with the same noise, on output arrays with different content.

        A kernel that leaves entries unwritten, or draws from another source, gives two different results; runs with it
        could not be repeated. Returns the initial states and the next states of the trial.
        """
        model, features, (states, actions, _) = self.model, self.features, self.core
        seen = []
        for fill_value in (0, 1):
            x0, y = model.empty_states(len(states)), model.empty_states(len(states))
            rewards, phi = fenced((len(states),), np.float64), features.empty(len(states))
            for array in (x0, y, rewards, *arrays(phi)):
                array[...] = fill_value
            stream = simulator_stream(0, 0)
            model.initial_kernel(stream, model.data, x0)
            model.step_kernel(stream, model.data, states.copy(), actions.copy(), rewards, y)
            features.kernel(features.data, states.copy(), phi)
            model.require_inside("initial_kernel", x0)
            model.require_inside("step_kernel", rewards, y)
            features.require_inside(phi)
            seen.append((x0, rewards, y, *arrays(phi)))
        names = ("initial", "step (rewards)", "step (next states)", *["features"] * 2)
        for name, one, two in zip(names, *seen, strict=False):
            if one.tobytes() != two.tobytes():
                raise InputError(
                    f"The compiled {name} gave two answers to the same question and noise: it leaves entries of its "
                    "output unwritten, or draws from another source than `rng`. Write every entry, draw from `rng` only."
                )
        return seen[0][0], seen[0][2]

    def _run(self, n: int) -> int:
        k, model, f = self.kernels, self.model, self.features
        declared = (f.dimension, float(f.radius), self.simulator.guard.limits)
        planner = (self.state, k.hyper, k.scratch)
        data = (model.data, f.data)
        noise = self.simulator.noise
        return _loop(
            n, self.rng, noise.stream, noise.initial_stream, k.ask, k.tell, model.initial_kernel,
            model.step_kernel, f.kernel, data, self.core, declared, planner, self.buffers,
        )  # fmt: skip

    def _open(self) -> int:
        """Open the block of the next ask; returns the number of asks that it has room for."""
        simulator, size = self.simulator, self.kernels.n_queries
        if self.kernels.sweep is None:
            simulator.open_block(size)
            return -(-simulator.room // size)
        return simulator.open_sweep(int(getattr(self.state, self.kernels.sweep)[0]))

    def _most(self, until: int, budget: int) -> int:
        """The number of asks in one chunk: up to `until` queries, within the budget, until the watch looks again."""
        simulator, size = self.simulator, self.kernels.n_queries
        n = min(-(-(until - simulator.queries) // size), (budget - simulator.queries) // size)
        if simulator.watch is not None:  # it must look at the same asks as in the Python loop
            n = min(n, -(-(simulator.watch.due - simulator.queries) // size))
        return n

    def _count(self, n: int) -> None:
        """Count `n` answered asks."""
        self.simulator.count(n * self.kernels.n_queries, n * self.kernels.n_initial)
        self.simulator.used_up(n * self.kernels.n_queries)

    def advance(self, until: int, budget: int, interrupt: Interrupt) -> None:
        simulator = self.simulator
        simulator.drop()  # nothing, unless the run was begun by the other loop
        mark, before = simulator.mark(), state_of(self.rng)
        state = [a.copy() for a in self.state]
        done = n = max(1, min(self._open(), self._most(until, budget)))
        stream = None
        if simulator.remembers:  # the first ask alone, whose answers are in the buffers then
            done, n, stream = 1, 1, state_of(simulator.noise.stream)
        try:
            done = self._run(n)
            if done < n:
                self._raise_fault()
        except BaseException as error:
            for here, there in zip(self.state, state, strict=True):
                here[...] = there
            simulator.return_to(mark)
            restore(self.rng, before)
            # All that was simulated: up to the faulty ask, or at most the chunk if compiled code raised by itself.
            simulator.lost += min(done + 1, n) * self.kernels.n_queries
            if 0 < done < n:  # repeat the asks before the faulty one, with the same bits
                self._open()
                self._count(self._run(done))
            if isinstance(error, Exception) and not isinstance(error, CoreplanError):
                raise _raised(error) from error
            raise
        self._count(n)
        if stream is not None:
            b = self.buffers
            states, actions = (part[b.core_index] for part in self.core[:2])
            first = First.of(states, actions, None, stream, b.rewards, b.next_states)
            simulator.remember(first, b.next_phi)
        simulator.box_watch.see(self.buffers.initial_states, self.buffers.next_states)
        if simulator.watch is not None:
            simulator.watch.see(simulator.queries, self.buffers.initial_phi, self.buffers.next_phi)

    def _raise_fault(self) -> None:
        b, simulator, features = self.buffers, self.simulator, self.features
        for name, states in (("initial", b.initial_states), ("step", b.next_states)):
            at = first_not_finite(states)
            if at >= 0:
                simulator.guard.raise_bad_state(name, states[at])
        at = first_bad_reward(b.rewards, simulator.guard.limits)
        if at >= 0:
            simulator.guard.raise_bad_reward(b.states[at], int(b.actions[at]), float(b.rewards[at]))
        for states, phi in ((b.initial_states, b.initial_phi), (b.next_states, b.next_phi)):
            at = first_fault(phi, features.dimension, features.radius)
            if at >= 0:
                raise_fault(features, states, phi, at)


def _raised(error: Exception) -> SimulatorError:
    return SimulatorError(
        f"The compiled simulator or features raised {type(error).__name__}: {text_of(error)}."
    )


def make_loop(planner: Planner, simulator: Simulator, rng: np.random.Generator) -> Loop:
    """The compiled loop if everything has kernels and an ask fits into a block, else the Python loop."""
    kernels = planner.kernels() if simulator.core is not None else None
    apart = (
        simulator.engine is not None and simulator.engine.timeout is not None
    )  # workers can be ended, a loop cannot
    if (
        kernels is not None
        and not apart
        and simulator.log is None  # which sees every call
        and simulator.problem.compiled
        and kernels.n_queries <= simulator.block
    ):
        return CompiledLoop(planner, kernels, simulator, rng)
    return PythonLoop(planner, simulator, rng)
