"""A run with its folder, from the first ask to the last file; then what its policy earns, and what was asked for besides."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from .._version import __version__
from ..base import (
    CoreplanError,
    CoreplanWarning,
    InputError,
    Interrupt,
    RunError,
    breakable,
    machine,
    text_of,
)
from ..judge import Reality
from ..planners import Status, Verdict
from ..policy import POLICY_FILE, SoftmaxPolicy, with_own_features
from ..run import (
    CERTIFICATE_FILE,
    EVALUATION_FILE,
    REALITY_FILE,
    Moment,
    Progress,
    PythonLoop,
    Run,
    RunFolder,
    make_progress,
)
from ..simulate import Simulator, recheck
from ..tracking import Callbacks, RunInfo
from .advice import next_sentence
from .elsewhere import warn_if_elsewhere
from .judges import Judges
from .keeping import Keeping
from .limit import TimeLimit
from .reality import RealityCheck
from .result import Plan

# Bytes of a planner's state that are copied before asks, so that a `tell` that raises can be undone: always, and more in
# proportion to the seconds that asks take. It costs about a hundredth of the time.
_COPIED, _COPIED_PER_SECOND, _MOST_COPIED = 1e6, 1e7, 1e8


class View(Protocol):
    """Something that shows a run while it goes on, such as `report.LiveView`. It must not raise, nor change anything."""

    def see(self, run: Run, record: Callable[[], dict[str, Any]]) -> None: ...


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
        limit: TimeLimit,
        callbacks: Callbacks,
        identity: str = "",
        picked: str = "",
        live: View | None = None,
    ) -> None:
        self.live = live
        self.run, self.folder, self.judges, self.reality = run, folder, judges, reality
        self.checkpoint_seconds, self.begin, self.warmup = checkpoint_seconds, begin, 0.0
        self.keep, self.picked, self.limit, self.callbacks = Keeping(folder), picked, limit, callbacks
        self.identity = identity  # the same for runs of the same problem, planner, settings and seed
        run.simulator.remembers = folder is not None
        self._before: Moment | None = None  # where the run stood before the asks that are being made
        self._saved = 0  # queries in the last checkpoint

    def go(self, progress: Any) -> Plan:
        """Plan, and judge the plan."""
        breakable(self._prepare)  # nothing has been paid yet that is not on disk
        self.warmup = time.perf_counter() - self.begin
        # From here to the last file, signals are requests to stop.
        with Interrupt() as interrupt:
            self._recheck()
            self._begin()
            try:
                self._tell_start()
                result = self._finish(self._work(interrupt, progress))
            except BaseException as error:
                self._failed()
                # A warning of ours comes here where the user's filters make it an error.
                ours = isinstance(error, (CoreplanError, CoreplanWarning))
                if ours or not isinstance(error, Exception):
                    raise
                raise self._unforeseen(error) from error
            result = self._judged(self._faced(result, interrupt), interrupt)
            return replace(
                result, stopped_by=interrupt.number, not_saved=self.keep.end(), logged_queries=self._logged
            )

    def _prepare(self) -> None:
        """Read the checkpoint if there is one, and compile."""
        run, folder = self.run, self.folder
        if folder and folder.used:
            folder.load_checkpoint(run)
            warn_if_elsewhere(folder)
            if run.simulator.queries > run.budget:
                raise InputError(
                    f"The run in {folder.path} has made {run.simulator.queries} queries already, more than "
                    f"the budget of {self.reality.budget} leaves it. Give a larger budget, or another folder."
                )
        run.warm_up()

    def _recheck(self) -> None:
        """Before answers are added to those of an earlier session: is the simulator still the same?"""
        run, folder, first = self.run, self.folder, self.run.simulator.first
        if run.simulator.log is not None:  # what the log has is not asked again, not even to compare
            return
        if folder and first is not None and run.left and getattr(run.problem.model, "repeatable", True):
            simulator = Simulator(run.problem, run.core, run.simulator.seed)
            recheck(simulator, first, folder.path)
            run.simulator.rechecked += simulator.queries

    def _begin(self) -> None:
        run, folder = self.run, self.folder
        if folder is None:
            return
        core, record = run.core, self._record("running")
        self.keep.begin(
            checkpoint=self._checkpoint,
            core=lambda: None if core is None else folder.write_core(core, run.problem),
            record=lambda: folder.write_record(record),
        )

    def _checkpoint(self) -> None:
        assert self.folder is not None
        self.folder.save_checkpoint(self.run)
        self._saved = self.run.simulator.queries

    def _work(self, interrupt: Interrupt, progress: Any) -> Status:
        """All asks that the budget has room for, or those before a request to stop."""
        bar = make_progress(progress, self.run.budget, self.run.simulator.queries)
        try:
            return self._asks(interrupt, bar)
        finally:
            self.run.simulator.following.give_up()
            bar.close()

    def _row(self) -> None:
        self.run.record()
        self.callbacks.row(len(self.run.trace) - 1, self.run.trace.last)

    def _tell_start(self) -> None:
        run, folder = self.run, self.folder
        info = RunInfo(
            run=self.identity, problem=run.problem.name, planner=run.planner.name, settings=run.planner.settings(),
            seed=run.simulator.seed, budget=self.reality.budget, rows=len(run.trace),
            folder=None if folder is None else str(folder.path),
        )  # fmt: skip
        self.callbacks.start(info)

    def _asks(self, interrupt: Interrupt, bar: Progress) -> Status:
        run = self.run
        if not len(run.trace):
            self._row()
        self._show()
        saved = begin = time.perf_counter()
        self.limit.start()
        while run.left:
            due, cut = run.due, False
            now = time.perf_counter()
            if self.folder and isinstance(
                run.loop, PythonLoop
            ):  # the compiled loop undoes what fails by itself
                self._before = run.moment(min(_COPIED + _COPIED_PER_SECOND * (now - begin), _MOST_COPIED))
            begin = now
            try:
                run.advance(due, interrupt)
            except KeyboardInterrupt:  # the second Ctrl-C: what of this batch was not answered is undone
                interrupt.ask()
                cut = True
            # Recorded before any checkpoint, so that a resumed run has the same rows.
            if (run.simulator.queries >= due and not cut) or not run.left:
                self._row()
            bar.update(run.simulator.queries)
            self._show()
            if interrupt.asked and run.left:
                return Status.INTERRUPTED
            if self.limit.up() and run.left:
                return Status.TIME_UP
            if self.folder and time.perf_counter() - saved > self.checkpoint_seconds:
                self.keep(checkpoint=self._checkpoint)
                saved = time.perf_counter()
        return Status.FINISHED

    def _show(self) -> None:
        """Let a view look at the run as it is."""
        if self.live is not None:
            self.live.see(self.run, lambda: self._record("running"))

    def _failed(self) -> None:
        """After an error: keep everything before the faulty ask; a resume asks that one again."""
        run, folder = self.run, self.folder
        if folder is None:
            return
        if run.loop.torn and self._before is not None:  # `tell` raised, perhaps with the state half changed
            run.return_to(self._before)
        if run.loop.torn:
            run.simulator.undone(self._saved)  # the last checkpoint stands
        else:
            self.keep(checkpoint=self._checkpoint)
        record = self._record("failed")
        self.keep(record=lambda: folder.write_record(record))

    def _unforeseen(self, error: Exception) -> RunError:
        """The error for a person, where something raised that coreplan does not know: a planner, a kernel, memory."""
        text = (text_of(error).splitlines() or [""])[0]
        kept = ""
        if self.folder is not None and self.keep.trouble:
            kept = (
                f" The last checkpoint stands, since another could not be written: {self.keep.trouble[:300]}"
            )
        elif self.folder is not None:
            kept = f" What was paid before it is in {self.folder.path}; resume it there."
        return RunError(
            f"The run ended after {self.run.simulator.queries:,} queries by an error that is none of coreplan's own: "
            f"{type(error).__name__}: {text[:300]}{_where(error)}.{kept}"
        )

    @property
    def _paid(self) -> int:
        """All queries: of the run, those held for an ask that failed and will come again, and of rollouts."""
        return self.run.simulator.queries + self.run.simulator.held + self.reality.queries

    @property
    def _logged(self) -> int:
        """Queries, of whatever kind, that were answered from the log since it was opened."""
        log = self.run.simulator.log
        return 0 if log is None else log.known

    def _record(self, status: str) -> dict[str, Any]:
        run = self.run
        return {
            "status": status,
            "budget": self.reality.budget,
            "reality": self.reality.share,
            "queries": self._paid,
            "reality_queries": self.reality.queries,
            "lost_queries": run.simulator.lost,
            "rechecked_queries": run.simulator.rechecked,
            "logged_queries": self._logged,
            "initial_draws": run.simulator.initial_draws,
            "seconds": run.seconds,
            "warmup_seconds": self.warmup,
            "baseline": "" if self.reality.own is None else self.reality.own.name,
            "picked": self.picked,
            "names": run.problem.names.as_dict(),
            "coreplan": __version__,
            "machine": machine(),
        }

    def _said(self, verdict: Verdict | None, policy: SoftmaxPolicy) -> dict[str, Any]:
        """The reason for a verdict, what would help, and what to try next; for a plan and its record."""
        if verdict is None:
            return {"reason": "", "helps": "", "next": ""}
        run, numbers = self.run, len(policy.theta)
        after = next_sentence(run.problem, run.planner.name, verdict.helps, self.reality.budget, numbers)
        return {"reason": verdict.reason, "helps": verdict.helps, "next": after}

    def _finish(self, status: Status) -> Plan:
        run, folder = self.run, self.folder
        self.keep(
            checkpoint=self._checkpoint
        )  # first: whatever happens now, everything that was paid is on disk
        (policy, _), verdict = self.reality.chosen(run, self._known_reality()), run.verdict()
        said = self._said(verdict, policy)
        if verdict and not status.stopped:
            status = verdict.status
        core = run.planner.core(run.loop.state) or run.core
        if folder:
            if core is not run.core and core is not None:
                chosen = core
                self.keep(core=lambda: folder.write_core(chosen, run.problem))
            record = self._record(status.value) | said
            self.keep(results=lambda: folder.write_results(policy, run.trace, record))
        return Plan(
            policy=policy, queries=self._paid, status=status, trace=run.trace,
            initial_draws=run.simulator.initial_draws, seconds=run.seconds, warmup_seconds=self.warmup, planner=run.planner,
            settings=run.planner.settings(), **said, picked=self.picked, core=core,
            stored=run.planner.stored(run.loop.state),
            reality_queries=self.reality.queries, lost_queries=run.simulator.lost,
            rechecked_queries=run.simulator.rechecked, problem_name=run.problem.name,
            baseline_name="" if self.reality.own is None else self.reality.own.name,
        )  # fmt: skip

    def _faced(self, result: Plan, interrupt: Interrupt) -> Plan:
        """The plan with what its policy earned, and the verdict that takes it into account."""
        run, folder = self.run, self.folder
        known = self._known_reality()
        if result.status.stopped or (self.reality.share == 0.0 and known is None):
            return result
        found, missing = known, ""
        given = self.reality.own is None and self.reality.baseline is not None
        if known is None or (given and self.reality.share > 0.0):
            interrupt.judging = True
            found, missing = self.reality.measured(run, run.policy())
            interrupt.judging = False
            found, missing = (found, missing) if found or known is None else (known, "")
        verdict = run.verdict()
        if found is not None:
            verdict, unknown = self.reality.verdict(verdict, found, run)
            missing = f"{missing} {unknown}".strip()
        policy, _ = self.reality.chosen(run, found)
        result = replace(
            result, policy=policy, reality=found, reality_queries=self.reality.queries, no_verdict=missing,
            queries=self._paid,
            status=verdict.status if verdict else Status.FINISHED, **self._said(verdict, policy),
        )  # fmt: skip
        if folder:
            self.keep(checkpoint=self._checkpoint, policy=lambda: policy.save(folder.path / POLICY_FILE))
            if found is not None:
                faced = found.as_dict()
                self.keep(reality=lambda: folder.write_judged(REALITY_FILE, faced))
            record = self._record(result.status.value) | self._said(verdict, policy) | {"no_verdict": missing}
            self.keep(record=lambda: folder.write_record(record))
        return result

    def _known_reality(self) -> Reality | None:
        """What an earlier session of the run found about this policy; None if nothing can be read."""
        try:
            return Reality.from_dict((self.folder and self.folder.read_judged(REALITY_FILE)) or {})
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def _judged(self, result: Plan, interrupt: Interrupt) -> Plan:
        """The plan with its evaluation and its certificate, if they were requested."""
        problem, folder = with_own_features(self.run.problem, result.policy), self.folder
        evaluation, not_evaluated = self.judges.evaluation(problem, result.policy, interrupt)
        own, compared = self.reality.own, None
        if evaluation and own is not None:
            compared, _ = self.judges.evaluation(problem, own.rule, interrupt)
        if folder and evaluation:
            value = evaluation.as_dict() | {"baseline": compared and compared.as_dict()}
            self.keep(evaluation=lambda: folder.write_judged(EVALUATION_FILE, value))
        certificate, refused = self.judges.certificate(problem, result.core, result.policy, interrupt)
        if folder and certificate:
            bounds = certificate.as_dict()
            self.keep(certificate=lambda: folder.write_judged(CERTIFICATE_FILE, bounds))
        return replace(
            result,
            evaluation=evaluation,
            compared=compared,
            certificate=certificate,
            not_evaluated=not_evaluated,
            refused=refused,
        )


def _where(error: BaseException) -> str:
    """The line that raised, as the end of a sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" (in {frames[-1].name}, {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
