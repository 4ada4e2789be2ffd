"""Command lines: every command and every option that the tree of commands has, with silly values around valid ones.

They run in this process through `coreplan.cli.main`, as the installed program does. Right is: an exit code other than 0 and
a short text without a traceback; or an exit code of 0 and, with `--json`, one JSON object whose values lie in their ranges.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer

from coreplan.cli import app, main

from .rule import LONGEST, Input, Wrong

# A cheap valid line of every command; a test finds a command without one.
LINES: dict[str, tuple[str, ...]] = {
    "plan": ("plan", "river-swim", "--budget", "300"),
    "compare": (
        "compare",
        "river-swim",
        "--planners",
        "plug-in",
        "--budgets",
        "300",
        "--seeds",
        "1",
        "--jobs",
        "1",
    ),
    "tune": ("tune", "river-swim", "--epsilon", "0.1"),
    "check": ("check", "river-swim", "--queries", "300"),
    "certify": ("certify", "run", "--queries", "4000", "--target", "0.9"),
    "act": ("act", "run", "--state", "0"),
    "export": ("export", "run", "--numpy", "policy.py"),
    "report": ("report", "run", "--out", "page.html"),
    "verify": ("verify", "nothing-starts-with-this"),
    "new": ("new", "my_problem.py"),
    "problems": ("problems",),
    "planners": ("planners",),
    "log inspect": ("log", "inspect", "q.log"),
    "log verify": ("log", "verify", "q.log"),
    "log export": ("log", "export", "q.log", "answers.csv"),
    "bench throughput": (
        "bench",
        "throughput",
        "--no-such-option",
    ),  # it takes seconds where it is not refused
}
PAGE = 6_000  # characters: the most that a refusal may print, with the usage that Typer shows above it
CODES = (0, 1, 2, 74, 130)  # 74: the output cannot be written

TEXTS: tuple[str, ...] = (
    "", " ", "0", "1", "-1", "2", "3", "7", "0.5", "1.5", "-0.0", "nan", "inf", "-inf", "1e5x", "1e400", "1e-400",
    "10**400", "9" * 40, "9" * 5_000,
    "1_0", "1,0", "1e1", "0x10", "1%", "0%", "100%", "150%", "%", "-1%", "nan%", "true", "None", "x", "x" * 300,
    "x" * 5_000, "[/]",
    "o[/]z", "[red]x", "[link=x]", "\x1b[31mred", "a\nb", "a\tb", "\u202eabc", "\U0001f600", "é", "'", '"', "\\",
    "$(true)", "`true`", ";", "--", "-",
    "-x", "--help", "@x", "*", "~", ".", "..", "/", "/dev/null", "/dev/full", "/dev/full/x", "/proc/self/mem", "run",
    "run/policy.npz",
    "run/core.npz", "run/run.json", "q.log", "file.txt", "file.txt/x", "no/such/folder", "river-swim", "river-swim:",
    "river-swim:discount=2",
    "river-swim:discount=nan", "river-swim:length=-1", "river-swim:x=1", "river-swim:=",
    "river-swim:discount=0.9,discount=0.8", ":", "::", "a:b", ":b",
    "a:", "no.py:x", "own.py:mine", "own.py:make_mine", "own.py:broken", "own.py:not_a_problem", "own.py:", "own.py",
    "file.txt:x", "json:loads",
    "json:nothing", "no.such.module:x", "..:x", "random-linear:states=1e18", "random-linear:states=0",
    "random-linear:seed=-1",
    "river-linear", "K=3", "K=", "=3", "K", "K==3", "samples=0", "samples=3", "samples=nan", "samples=10**400",
    "output=x", "output=[/]", "noise=sobol",
    "epsilon=1%", "ridge=1e308", "ridge=-1", "rounds=0", "plug-in", "grow", "primal-dual", "core-mirror",
    "optimistic", "sampled-lp", "PLUG-IN", "plug in",
    "(" * 200, "[" * 200, "{}", "[]", "lambda: 0", "__import__('os')", "\ud800", "lem:no-such-claim",
)  # fmt: skip


@functools.cache
def tree() -> dict[str, Any]:
    """Every command by its words: what Typer makes of the functions."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        below = getattr(command, "commands", None)
        if not below:
            found[" ".join(words)] = command
        for name, inner in (below or {}).items():
            walk(inner, (*words, name))

    walk(typer.main.get_command(app), ())
    return found


def options(command: Any) -> list[Any]:
    """Its options, without `--help`."""
    return [p for p in command.params if p.param_type_name == "option" and p.name != "help"]


