"""Algorithm 1: every iterate against the naive loop, and each faithful detail shown to matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import coreplan
from coreplan.base import planner_stream
from coreplan.features import dense
from coreplan.planners import CoreSetup, PrimalDual
from coreplan.planners.primal_dual import kernels as primal_dual_kernels
from coreplan.planners.primal_dual import planner as primal_dual
from coreplan.run import CompiledLoop, Interrupt, PythonLoop, make_loop
from coreplan.simulate import Simulator
from coreplan.theory.naive import algorithm_1
from helpers.mutants import mutant
from helpers.runs import plan, same

RATES = {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": 12.0}
SPECS = ["random-linear", "river-linear:L=4,states=40", "river-swim", "mountain-car:grid=5"]


def loop_for(problem, *, python=False, seed=0, budget=10**9, **settings):
    core = coreplan.CoreSet.of(problem)
    setup = CoreSetup.with_core(problem, core, budget)
    planner = PrimalDual(**settings).resolve(setup)
    simulator = Simulator(problem, core, seed)
    rng = planner_stream(seed)
    return PythonLoop(planner, simulator, rng) if python else make_loop(planner, simulator, rng)


def one_iteration(loop, queries):
    loop.advance(loop.simulator.queries + 1, 10**9, Interrupt())
    assert loop.simulator.queries == queries


def iterates(loop, T, K):
    """(theta_t, Theta_{t+1}, lambda_{t+1}) for t = 1..T."""
    out = []
    for t in range(1, T + 1):
        one_iteration(loop, t * (K + 1))
        lam = np.exp(loop.state.log_lam)
        out.append((loop.state.theta.copy(), loop.state.Theta.copy(), lam / lam.sum()))
    return out


def largest_difference(got, want):
    pairs = zip(got, want.thetas, want.lambdas, strict=True)
    return max(max(np.abs(g[0] - theta).max(), np.abs(g[2] - lam).max()) for g, theta, lam in pairs)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("D", [12.0, 0.5])  # 0.5 binds from the first steps on
def test_every_iterate_equals_the_naive_loop(spec, D):
    problem = coreplan.make(spec)
    rates = {**RATES, "D": D}
    want = algorithm_1(problem, T=60, **rates)
    loop = loop_for(problem, **rates)
    assert isinstance(loop, CompiledLoop)
    got = iterates(loop, 60, rates["K"])
    assert largest_difference(got, want) < 1e-10
    assert loop.state.counts[1] == want.J
    np.testing.assert_allclose(loop.state.Theta_J, want.Thetas[want.J - 1], atol=1e-9)
    if D == 0.5:
        assert max(np.linalg.norm(t) for t in want.thetas) > 0.4, "D was meant to bind"


@pytest.mark.parametrize("spec", SPECS)
def test_compiled_and_python_loops_give_the_same_bits(spec):
    problem = coreplan.make(spec)
    a, b = loop_for(problem, **RATES), loop_for(problem, python=True, **RATES)
    for loop in (a, b):
        while loop.simulator.queries < 8 * 300:
            loop.advance(8 * 300, 10**9, Interrupt())
    for x, y in zip(a.state, b.state, strict=True):
        assert x.tobytes() == y.tobytes()
    assert a.simulator.mark() == b.simulator.mark()


def test_numpy_functions_give_the_same_bits_as_compiled_ones():
    policies = []
    for spec in ("random-linear", "random-linear:compiled=false"):
        problem = coreplan.make(spec)
        policies.append(plan(problem, planner=PrimalDual(**RATES), budget=100_000, seed=5).policy)
    assert policies[0].theta.tobytes() == policies[1].theta.tobytes()


def test_sparse_and_dense_features_agree():
    """The O(k) inner loop against the O(d) one, over many folds of the scale: K large, D binding hard."""
    problem = coreplan.make("river-linear:L=4,states=40")
    d, A = problem.features.dimension, problem.n_actions
    as_dense = coreplan.FunctionFeatures(lambda x: dense(problem.features(x), d), A, d, 1.0)
    twin = coreplan.Problem(problem.model, as_dense, problem.discount, core_pairs=problem.core_pairs)
    rates = {**RATES, "K": 3000, "alpha": 2.0, "D": 0.7}
    a, b = loop_for(problem, **rates), loop_for(twin, **rates)
    for x, y in zip(iterates(a, 3, 3000), iterates(b, 3, 3000), strict=True):
        np.testing.assert_allclose(x[0], y[0], rtol=0, atol=1e-11)
        np.testing.assert_allclose(x[2], y[2], rtol=0, atol=1e-11)


# Each faithful detail, broken on purpose: the naive loop must notice.

FAULTS = {
    "K + 1 iterates in the mean": (
        "random-linear",
        "    for l in range(d):\n        theta[l] = mean[l] / K\n",
        "    for l in range(d):\n        theta[l] = (mean[l] + theta[l]) / (K + 1)\n",
    ),
    "lambda before theta": (
        "random-linear",
        "    descend(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch)\n",
        "    old = theta.copy()\n"
        "    descend(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch)\n"
        "    new, theta = theta, old\n",
    ),
    "no factor m": ("random-linear", "hyper.eta * (m * td)", "hyper.eta * td"),
    "no projection": ("random-linear", "if norm2 > D * D:", "if False:"),
    "discount dropped": ("random-linear", "hyper.gamma * V", "V"),
    "policy of the next iteration": (
        "random-linear",
        "softmax(next_phi, K, Theta,",
        "softmax(next_phi, K, Theta + theta,",
    ),
    "sparse: K + 1 in the mean": ("river-swim", "        S += s  #", "        S += s * (1 + 1 / K)  #"),
    "sparse: no projection": ("river-swim", "if s * s * norm2 > D * D:", "if False:"),
    "sparse: lazy mean forgets the past": ("river-swim", "late[i] -= step * S", "late[i] -= 0.0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_naive_loop_notices(fault, tmp_path, monkeypatch):
    spec, old, new = FAULTS[fault]
    monkeypatch.setattr(primal_dual, "kernels", mutant(primal_dual_kernels, old, new, tmp_path, monkeypatch))
    problem = coreplan.make(spec)
    rates = {**RATES, "D": 0.5}
    got = iterates(loop_for(problem, python=True, **rates), 10, rates["K"])
    assert largest_difference(got, algorithm_1(problem, T=10, **rates)) > 1e-8


def test_exactly_T_times_K_plus_1_queries_in_one_batch_an_iteration():
    problem = coreplan.make("random-linear:compiled=false")
    sizes = []

    def step(rng, states, actions):
        sizes.append(len(states))
        return problem.model.step(rng, states, actions)

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    counted = coreplan.Problem(model, problem.features, problem.discount, core_pairs=problem.core_pairs)
    result = plan(counted, planner=PrimalDual(**RATES), budget=1003)
    assert result.queries == 125 * 8  # T = floor(1003 / 8)
    assert sizes == [8] * 125
    assert result.initial_draws == 125 * 7


def test_J_is_uniform_and_its_sum_is_right():
    """Chi-square over J = 1..8 with 4,000 seeds; the threshold is the 1 - 1e-7 quantile."""
    problem = coreplan.make("river-swim")
    counts = np.zeros(8)
    for seed in range(4000):
        loop = loop_for(problem, python=True, seed=seed, K=1, eta=1e-3, beta=0.1, alpha=0.1, D=5.0)
        loop.advance(16, 16, Interrupt())
        counts[loop.state.counts[1] - 1] += 1
    assert counts.sum() == 4000
    assert ((counts - 500) ** 2 / 500).sum() < stats.chi2.ppf(1 - 1e-7, 7)


def test_read_outs():
    problem = coreplan.make("random-linear")
    policies = {}
    for output in ("random", "last", "greedy"):
        found = plan(problem, planner=PrimalDual(**RATES, output=output), budget=8 * 500, seed=2)
        policies[output] = found.policy
    assert policies["last"].scale == policies["random"].scale == RATES["beta"]
    assert policies["greedy"].scale == np.inf
    np.testing.assert_array_equal(policies["last"].theta, policies["greedy"].theta)
    want = algorithm_1(problem, T=500, **RATES, seed=2)
    np.testing.assert_allclose(policies["random"].theta, want.Thetas[want.J - 1], atol=1e-7)
    np.testing.assert_allclose(policies["last"].theta, want.Thetas[-1] + want.thetas[-1], atol=1e-7)


def test_initial_vectors_are_used():
    problem = coreplan.make("random-linear")
    theta0, lambda1 = np.full(8, 0.5), np.arange(1.0, 9.0) / 36
    loop = loop_for(problem, **{**RATES, "K": 1}, theta0=theta0, lambda1=lambda1)
    lam = np.exp(loop.state.log_lam)
    np.testing.assert_allclose(lam / lam.sum(), lambda1, rtol=1e-14)
    one_iteration(loop, 2)
    np.testing.assert_array_equal(loop.state.theta, theta0)  # K = 1: the mean of theta^(1) alone


# lambda's tree of sums.


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 40),
    steps=st.lists(st.tuples(st.floats(0, 0.999999), st.floats(-2000, 2000)), max_size=60),
    u=st.floats(0, 1, exclude_max=True),
)
def test_the_tree_is_the_distribution(m, steps, u):
    """Against log-sum-exp from scratch, for updates so large that plain weights would overflow."""
    log_lam, reference = np.zeros(m), np.zeros(m)
    tree = np.empty(2 * 2 ** int(np.ceil(np.log2(max(m, 2)))))
    primal_dual_kernels.build_tree(log_lam, tree)
    for where, by in steps:
        primal_dual_kernels.raise_log(log_lam, tree, int(where * m), by)
        reference[int(where * m)] += by
    leaves = tree[len(tree) // 2 :][:m]
    lam = np.exp(reference - reference.max())
    lam /= lam.sum()
    assert np.isfinite(log_lam).all()
    np.testing.assert_allclose(leaves / tree[1], lam, atol=1e-9)
    j = primal_dual_kernels.draw(tree, u)
    assert 0 <= j < m and leaves[j] > 0
    cumulative = np.cumsum(leaves) / tree[1]
    assert cumulative[j] >= u - 1e-9 and (j == 0 or cumulative[j - 1] <= u + 1e-9)


# Bad input.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"eta": -0.1}, "eta=...)` must be a positive finite number, got -0.1"),
        ({"beta": 0.0}, "beta"),
        ({"alpha": float("nan")}, "alpha"),
        ({"D": float("inf")}, "D"),
        ({"K": 0}, "K=...)` must be a whole number of at least 1, got 0"),
        ({"K": 2.5}, "K"),
        ({"output": "best"}, "random, last, greedy"),
    ],
)
def test_bad_hyperparameters(settings, words):
    with pytest.raises(coreplan.InputError) as caught:
        PrimalDual(**settings)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"theta0": np.full(8, 9.0)}, "outside the ball"),
        ({"theta0": np.zeros(3)}, "8 finite numbers"),
        ({"lambda1": np.full(8, 0.2)}, "distribution"),
        ({"lambda1": np.array([1.5, -0.5, 0, 0, 0, 0, 0, 0])}, "distribution"),
    ],
)
def test_bad_initial_vectors(settings, words):
    problem = coreplan.make("random-linear")
    with pytest.raises(coreplan.InputError, match=words):
        plan(problem, planner=PrimalDual(**{**RATES, **settings}), budget=1000)


def test_budget_below_one_iteration():
    problem = coreplan.make("random-linear")
    with pytest.raises(coreplan.InputError, match=r"budget of 7 queries is below K \+ 1 = 8"):
        plan(problem, planner=PrimalDual(**RATES), budget=7)


def test_rates_left_out_come_from_the_theorem():
    """They minimise the bound of thm:main over each rate: eps_opt is stationary in eta, beta and alpha."""
    problem = coreplan.make("random-linear")
    found = plan(problem, planner=PrimalDual(K=50, D=20.0), budget=51 * 400)
    p, m, A, R, D, K, T = found.planner, 8, 4, 1.0, 20.0, 50, 400

    def bound(eta, beta, alpha):
        return (
            np.log(m) / (eta * T) + np.log(A) / (beta * T) + 2 * D**2 / (alpha * K)
            + eta * m**2 * (1 + 2 * R * D) ** 2 / 2 + beta * R**2 * D**2 / 2 + 2 * alpha * R**2
        )  # fmt: skip

    best = bound(p.eta, p.beta, p.alpha)
    for factor in (0.99, 1.01):
        assert bound(p.eta * factor, p.beta, p.alpha) > best
        assert bound(p.eta, p.beta * factor, p.alpha) > best
        assert bound(p.eta, p.beta, p.alpha * factor) > best


def test_long_runs_are_compiled_otherwise_and_give_the_same_bits(monkeypatch):
    from coreplan.planners.primal_dual import kernels

    problem, rates = coreplan.make("random-linear"), PrimalDual(**RATES)
    short = plan(problem, planner=rates, budget=8 * 500, seed=2)
    monkeypatch.setattr(kernels, "LONG", 1)
    assert short.planner.kernels().tell is kernels.tell_inlined
    same(short, plan(problem, planner=rates, budget=8 * 500, seed=2))
