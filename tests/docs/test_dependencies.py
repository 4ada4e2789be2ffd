"""tests/oldest.txt pins what pyproject.toml allows at the least, so that `make test-oldest` tests what is declared."""

import re
import tomllib
from itertools import chain

from helpers.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINE = re.compile(r"^([\w-]+)==([\w.]+)$", flags=re.M)
TOOLS = {
    "ruff",
    "mypy",
    "sphinx",
    "myst-nb",
    "furo",
}  # they look at the code, or make the site: no test runs with them


def bounds():
    """Name -> lowest version, of all dependencies with and without extras, but for those of other systems only.

    Peers that a benchmark compares with (the extra `bench`) run in an environment of their own: no test runs with them.
    """
    extras = (lines for extra, lines in PROJECT["optional-dependencies"].items() if extra != "bench")
    lines = [*PROJECT["dependencies"], *chain(*extras)]
    return dict(line.split(">=") for line in lines if not line.startswith("coreplan[") and ";" not in line)


def same(pinned, least):
    """Whether 13.0.0 is 13."""
    return pinned == least or pinned.removeprefix(least).replace(".0", "") == ""


def test_the_oldest_versions_are_those_that_are_declared():
    ours, rest = (ROOT / "tests" / "oldest.txt").read_text().split("# Not ours")
    pinned = dict(LINE.findall(ours))
    assert set(pinned) == set(bounds()) - TOOLS
    assert all(same(pinned[name], least) for name, least in bounds().items() if name in pinned)
    assert not set(dict(LINE.findall(rest))) & set(bounds())


def test_versions_are_compared_as_versions():
    assert same("13.0.0", "13") and same("1.26.0", "1.26") and same("0.15.4", "0.15.4")
    assert not same("1.26.4", "1.26") and not same("1.13.0", "1.1") and not same("2.0", "1")


def test_every_dependency_has_a_lowest_version():
    assert len(bounds()) >= 18
