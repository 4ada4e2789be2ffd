"""`Certificate`: what is proved of a policy's value and of the optimum, and what that rests on.

lower <= v_pi needs no assumption. v* <= upper needs a linear MDP and an exact core set; how far these could be verified
is part of the certificate. Where there is no core set, there is the lower bound only. docs/certificate.md has the
derivation.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ...base import checks, html, known
from ...plots import draw_bounds
from ..value import Evaluation
from .condition import Condition

ONLY_RANGE = "lower: rewards lie in the declared range, which was checked for every query; nothing else"


@dataclass(frozen=True)
class Certificate:
    """With probability `confidence`: lower <= v_pi, and v* <= upper if what it `assumes` is true.

    `holds` tells whether the assumptions were found true as far as they could be checked. False means that `upper` is no
    bound, and `gap` is None; True means that no violation was found. Misspecification of up to `condition.unseen` may have
    gone unnoticed: `upper` does not cover it, `gap` does. Values are normalised, in [0, 1].

    Where there is no core set, or one too large, only `lower` is known: `upper`, `holds`, `condition` and `gap` are None,
    and the last of `assumes` says why.
    """

    lower: float
    upper: float | None
    confidence: float
    assumes: tuple[str, ...]
    holds: bool | None
    queries: int
    initial_draws: int
    condition: Condition | None
    exact: Evaluation | None = None  # if the problem can be enumerated

    @property
    def gap(self) -> float | None:
        """The policy is at most this much worse than the optimum; None if the condition does not hold or is not known.

        It is upper + unseen - lower: it allows for what the check of the condition could have missed. No value exceeds 1.
        """
        if not self.holds or self.upper is None or self.condition is None:
            return None
        return min(self.upper + self.condition.unseen, 1.0) - self.lower

    @property
    def sentence(self) -> str:
        """The certificate in words."""
        if self.upper is None or self.condition is None:
            return (
                f"With confidence {self.confidence:g} the policy's value is at least {self.lower:.6f}. The optimum is not "
                f"bounded: {self.assumes[-1]}."
            )
        if self.gap is not None:
            return (
                f"With confidence {self.confidence:g} the policy is within {self.gap:.6f} of the optimum: its value is at "
                f"least {self.lower:.6f}, and the optimum at most {self.upper:.6f} if the assumptions are true. No "
                f"violation was found; residuals of up to {self.condition.unseen:.2g} could pass unseen, which the "
                f"{self.gap:.6f} allow for."
            )
        return (
            f"No certificate: the condition does not hold, so {self.upper:.6f} is no bound on the optimum. The policy's "
            f"value is nevertheless at least {self.lower:.6f}, with confidence {self.confidence:g}."
        )

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What a table shows: both bounds, the gap, the exact values where they are known, and what is assumed."""
        doubt = " not proved" if self.holds is False else ""
        rows = [
            ("lower <= value", known(self.lower)),
            ("optimum <= upper", known(self.upper) + doubt),
            ("gap at most", known(self.gap)),
        ]
        if self.exact is not None:
            rows += [
                ("exact value, optimum", f"{known(self.exact.value)}, {known(self.exact.optimum)}"),
                ("exact gap", known(self.exact.gap)),
            ]
        return rows + [("assumes", text) for text in self.assumes]

    @property
    def title(self) -> str:
        return f"certificate, {self.queries:,} queries, confidence {self.confidence:g}"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the table of `coreplan certify`."""
        return html.block(html.table(self.rows, title=self.title), self.sentence)

    def plot(self, *, ax: Any = None) -> Any:
        """A figure of both bounds, by Matplotlib (the extra `plot`), with value and optimum where they are exact.

        `ax` are axes of your own; by default a new figure, one column of a paper wide. Returns the figure.
        """
        exact = {} if self.exact is None else {"value": self.exact.value, "optimum": self.exact.optimum}
        return draw_bounds(
            "Certificate.plot",
            self.lower,
            self.upper,
            proved=self.holds is not False,
            points={name: value for name, value in exact.items() if value is not None},
            label="normalised value",
            ax=ax,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record |= {
            "assumes": list(self.assumes),
            "condition": None if self.condition is None else dataclasses.asdict(self.condition),
            "gap": self.gap,
        }
        record["exact"] = None if self.exact is None else self.exact.as_dict()
        return record

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Certificate:
        """The inverse of `as_dict`."""
        fields = checks.plain(cls, record)
        exact, condition = record["exact"], record["condition"]
        fields |= {
            "assumes": checks.texts(record, "assumes"),
            "condition": None
            if condition is None
            else Condition(**checks.plain(Condition, condition, finite=False)),
        }
        return cls(**{**fields, "exact": None if exact is None else Evaluation.from_dict(exact)})


def assumptions(c: Condition, lower: float, upper: float, deterministic: str) -> tuple[str, ...]:
    """What a certificate rests on, and how far it was checked; `deterministic`: why it counts as so."""
    hull = f"largest distance {c.hull_error:.3g} on {c.hull_pairs:,} reachable pairs"
    linear = (
        f"largest residual {c.violation:.3g}, where noise may cause {c.noise:.3g}, on {c.fresh} fresh pairs"
    )
    if c.excess:
        linear += f"; upper is raised by {c.excess:.3g}, the most that residuals may be there, assuming that none is larger"
    else:
        linear += (
            f"; up to {c.unseen:.3g} would have passed unseen there: the gap contains it, upper does not"
        )
    told = f"upper, the simulator is deterministic, so that each pair was asked once: {deterministic}"
    crossed = (
        f"upper {upper:.6f} is below lower {lower:.6f}: an assumption is false, or the samples were unlucky",
    )
    return (
        ONLY_RANGE,
        f"upper, the core is exact (each reachable feature vector is a convex combination of the core's): {hull}",
        f"upper, the MDP is linear in the features (r + gamma P V is, at reachable pairs): {linear}",
        *((told,) if deterministic else ()),
        *(crossed if upper < lower else ()),
    )
