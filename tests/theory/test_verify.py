"""`verify`: every row holds, and for every row there is a fault that fails it, and only those rows that say the same."""

from __future__ import annotations

import functools

import pytest

from coreplan.planners.core_mirror import kernels as core_mirror_kernels
from coreplan.planners.core_mirror import planner as core_mirror
from coreplan.planners.primal_dual import kernels as primal_dual_kernels
from coreplan.planners.primal_dual import planner as primal_dual
from coreplan.run import loop, stepping
from coreplan.theory import verify
from coreplan.theory.claims import CLAIMS, main_theorem
from helpers.claim_faults import FAULTS
from helpers.last_policy_faults import LAST_POLICY
from helpers.mutants import mutant


@pytest.mark.parametrize("group", CLAIMS)
def test_every_claim_holds(group):
    rows = list(verify(group))
    assert rows
    for row in rows:
        assert row.holds, row


@pytest.mark.parametrize("fault", [*FAULTS, *LAST_POLICY], ids=lambda f: f"{f.group}: {f.row}")
def test_a_fault_fails_its_row(fault, tmp_path, monkeypatch):
    fault.install(monkeypatch, tmp_path)
    failed = [row.claim for row in CLAIMS[fault.group].rows() if not row.holds]
    wanted = (fault.row, *fault.also)
    assert len(failed) == len(wanted), failed
    for text in wanted:
        assert any(claim.startswith(text) for claim in failed), failed


def test_every_row_has_a_fault():
    for name, group in CLAIMS.items():
        for row in group.rows():
            assert any(f.group == name and row.claim.startswith(f.row) for f in [*FAULTS, *LAST_POLICY]), (
                row.claim
            )


@pytest.mark.long
def test_policies_that_never_move_fail_the_theorem(tmp_path, monkeypatch):
    """The theorem's rows from end to end: with Theta_t = 0 every policy is uniform, and so worse than each bound.

    (Theta_t that falls where it should rise is no such fault: in `theorem_instance` the players then chase each other
    into the optimal action.)
    """
    broken = mutant(
        primal_dual_kernels,
        "        Theta[i] += theta[i]\n",
        "        Theta[i] += 0.0\n",
        tmp_path,
        monkeypatch,
    )
    monkeypatch.setattr(primal_dual, "kernels", broken)
    # Runs of the planner as it is may have been remembered by another test, and these must not be by the next.
    monkeypatch.setattr(main_theorem, "averages", functools.cache(main_theorem.averages.__wrapped__))
    failed = [row.claim for row in verify("theorem") if not row.holds]
    assert [claim for claim in failed if "seed-averaged" in claim] == [
        "seed-averaged gap of pi_J",
        "seed-averaged dynamic duality gap",
        "the theorem with eps_approx > 0: seed-averaged gap of pi_J",
        "a core set that is bad off the optimal path: seed-averaged gap",
    ]


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


# CoreMirror, from end to end: faults of the planner.

SUM = "            mean[l] += theta[l]\n"
ROW_FAULTS = {
    "discount dropped": ("(M2)", "rewards[i] + hyper.gamma * V", "rewards[i] + V"),
    "half a step": ("(M2)", "> 0.0:\n        return most\n", "> 0.0:\n        return 0.5\n"),
    "weights that fall": ("(M1)", SUM, "            mean[l] += theta[l] / t\n"),
    "the policy turns away from value": ("(M5)", SUM, SUM.replace("+=", "-=")),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", ROW_FAULTS)
def test_a_fault_fails_a_row_of_core_mirror(fault, tmp_path, monkeypatch):
    label, old, new = ROW_FAULTS[fault]
    monkeypatch.setattr(core_mirror, "kernels", mutant(core_mirror_kernels, old, new, tmp_path, monkeypatch))
    assert any(not row.holds and label in row.label for row in verify("core_mirror"))
