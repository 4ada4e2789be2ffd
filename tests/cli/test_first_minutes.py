"""What a new user types first: the start, help with examples, completion, and a problem that plans as it was written."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
import typer

import coreplan
from coreplan.cli import app, examples, main
from coreplan.problem import problem_by_name


def commands(command, words=()):
    """Every command, with the words that call it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


TREE = dict(commands(typer.main.get_command(app)))


@pytest.fixture
def called(monkeypatch, capsys, tmp_path):
    """A command line in an empty folder: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["coreplan", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code, *capsys.readouterr()

    return call


def test_coreplan_alone_says_how_to_begin(called):
    code, out, err = called()
    assert (code, err) == (0, "") and len(out.splitlines()) < 20
    for line in ("coreplan plan random-linear", "coreplan new my_problem.py", "coreplan --help"):
        assert f"\n  {line}\n" in out


@pytest.mark.parametrize("words", [words for words in TREE if words], ids=" ".join)
def test_every_help_ends_with_examples_that_can_be_typed(called, words):
    _, out, _ = called(*words, "--help")
    shown = out.rpartition("Examples:\n")[2].strip().splitlines()
    assert shown
    for line in shown:
        program, *rest = shlex.split(line)
        found = next(n for n in range(len(rest), 0, -1) if tuple(rest[:n]) in TREE)
        assert program == "coreplan" and tuple(rest[:found])[: len(words)] in (words, ("plan",))
        TREE[tuple(rest[:found])].make_context(
            "coreplan", rest[found:]
        )  # raises where an option does not exist


def test_no_example_is_of_a_command_that_is_gone():
    known = {" ".join(words) if words[0] == "log" else words[-1] for words in TREE if words}
    assert set(examples.EXAMPLES) == known


@pytest.mark.parametrize(
    ("typed", "found"), [("coreplan pl", {"plan", "planners"}), ("coreplan plan --seco", {"--seconds"})]
)
def test_the_shell_completes_commands_and_options(typed, found):
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['coreplan']; from coreplan.cli import main; main()"],
        env={
            **os.environ,
            "_COREPLAN_COMPLETE": "complete_bash",
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
        },
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and set(done.stdout.split()) == found


# A problem of one's own.


def test_the_template_plans_as_it_is_written_and_its_tests_pass(called, tmp_path):
    code, out, err = called("new", "shop.py")
    assert (code, err) == (0, "") and "Wrote shop.py." in out and "coreplan plan shop.py:problem" in out
    assert "coreplan plan shop.py:problem " in (tmp_path / "shop.py").read_text()
    problem = problem_by_name("shop.py:problem")
    result = coreplan.plan(problem, budget=20_000, certify=20_000)
    assert result.certificate.holds and result.certificate.lower > result.uniform.high
    assert result.earned.low > result.baseline.high  # better than the rule of thumb
    module = sys.modules["coreplan_user_shop"]
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_the_tests_of_the_template_notice_mistakes(called, monkeypatch):
    called("new", "shop.py")
    problem_by_name("shop.py:problem")
    module = sys.modules["coreplan_user_shop"]
    monkeypatch.setattr(
        module, "step", lambda rng, x, a: (np.ones(len(a)), x - 1.0)
    )  # sells from an empty shelf
    with pytest.raises(AssertionError):
        module.test_nothing_is_sold_that_is_not_there()


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_new_never_overwrites(called, tmp_path, what):
    there, elsewhere = tmp_path / "mine.py", tmp_path / "elsewhere"
    if what == "file":
        there.write_text("precious")
    elif what == "folder":
        there.mkdir()
    else:
        there.symlink_to(elsewhere)
    code, out, err = called("new", "mine.py")
    assert (code, out) == (2, "") and "mine.py exists, and is left as it is" in err
    assert what != "file" or there.read_text() == "precious"
    assert not elsewhere.exists()


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("mine", "must end with .py"),
        ("mine.txt", "must end with .py"),
        ("", "must be a path"),
        ("no/folder/mine.py", "No such file or directory"),
        ("x" * 300 + ".py", "at most 255"),
    ],
)
def test_new_says_what_is_wrong_with_a_name(called, tmp_path, file, words):
    code, out, err = called("new", file)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_word_is_quoted_and_not_written_into_the_file(called, tmp_path):
    name = '""" + evil;.py'
    code, out, err = called("new", name)
    assert (code, err) == (0, "") and f"coreplan plan {shlex.quote(name + ':problem')}\n" in out
    assert "evil" not in (tmp_path / name).read_text()
    assert problem_by_name(f"{name}:problem").n_actions == 4
