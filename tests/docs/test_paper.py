"""docs/paper.md goes through the paper: every label in its order, every row of `verify`, and names that exist."""

from __future__ import annotations

import importlib
import re

import pytest

import coreplan
from coreplan.theory.claims import CLAIMS, PAPER
from helpers.places import ROOT

PAGE = (ROOT / "docs" / "paper.md").read_text()
LINES = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| label"))
]
# The labels of the paper's numbered statements, equations and algorithm, in its order (`eq:LP_primal` stands there twice).
LABELS = [
    "eq:BE", "eq:LP_primal", "eq:Q-ALP", "ass:Core_SA_approx", "eq:QRALP-primal", "eq:QRALP-dual", "def:linMDP", "def:QAE",
    "def:IBE", "alg:Main", "thm:main", "lem:duality-to-suboptimality", "lem:duality-bound", "eq:FTL", "eq:SGDbound",
    "app:linMDP-realizability", "fn:realizability", "lem:glambda", "lem:gtheta", "eq:local_decomposition", "lem:OMD",
    "lem:SGDbound", "eq:IBE_refined",
]  # fmt: skip


def prefixes(cell):
    return re.findall(r"`verify ([^`]+)`", cell)


def test_every_label_of_the_paper_has_a_line_in_its_order():
    own = [m.group(1) for line in LINES if (m := re.fullmatch(r"`([^`]+)`", line[0]))]
    assert own == LABELS


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_a_line_names_code_that_exists_and_rows_or_a_reason(line):
    assert len(line) == 4 and all(line)
    for name in re.findall(r"`([a-z]+\.[A-Za-z_]+)", line[2]):
        part, _, attribute = name.partition(".")
        assert hasattr(importlib.import_module(f"coreplan.{part}"), attribute), name
    for name in re.findall(r"`([a-z]+)`", line[2]):
        assert hasattr(coreplan, name), name
    found = prefixes(line[3])
    assert found or line[3].startswith("no row"), line
    for prefix in found:
        assert any(group.may_have(prefix) for group in CLAIMS.values()), prefix


def test_every_group_of_the_papers_rows_is_somewhere_on_the_page():
    """By a label, or by the beginning of a claim, that the page names; `begins` holds both, which another test checks."""
    named = {prefix for line in LINES for prefix in prefixes(line[3])}
    for group in PAPER.values():
        labels = [
            text for text in group.begins if re.fullmatch(r"(eq|def|lem|thm|alg|app|fn):\S+|section \d", text)
        ]
        assert labels, group.name
        for label in labels:
            assert label in named, f"{label} of {group.name} is not on docs/paper.md"
