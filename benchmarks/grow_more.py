"""Do more queries ever make `Grow` worse? What its policies earn at B, 2B, 4B and 8B queries.

`python benchmarks/grow_more.py` writes results/grow_more.json and results/grow_more.md. Seeds 60 to 65, on which nothing
was chosen, one default setting, every query counted. Scores are those of `grow_ends.py`; each is turned so that larger is
better. A step to twice the queries counts as a fall if the mean falls by more than two standard errors of the difference.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from grow_ends import RACED, measured, returns, sub

RESULTS = Path(__file__).parent / "results"
SEEDS = range(60, 66)
TIMES = (1, 2, 4, 8)
PROBLEMS: dict[str, tuple[Any, float, int]] = {  # how it is scored, the sign that makes larger better, B
    "river-linear, 1 - sub": (sub("river-linear"), -1.0, 1_000),
    "inventory, quadratic, 1 - sub": (sub("inventory:features=quadratic"), -1.0, 1_500),
    "CartPole, polynomials, steps": (returns("cart-pole:features=polynomial", 1.0), 1.0, 4_000),
    "Acrobot, quadratic, - steps": (returns("acrobot", -1.0), 1.0, 5_000),
    "queue network, polynomials, 1 - sub": (sub("queue-network-cut:features=polynomial"), -1.0, 5_000),
    "river-linear L = 15, 1 - sub": (sub("river-linear:L=15,discount=0.99"), -1.0, 1_500),
}


def main() -> None:
    """Measures what results/grow_more.json does not have yet; delete the file to measure all again."""
    path = RESULTS / "grow_more.json"
    rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name, (make, sign, B) in PROBLEMS.items():
        for times in TIMES:
            key = f"{name} | {times * B}"
            if key in rows:
                continue
            scores = np.array(measured(make, times * B, {}, RACED, SEEDS)["scores"])
            rows[key] = list(scores if sign > 0 else 1.0 - scores)
            print(key, np.round(rows[key], 4), flush=True)
            path.write_text(json.dumps(rows, indent=1) + "\n")
            (RESULTS / "grow_more.md").write_text(page(rows))


def page(rows: dict[str, list[float]]) -> str:
    lines = [
        "# Grow with more queries",
        "",
        "`python benchmarks/grow_more.py`, seeds 60 to 65; mean +- its standard error. Falls: the steps to twice the",
        "queries at which the mean fell by more than two standard errors of the difference.",
        "",
        "| problem, larger is better | B | B queries | 2 B | 4 B | 8 B | falls |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (_, _, B) in PROBLEMS.items():
        scores = [np.array(rows[key]) for key in (f"{name} | {k * B}" for k in TIMES) if key in rows]
        cells = [_cell(x) for x in scores] + [""] * (len(TIMES) - len(scores))
        falls = sum(_fell(a, b) for a, b in itertools.pairwise(scores))
        lines.append(f"| {name} | {B:,} | {' | '.join(cells)} | {falls} |")
    return "\n".join(lines) + "\n"


def _error(x: Any) -> float:
    return float(x.std(ddof=1) / np.sqrt(len(x)))


def _fell(a: Any, b: Any) -> bool:
    return bool(b.mean() < a.mean() - 2 * np.hypot(_error(a), _error(b)))


def _cell(x: Any) -> str:
    digits = 1 if abs(x.mean()) > 2 else 4
    return f"{x.mean():.{digits}f} +- {_error(x):.{digits}f}"


if __name__ == "__main__":
    main()
