"""`verify` with prefixes: the rows that were asked for, and nothing else is computed."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import coreplan
from coreplan import InputError
from coreplan.cli import main
from coreplan.theory import verify
from coreplan.theory.claims import CLAIMS, OURS, PAPER, PARTS

QUICK = ("lp_pairs", "estimators", "mirror_ascent", "gradient_descent")


@pytest.mark.parametrize("group", CLAIMS)
def test_a_group_says_how_its_labels_and_claims_begin(group):
    rows = list(verify(group))
    labels = {label for row in rows for label in row.label.split(", ")}
    begins = set(CLAIMS[group].begins)
    assert labels <= begins
    for row in rows:
        assert any(row.claim.startswith(text) for text in begins - labels), row.claim
    for text in begins:
        assert any(row.starts_with(text) for row in rows), f"no row of {group} begins with {text}"


@pytest.fixture
def only_quick(monkeypatch):
    """All other groups fail when they are computed."""

    def computed():
        raise AssertionError("a group that was not asked for is computed")
        yield

    for name, group in CLAIMS.items():
        if name not in QUICK:
            monkeypatch.setitem(CLAIMS, name, replace(group, rows=computed))


def texts(*prefixes):
    return [(row.label, row.claim) for row in verify(*prefixes)]


@pytest.mark.usefixtures("only_quick")
def test_a_prefix_of_a_group_a_label_or_a_claim():
    every = {name: [(row.label, row.claim) for row in CLAIMS[name].rows()] for name in QUICK}
    for name in QUICK:
        assert texts(name) == every[name]
    assert texts("lp_", "mirror_a") == every["lp_pairs"] + every["mirror_ascent"]
    assert texts("mirror_ascent", "lp_pairs", "lp_pairs") == every["lp_pairs"] + every["mirror_ascent"]
    assert texts("lem:gtheta") == [row for row in every["estimators"] if row[0] == "lem:gtheta"] != []
    assert texts("lem:g") == every["estimators"]
    assert texts("eq:QRALP-dual") == [row for row in every["lp_pairs"] if "eq:QRALP-dual" in row[0]] != []
    strong = [row for row in every["lp_pairs"] if row[1].startswith("strong duality")]
    assert texts("strong") == texts("strong duality of the") == strong and len(strong) == 3
    assert texts("strong duality of the core LPs") == strong[2:]
    assert texts("strong", "lem:OMD") == strong + every["mirror_ascent"]


@pytest.mark.usefixtures("only_quick")
@pytest.mark.parametrize("wrong", ["core_miror", "pairs", "strong duality of nothing", "lem:OMD2"])
def test_an_unknown_prefix_lists_the_groups(wrong):
    with pytest.raises(InputError, match=f"starts with '{wrong}'.*There are: bellman_errors, certificate, "):
        list(verify("lem:OMD", wrong))


@pytest.mark.usefixtures("only_quick")
def test_the_paper_and_ours(monkeypatch):
    assert set(PAPER) | set(OURS) == set(CLAIMS) and not set(PAPER) & set(OURS)
    for name in (set(PAPER) | set(OURS)) - set(QUICK):
        monkeypatch.setitem(CLAIMS, name, replace(CLAIMS[name], rows=lambda: iter(())))
    rows = list(verify("paper"))
    assert len(rows) == sum(len(list(CLAIMS[name].rows())) for name in QUICK)
    assert {row.part for row in rows} == {"paper"}
    with pytest.raises(InputError):
        list(verify("ours"))  # of which there are none left here


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("lem:gtetha", "lem:gtheta"), ("thm:mian", "thm:main"), ("def:IBF", "def:IBE"), ("papper", "paper"),
     ("strong dualty", "strong duality"), ("x" * 5000, None)],
)  # fmt: skip
def test_the_nearest_label_group_or_claim_is_suggested(wrong, near):
    with pytest.raises(InputError) as caught:
        verify(wrong)
    assert ("Did you mean" in str(caught.value)) == (near is not None) and len(str(caught.value)) < 1000
    assert near is None or f"Did you mean '{near}'?" in str(caught.value)


def test_an_unknown_group_is_told_before_anything_is_computed():
    with pytest.raises(InputError, match="Did you mean 'core_mirror'"):
        verify("theorem", "core_miror")  # no row is asked for


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["coreplan", "verify", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    return caught.value.code or 0, out, err


@pytest.mark.usefixtures("only_quick")
def test_the_command(monkeypatch, capsys):
    code, out, err = run(monkeypatch, capsys, "lem:OMD", "gradient_descent", "--json")
    rows = json.loads(out)
    assert code == 0 and err == "" and out.count("\n") == 1
    assert [row["label"] for row in rows] == ["lem:OMD", "lem:SGDbound", "lem:SGDbound"]
    assert all(
        set(row) == {"claim", "label", "relation", "bound", "measured", "holds", "part"} for row in rows
    )
    code, out, err = run(monkeypatch, capsys, "lem:OMD", "gradient_descent")
    assert code == 0 and "3 of 3 claims hold." in out
    code, out, err = run(monkeypatch, capsys, "core_miror")
    assert code == 2 and out == ""
    assert err.startswith("error: ") and "Did you mean 'core_mirror'" in err and err.count("\n") == 1


def test_a_row_that_fails_is_the_exit_code(monkeypatch, capsys):
    broken = [row._replace(holds=False, claim="Phi E[theta_t] = 0") for row in verify("lem:OMD")]
    monkeypatch.setitem(CLAIMS, "mirror_ascent", replace(CLAIMS["mirror_ascent"], rows=lambda: broken))
    code, out, _ = run(monkeypatch, capsys, "mirror_ascent")
    assert code == 1 and "0 of 1 claims hold." in out
    assert "E[theta_t]" in out, "brackets are not markup"


def test_the_commands_in_the_docs_name_rows():
    docs = Path(coreplan.__file__).parents[2] / "docs"
    commands = [
        c for page in docs.glob("*.md") for c in re.findall(r"`coreplan verify ([^`]+)`", page.read_text())
    ]
    assert "core_mirror" in commands
    for prefix in set(" ".join(commands).split()) - {"PREFIX", *PARTS}:
        assert any(group.may_have(prefix) for group in CLAIMS.values()), prefix
