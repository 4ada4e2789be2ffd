"""What acting costs: a compact policy against local planners, which plan again at every state that they visit.

    python benchmarks/acting.py        # about two minutes

For each local planner the least budget per action is searched, in steps of two, with which its actions at all states of
`river-swim` are worth as much as the compact policy's (sub below .01, exact, at each of three seeds). Then one action at one
state is timed on both sides, in CPU seconds and alternating, and the median counts. A compact policy makes no simulator
call to act. Writes benchmarks/results/acting.md and .json.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import numpy as np

import coreplan
from coreplan.judge import policy_value
from coreplan.planners import ConfidentLSPI, CoreStoMP
from coreplan.planning import LocalPolicy
from revision import revision

RESULTS = Path(__file__).parent / "results"
SPEC, LOST, SEEDS, MOST = "river-swim", 0.01, 3, 2**18
LOCAL = {"core-stomp": CoreStoMP(), "confident-lspi": ConfidentLSPI()}


def sub_of(problem, actions):
    """sub of the policy that takes these actions, one per state."""
    A = problem.n_actions
    policy = coreplan.SoftmaxPolicy(np.eye(A)[actions].ravel(), np.inf, problem.features)
    found = coreplan.evaluate(problem, policy)
    assert found.value == policy_value(problem.tabular(), policy, problem.discount)
    return found.sub


def enough(problem, planner, first):
    """The least budget per action, in steps of two, and the worst sub with it."""
    budget, states = first, problem.tabular().states
    while budget <= MOST:
        local = [LocalPolicy(problem, planner, budget=budget, seed=1000 * seed) for seed in range(SEEDS)]
        worst = max(sub_of(problem, one(states)) for one in local)
        if worst <= LOST:
            return budget, worst
        budget *= 2
    return None, worst


def timed(act, repeats):
    """The median of CPU seconds per call."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        act()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


def main():
    problem = coreplan.make(SPEC)
    compact = coreplan.plan(problem, budget=1_000, seed=0, reality=0).policy
    rows, many, state = [], 1_000, np.array([0])
    for name, planner in LOCAL.items():
        budget, worst = enough(problem, planner, 64)
        if budget is None:
            rows.append({"planner": name, "sub": worst, "budget": None})
            continue
        local = LocalPolicy(problem, planner, budget=budget)
        local(state)  # compiled
        slow, fast = [], []
        for _ in range(5):
            slow.append(timed(lambda local=local: local(state), 3))
            fast.append(timed(lambda: [compact.act(state) for _ in range(many)], 3) / many)
        ratio = statistics.median(slow) / statistics.median(fast)
        rows.append({
            "planner": name, "budget": budget, "sub": worst, "queries_per_action": local.queries / local.actions,
            "local_ms": 1e3 * statistics.median(slow), "compact_us": 1e6 * statistics.median(fast), "ratio": ratio,
        })  # fmt: skip
        print(rows[-1], flush=True)
    found = {"problem": SPEC, "compact_sub": coreplan.evaluate(problem, compact).sub, "rows": rows}
    (RESULTS / "acting.json").write_text(json.dumps(found, indent=1))
    (RESULTS / "acting.md").write_text(page(found))


def page(found):
    lines = [
        "# What acting costs", "", f"Made by `python benchmarks/acting.py`, revision {revision()}, on `{found['problem']}`;",
        "CPU time, medians.",
        f"The compact policy (`plan` with 1,000 queries; sub {found['compact_sub']:.4f}) makes no simulator call.", "",
        "| local planner | sub, worst of 3 seeds | queries per action | ms per action | compact, us per action | ratio |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in found["rows"]:
        if row["budget"] is None:
            lines.append(f"| `{row['planner']}` | {row['sub']:.4f} with {MOST:,} | not enough | - | - | - |")
        else:
            lines.append(
                f"| `{row['planner']}` | {row['sub']:.4f} | {row['queries_per_action']:,.0f} | {row['local_ms']:.1f} | "
                f"{row['compact_us']:.1f} | {row['ratio']:,.0f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
