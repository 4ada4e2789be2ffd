"""What the package says of itself: one version, and no Python that the tests do not run with."""

from __future__ import annotations

import re
import sys
import tomllib

from coreplan import __version__
from helpers import smoke
from helpers.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = (ROOT / "CITATION.cff").read_text()


def test_the_citation_has_the_version_and_the_licence():
    assert f"\nversion: {__version__}\n" in CITATION and f"\nlicense: {PROJECT['license']}\n" in CITATION
    assert f"- name: {PROJECT['authors'][0]['name']}\n" in CITATION
    assert PROJECT["urls"]["Paper"] in CITATION


def test_python_versions_are_those_that_are_tested():
    declared = {found[1] for line in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))}
    assert declared == {"3.11"} and PROJECT["requires-python"] == ">=3.11"
    assert sys.version_info >= (3, 11)


def test_the_smoke_test_knows_the_files_that_are_no_python():
    files = smoke.sources()
    assert {"coreplan/py.typed", "coreplan/cli/template.py"} <= files
    assert not any("__pycache__" in name for name in files)
