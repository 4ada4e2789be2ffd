"""Eleven changes of the theory that neither `verify` nor any test once noticed: which test kills each of them today?

    python benchmarks/mutation_named.py

Each change is made to one place of the source, and the module's tests (`PARTS` of mutation.py) are run on it until one
fails. Writes mutation_named.md to benchmarks/results/.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutation import LIMIT, PARTS, RESULTS, SOURCE, outcome

KL = "entropy = float(np.sum("
CHANGES = [
    ("the dual LP's theta negated", "theory.lp", "theta=w[pair.n_V :]", "theta=-w[pair.n_V :]"),
    ("its u reversed", "theory.lp", "u=y[n_first:]", "u=y[n_first:][::-1]"),
    ("dual violations ignored", "sampled.verified", "+ unbalanced + negative + violated", "+ unbalanced + negative"),
    (
        "eps_core squared", "theory.definitions", "    return convex_coefficients(Phi[e.rows], Phi)",
        "    B, eps = convex_coefficients(Phi[e.rows], Phi)\n    return B, eps**2",
    ),
    (
        "eps_core in the sup norm", "theory.definitions", "    return convex_coefficients(Phi[e.rows], Phi)",
        "    B, _ = convex_coefficients(Phi[e.rows], Phi)\n    return B, np.abs(Phi - B @ Phi[e.rows]).max(axis=1)",
    ),
    (
        "the conditional entropy weighted by nu0", "theory.operators", "    mu = occupancy(e, pi)\n    ratio",
        "    mu = compose(e.nu0, pi)\n    ratio",
    ),
    (
        "the linear-MDP test ignores P", "theory.definitions",
        "self.reward_error < 1e-8 and self.transition_error < 1e-8", "self.reward_error < 1e-8",
    ),
    ("KL(lambda*|lambda_1) halved", "theory.recorded", KL, KL.replace("float", "0.5 * float")),
    (
        "eps_pi without the ball", "theory.definitions", "best_fit(e.Phi, policy_values(e, pi).Q, D)",
        "best_fit(e.Phi, policy_values(e, pi).Q, None)",
    ),
    (
        "eps_pi of a run without the ball", "theory.recorded", "best_fit(e.Phi, values.Q, planner.D)",
        "best_fit(e.Phi, values.Q, None)",
    ),
    ("D without sqrt(m)", "core.frame", "math.sqrt(self.m) / ((1.0", "1.0 / ((1.0"),
    ("the recorded core error is 0", "theory.recorded", "core_error=star.core_error", "core_error=0.0"),
]  # fmt: skip


def main() -> None:
    lines = [
        "# Eleven changes that nothing noticed once", "",
        "`python benchmarks/mutation_named.py`: each is made to the source, and the module's tests run until one fails.",
        "(That eps_pi forgets the ball is tried where it is defined, and where a run computes it.)", "",
        "| change | module | killed by |", "|---|---|---|",
    ]  # fmt: skip
    tests = {module: tests for part in PARTS.values() for module, tests in part.items()}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for what, module, old, new in CHANGES:
            source = (SOURCE / (module.replace(".", "/") + ".py")).read_text()
            assert source.count(old) == 1, what
            state = outcome(module, source.replace(old, new), tests[module], LIMIT, log)
            failed = re.findall(r"^(?:FAILED|ERROR) tests/(\S+)", log.read_text(), re.MULTILINE)
            by = f"`tests/{failed[0]}`" if failed else "nothing" if state == "survived" else state
            lines.append(f"| {what} | {module} | {by} |")
            print(lines[-1], flush=True)
    (RESULTS / "mutation_named.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
