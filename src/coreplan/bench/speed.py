"""How fast the planner is, as ratios within one run.

Both sides of a ratio alternate within one process and the best of several rounds counts, since machines
are noisy. The *bare* loop does only what every planner must do: it draws core pairs, simulates, computes
features and samples actions, compiled, in the same buffers; it does not check, descend or update.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from numba import njit

from ..features import choose
from ..planners import PrimalDual
from ..policy import SoftmaxPolicy
from ..problem import make
from ..run import CompiledLoop, Run, fill

_RATES = {"eta": 5.6e-5, "beta": 1e-3, "alpha": 0.025, "D": 28.3}
_ROUNDS = 5


@njit(nogil=True)
def _bare(
    n, rng, stream, initial_stream, initial, step, features, model_data, feature_data, core, Theta, beta, b, p
):
    core_states, core_actions, _ = core
    m, K = core_actions.shape[0], b.initial_states.shape[0]
    total = 0  # of the actions, so that nothing is optimised away
    for _ in range(n):
        fill(rng, b.ask_draws)
        for q in range(b.core_index.shape[0]):
            j = int(b.ask_draws[q] * m)
            b.states[q] = core_states[j]
            b.actions[q] = core_actions[j]
        initial(initial_stream, model_data, b.initial_states)
        features(feature_data, b.initial_states, b.initial_phi)
        step(stream, model_data, b.states, b.actions, b.rewards, b.next_states)
        features(feature_data, b.next_states, b.next_phi)
        fill(rng, b.tell_draws)
        for i in range(K):
            total += choose(b.initial_phi, i, Theta, beta, b.tell_draws[i], p)
            total += choose(b.next_phi, i, Theta, beta, b.tell_draws[K + i], p)
    return total


def _run(name: str, K: int) -> Run:
    run = Run.of(make(name), PrimalDual(K=K, **_RATES))  # type: ignore[arg-type]
    run.warm_up()
    return run


def _advance(run: Run, queries: int) -> float:
    """Queries per second, measured over at least `queries` queries."""
    start, begin = run.simulator.queries, time.perf_counter()
    while run.simulator.queries < start + queries:
        run.advance(start + queries)
    return (run.simulator.queries - start) / (time.perf_counter() - begin)


def _bare_speed(loop: CompiledLoop, queries: int) -> float:
    k = loop.kernels
    n = max(1, queries // k.n_queries)
    begin = time.perf_counter()
    _bare(
        n, loop.rng, loop.simulator.noise.stream, loop.simulator.noise.initial_stream, loop.model.initial_kernel,
        loop.model.step_kernel, loop.features.kernel, loop.model.data, loop.features.data, loop.core, loop.state.Theta,
        k.hyper.beta, loop.buffers, k.scratch.p,
    )  # fmt: skip
    return n * k.n_queries / (time.perf_counter() - begin)


def _against_bare(name: str, queries: int) -> tuple[float, float]:
    run = _run(name, K=200)
    loop = run.loop
    assert isinstance(loop, CompiledLoop)
    _bare_speed(loop, 1)
    rounds = [(_advance(run, queries), _bare_speed(loop, queries)) for _ in range(_ROUNDS)]
    return max(r[0] for r in rounds), max(r[1] for r in rounds)


def _best(rounds: int, measure: Callable[[], float]) -> float:
    return max(measure() for _ in range(rounds))


def _act_microseconds(calls: int) -> float:
    """Microseconds per call of `policy.act` on one state, with dense features of dimension 8, after a warm-up call."""
    problem = make("random-linear")
    rng = np.random.default_rng(0)
    policy = SoftmaxPolicy(rng.normal(size=8), 1.0, problem.features)
    state = np.array([3])
    policy.act(state, rng)
    best = math.inf
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls):
            policy.act(state, rng)
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


_CHILD = """
import json, sys
from coreplan.bench.speed import lazy_child
print(json.dumps(lazy_child(int(sys.argv[1]), int(sys.argv[2]))))
"""


def lazy_child(states: int, queries: int) -> dict[str, float]:
    """Seconds per query and peak memory in MB of planning the lazy `random-linear`; run it in a process of its own."""
    run = _run(f"random-linear:states={states},lazy=true", K=200)
    speed = _best(_ROUNDS, lambda: _advance(run, queries))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 1024**2
    )
    return {"seconds": 1.0 / speed, "megabytes": peak}


def _lazy(states: int, queries: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(states), str(queries)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def throughput(quick: bool = False) -> dict[str, float]:
    """All figures, in queries per second unless the name says otherwise."""
    queries = 100_000 if quick else 1_000_000
    rows: dict[str, float] = {}
    for kind, name in (("dense", "random-linear"), ("sparse", "mountain-car:grid=11")):
        planner, bare = _against_bare(name, queries)
        rows |= {f"{kind}_planner": planner, f"{kind}_bare": bare, f"{kind}_ratio": planner / bare}
    for kind, name in (("compiled_K256", "random-linear"), ("numpy_K256", "random-linear:compiled=false")):
        run = _run(name, K=256)
        _advance(run, 1)
        rows[kind] = _best(_ROUNDS, lambda: _advance(run, queries))  # noqa: B023
    small, huge = _lazy(10**3, queries // 5), _lazy(10**15, queries // 5)
    rows["lazy_1e3"], rows["lazy_1e15"] = 1 / small["seconds"], 1 / huge["seconds"]
    rows["lazy_time_ratio"] = huge["seconds"] / small["seconds"]
    rows["lazy_memory_difference_MB"] = huge["megabytes"] - small["megabytes"]
    rows["act_microseconds"] = _act_microseconds(200 if quick else 5000)
    return rows
