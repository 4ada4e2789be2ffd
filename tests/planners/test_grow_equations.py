"""The equations and the frontier of `Grow` against naive ones, and deliberate faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coreplan.features import UNAVAILABLE, with_constant
from coreplan.planners.grow import kernels as frontier
from coreplan.problem import Sparse
from coreplan.sampled import WeightedSamples, halves, kept_gain, systems
from coreplan.sampled import lstd as lspi
from helpers.mutants import mutant

D, A, N, GAMMA, RIDGE = 6, 3, 400, 0.9, 1e-2


def samples(seed=0, mask=False):
    """Random sparse samples, with a constant; optionally action 2 unavailable at every third next state."""
    rng = np.random.default_rng(seed)

    def phi(*shape):
        index = np.stack([rng.permutation(D)[:3] for _ in range(math.prod(shape))]).reshape(*shape, 3)
        return with_constant(Sparse(index, rng.random((*shape, 3))), D)

    next_phi = phi(N, A)
    if mask:
        next_phi.weight[::3, 2, 0] = UNAVAILABLE
    return WeightedSamples(phi(N), rng.random(N), next_phi, rng.choice([0.25, 1.0], N))


def dense(phi):
    out = np.zeros((*phi.weight.shape[:-1], D + 1))
    for at in np.ndindex(*phi.weight.shape):
        out[(*at[:-1], phi.index[at])] += phi.weight[at]
    return out


def with_ends(s):
    """The samples with an end after every fifth, which pays 0.3, 0.7 or 0; and some samples left out."""
    ended = np.arange(N) % 5 == 0
    w = np.where(np.arange(N) % 7 == 0, 0.0, s.w)
    return s._replace(
        w=w, ended=ended, end_rewards=np.where(ended, np.array([0.3, 0.7, 0.0])[np.arange(N) % 3], 0.0)
    )


class Naive:
    """LSTD-Q policy iteration in dense matrices, from the formulas."""

    def __init__(self, s):
        self.F, self.r, self.w = dense(s.phi), s.rewards, s.w / s.w.sum()
        self.open = s.next_phi.weight[:, :, 0] != UNAVAILABLE
        weight = np.where(self.open[:, :, None], s.next_phi.weight, 0.0)
        self.Y = dense(Sparse(s.next_phi.index, weight))
        if s.ended is not None:  # the end's value is known and has no features
            self.r = s.rewards + GAMMA / (1 - GAMMA) * s.end_rewards
            self.Y = np.where(s.ended[:, None, None], 0.0, self.Y)
        self.ended = np.zeros(N, dtype=bool) if s.ended is None else s.ended
        self.G = self.F.T @ (self.w[:, None] * self.F)
        diagonal = np.diag(self.G)[:D]
        self.penalty = np.append(RIDGE * np.sqrt(diagonal * diagonal.mean()), 0.0)

    def lstd(self, pi, r):  # pi [N, A]
        C = self.F.T @ (self.w[:, None] * np.einsum("na,nad->nd", pi, self.Y))
        theta = np.linalg.solve(self.G - GAMMA * C + np.diag(self.penalty), self.F.T @ (self.w * r))
        return theta, float(self.w @ np.einsum("na,nad,d->n", pi, self.Y, theta))

    def greedy(self, theta):
        return np.eye(A)[np.where(self.open, self.Y @ theta, -np.inf).argmax(axis=1)]

    def bounded(self, theta, within):
        """The greedy policy, without the next states whose values are impossible; and the bounds that these get."""
        pi, value = self.greedy(theta), np.where(self.open, self.Y @ theta, -np.inf).max(axis=1)
        bound = np.clip(value, *(r / (1 - GAMMA) for r in within))
        beyond = (bound != value) & ~self.ended
        return np.where(beyond[:, None], 0.0, pi), np.where(beyond, bound, 0.0)

    def iterate(self, r, within):
        pi, bound = self.greedy(np.zeros(D + 1)), 0.0
        for _ in range(lspi.MOST):
            theta, _ = self.lstd(pi, r + GAMMA * bound)
            new, bound = self.bounded(theta, within)
            changed = self.w[(new != pi).any(axis=1)].sum()
            pi = new
            if changed < lspi.SETTLED:
                break
        return theta

    def gain(self, theta):
        uniform = self.open / self.open.sum(axis=1, keepdims=True)
        return self.lstd(self.greedy(theta), self.r)[1] - self.lstd(uniform, self.r)[1]


WIDE, NARROW = (-9.0, 9.0), (0.43, 0.45)  # of rewards: bounds that no value passes, and bounds that many do


def agrees(module=lspi, seed=0, mask=True, ends=False, within=NARROW):
    s = with_ends(samples(seed, mask)) if ends else samples(seed, mask)
    fast, naive = module.Equations(s, D, RIDGE), Naive(s)
    np.testing.assert_allclose(
        fast.iterate(fast.targets(GAMMA), GAMMA, np.zeros(D + 1), within).theta,
        naive.iterate(naive.r, within),
        atol=1e-9,
    )
    other = np.random.default_rng(seed).standard_normal(
        s.rewards.shape
    )  # after another reward, nothing of the first is left
    theta = naive.iterate(other, WIDE)
    np.testing.assert_allclose(fast.iterate(other, GAMMA, np.zeros(D + 1), WIDE).theta, theta, atol=1e-9)
    assert fast.gain(theta, GAMMA) == pytest.approx(naive.gain(theta), abs=1e-9)


def in_form(monkeypatch, form, module=systems):
    """Let the equations use one form of the systems at any dimension, and solve them to the last digits."""
    monkeypatch.setattr(module, "TOLERANCE", 1e-13)
    monkeypatch.setattr(lspi, "next_values", module.next_values)
    monkeypatch.setattr(lspi, "system_of", lambda *samples: getattr(module, form)(*samples[:3], D + 1))


@pytest.mark.parametrize("form", ["Written", "Products"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("within", [WIDE, NARROW])
def test_equations_agree_with_naive_ones(seed, mask, ends, within, form, monkeypatch):
    in_form(monkeypatch, form)
    agrees(seed=seed, mask=mask, ends=ends, within=within)


def test_values_stay_where_values_are():
    """Off the policy's path LSTD-Q can be unstable: here the features of next states are twice those of the pairs."""
    phi = Sparse(np.zeros((40, 1), dtype=np.int32), np.linspace(0.1, 1.0, 40)[:, None])
    twice = with_constant(Sparse(phi.index[:, None], 2 * phi.weight[:, None]), 1)
    s = WeightedSamples(with_constant(phi, 1), phi.weight[:, 0], twice, np.ones(40))
    equations = lspi.Equations(s, 1, 1e-4)
    free = equations.iterate(s.rewards, GAMMA, np.zeros(2), (-np.inf, np.inf)).theta
    assert free[0] < 0.0  # rewards grow with the feature, and the fit says that values fall with it
    theta = equations.solve(GAMMA, np.zeros(2))
    assert theta[0] > 0.0 and 0.0 < theta @ [1.0, 1.0] <= 1.0 / (1.0 - GAMMA) + 1.0


