"""Hostile input by the thousand: what is refused, what is right, and what breaks the rule.

    python benchmarks/attack.py --inputs 100000 --minutes 60
    python benchmarks/attack.py --only simulators --seed 17

The rule (`tests/helpers/attack/rule.py`): every answer is a `CoreplanError` of at most 1,000 characters or a right result,
within 5 s and 500 MB, and nothing of what was paid is missing afterwards. The first form prints totals and writes
results/attack.md and results/attack.json; the second repeats one input and says what it did. `--first` is the first seed:
the same numbers are the same inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.attack import GENERATORS, Attack, Finding, one_input

RESULTS = Path(__file__).parent / "results"
RIGHT = (
    "right",
    "refused",
    "theirs",
    "interrupted",
)  # labels of answers that keep the rule; others are findings
ROUNDS = 8  # every generator has its turn so often, so that a run that is cut short has done some of each


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000, help="how many, all generators together")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=list(GENERATORS), help="one generator")
    parser.add_argument("--seed", type=int, help="repeat this one input and say what it did")
    parser.add_argument("--dry", action="store_true", help="write no results")
    options = parser.parse_args()
    if options.seed is not None:
        if options.only is None:
            parser.error("--seed goes with --only GENERATOR")
        repeat(options.only, options.seed)
        return
    chosen = [GENERATORS[options.only]] if options.only else list(GENERATORS.values())
    attacks = [Attack(generator) for generator in chosen]
    for attack in attacks:
        attack.generator.warm_up()
    begin, until = time.monotonic(), time.monotonic() + 60 * options.minutes
    shares = sum(attack.generator.share for attack in attacks)
    for turn in range(ROUNDS):
        for attack in attacks:
            n = round(options.inputs * attack.generator.share / shares)
            attack.run(
                range(options.first + n * turn // ROUNDS, options.first + n * (turn + 1) // ROUNDS), until
            )
    for attack in attacks:
        shutil.rmtree(attack.scratch, ignore_errors=True)
    text = report(attacks, time.monotonic() - begin, options.first)
    print(text)
    if not options.dry:
        (RESULTS / "attack.md").write_text(text)
        (RESULTS / "attack.json").write_text(json.dumps(record(attacks), indent=1) + "\n")
    sys.exit(1 if any(attack.findings for attack in attacks) else 0)


def repeat(name: str, seed: int) -> None:
    """Do one input in this process, so that its traceback can be had, and print what it did."""
    attack = Attack(GENERATORS[name])
    attack.generator.warm_up()
    result = one_input(attack.generator, seed, attack.scratch, tell=print)
    shutil.rmtree(attack.scratch, ignore_errors=True)
    print(f"{name} {seed}: {result.label} in {result.seconds:.3f} s")
    sys.exit(0 if result.finding is None else 1)


def distinct(findings: list[Finding]) -> list[tuple[Finding, int]]:
    """One finding of each kind and place, with how many there were."""
    count = Counter((f.kind, f.where) for f in findings)
    firsts: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        firsts.setdefault((finding.kind, finding.where), finding)
    return [(firsts[key], n) for key, n in count.most_common()]


def report(attacks: list[Attack], seconds: float, first: int) -> str:
    """The totals by generator and outcome, and one line for every distinct finding."""
    total = sum(sum(attack.totals.values()) for attack in attacks)
    wrong = sum(len(attack.findings) for attack in attacks)
    machine = f"{os.cpu_count()} in the machine, Python {platform.python_version()}"
    said = f"{total:,} inputs from seed {first}, {seconds / 60:.1f} minutes on one core ({machine})"
    lines = ["# Attack", "", f"{said}: {wrong:,} broke the rule.", ""]
    kinds = sorted({kind for attack in attacks for kind in attack.totals if kind not in RIGHT})
    columns = [*(label for label in RIGHT if any(attack.totals[label] for attack in attacks)), *kinds]
    lines.append(f"| generator | inputs | {' | '.join(columns)} | ms each | slowest, s |")
    lines.append("|---" * (len(columns) + 4) + "|")
    for attack in attacks:
        n = sum(attack.totals.values())
        cells = " | ".join(f"{attack.totals[column]:,}" for column in columns)
        each = 1e3 * attack.seconds / max(n, 1)
        lines.append(f"| {attack.generator.name} | {n:,} | {cells} | {each:.1f} | {attack.slowest:.2f} |")
    for attack in attacks:
        for finding, n in distinct(attack.findings):
            again = f"`--only {finding.generator} --seed {finding.seed}`"
            place = f" at {finding.where}" if finding.where else ""
            lines += [
                "",
                f"- {finding.kind}{place}, {n:,} times, such as {again}: {finding.text}",
                f"  Input: {finding.input}",
            ]
    return "\n".join(lines) + "\n"


def record(attacks: list[Attack]) -> dict:
    return {
        attack.generator.name: {
            "inputs": sum(attack.totals.values()),
            "totals": dict(attack.totals),
            "seconds": round(attack.seconds, 1),
            "findings": [finding._asdict() for finding, _ in distinct(attack.findings)],
        }
        for attack in attacks
    }


if __name__ == "__main__":
    main()
