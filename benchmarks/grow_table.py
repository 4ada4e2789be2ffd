"""`Grow` on the rows it is judged by, on seeds from 400 on, which chose nothing: benchmarks/results/grow_table.md.

`python benchmarks/grow_table.py` measures what results/grow_table.json does not have yet. One default setting, every query
counted, the rollouts that tell what the policy earns too. Scores are those of `grow_ends.py`: the mean length of 100
episodes of at most 500 steps, or sub = (optimum - value) / (optimum - uniform), exact.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from grow_ends import RACED, measured, returns, sub

RESULTS = Path(__file__).parent / "results"
FIRST = 500
# how it is scored, queries, seeds, and what is asked of the mean and the worst; larger is better where this is a length
ROWS: dict[str, tuple[Any, int, int, str]] = {
    "river-linear, sub": (sub("river-linear"), 5_000, 10, "mean at most .0065"),
    "inventory:features=quadratic, sub": (sub("inventory:features=quadratic"), 20_000, 10, "mean at most .009"),
    "cart-pole:features=polynomial, steps": (
        returns("cart-pole:features=polynomial", 1.0), 8_000, 5, "mean at least 490, worst 450",
    ),
    "acrobot, - steps": (returns("acrobot", -1.0), 20_000, 5, "mean at least -92, worst -105"),
    "cart-pole:features=polynomial, steps ": (
        returns("cart-pole:features=polynomial", 1.0), 32_000, 5, "mean at least 490, worst 450",
    ),
    "queue-network-cut:features=polynomial, sub": (
        sub("queue-network-cut:features=polynomial"), 40_000, 10, "mean at most .006",
    ),
}  # fmt: skip


def main() -> None:
    path = RESULTS / "grow_table.json"
    rows: dict[str, list[float]] = json.loads(path.read_text()) if path.exists() else {}
    for name, (make, budget, n, _) in ROWS.items():
        if name not in rows:
            rows[name] = measured(make, budget, {}, RACED, range(FIRST, FIRST + n))["scores"]
            print(name, budget, np.round(rows[name], 4), flush=True)
            path.write_text(json.dumps(rows, indent=1) + "\n")
            (RESULTS / "grow_table.md").write_text(page(rows))


def page(rows: dict[str, list[float]]) -> str:
    lines = [
        "# Grow on seeds that chose nothing",
        "",
        f"`python benchmarks/grow_table.py`, seeds from {FIRST} on; one default setting, all queries counted.",
        "",
        "| problem, score | queries | mean | worst | each | target |",
        "|---|---|---|---|---|---|",
    ]
    for name, (_, budget, _, target) in ROWS.items():
        if name in rows:
            scores = rows[name]
            worst = max(scores) if name.endswith("sub") else min(scores)
            digits = 4 if name.endswith("sub") else 0
            each = " ".join(f"{x:.{digits}f}" for x in scores)
            mean = f"{np.mean(scores):.{4 if digits else 1}f}"
            lines.append(f"| {name.strip()} | {budget:,} | {mean} | {worst:.{digits}f} | {each} | {target} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
