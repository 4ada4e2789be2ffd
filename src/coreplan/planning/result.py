"""`Plan`: the policy, how it was found, and what it earns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base import html
from ..core import CoreSet
from ..judge import Certificate, Evaluation, Reality
from ..planners import Planner, Status
from ..plots import names_of
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..run import Trace
from ..sampled import Stored
from .drawing import draw_run


@dataclass(frozen=True)
class Plan:
    """The result of a run: the policy, how it was found, and what it earns. `print` shows it in about ten lines."""

    policy: SoftmaxPolicy
    queries: int  # all of them, those of rollouts included
    status: Status
    trace: Trace
    initial_draws: int  # draws from nu0, counted apart from queries
    seconds: float  # planning time, without compilation and without computing the trace's values
    warmup_seconds: float
    # With every hyperparameter filled in; None for a loaded run of a planner that is not built in.
    planner: Planner | None
    settings: dict[str, Any]  # the planner's hyperparameters as JSON types
    reason: str = ""  # why the result is doubtful, and the cure; or the accuracy that the planner estimates
    core: CoreSet | None = None  # the core set that was used, or the pairs that the planner chose
    stored: Stored | None = None  # the samples that the planner stored, for other planners to solve on
    evaluation: Evaluation | None = None  # if requested
    compared: Evaluation | None = None  # the same of the problem's own baseline
    picked: str = ""  # which planner was picked and why, where nobody had chosen one
    helps: str = ""  # what is likely to help against its doubts: `planners/doubts.py`
    next: str = ""  # what to try next, and what it would cost
    baseline_name: str = ""  # of the problem's own baseline
    certificate: Certificate | None = None  # if requested
    not_evaluated: str = ""  # why there is no evaluation although it was requested
    refused: str = ""  # why there is no certificate although it was requested
    reality: Reality | None = None  # what the policy earned in rollouts
    reality_queries: int = 0  # the part of `queries` that went to these rollouts
    lost_queries: int = (
        0  # queries that were paid besides and lost: of asks that failed, or that Ctrl-C abandoned
    )
    rechecked_queries: int = 0  # besides: by which resumes saw that the simulator was still the same
    logged_queries: int = (
        0  # of this session, that were answered from the log and not paid again; also by its judges
    )
    no_verdict: str = ""  # why the rollouts tell nothing, or not enough, and what would
    problem_name: str = ""
    stopped_by: int = (
        0  # the number of the signal that stopped the run or what came after it, 2 for Ctrl-C; 0: none did
    )
    not_saved: str = ""  # why the run's folder does not hold this plan, although one was given

    @property
    def sentence(self) -> str:
        """How the run ended, after how many queries of the planner, and the reason."""
        ended = self.status.after(self.queries - self.reality_queries)
        return " ".join(part for part in (ended, self.reason, self.next) if part)

    @property
    def believed(self) -> float | None:
        """The value that the planner's solution gives to its policy; None if it has none, or no rollouts were made."""
        return None if self.reality is None else self.reality.believed

    @property
    def earned(self) -> Evaluation | None:
        """The value that rollouts of the policy earned, with its interval; None if no rollouts were made."""
        return None if self.reality is None else self.reality.earned

    @property
    def uniform(self) -> Evaluation | None:
        """The value that rollouts of the uniform policy earned."""
        return None if self.reality is None else self.reality.uniform

    @property
    def baseline(self) -> Evaluation | None:
        """The value of the baseline that was given, or of the problem's own: by rollouts beside the policy's, or judged."""
        found = None if self.reality is None else self.reality.baseline
        return (
            self.compared if found is None or (self.compared is not None and self.compared.exact) else found
        )

    def __str__(self) -> str:
        text = [f"{what:<9} {said}" for what, said in self._rows()]
        return "\n".join([*text, self.sentence, *([self.no_verdict] if self.no_verdict else [])])

    def plot(
        self,
        what: str = "value",
        *,
        units: str = "normalised",
        logarithmic: bool | None = None,
        problem: Problem | None = None,
        ax: Any = None,
    ) -> Any:
        """A figure of how the run converged against queries, by Matplotlib (the extra `plot`); returns the figure.

        Parameters
        ----------
        what: "value", the exact value of the policy at each row of the trace, where it is known, with what rollouts of the
            last policy earned, optimum, uniform policy and the certificate's bounds as far as they are known; "gap", the
            optimum minus that value; or any other column of the trace.
        units: "normalised", or "returns" for the expected discounted sum of your own rewards.
        problem: where the reward's name is taken from for `units="returns"`; by default the built-in problem of the plan.
        logarithmic: both axes; by default for "gap" only.
        ax: axes of your own; by default a new figure, one column of a paper wide. `plan.plot().savefig("run.pdf")`.
        """
        reward = names_of("Plan.plot", self.policy.problem_name, problem).reward
        return draw_run(self, what, units, reward, logarithmic, ax)

    def _repr_html_(self) -> str:
        """How a notebook shows it: what `print` shows, as a table."""
        return html.block(html.table(self._rows()), self.sentence, self.no_verdict)

    def _rows(self) -> list[tuple[str, str]]:
        """What a table shows: where the policy comes from, what it earns, and what it cost."""
        name = "" if self.planner is None else self.planner.name
        rows = [("plan", f"{self.problem_name} by {name}".strip())]
        rows += [("picked", self.picked)] if self.picked else []
        rows += self._values()
        rows.append(("queries", f"{self.queries:,}" + self._apart()))
        rows.append(("policy", f"{len(self.policy.theta)} numbers"))
        return rows

    def _apart(self) -> str:
        """What is said apart of the number of queries."""
        rollouts = (
            f", {self.reality_queries:,} of them for rollouts of the policy" if self.reality_queries else ""
        )
        more = f"; {self.lost_queries:,} more were paid and lost" if self.lost_queries else ""
        if self.rechecked_queries:
            more += f"; {self.rechecked_queries:,} more compared the simulator with that of the start"
        if self.logged_queries:
            more += f"; {self.logged_queries:,} were answered from the log"
        return rollouts + more

    def _values(self) -> list[tuple[str, str]]:
        """One row per known value."""
        rows = []
        exact = self.evaluation if self.evaluation is not None and self.evaluation.exact else None
        known = self.earned or exact or self.evaluation
        if self.evaluation is not None:
            rows.append(("value", str(self.evaluation)))
        if self.earned is not None:
            rows.append(("earned", str(self.earned)))
        if self.believed is not None and known is not None:
            zero, one = known.units
            rows.append(("believed", f"{self.believed:.4f} = {zero + (one - zero) * self.believed:.6g}"))
        for what, found in (("uniform", self.uniform), ("baseline", self.baseline)):
            if found is not None:
                name = f"{self.baseline_name}: " if what == "baseline" and self.baseline_name else ""
                rows.append((what, f"{name}{found}"))
        if exact is not None and exact.compared:
            rows.append(("optimum", exact.compared))
        if self.certificate is not None:
            rows.append(("certified", _bounds(self.certificate)))
        return rows


def _bounds(found: Certificate) -> str:
    """Both bounds; the upper one if there is one, and whether it is proved."""
    text = f"value at least {found.lower:.4f}"
    if found.upper is None:
        return text
    return f"{text}, optimum at most {found.upper:.4f}" + ("" if found.holds else " (not proved)")
