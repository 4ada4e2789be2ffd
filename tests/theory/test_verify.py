"""`verify`: every row holds, and each deliberate fault makes a row fail."""

from __future__ import annotations

import pytest

from coreplan.planners.core_mirror import kernels as core_mirror_kernels
from coreplan.planners.core_mirror import planner as core_mirror
from coreplan.planners.primal_dual import kernels as primal_dual_kernels
from coreplan.planners.primal_dual import planner as primal_dual
from coreplan.run import loop, stepping
from coreplan.theory import verify
from coreplan.theory.claims import CLAIMS
from helpers.mutants import mutant

LONG = {"theorem"}  # 80 million queries; `coreplan verify` runs it, and so does make test-all


@pytest.mark.parametrize("group", [c for c in CLAIMS if c not in LONG])
def test_every_claim_holds(group):
    rows = list(verify(group))
    assert rows
    for row in rows:
        assert row.holds, row


KERNEL_FAULTS = {
    "K + 1 averaging": (
        "naive_loop",
        "    for l in range(d):\n        theta[l] = mean[l] / K\n",
        "    for l in range(d):\n        theta[l] = (mean[l] + theta[l]) / (K + 1)\n",
    ),
    "lambda before theta": (
        "naive_loop",
        "    descend(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch)\n",
        "    old = theta.copy()\n"
        "    descend(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch)\n"
        "    new, theta = theta, old\n",
    ),
    "unprojected theta": ("naive_loop", "if norm2 > D * D:", "if False:"),
    "unprojected theta, sparse": ("naive_loop", "if s * s * norm2 > D * D:", "if False:"),
    "theta steps the wrong way": ("gradient_descent", "theta[l] -= alpha * g", "theta[l] += alpha * g"),
    "theta does not step": ("gradient_descent", "theta[l] -= alpha * g", "theta[l] -= 0.0 * g"),
    "a planner that goes astray": (
        "duality_bound",
        "core.weight[j], by, S",
        "core.weight[j], -by, S",
    ),
    "missing factor m": ("estimators", "hyper.eta * (m * td)", "hyper.eta * td"),
    "discount dropped from the value term": ("estimators", "hyper.gamma * V", "V"),
    "discount dropped from the gradient": ("estimators", "gamma * next_phi[i, a, l]", "next_phi[i, a, l]"),
    "lambda steps the wrong way": ("mirror_ascent", "    log_lam[j] += by\n", "    log_lam[j] -= by\n"),
}


@pytest.mark.parametrize("fault", KERNEL_FAULTS)
def test_a_fault_in_a_kernel_fails_a_row(fault, tmp_path, monkeypatch):
    group, old, new = KERNEL_FAULTS[fault]
    monkeypatch.setattr(primal_dual, "kernels", mutant(primal_dual_kernels, old, new, tmp_path, monkeypatch))
    assert any(not row.holds for row in verify(group))


def test_next_states_of_the_wrong_pair_fail_a_row(tmp_path, monkeypatch):
    broken = mutant(
        loop,
        "b.states[q] = core_states[b.core_index[q]]",
        "b.states[q] = core_states[(b.core_index[q] + 1) % core_actions.shape[0]]",
        tmp_path,
        monkeypatch,
    )
    monkeypatch.setattr(stepping, "make_loop", broken.make_loop)
    assert any(not row.holds for row in verify("naive_loop"))


# CoreMirror.


def test_every_row_of_the_derivation_holds():
    rows = list(verify("core_mirror"))
    assert len(rows) >= 10
    for row in rows:
        assert row.holds, row


SUM = "            mean[l] += theta[l]\n"
ROW_FAULTS = {
    "discount dropped": ("(M2)", "rewards[i] + hyper.gamma * V", "rewards[i] + V"),
    "half a step": ("(M2)", "> 0.0:\n        return most\n", "> 0.0:\n        return 0.5\n"),
    "weights that fall": ("(M1)", SUM, "            mean[l] += theta[l] / t\n"),
    "the policy turns away from value": ("(M5)", SUM, SUM.replace("+=", "-=")),
}


@pytest.mark.parametrize("fault", ROW_FAULTS)
def test_a_fault_fails_its_row(fault, tmp_path, monkeypatch):
    label, old, new = ROW_FAULTS[fault]
    monkeypatch.setattr(core_mirror, "kernels", mutant(core_mirror_kernels, old, new, tmp_path, monkeypatch))
    assert any(not row.holds and label in row.label for row in verify("core_mirror"))
