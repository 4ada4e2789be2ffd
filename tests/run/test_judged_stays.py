"""What was found about a policy stays as long as no other policy can take its place."""

import pytest

import coreplan
from coreplan.base import CoreplanWarning
from helpers.attack.calls import tiny


def test_a_policy_that_cannot_be_written_takes_nothing_away(tmp_path):
    """policy.npz became a folder: the resume cannot write there, and the evaluation of the earlier policy stays."""
    coreplan.plan(tiny(), planner="plug-in", budget=60, out=tmp_path, reality=0, evaluate=10)
    found = (tmp_path / "evaluation.json").read_text()
    (tmp_path / "policy.npz").unlink()
    (tmp_path / "policy.npz").mkdir()
    with pytest.warns(CoreplanWarning, match=r"policy\.npz: it is a folder"):
        coreplan.plan(tiny(), planner="plug-in", budget=200, out=tmp_path, reality=0, resume=True)
    assert (tmp_path / "evaluation.json").read_text() == found
