"""The site: every public name is in the API reference, and the pages that Sphinx is shown are all that there are."""

import importlib
import importlib.util
import pkgutil
import re
import sys

import pytest

import coreplan
from helpers.places import ROOT

API = ROOT / "docs" / "api"
ASKED = re.compile(r"^```\{api\} ([\w.]+)\n(.*?)^```$", flags=re.S | re.M)
PARTS = sorted(m.name for m in pkgutil.iter_modules(coreplan.__path__) if not m.name.startswith("_"))


def test_every_part_has_a_page_and_every_page_is_listed():
    pages = {page.stem for page in API.glob("*.md")}
    assert pages == {*PARTS, "coreplan", "index"}, (
        "a part needs a page of five lines in docs/api/, like its neighbours"
    )
    listed = (API / "index.md").read_text().split("```")[1].splitlines()
    assert pages - {"index"} <= set(listed)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_shows_all_its_names(part):
    """Without names of its own the directive shows `__all__`."""
    assert ASKED.findall((API / f"{part}.md").read_text()) == [(f"coreplan.{part}", "")]


def test_the_first_page_shows_every_name_once():
    shown = [n for part, names in ASKED.findall((API / "coreplan.md").read_text()) for n in names.split()]
    assert sorted([*shown, "__version__"]) == sorted(coreplan.__all__), "see docs/api/coreplan.md"


def test_every_public_name_has_a_home_that_exports_it(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    pages = importlib.import_module("api_pages")
    for part in PARTS:
        for name in pages.public(f"coreplan.{part}"):
            at = pages.home(f"coreplan.{part}", name)
            assert name in pages.public(at), f"coreplan.{part}.{name} is said to be in {at}"


def test_docstrings_are_plain_text_but_for_code(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    rewritten = importlib.import_module("api_pages").rewritten
    text = [
        "V* and `Q*` of theta_, or `Problem`s",
        "",
        "Parameters",
        "----------",
        "rate, K: a rate,",
        "    in (0, 1].",
        "",
        "Ends.",
    ]
    assert rewritten(text) == [
        "V\\* and ``Q*`` of theta\\_, or ``Problem``\\ s", "", "", "**Parameters**", "", "``rate, K``", "    a rate,",
        "    in (0, 1].", "", "", "Ends.",
    ]  # fmt: skip


def test_the_site_leaves_no_page_out():
    """`make docs` turns a page that no list leads to into an error; this one looks for folders that it is not shown."""
    shown = (ROOT / "docs" / "conf.py").read_text()
    assert '"docs/**.md", "benchmarks/results/**.md"' in shown
    tops = {path.name for path in ROOT.glob("*.md")}
    assert all(f'"{name}"' in shown for name in tops)
