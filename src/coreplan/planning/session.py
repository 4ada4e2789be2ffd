"""A run with its folder, from the first ask to the last file; then what its policy earns, and what was asked for besides."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .._version import __version__
from ..base import CoreplanError, FileError, InputError, require_count
from ..core import CoreSet
from ..judge import Certificate, Evaluation, Reality
from ..planners import Status
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..run import (
    CERTIFICATE_FILE,
    EVALUATION_FILE,
    REALITY_FILE,
    Interrupt,
    Progress,
    Run,
    RunFolder,
    make_progress,
)
from .judged import certified, evaluated
from .reality import RealityCheck
from .result import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Judges:
    """What was requested besides the policy."""

    evaluate: bool | int
    certify: bool | int
    seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.evaluate, bool):  # checked before the first query, not after the last
            require_count("plan", least=2 if self.evaluate else 0, evaluate=self.evaluate)
        if not isinstance(self.certify, bool):
            require_count("plan", certify=self.certify)

    def evaluation(self, problem: Problem, policy: SoftmaxPolicy) -> tuple[Evaluation | None, str]:
        """The value of the policy, or why there is none."""
        if self.evaluate is False:
            return None, ""
        rollouts = None if self.evaluate is True else self.evaluate
        return _or_why(lambda: evaluated(problem, policy, rollouts, self.seed))

    def certificate(
        self, problem: Problem, core: CoreSet | None, policy: SoftmaxPolicy
    ) -> tuple[Certificate | None, str]:
        """The certificate, or why there is none."""
        if self.certify is False:
            return None, ""
        queries = None if self.certify is True else self.certify
        return _or_why(lambda: certified(problem, core, policy, queries=queries, seed=self.seed))


def _or_why(judge: Callable[[], T | None]) -> tuple[T | None, str]:
    """What a judge finds, or why it finds nothing: the plan is complete and must not be lost."""
    try:
        return judge(), ""
    except CoreplanError as error:
        return None, str(error)
    except Exception as error:  # memory, linear algebra: whatever it is, the plan is not lost for it
        return None, f"{type(error).__name__}: {error}"
    except KeyboardInterrupt:
        return None, "It was interrupted."


class Session:
    """A run with its folder, from the first ask to the last file."""

    def __init__(
        self,
        run: Run,
        folder: RunFolder | None,
        *,
        begin: float,
        checkpoint_seconds: float,
        judges: Judges,
        reality: RealityCheck,
    ) -> None:
        self.run, self.folder, self.judges, self.reality = run, folder, judges, reality
        self.checkpoint_seconds, self.begin = checkpoint_seconds, begin

    def go(self, progress: Any) -> Plan:
        """Plan, and judge the plan."""
        run, folder = self.run, self.folder
        if folder and folder.used:
            folder.load_checkpoint(run)
            if run.simulator.queries > run.budget:
                raise InputError(
                    f"The run in {folder.path} has made {run.simulator.queries} queries already, more than "
                    f"the budget of {self.reality.budget} leaves it. Give a larger budget, or another folder."
                )
        run.warm_up()
        warmup = time.perf_counter() - self.begin
        if folder:
            folder.save_checkpoint(run)
            if run.core is not None:
                folder.write_core(run.core, run.problem)
            folder.write_record(self._record("running", warmup))
        bar = make_progress(progress, run.budget, run.simulator.queries)
        try:
            with Interrupt() as interrupt:
                status = self._work(interrupt, bar)
            bar.close()
            result = self._finish(status, warmup)
        except Exception:
            bar.close()
            if folder:
                with suppress(FileError):  # a full disk is what may have brought us here
                    if not run.loop.torn:  # everything before the faulty ask; a resume asks that one again
                        folder.save_checkpoint(run)
                    folder.write_record(self._record("failed", warmup))
            raise
        # Outside the try: even if this fails, the run is complete and on disk.
        return self._judged(self._faced(result, warmup))

    def _work(self, interrupt: Interrupt, bar: Progress) -> Status:
        run = self.run
        if not len(run.trace):
            run.record()
        saved = time.perf_counter()
        while run.left:
            due, cut = run.due, False
            try:
                run.advance(due, interrupt)
            except KeyboardInterrupt:  # the second Ctrl-C: what of this batch was not answered is undone
                interrupt.asked = cut = True
            # Recorded before any checkpoint, so that a resumed run has the same rows.
            if (run.simulator.queries >= due and not cut) or not run.left:
                run.record()
            bar.update(run.simulator.queries)
            if interrupt.asked and run.left:
                return Status.INTERRUPTED
            if self.folder and time.perf_counter() - saved > self.checkpoint_seconds:
                self.folder.save_checkpoint(run)
                saved = time.perf_counter()
        return Status.FINISHED

    def _record(self, status: str, warmup: float) -> dict[str, Any]:
        run = self.run
        return {
            "status": status,
            "budget": self.reality.budget,
            "reality": self.reality.share,
            "queries": run.simulator.queries + self.reality.queries,
            "reality_queries": self.reality.queries,
            "initial_draws": run.simulator.initial_draws,
            "seconds": run.seconds,
            "warmup_seconds": warmup,
            "coreplan": __version__,
        }

    def _finish(self, status: Status, warmup: float) -> Plan:
        run, folder = self.run, self.folder
        policy, verdict = run.policy(), run.verdict()
        reason = verdict.reason if verdict else ""
        interrupted = status is Status.INTERRUPTED
        if verdict and not interrupted:
            status = verdict.status
        core = run.planner.core(run.loop.state) or run.core
        if folder:
            folder.save_checkpoint(run)
            if core is not run.core and core is not None:
                folder.write_core(core, run.problem)
            folder.forget_judged(policy)
            folder.write_results(policy, run.trace, self._record(status.value, warmup) | {"reason": reason})
        return Plan(
            policy=policy, queries=run.simulator.queries + self.reality.queries, status=status, trace=run.trace,
            initial_draws=run.simulator.initial_draws, seconds=run.seconds, warmup_seconds=warmup, planner=run.planner,
            settings=run.planner.settings(), reason=reason, core=core, stored=run.planner.stored(run.loop.state),
            reality_queries=self.reality.queries, problem_name=run.problem.name,
        )  # fmt: skip

    def _faced(self, result: Plan, warmup: float) -> Plan:
        """The plan with what its policy earned, and the verdict that takes it into account."""
        run, folder = self.run, self.folder
        known = self._known_reality()
        if result.status is Status.INTERRUPTED or (self.reality.share == 0.0 and known is None):
            return result
        found, missing = known, ""
        if known is None or (self.reality.baseline is not None and self.reality.share > 0.0):
            found, missing = self.reality.measured(run, result.policy)
            found, missing = (found, missing) if found or known is None else (known, "")
        verdict = run.verdict()
        if found is not None:
            verdict, missing = self.reality.verdict(verdict, found, run)
        result = replace(
            result, reality=found, reality_queries=self.reality.queries, no_verdict=missing,
            queries=run.simulator.queries + self.reality.queries,
            status=verdict.status if verdict else Status.FINISHED, reason=verdict.reason if verdict else "",
        )  # fmt: skip
        if folder:
            folder.save_checkpoint(run)
            if found is not None:
                folder.write_judged(REALITY_FILE, found.as_dict())
            extra = {"reason": result.reason, "no_verdict": missing}
            folder.write_record(self._record(result.status.value, warmup) | extra)
        return result

    def _known_reality(self) -> Reality | None:
        """What an earlier session of the run found about this policy; None if nothing can be read."""
        try:
            return Reality.from_dict((self.folder and self.folder.read_judged(REALITY_FILE)) or {})
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def _judged(self, result: Plan) -> Plan:
        """The plan with its evaluation and its certificate, if they were requested."""
        problem, folder = self.run.problem, self.folder
        interrupted = result.status is Status.INTERRUPTED
        evaluation = certificate = None
        not_evaluated = refused = ""
        # Somebody who pressed Ctrl-C does not want to wait for rollouts.
        if not interrupted or problem.tabular is not None:
            evaluation, not_evaluated = self.judges.evaluation(problem, result.policy)
            if folder and evaluation:
                folder.write_judged(EVALUATION_FILE, evaluation.as_dict())
        if not interrupted:
            certificate, refused = self.judges.certificate(problem, result.core, result.policy)
            if folder and certificate:
                folder.write_judged(CERTIFICATE_FILE, certificate.as_dict())
        return replace(
            result,
            evaluation=evaluation,
            certificate=certificate,
            not_evaluated=not_evaluated,
            refused=refused,
        )
