"""Finite horizons: a clock in the state, and an end after n steps.

A state with a clock is a row: the numbers of the state, the step t, and the terminal column (`features/terminal.py`),
which is the one notion of an end. An end of the problem's own, in a terminal column that it has already, is the same end.

Everything inside needs a discount below 1. With a clock in the state that is no restriction. Let g be the user's
discount, 1 allowed, and h <= g another one. If step t pays r_t (g / h)^t instead of r_t, then

    sum_{t < n} h^t r_t (g / h)^t  =  sum_{t < n} g^t r_t :

every policy has the same return under h as it had under g. We take h = min(g, n / (n + 1)). So the horizon 1 / (1 - h)
that planners see is at most n + 1 steps, and rewards grow by at most (1 + 1/n)^(n - 1) < e.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from ..base import (
    SHARE,
    CoreplanError,
    FloatArray,
    InputError,
    IntArray,
    SimulatorError,
    States,
    as_count,
    available_memory,
    plain,
    shown,
    text_of,
)
from ..features import (
    Features,
    Rows,
    TerminalFeatures,
    TimeFeatures,
    at_time,
    ended,
    has_terminal,
    terminal_pairs,
    terminated,
    time_nodes,
    widened,
    with_terminal,
)
from .baseline import without_clock
from .model import BLOCK, CompiledModel, Model
from .tables import Tabular

_LARGEST_TABLE = 20_000_000  # the most transitions in the table of all steps; more are not written out
_SLACK = 1e-9  # how far a reward may leave its range, relative to the range's width: rounding only


@dataclass(frozen=True)
class ClockModel:
    """The simulator `base` with a clock: NumPy around the base's own step, so a run with it is not compiled as a whole.

    The base sees living states only, in their own form and without the clock. A model that is a function of its noise
    stays one.
    """

    base: Model
    rows: Rows
    steps: int  # n
    discount: float  # the user's own, g
    reward_range: tuple[float, float]  # the base's
    before: dict[str, Any] = field(
        default_factory=dict, repr=False, compare=False
    )  # the problem's fields, as given
    after: dict[str, Any] = field(
        default_factory=dict, repr=False, compare=False
    )  # the same fields with the clock

    @property
    def n_actions(self) -> int:
        return self.base.n_actions

    @property
    def block(self) -> int:
        return getattr(self.base, "block", BLOCK)

    @property
    def repeatable(self) -> bool:
        return bool(getattr(self.base, "repeatable", True))

    @property
    def noise_dimension(self) -> int | None:
        return getattr(self.base, "noise_dimension", None)

    @property
    def inner_discount(self) -> float:
        """h, the discount that everything inside works with."""
        return min(self.discount, self.steps / (self.steps + 1.0))

    @property
    def growth(self) -> float:
        """g / h, by which the rewards of one step exceed those of the step before."""
        return self.discount / self.inner_discount

    @property
    def inner_range(self) -> tuple[float, float]:
        """The range of the rewards that grow, with 0, which is paid after the end."""
        most = self.growth ** (self.steps - 1)
        low, high = self.reward_range
        return widened((min(low, low * most), max(high, high * most)))

    @property
    def weight(self) -> float:
        """sum_{t < n} g^t: a return divided by it is an average reward."""
        g = self.discount
        return float(self.steps) if g == 1.0 else math.expm1(self.steps * math.log(g)) / (g - 1.0)

    def paid(self, states: States, rewards: FloatArray) -> FloatArray:
        """The rewards `[n]` of steps from states `[n, D + 2]` in the user's own units, in which they do not grow."""
        return rewards / self.growth ** np.asarray(states)[:, -2]

    def initial(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` draws from nu0 at step 0, `[n, D + 2]`."""
        states = plain("initial's states", self.base.initial(rng, n), SimulatorError)
        rows = at_time(self.rows.write(states), 0)
        rows[self.rows.over(states)] = terminated(self.rows.columns + 1)
        return rows

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair."""
        return self._step(lambda living, x, a: self.base.step(rng, x, a), states, actions)

    def step_with(self, states: States, actions: IntArray, noise: FloatArray) -> tuple[FloatArray, States]:
        """One transition from each pair with the given noise `[n, noise_dimension]`."""
        base: Any = self.base
        return self._step(lambda living, x, a: base.step_with(x, a, noise[living]), states, actions)

    def _step(self, call: Callable[..., Any], states: States, actions: IntArray) -> tuple[FloatArray, States]:
        states = np.asarray(states, dtype=np.float64)
        living = ~ended(states)
        rewards = np.zeros(len(states))
        next_states = np.tile(terminated(self.rows.columns + 1), (len(states), 1))
        if living.any():
            x, t, a = self.rows.read(states[living, :-2]), states[living, -2], actions[living]
            r, y = self._checked(call(living, x, a), x, a)
            rewards[living] = r * self.growth**t
            on = ~self.rows.over(y) & (t + 1 < self.steps)
            if on.any():
                next_states[np.flatnonzero(living)[on]] = at_time(self.rows.write(y[on]), t[on] + 1)
        return rewards, next_states

    def _checked(self, answer: Any, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """What the base answered, with its rewards checked in the user's own units: those of later steps are larger."""
        n = len(actions)
        if not isinstance(answer, tuple) or len(answer) != 2 or np.shape(answer[0]) != (n,):
            raise SimulatorError(
                f"step was given {n} pairs and must return (rewards, next_states), with {n} real rewards in an array."
            )
        r = np.asarray(plain("step's rewards", answer[0], SimulatorError), dtype=np.float64)
        y = plain("step's states", answer[1], SimulatorError)
        if y.shape != states.shape:
            raise SimulatorError(f"step must return {n} states of shape {states.shape}, got {y.shape}.")
        low, high = self.reward_range
        slack = _SLACK * (high - low)
        wrong = np.flatnonzero(~((r >= low - slack) & (r <= high + slack)))
        if len(wrong):
            x, a = states[wrong[0]], actions[wrong[0]]
            raise SimulatorError(
                f"The simulator returned the reward {r[wrong[0]]:.9g} for state {shown(np.asarray(x))} and action {a}, "
                f"outside the declared range [{low:g}, {high:g}]. Declare Problem(reward_range=(lowest, highest)) so that "
                "it holds every reward."
            )
        return r, y


def check_horizon(horizon: Any, nodes: Any) -> tuple[int | None, int | None]:
    """Both as whole numbers: the horizon at least 1, the nodes between 2 and the horizon; else an InputError."""
    horizon = as_count("Problem", optional=True, horizon=horizon)
    nodes = as_count("Problem", least=2, optional=True, horizon_nodes=nodes)
    if nodes is not None and (horizon is None or nodes > horizon):
        raise InputError(
            f"`Problem(horizon_nodes={nodes})` are steps that have features of their own, at most as many as there are "
            f"steps: give a horizon of at least {nodes}; it is {horizon}. Without horizon_nodes every step is one."
        )
    return horizon, nodes


def clocked(fields: dict[str, Any], horizon: int, nodes: int | None) -> dict[str, Any]:
    """The fields of a problem with the clock added, from those without: model, features, discount, and so on."""
    base, features = fields["model"], fields["features"]
    rows = rows_of(base, features)
    model = ClockModel(
        base=base, rows=rows, steps=int(horizon), discount=fields["discount"], reward_range=fields["reward_range"],
        before=fields,
    )  # fmt: skip
    carried, pairs = getattr(features, "core", None), fields["core_pairs"]
    if pairs is None and carried is not None:
        pairs = carried()
    core = None if pairs is None else _checked_core(pairs, rows)
    _require_memory(
        0 if core is None else len(core[1]), features.dimension, nodes or model.steps, rows.columns
    )
    times = TimeFeatures(features, rows, time_nodes(model.steps, nodes))
    model.after.update(
        model=model,
        features=with_terminal(times),
        discount=model.inner_discount,
        reward_range=model.inner_range,
        core_pairs=None if core is None else terminal_pairs(*times.at_nodes(*core)),
        tabular=_table(model, fields["tabular"]),
        mask=fields["mask"],
        ends=_ends(rows, fields["ends"]),
        baseline=without_clock(fields["baseline"], rows),
    )
    return model.after


def has_clock(features: Features) -> bool:
    """Whether the features are those of a problem with a horizon."""
    return isinstance(features, TerminalFeatures) and isinstance(features.base, TimeFeatures)


def rows_of(model: Model, features: Features) -> Rows:
    """The form of the model's states: what a compiled model declares, else that of one initial state."""
    terminal = has_terminal(features)
    if isinstance(model, CompiledModel):
        return Rows(model.state_shape, model.state_dtype, terminal)
    try:
        state = np.asarray(model.initial(np.random.default_rng(0), 1))
    except CoreplanError:
        raise
    except (Exception, SystemExit) as error:
        raise SimulatorError(
            "`Problem` drew an initial state to see what states are, and the simulator's initial raised "
            f"{type(error).__name__}: {text_of(error)}"
        ) from error
    if state.ndim == 0 or state.dtype.kind not in "fiub":
        raise InputError(
            "For `Problem(horizon=...)`, which appends a clock to the state, and for `Problem(state_names=...)` states must "
            f"be numbers or arrays of numbers; initial returned an array of shape {state.shape} and dtype {state.dtype}."
        )
    return Rows(state.shape[1:], state.dtype, terminal)


def _checked_core(pairs: Any, rows: Rows) -> tuple[States, IntArray]:
    """The core pairs without the clock, as arrays."""
    states, actions = (np.asarray(part) for part in pairs)
    if states.shape[:1] != actions.shape or states.shape[1:] != rows.shape:
        raise InputError(
            f"`Problem(core_pairs=(states, actions))` needs states of shape ({', '.join(map(str, ('m', *rows.shape)))}), "
            f"without the clock, and m actions; got {states.shape} and {actions.shape}."
        )
    return states, actions


def _require_memory(m: int, d: int, T: int, columns: int) -> None:
    """Raise InputError if m core pairs and d coordinates at T nodes in time do not fit into memory."""
    need, have = 8.0 * T * (m * (columns + 3) + d), SHARE * available_memory()
    if need > have:
        raise InputError(
            f"{m:,} core pairs and {d:,} features at {T:,} steps are {m * T:,} pairs and {d * T:,} features, which need "
            f"{need / 1e9:.2g} GB; coreplan may use {have / 1e9:.2g} GB. Give fewer nodes in time, such as "
            "`Problem(horizon_nodes=10)`, or coarser features."
        )


def _ends(rows: Rows, given: Callable[[States], Any] | None) -> Callable[[States], Any] | None:
    """The problem's own `ends`, for states with a clock; None if the terminal column says it all.

    States that ended by it stay states, since features may interpolate between them and living ones.
    """
    if given is None:
        return None

    def ends(states: States) -> Any:
        over = ended(states)
        over[~over] = given(rows.read(states[~over, :-2]))
        return over

    return ends


def _table(model: ClockModel, given: Callable[[], Tabular] | None) -> Callable[[], Tabular] | None:
    """The exact table with the clock: the states at every step, then the end. None if it would be too large."""
    if given is None:
        return None
    base = given()
    parts: tuple[Any, ...] = base.factors or (base.P,)
    stored = sum(M.nnz if sparse.issparse(M) else int(np.count_nonzero(M)) for M in parts)
    return cache(lambda: _unrolled(model, base)) if stored * model.steps <= _LARGEST_TABLE else None


def _unrolled(model: ClockModel, base: Tabular) -> Tabular:
    over = model.rows.over(base.states)
    living, n, A = np.flatnonzero(~over), model.steps, base.n_actions
    X = len(living)
    pairs = (living[:, None] * A + np.arange(A)).ravel()  # rows of the living states
    moves: dict[str, Any]
    if base.factors is None:
        moves = {"P": _through_time(sparse.csr_matrix(base.P)[pairs], over, n, ends=A)}
    else:
        Phi, W = (sparse.csr_matrix(factor) for factor in base.factors)
        at_steps = sparse.kron(sparse.eye(n), Phi[pairs])
        whole = sparse.block_diag([at_steps, np.ones((A, 1))], format="csr")
        moves = {"factors": (whole, _through_time(W, over, n, ends=1))}
    low, high = model.reward_range
    paid = low + (high - low) * base.r[living]  # [X, A], in the user's units
    grown = (model.growth ** np.arange(n)[:, None, None] * paid).reshape(n * X, A)
    inner_low, inner_high = model.inner_range
    r = (np.vstack([grown, np.zeros((1, A))]) - inner_low) / (inner_high - inner_low)
    rows = at_time(np.tile(model.rows.write(base.states[living]), (n, 1)), np.repeat(np.arange(n), X))
    start = np.concatenate([base.nu0[living], np.zeros((n - 1) * X), [base.nu0[over].sum()]])
    available = None
    if base.available is not None:
        available = np.vstack([np.tile(base.available[living], (n, 1)), np.ones((1, A), dtype=bool)])
    return Tabular(
        states=np.vstack([rows, terminated(model.rows.columns + 1)]), r=r.clip(0.0, 1.0), nu0=start, available=available,
        **moves,
    )  # fmt: skip


def _through_time(rows: sparse.csr_matrix, over: Any, n: int, ends: int) -> sparse.csr_matrix:
    """Transitions `[N, states]` of one step, written out for n: row (t, i) leads to (t + 1, y), or to the end.

    It does so from the last step, and where y has ended by itself. The end is the last state; its `ends` rows stay there.
    """
    forward = sparse.kron(sparse.eye(n, k=1), rows[:, np.flatnonzero(~over)])
    early, last = rows @ over.astype(float), np.asarray(rows.sum(axis=1)).ravel()
    to_end = np.append(np.tile(early, n - 1), last)[:, None]
    return sparse.bmat([[forward, to_end], [None, np.ones((ends, 1))]], format="csr")