LSPI_FAULTS = {
    "the constant is penalised": ("* self.g), 0.0)", "* self.g), 1.0)"),
    "the ridge forgets the scale": ("np.maximum(diagonal, 1e-6 * self.g) * self.g", "np.maximum(diagonal, 1e-6 * self.g)"),
    "weights are not normalised": ("self.w = samples.w / samples.w.sum()", "self.w = samples.w"),
    "worst instead of best": ("            if s > top:", "            if s < -top:"),
    "ends have next features": ("if ended[n]:\n            choice", "if ended[n] and low > high:\n            choice"),
    "bounds have next features": ("choice[n], value[n] = NONE, low", "value[n] = low"),
    "only one bound": ("if top < low or top > high", "if top < low"),
    "the wrong bound": ("low if top < low else high", "high if top < low else low"),
    "the bound is not discounted": ("targets + discount * value", "targets + value"),
    "a bound on one step": ("(r / (1.0 - discount) for r in within)", "(r for r in within)"),
    "an end of an evaluated policy": ("choice[self.ended] = NONE", "pass"),
    "the uniform policy's ends too": ("np.where(self.ended, NONE, UNIFORM)", "np.full(len(self.w), UNIFORM)"),
    "an end pays once": ("discount / (1.0 - discount) * s.end_rewards", "discount * s.end_rewards"),
}  # fmt: skip


