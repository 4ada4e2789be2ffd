"""Every kind of output a command may have: a pipe, 40 columns, no colours, ASCII letters, a reader that leaves."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from coreplan.cli import main, output

PLAN = ("plan", "river-swim", "--budget", "300")
LIGHT = [(), ("--help",), ("plan", "--help"), ("problems",), ("planners",), ("new", "my_problem.py")]
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def program(*arguments):
    return [sys.executable, "-m", "coreplan", *arguments]


@pytest.fixture
def printed(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["coreplan", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        assert (caught.value.code, err) == (0, "")
        return out

    return call


@pytest.mark.parametrize("arguments", [*LIGHT, PLAN], ids=" ".join)
def test_a_pipe_gets_no_colours_and_no_bar(printed, arguments):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", printed(*arguments))


@pytest.mark.parametrize("arguments", [*LIGHT, PLAN, ("bench", "--help")], ids=" ".join)
def test_forty_columns_cut_nothing_off(printed, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "40")
    out = printed(*arguments)
    commands = re.compile(r".*\b(coreplan|pytest) .*")  # these are there to be copied
    assert [line for line in out.splitlines() if len(line) > 40 and not commands.match(line)] == []
    assert "…" not in out


@pytest.mark.parametrize(
    "arguments", [("problems",), ("planners",), ("check", "river-swim", "--queries", "500")], ids=" ".join
)
def test_forty_columns_break_no_word_of_a_table(printed, monkeypatch, arguments):
    """A table that would is printed as rows below each other, each cell behind its header."""

    def words(text):
        return set(re.sub(r"[┃│]", " ", text).split())

    monkeypatch.setenv("COLUMNS", "999")
    header, body = printed(*arguments).split("┡")
    monkeypatch.setenv("COLUMNS", "40")
    narrow = printed(*arguments)
    wide = {word for word in words(body) if re.search(r"\w", word)}
    assert len(wide) > 30 and wide <= words(narrow) and "│" not in narrow
    last = header.strip().splitlines()[-1].split("┃")[-2].strip()
    assert narrow.count(f"{last}: ") == body.count("\n│ ")


def test_forty_columns_show_a_path_to_its_end(printed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = printed(*PLAN, "--out", "a-folder/with-a-long-name/inside", "--report-queries", "0")
    assert "…" not in out
    assert "a-folder/with-a-long-name/inside/report.html" in re.sub(r"[\s│]", "", out)


def test_forty_columns_show_all_words(printed, monkeypatch):
    wide = printed("certify", "--help")
    monkeypatch.setenv("COLUMNS", "40")
    narrow = printed("certify", "--help")
    assert set(re.findall(r"--[\w-]+", wide)) == set(re.findall(r"--[\w-]+", narrow))
    assert "path/to/file.py:name" in re.sub(r"\s", "", narrow)


@pytest.mark.parametrize("arguments", [(), ("plan", "--help"), PLAN], ids=" ".join)
def test_an_ascii_locale_gets_ascii(tmp_path, arguments):
    surroundings = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        program(*arguments), cwd=tmp_path, env=surroundings, capture_output=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout) > 200 and done.stdout.isascii() and b"\\u" not in done.stdout


@pytest.mark.parametrize("arguments", [(), ("--help",), ("plan", "--help"), PLAN], ids=" ".join)
def test_a_reader_that_leaves_ends_every_command_silently(tmp_path, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        program(*arguments), cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=120
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (output.CLOSED, b"")


def at_a_terminal(tmp_path, arguments, **surroundings):
    """What a command writes to a terminal."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        program(*arguments), cwd=tmp_path, stdin=end, stdout=end, stderr=end,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **surroundings},
    )  # fmt: skip
    os.close(end)
    written = b""
    try:
        while data := os.read(terminal, 65536):
            written += data
    except OSError:  # so Linux says that the other end is closed
        pass
    assert process.wait(timeout=120) == 0
    os.close(terminal)
    return written


def test_no_color_takes_the_colours_from_a_terminal(tmp_path):
    """Bold and dim letters are no colours; the numbers of colours are 30 to 37, 40 to 47, 90 to 107, 38 and 48."""
    colours = {
        code
        for sequence in COLOUR.findall(at_a_terminal(tmp_path, PLAN, NO_COLOR="1"))
        for code in map(int, re.findall(rb"\d+", sequence))
        if code >= 30
    }
    assert colours <= {39, 49}  # the terminal's own


def test_a_terminal_has_colours(tmp_path):
    assert re.search(rb"\x1b\[[0-9;]*3[0-7]m", at_a_terminal(tmp_path, ("plan", "--help")))
