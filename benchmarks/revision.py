"""Which revision a measurement was made at."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def revision() -> str:
    """Of the programs and the library, "-dirty" if they are not those of a commit; results and pages may have changed."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if changed else "")
