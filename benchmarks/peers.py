"""Other libraries on the same problems, each in a process of its own through its public API; skipped where not installed.

    pip install 'coreplan[bench]'                                  # with torch 2.13.0: later ones pull in gigabytes
    python benchmarks/peers.py                                    # about ten minutes
    python benchmarks/peers.py --steps 20000 --seeds 1 --problems cart-pole

- Stable-Baselines3, PPO and DQN with their default settings (gamma is the problem's), on `problem.to_gymnasium()`: the same
  simulator, rewards and ends; a step of the environment is a query. Their policies and ours, planned with as many queries,
  are judged by the same rollouts. These libraries learn from episodes, without resets to states of their choice, which a
  planner has.
- QuantEcon's DiscreteDP on the tables of problems that can be enumerated: the exact optimum, against ours.

Writes benchmarks/results/peers.md and .json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
CONTROL = ("cart-pole", "mountain-car", "acrobot", "pendulum")
TABLES = ("river-swim", "river-swim-long", "random-linear", "frozen-lake", "taxi", "inventory")
LONGEST = 500  # steps per episode that Stable-Baselines3 sees
ROLLOUTS = 100


def learn(name, problem, steps, seed):
    """A policy of Stable-Baselines3, judged as ours are."""
    import numpy as np
    import stable_baselines3 as sb3
    import torch

    import coreplan

    torch.set_num_threads(1)
    world = coreplan.make(problem)
    env = world.to_gymnasium(max_steps=LONGEST)
    model = getattr(sb3, name.upper())(
        "MlpPolicy", env, gamma=world.discount, seed=seed, device="cpu", verbose=0
    )
    model.learn(total_timesteps=steps)
    width = env.observation_space.shape[0]

    def acts(states):
        seen = np.asarray(states, dtype=np.float32)[:, :width]
        return model.predict(seen, deterministic=True)[0].astype(np.int64)

    found = coreplan.evaluate(world, acts, rollouts=ROLLOUTS, seed=seed)
    return {"value": found.value, "low": found.low, "high": found.high, "queries": int(model.num_timesteps)}


def ours(problem, steps, seed):
    """The default planner's policy."""
    import coreplan

    world = coreplan.make(problem)
    result = coreplan.plan(world, budget=steps, seed=seed, reality=0)
    found = coreplan.evaluate(world, result.policy, rollouts=ROLLOUTS, seed=seed)
    return {"value": found.value, "low": found.low, "high": found.high, "queries": result.queries}


def solve(problem):
    """The optimum by QuantEcon and by us."""
    import numpy as np
    import quantecon
    from scipy import sparse

    import coreplan
    from coreplan.judge import optimal_values

    world = coreplan.make(problem)
    table = world.tabular()
    X, A = table.r.shape
    P = table.P if table.P is not None else table.factors[0] @ table.factors[1]
    s, a = np.divmod(np.arange(X * A), A)
    ddp = quantecon.markov.DiscreteDP(table.r.ravel(), sparse.csr_matrix(P), world.discount, s, a)
    theirs = ddp.solve(method="policy_iteration")
    best = optimal_values(table, world.discount)[0]
    start = (1 - world.discount) * table.nu0
    return {
        "theirs": float(start @ theirs.v),
        "ours": float(start @ best),
        "largest": float(np.abs(theirs.v - best).max()),
    }


def apart(python, call, needs):
    """The answer of a call in a process of its own; None, with a message, where its library is not installed."""
    here = subprocess.run([python, "-c", f"import {needs}"], capture_output=True, text=True, check=False)
    if here.returncode:
        print(
            f"{call[0]}: skipped, since {needs} is not installed: pip install 'coreplan[bench]'", flush=True
        )
        return None
    done = subprocess.run(
        [python, __file__, "--one", json.dumps(call)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"{call}: failed\n{done.stderr[-600:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", default=",".join(CONTROL))
    parser.add_argument("--python", default=sys.executable, help="that has the libraries")
    given = parser.parse_args()
    control, tables = [], []
    for problem in given.problems.split(","):
        for name in ("ppo", "dqn", "coreplan"):
            needs = "coreplan" if name == "coreplan" else "stable_baselines3"
            runs = [
                apart(given.python, [name, problem, given.steps, seed], needs) for seed in range(given.seeds)
            ]
            runs = [run for run in runs if run]
            if runs:
                control.append({"problem": problem, "who": name, "runs": runs})
                print(problem, name, [round(run["value"], 4) for run in runs], flush=True)
    for problem in TABLES:
        found = apart(given.python, ["quantecon", problem], "quantecon")
        if found:
            tables.append({"problem": problem, **found})
            print(problem, found, flush=True)
    what = {
        "steps": given.steps,
        "seeds": given.seeds,
        "command": "python benchmarks/peers.py " + " ".join(sys.argv[1:]),
    }
    (RESULTS / "peers.json").write_text(json.dumps(what | {"control": control, "tables": tables}, indent=1))
    (RESULTS / "peers.md").write_text(page(what, control, tables))


def page(what, control, tables):
    lines = [
        "# Peers", "", f"Made by `{what['command'].strip()}`: {what['steps']:,} queries per run, median of {what['seeds']} "
        f"seeds (least to most); values are normalised, by {ROLLOUTS} rollouts each.", "",
        "| problem | who | value | queries |", "|---|---|---|---|",
    ]  # fmt: skip
    for row in control:
        values = [run["value"] for run in row["runs"]]
        queries = max(run["queries"] for run in row["runs"])
        lines.append(
            f"| `{row['problem']}` | {row['who']} | {statistics.median(values):.4f} "
            f"({min(values):.4f} to {max(values):.4f}) | {queries:,} |"
        )
    lines += [
        "",
        "| problem | optimum, QuantEcon | optimum, coreplan | largest difference of V* |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{t['problem']}` | {t['theirs']:.9f} | {t['ours']:.9f} | {t['largest']:.1e} |" for t in tables
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        call = json.loads(sys.argv[2])
        kinds = {"coreplan": ours, "quantecon": solve}
        print(json.dumps(kinds[call[0]](*call[1:]) if call[0] in kinds else learn(*call)))
    else:
        main()