@pytest.mark.parametrize("fault", LSPI_FAULTS)
def test_faults_of_the_equations_are_noticed(fault, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        agrees(mutant(lspi, *LSPI_FAULTS[fault], tmp_path, monkeypatch), ends=True)


SYSTEM_FAULTS = {
    "the old choice stays": ("Written", "if old[n] != NONE:", "if old[n] > 9:"),
    "masked actions are averaged": ("Written", "/ np.maximum(open_.sum(axis=1, keepdims=True), 1)", "/ 3.0"),
    "no discount": ("Written", "self.G - discount * self", "self.G - self"),
    "no discount in products": ("Products", "discount * after, out", "after, out"),
    "no penalty in products": ("Products", "multiply(penalty, theta, out=out)", "multiply(0.0, theta, out=out)"),
    "masked actions in products": ("Products", "        out[n] /= max(count, 1)", "        out[n] /= 3 if equal else 1"),
    "weights are forgotten": ("Products", "+= w[n] * t *", "+= t *"),
    "the basis is not orthogonal": ("Products", "u -= h @ V[: j + 1]", "u = u - 0.5 * h @ V[: j + 1]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", SYSTEM_FAULTS)
def test_faults_of_the_systems_are_noticed(fault, tmp_path, monkeypatch):
    form, *change = SYSTEM_FAULTS[fault]
    in_form(monkeypatch, form, mutant(systems, *change, tmp_path, monkeypatch))
    with pytest.raises(AssertionError):
        agrees(ends=True)


def test_dense_features_become_sparse_rows():
    phi = np.random.default_rng(0).random((4, A, D))
    rows = with_constant(phi, D)
    np.testing.assert_allclose(dense(rows)[..., :D], phi)
    assert (dense(rows)[..., D] == 1.0).all()


def test_halves_agree_on_much_data_and_not_on_noise():
    """A linear reward is found by both halves; pure noise with as many features as samples is not."""
    rng = np.random.default_rng(1)
    s = samples(2)
    clear = s._replace(rewards=dense(s.phi) @ np.linspace(0, 1, D + 1))
    assert kept_gain(halves(clear, D, 1e-4), GAMMA) > 0.95
    noise = [s._replace(rewards=rng.standard_normal(N)) for _ in range(20)]
    kept = [kept_gain(halves(n, D, 1e-4), GAMMA) for n in noise]
    assert np.mean(kept) < 0.6 and np.mean(np.array(kept) < 0.8) > 0.7  # seeded


def leverage_by_hand(s, S):
    Y = dense(s.next_phi)
    return np.einsum("nad,de,nae->na", Y, S, Y).max(axis=1)


def picks_are_right(module):
    s = samples(3, mask=False)
    F, Y = dense(s.phi), dense(s.next_phi)
    gram = F.T @ F
    g = np.diag(gram)[:D].mean() / N
    S = module.inverse(gram, N, 4)
    np.testing.assert_allclose(S, np.linalg.inv(gram + g * np.eye(D + 1)), rtol=1e-9)
    bonus = np.sqrt(np.einsum("nd,de,ne->n", F, S, F))
    np.testing.assert_allclose(module.uncertainty(s.phi, S), bonus / bonus.max(), rtol=1e-9)
    exact = leverage_by_hand(s, S)
    np.testing.assert_allclose(module.measured(s.next_phi, S, np.full(N, np.inf), 0), exact, rtol=1e-9)
    known = np.where(np.arange(N) < 100, 0.1, 0.0)  # the first hundred were measured, and small
    np.testing.assert_allclose(
        module.measured(s.next_phi, S, known, 100), np.where(np.arange(N) < 100, 0.1, exact), rtol=1e-9
    )
    once = S.copy()
    module.absorb_all(Sparse(s.phi.index[:3], s.phi.weight[:3]), once, np.empty(D + 1))
    np.testing.assert_allclose(once, np.linalg.inv(np.linalg.inv(S) + F[:3].T @ F[:3]), rtol=1e-9)
    bounds, information = np.full(N, np.inf), np.linalg.inv(S)
    places = module.pick(s.next_phi, S, bounds, 5)
    np.testing.assert_allclose(bounds, exact, rtol=1e-9)
    assert len(places) == 5
    for place in places:
        assert place == leverage_by_hand(s, np.linalg.inv(information)).argmax()
        information = information + sum(np.outer(y, y) for y in Y[place])  # every action is queried there
    assert len(module.pick(s.next_phi, S, exact.copy(), 5, least=float(exact.max()))) == 0


def test_the_frontier_is_what_was_seen_and_is_not_known():
    picks_are_right(frontier)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("S[i, j] -= u[i] * u[j] / scale", "S[i, j] -= u[i] * u[j]"),
        ("max(out[i], _quadratic(", "max(0.0, _quadratic("),
        (">= new) | (bounds", "> new + 50) | (bounds"),
        ("bounds[rows] = here", "bounds[rows] += here"),
        (".mean()) / n or 1.0", ".mean()) or 1.0"),
    ],
)
def test_faults_of_the_frontier_are_noticed(old, new, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        picks_are_right(mutant(frontier, old, new, tmp_path, monkeypatch))