class Commands:
    """Silly command lines."""

    name, share = "commands", 3.0

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def warm_up(self) -> None:
        from helpers.commands import OWN

        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            code, _, said = called(
                ["plan", "river-swim", "--budget", "300", "--out", "run", "--log", "q.log"]
            )
            assert code == 0, said
            self.files = {f"run/{p.name}": p.read_bytes() for p in Path("run").iterdir() if p.name != ".lock"}
            self.files |= {"own.py": OWN.encode(), "file.txt": b"text\n", "q.log": Path("q.log").read_bytes()}
            for name, line in LINES.items():
                code, _, said = called(list(line))
                assert code == (2 if name.startswith(("bench", "verify")) else 0), f"{name}: {said}"

    def attack(self, given: Input) -> str:
        line = self._line(given)
        given.note(" ".join(line))
        for name, data in self.files.items():
            (given.folder / name).parent.mkdir(exist_ok=True)
            (given.folder / name).write_bytes(data)
        return judged(line, *self._called(given, line))

    def _called(self, given: Input, line: list[str]) -> tuple[int, str, str]:
        return called(line)

    def _line(self, given: Input) -> list[str]:
        """A valid line with one to three of its words replaced, and options added or repeated."""
        name = given.one(("plan", "plan", "plan", *LINES))
        line, command = list(LINES[name]), tree()[name]
        words = len(name.split())
        for _ in range(given.one((0, 1, 1, 1, 2, 3))):
            how, option = given.rng.random(), given.one(options(command) or [None])
            if option is None or how < 0.15:
                at = int(given.rng.integers(words, len(line) + 1))
                if at < len(line):
                    line[at] = given.one(TEXTS)
                else:
                    line.append(given.one(TEXTS))
            elif option.is_flag:
                line.append(given.one(option.opts))
            else:
                line += [given.one(option.opts), given.one(TEXTS)]
        if name == "plan" and given.chance(0.3):
            line += [
                *(("--json",) if given.chance(0.3) else ()),
                "--out",
                given.one(("out", "run", "o[/]z", "o[red]z", "out\x1b[31m", "é", "o" * 200)),
            ]
        if name.startswith("bench") and "--no-such-option" not in line:
            line.append("--no-such-option")
        return line


class Processes(Commands):
    """The same in processes of their own, with outputs that cannot be written and other encodings."""

    name, share = "processes", 0.03

    def _called(self, given: Input, line: list[str]) -> tuple[int, str, str]:
        line = [word.replace("\ud800", "?").replace("\0", "?") for word in line]
        how = given.one(("", "", "ascii", "/dev/full", "closed"))
        given.note(f"in a process of its own{how and f', stdout {how}'}")
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        if how == "ascii":
            env |= {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
        command = [sys.executable, "-m", "coreplan", *line]
        if how == "closed":
            command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                command, stdout=full if how == "/dev/full" else subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                timeout=60,
                stdin=subprocess.DEVNULL, cwd=given.folder, check=False,
            )  # fmt: skip
        out = (done.stdout or b"").decode(errors="replace")
        return (
            done.returncode,
            "" if how in ("/dev/full", "closed") else out,
            done.stderr.decode(errors="replace"),
        )


def called(line: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line, in this process; an exception that the program lets pass, passes."""
    out, said, before = io.StringIO(), io.StringIO(), sys.argv
    code: Any = 0
    try:
        sys.argv = ["coreplan", *line]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    return (code if isinstance(code, int) else 0 if code is None else 1), out.getvalue(), said.getvalue()


def judged(line: list[str], code: int, out: str, said: str) -> str:
    """The label of what a command line answered."""
    if "Traceback" in said or "Traceback" in out:
        raise Wrong("traceback", (said or out)[-400:])
    if code not in CODES:
        raise Wrong("exit code", f"{code}: {said[-200:]}")
    if "\x1b" in said or "\x1b" in out:
        raise Wrong("terminal codes", repr((said + out)[:300]))
    if code:
        errors = said.split("error: ")[1:]
        if not said.strip() and not out.strip():
            raise Wrong("silent refusal", f"exit code {code} without a word")
        if len(out) + len(said) > PAGE + 4_000 * ("--json" in line) or any(
            len(text) > LONGEST + 100 for text in errors
        ):
            raise Wrong("long message", f"{len(out) + len(said):,} characters: {said[:200]}")
        return "refused"
    if "--json" in line and out.strip() and "--help" not in line:
        _json(out)
    return "right"


def _json(out: str) -> None:
    try:
        record = json.loads(out, parse_constant=lambda text: (_ for _ in ()).throw(ValueError(text)))
    except ValueError as error:
        raise Wrong("not JSON", f"{error}: {out[:200]}") from None
    value = record.get("value") if isinstance(record, dict) else None
    if isinstance(value, (int, float)) and not -1e-6 <= value <= 1 + 1e-6:
        raise Wrong("invalid value", f"{value}")
