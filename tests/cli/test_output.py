"""What commands print: word for word, whatever users' names hold; and what happens when it cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from coreplan.cli import main, output, show
from helpers.commands import OWN

PLAN = ["plan", "river-swim", "--budget", "300"]


def called(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["coreplan", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code, *capsys.readouterr()


def shell(tmp_path, line, **environment):
    """A line of the shell with `coreplan` in it: its exit code, stdout and stderr."""
    line = line.replace("coreplan ", f"{sys.executable} -m coreplan ", 1)
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        cwd=tmp_path,
        timeout=120,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["o[/]z", "o[red]z", "o:smile:z", "[link=x]", "Ω🎉"])
def test_brackets_in_a_path_are_no_markup(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    code, out, err = called(monkeypatch, capsys, *PLAN, "--out", name)
    assert (code, err) == (0, "") and f"in {name}/policy.npz" in out
    assert (tmp_path / name / "policy.npz").is_file()


def test_nothing_in_a_name_is_obeyed_by_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, err = called(monkeypatch, capsys, *PLAN, "--out", "\x1b[31mred\u202e\r\x07")
    assert (
        code == 0
        and "\\x1b[31mred\\u202e\\r\\x07/policy.npz" in out
        and not {"\x1b", "\r", "\x07"} & set(out)
    )
    code, out, err = called(monkeypatch, capsys, "plan", "\x1b[2J\nname\udcff")
    assert code == 2 and "'\\x1b[2J name\\udcff'" in err and err.count("\n") == 1


def test_what_a_simulator_says_is_made_printable(tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text(
        OWN.replace(
            "def initial(rng, n):", 'def initial(rng, n):\n    raise ValueError("\\x1b[2J" + "x" * 5000)'
        )
    )
    monkeypatch.chdir(tmp_path)
    code, out, err = called(monkeypatch, capsys, "plan", "own.py:mine", "--budget", "300")
    assert (code, out) == (1, "") and "\\x1b[2J" in err and "\x1b" not in err
    assert err.count("\n") == 1 and len(err) <= 1010


def test_tables_hold_users_texts_word_for_word(capsys):
    show.listing("a[/]", "b[red]c", [("[bold]x", "\x1b[1m", ":smile:")])
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("a[/]", "b[red]c", "[bold]x", "\\x1b[1m", ":smile:"))


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_behind_stdout_is_one_line_and_the_run_is_saved(tmp_path, options):
    code, _, err = shell(tmp_path, f"coreplan {' '.join(PLAN)} --out run {options} > /dev/full")
    assert code == output.UNWRITABLE and err.count(b"\n") == 1 and b"cannot be written: No space left" in err
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["status"] == "finished"
    assert (tmp_path / "run" / "policy.npz").is_file()


@pytest.mark.parametrize("command", ["--version", "--help"])
def test_a_full_disk_behind_light_commands(tmp_path, command):
    code, _, err = shell(tmp_path, f"coreplan {command} > /dev/full")
    assert code == output.UNWRITABLE and err.count(b"\n") == 1


def test_a_reader_that_leaves_is_no_news(tmp_path):
    code, out, err = shell(tmp_path, "coreplan problems | true; exit ${PIPESTATUS[0]}")
    assert (code, out, err) == (output.CLOSED, b"", b"")
    code, out, err = shell(tmp_path, "coreplan problems >&-")
    assert code == output.UNWRITABLE and err.count(b"\n") == 1


def test_letters_that_the_encoding_lacks_are_escaped(tmp_path):
    code, out, err = shell(tmp_path, f"coreplan {' '.join(PLAN)} --out 'Ω🎉'", PYTHONIOENCODING="ascii")
    assert (code, err) == (0, b"") and b"in \\u03a9\\U0001f389/policy.npz" in out
    code, out, err = shell(tmp_path, "coreplan plan Ω", PYTHONIOENCODING="ascii")
    assert (code, out) == (2, b"") and b"'\\u03a9'" in err and b"Traceback" not in err


def test_a_bug_is_one_line_and_the_traceback_on_request(monkeypatch, capsys):
    def broken(*arguments, **options):
        raise KeyError("nobody\nforesaw")

    monkeypatch.delenv("COREPLAN_DEBUG", raising=False)
    monkeypatch.setattr(show, "listing", broken)
    code, out, err = called(monkeypatch, capsys, "problems")
    assert (code, out) == (output.BUG, "") and err.count("\n") == 1
    assert (
        "This is a bug in coreplan: KeyError" in err
        and "test_output.py, line" in err
        and "COREPLAN_DEBUG=1" in err
    )
    monkeypatch.setenv("COREPLAN_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["coreplan", "problems"])
    with pytest.raises(KeyError):
        main()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "river-swim", "--budget", "x" * 5000], "is not a whole number"),
        (["plan", "river-swim", "--budget", "nan"], "is not a whole number"),
        (["plan", "river-swim", "--budget", "1e400"], "is not a whole number"),
        (["plan", "river-swim", "--seed", "1.5"], "Invalid value for '--seed'"),
        (["plan", "river-swim", "--reality", "x"], "Invalid value for '--reality'"),
        (["plan", "river-swim", "--no-such-option"], "No such option"),
        (["plan"], "Missing argument"),
        (["\x1b[31m"], "No such command '\\x1b[31m'"),
        (["*"], "No such command '*'"),
        (["bench", "nothing"], "No such command"),
        (["plan", "river-swim", "--out", ""], "must be a path"),
        (["certify", ""], "must be a path"),
        (["check", "river-swim", "--core", "."], "There is no file core.npz"),
    ],
)
def test_every_mistake_is_one_line(monkeypatch, capsys, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = called(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "") and err.startswith("error: ") and words in err
    assert err.count("\n") == 1 and len(err) <= 1010
