"""What is requested besides a policy: its value and a certificate. Where a judge fails, the plan is not lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..base import CoreplanError, Interrupt, as_count, as_python, text_of
from ..core import CoreSet
from ..judge import Certificate, Evaluation
from ..policy import SoftmaxPolicy
from ..problem import Problem
from .judged import certified, evaluated

T = TypeVar("T")
_INTERRUPTED = "It was interrupted."


@dataclass(frozen=True)
class Judges:
    """What was requested besides the policy."""

    evaluate: bool | int
    certify: bool | int
    seed: int

    def __post_init__(self) -> None:
        # Checked before the first query, not after the last.
        for name, least in (("evaluate", 2), ("certify", 1)):
            wish = as_python(getattr(self, name))
            if not isinstance(wish, bool):
                least = 0 if name == "evaluate" and isinstance(wish, int) and wish == 0 else least
                wish = as_count("plan", least=least, **{name: wish})
            object.__setattr__(self, name, wish)

    def evaluation(
        self, problem: Problem, policy: Any, interrupt: Interrupt
    ) -> tuple[Evaluation | None, str]:
        """The value of the policy, or of a rule, or why there is none."""
        if self.evaluate is False:
            return None, ""
        # Somebody who pressed Ctrl-C does not want to wait for rollouts.
        if interrupt.asked and problem.tabular is None:
            return None, _INTERRUPTED
        rollouts = None if self.evaluate is True else self.evaluate
        return _or_why(interrupt, lambda: evaluated(problem, policy, rollouts, self.seed))

    def certificate(
        self, problem: Problem, core: CoreSet | None, policy: SoftmaxPolicy, interrupt: Interrupt
    ) -> tuple[Certificate | None, str]:
        """The certificate, or why there is none."""
        if self.certify is False:
            return None, ""
        if interrupt.asked:
            return None, _INTERRUPTED
        queries = None if self.certify is True else self.certify
        return _or_why(interrupt, lambda: certified(problem, core, policy, queries=queries, seed=self.seed))


def _or_why(interrupt: Interrupt, judge: Callable[[], T | None]) -> tuple[T | None, str]:
    """What a judge finds, or why it finds nothing: the plan is complete and must not be lost."""
    interrupt.judging = (
        True  # a compiler may swallow the exception; then the next simulator call raises it again
    )
    try:
        return interrupt.at_once(judge), ""
    except CoreplanError as error:
        return None, str(error)
    except KeyboardInterrupt:
        return None, _INTERRUPTED
    except BaseException as error:  # memory, linear algebra: whatever it is, the plan is not lost for it
        return None, f"{type(error).__name__}: {text_of(error)}"
