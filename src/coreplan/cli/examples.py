"""What a person sees first: the start that `coreplan` alone prints, and the examples at the end of every command's help."""

from __future__ import annotations

from shutil import get_terminal_size
from textwrap import fill
from typing import Any

from typer.core import TyperCommand, TyperGroup

from .output import write

_NARROW = 60  # columns

# The last word of a command, for those of `log` the last two -> lines that can be typed as they are, once the files that
# they name are there.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "new": ("coreplan new my_problem.py", "coreplan plan my_problem.py:problem"),
    "problems": ("coreplan problems",),
    "planners": ("coreplan planners",),
    "plan": (
        "coreplan plan random-linear",
        "coreplan plan river-linear --epsilon 1% --out runs/river --certify",
        "coreplan plan my_problem.py:problem --budget 1e5 --seconds 60",
        "coreplan plan my_problem.py:problem --out runs/mine --resume",
        "coreplan plan inventory --planner auto --track inventory.jsonl",
        "coreplan plan my_problem.py:problem --executor processes --log queries.log",
    ),
    "compare": (
        "coreplan compare random-linear --planners plug-in,core-mirror --budgets 100,1000",
        "coreplan compare river-linear inventory --budgets 1e3,1e4 --seconds 20 --out runs/table",
        "coreplan compare my_problem.py:problem --planners grow,search --budgets 1e4 --tune 8",
    ),
    "tune": ("coreplan tune random-linear --epsilon 0.1", "coreplan tune river-swim --budget 1e6"),
    "check": ("coreplan check river-linear", "coreplan check my_problem.py:problem --queries 1e5"),
    "certify": ("coreplan certify runs/river", "coreplan certify runs/mine --problem my_problem.py:problem"),
    "act": (
        "coreplan act runs/river --state 3",
        "coreplan act runs/mine --problem my_problem.py:problem --state '4, 0.5' --json",
    ),
    "export": (
        "coreplan export runs/river --numpy policy.py --json policy.json",
        "coreplan export runs/mine --problem my_problem.py:problem --onnx policy.onnx",
    ),
    "report": (
        "coreplan report runs/river",
        "coreplan report runs/river runs/mine -o both.html",
        "coreplan report runs/mine --problem my_problem.py:problem --queries 1e4",
    ),
    "verify": ("coreplan verify paper", "coreplan verify thm:main --json"),
    "log": ("coreplan log inspect queries.log",),
    "log inspect": ("coreplan log inspect queries.log", "coreplan log inspect queries.log --json"),
    "log verify": ("coreplan log verify queries.log",),
    "log export": ("coreplan log export queries.log answers.csv",),
    "bench": ("coreplan bench throughput",),
    "throughput": ("coreplan bench throughput", "coreplan bench throughput --quick"),
}

_START = (
    ("Plan in large Markov decision processes: a simulator and features in, one compact policy out.", ()),
    ("See it work, with a built-in problem:", ("coreplan plan random-linear",)),
    (
        "Start your own: the first line writes a small, commented problem, and the second one plans it.",
        ("coreplan new my_problem.py", "coreplan plan my_problem.py:problem"),
    ),
    ("Look around:", ("coreplan problems", "coreplan planners", "coreplan --help")),
)  # fmt: skip


class _WithExamples:
    """A command whose help ends with examples: word for word, whatever the width, so that they can be copied."""

    name: str | None
    rich_markup_mode: Any
    of = ""  # the group, where another one has a command of the same name

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines = EXAMPLES.get(f"{self.of}{self.name}", ())
        examples = "\n".join(["Examples:", *(f"  {line}" for line in lines)]) if lines else ""
        usual, columns = self.rich_markup_mode, get_terminal_size().columns
        if columns < _NARROW:  # Typer's tables would cut words off there
            self.rich_markup_mode, formatter.width = None, max(columns - 1, 20)
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        finally:
            narrow, self.rich_markup_mode = self.rich_markup_mode is None, usual
        if narrow:
            formatter.write(f"\n{examples}")
        elif examples:
            write(examples)


class Command(_WithExamples, TyperCommand):
    """A command."""


class LogCommand(Command):
    """A command of `coreplan log`."""

    of = "log "


class Group(_WithExamples, TyperGroup):
    """A command with commands of its own."""


def start(width: int) -> str:
    """What to do first, for a terminal of this width."""
    parts = []
    for words, lines in _START:
        parts.append("\n".join([fill(words, max(width, 20)), *(f"  {line}" for line in lines)]))
    return "\n\n".join(parts)
