"""The README and the pages of docs/: their code runs and prints what they say, and what they name exists."""

from __future__ import annotations

import os
import re
import shlex

import pytest
import typer

from coreplan.cli import app
from helpers.commands import run
from helpers.pages import FENCE, blocks, examples, is_typed, needs, outputs, regenerated, same
from helpers.places import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS, *NOTEBOOKS]
ALL = [*PAGES, *sorted((ROOT / "docs" / "api").glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
README = PAGES[0].read_text()


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def takes_long(page):
    """Notebooks do, and pages that run commands."""
    return page in NOTEBOOKS or is_typed(page.read_text())


def with_code():
    """The pages with Python blocks."""
    found = [page for page in PAGES if examples(page.read_text())]
    marks = {page: pytest.mark.long if takes_long(page) else () for page in found}
    return [pytest.param(page, id=name_of(page), marks=marks[page]) for page in found]


def run_page(text, name, folder, exact=True):
    """Run what a page has to run; stops, as skipped, at a block that needs an extra that is missing."""
    for block, printed in outputs(text, name, folder, available=pytest.importorskip):
        if block.shows and exact:
            assert same(printed, block.shows.text), printed


@pytest.mark.parametrize("page", with_code())
def test_what_a_page_has_to_run_prints_what_the_page_says(page, tmp_path, monkeypatch):
    """A page shows what the newest libraries print; `make test-oldest` has others, and their last bits may decide a tie."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_page(
        page.read_text(), name_of(page), tmp_path, exact=os.environ.get("COREPLAN_LIBRARIES") != "oldest"
    )


def test_the_pages_with_code_are_found():
    found = {parameter.id for parameter in with_code()}
    assert {"README.md", "docs/add-a-planner.md", "docs/your-own-problem.md", "docs/the-paper.md"} <= found
    long = {parameter.id for parameter in with_code() if parameter.marks}
    assert long == {"docs/tutorial.md", *map(name_of, NOTEBOOKS)} and len(NOTEBOOKS) == 3


def test_the_extras_that_a_block_needs_are_found():
    assert needs("import numpy as np\nfrom sklearn.svm import SVC\nproblem = coreplan.from_jax(f, g)") == {
        "sklearn",
        "jax",
    }


def test_another_print_is_noticed(tmp_path):
    text = "```python\nx = 1\n```\n\n```{code-cell} python\n:tags: [a]\n\nprint(x)\n```\n\nIt prints\n\n```text\n2\n```\n"
    assert examples(text) == [("x = 1\n", None), ("print(x)\n", "2\n")]
    with pytest.raises(AssertionError):
        run_page(text, "page", tmp_path)
    assert "```text\n1\n```" in regenerated(text, "page")


def test_files_are_saved_and_commands_are_run(tmp_path):
    text = "```python\n# one.py\nprint(1)\n```\n\n```sh\npython one.py\n```\n\n```text\n{}\n```\n"
    run_page(text.format(1), "page", tmp_path)
    with pytest.raises(AssertionError):
        run_page(text.format(2), "page", tmp_path)
    with pytest.raises(AssertionError, match="No such file"):
        run_page(text.replace("python one.py", "cat two.py"), "page", tmp_path)


def test_only_the_time_it_took_may_differ():
    row = "│ queries │ 9 │\n│ time    │ {} │\n│         │ compiling │\n│ policy  │ 3 │\n"
    assert same(row.format("2 s"), row.format("3 s")) and not same(row, row.replace("9", "8"))


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
    lines = [line for block in blocks(text) if block.language == "sh" for line in block.text.splitlines()]
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
        saved = {block.file for block in blocks((ROOT / page).read_text())}
        assert program in saved or (ROOT / program).is_file(), f"{page}: python {program}"


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


def test_every_page_is_listed():
    """The README leads to the list, and the list, the site's first page, to every page."""
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / target.partition("#")[0]).resolve() for target in links(index.read_text())}
    assert "docs/index.md" in links(README)
    assert {page.resolve() for page in [*DOCS, *NOTEBOOKS]} - {index} <= listed


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_files_that_are_named_exist(page):
    """`sampled/loss.py` and the like, from the root or from the package; names without a folder may be anybody's."""
    for name in re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md|json))`", page.read_text()):
        places = (ROOT, ROOT / "src", ROOT / "src" / "coreplan")
        assert name.startswith("path/to/") or any((place / name).is_file() for place in places), name
