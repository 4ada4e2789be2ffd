"""The README and the pages of docs/: their code runs and prints what they say, and what they name exists."""

from __future__ import annotations

import ast
import os
import re
import shlex
from itertools import pairwise

import pytest
import typer

from coreplan.cli import app
from helpers.commands import run
from helpers.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
README = PAGES[0].read_text()
ADAPTERS = {
    "from_gymnasium": "gymnasium", "from_gymnax": "gymnax", "from_jax": "jax", "sklearn_features": "sklearn",
}  # fmt: skip
EXTRAS = {*ADAPTERS.values(), "matplotlib", "quantecon"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.S | re.M)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(text):
    """What stands between fences, in order: (language, text)."""
    return [(match[1], match[2]) for match in FENCE.finditer(text)]


def examples(text):
    """The Python blocks of a page, each with the text block that follows it at once: what it prints; None without one."""
    found = [*blocks(text), ("", "")]
    return [
        (code, after if kind == "text" else None)
        for (language, code), (kind, after) in pairwise(found)
        if language == "python"
    ]


WITH_CODE = [page for page in PAGES if examples(page.read_text())]


def needs(code):
    """The extras that a block needs: those that it imports, and those behind the adapters that it names."""
    words = {word for word in re.findall(r"\w+", code) if word in ADAPTERS}
    modules = {ADAPTERS[word] for word in words}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.split(".")[0])
    return modules & EXTRAS


def run_page(text, name, capsys, exact=True):
    """Run the Python blocks of a page in one namespace; stops, as skipped, at one that needs an extra that is missing."""
    names = {"__name__": "page"}
    for code, prints in examples(text):
        for module in needs(code):
            pytest.importorskip(module)
        exec(compile(code, name, "exec", dont_inherit=True), names)
        printed = capsys.readouterr().out
        if prints is not None and exact:
            assert printed == prints


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_python_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    """A page shows what the newest libraries print; `make test-oldest` has others, and their last bits may decide a tie."""
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(), name_of(page), capsys, exact=os.environ.get("COREPLAN_LIBRARIES") != "oldest")


def test_the_pages_with_code_are_found():
    found = {name_of(page) for page in WITH_CODE}
    assert {"README.md", "docs/add-a-planner.md", "docs/your-own-problem.md", "docs/the-paper.md"} <= found


def test_the_extras_that_a_block_needs_are_found():
    assert needs("import numpy as np\nfrom sklearn.svm import SVC\nproblem = coreplan.from_jax(f, g)") == {
        "sklearn",
        "jax",
    }


def test_another_print_is_noticed(capsys):
    text = "```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\nIt prints\n\n```text\n2\n```\n"
    assert examples(text) == [("x = 1\n", None), ("print(x)\n", "2\n")]
    with pytest.raises(AssertionError):
        run_page(text, "page", capsys)


def test_the_readme_is_short_and_so_is_its_example():
    assert len(README.splitlines()) <= 120
    ((code, prints),) = examples(README)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12 and prints


def test_both_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in README and f"\n{command}:" in makefile


# Commands.


def shell_lines(text):
    """Commands that a page shows: lines of its sh blocks, and what stands between backquotes."""
    lines = [line for language, block in blocks(text) if language == "sh" for line in block.splitlines()]
    quoted = re.findall(r"`([^`]+)`", FENCE.sub("", text))
    return [line.split("  #")[0].strip() for line in lines] + [" ".join(line.split()) for line in quoted]


def shown(first):
    """Every shown command that begins with this word, without it, as words; with the pages."""
    found = {}
    for page in ALL:
        for line in shell_lines(page.read_text()):
            line = line.removeprefix(".venv/bin/")
            if line.startswith(f"{first} "):
                found.setdefault(tuple(shlex.split(line)[1:]), name_of(page))
    return found


def command_of(words):
    """The command that the words lead to, as words, and the rest."""
    command, path = typer.main.get_command(app), []
    while words and words[0] in getattr(command, "commands", {}):
        command, path, words = command.commands[words[0]], [*path, words[0]], words[1:]
    return command, path, words


def test_every_shown_command_and_option_exists():
    commands = shown("coreplan")
    paths = set()
    for words, page in commands.items():
        command, path, rest = command_of(words)
        assert path or rest[0].startswith("--"), f"{page}: coreplan {' '.join(words)}"
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for word in rest:
            assert not word.startswith("--") or word.split("=")[0] in options, f"{page}: {' '.join(words)}"
        paths.add(tuple(path))
    assert {("plan",), ("verify",), ("bench", "throughput"), ("certify",)} <= paths
    for path in paths:
        assert "Usage:" in run(*path, "--help").stdout  # it ends with 0


def test_every_shown_target_and_program_exists():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    for words, page in shown("make").items():
        assert words[0] in targets, f"{page}: make {words[0]}"
    programs = [(words[0], page) for words, page in shown("python").items() if words[0] != "-m"]
    assert programs
    for program, page in programs:
        assert (ROOT / program).is_file(), f"{page}: python {program}"


# Links and names of files.


def links(text):
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]


def anchors(text):
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", text), flags=re.M)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_relative_links_lead_somewhere(page):
    for target in links(page.read_text()):
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(path.read_text()), f"{name_of(page)}: {target}"


def test_every_page_is_linked_from_the_readme():
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in links(README)}
    assert {page.resolve() for page in PAGES[1:]} <= linked


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_files_that_are_named_exist(page):
    """`sampled/loss.py` and the like, from the root or from the package; names without a folder may be anybody's."""
    for name in re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md|json))`", page.read_text()):
        places = (ROOT, ROOT / "src", ROOT / "src" / "coreplan")
        assert name.startswith("path/to/") or any((place / name).is_file() for place in places), name
