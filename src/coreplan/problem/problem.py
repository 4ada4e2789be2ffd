"""`Problem`: a model, features, a discount and a reward range; optionally a core set, a mask and an exact table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import (
    InputError,
    IntArray,
    SimulatorError,
    States,
    as_count,
    as_function,
    as_kind,
    as_name,
    as_number,
    changed_input,
    plain,
    read_only,
    settle,
    shown,
    text_of,
)
from ..features import (
    Box,
    CompiledFeatures,
    Coordinates,
    Features,
    Mask,
    MaskedFeatures,
    bounds_of,
    box_of,
    check_core,
    ended,
    has_terminal,
)
from .baseline import as_baseline
from .given import CheckedTable, as_range, check_pairs, masked_table
from .horizon import ClockModel, check_horizon, clocked, has_clock, rows_of
from .model import CompiledModel, Model
from .names import Names, appended, as_names, as_reward_name
from .tables import Tabular

_CLOCKED = (
    "model",
    "features",
    "discount",
    "reward_range",
    "core_pairs",
    "tabular",
    "mask",
    "ends",
    "baseline",
)  # what a clock changes


@dataclass(frozen=True)
class Problem:
    """A planning problem: maximise the normalised discounted return (1 - gamma) E sum gamma^t r_t.

    Parameters
    ----------
    model: the batched simulator.
    features: the feature map phi, for the model's states and with the model's number of actions; None if there is none,
        and `box` says within which bounds states lie (`Refine` makes its own features).
    discount: gamma in (0, 1); also 1 with a horizon.
    reward_range: (lowest, highest) reward the simulator may return. Internally rewards are mapped to
        [0, 1], as the paper assumes, and every report maps values back.
    core_pairs: `(states [m, ...], actions [m])`, the core set that comes with the problem; by default the one that its
        features carry by construction (one-hot, aggregation, interpolation), if any.
    name: the name used in reports; for a built-in problem, the name that builds it again.
    tabular: a function that enumerates the problem exactly, if that is possible. Only judges use it:
        a planner sees samples and features.
    mask: `mask(states)` is bool `[n, A]`, True where an action can be taken; each state needs at least one. The features
        are wrapped in `MaskedFeatures`, and no policy ever takes a forbidden action.
    ends: `ends(states)` is bool `[n]`, True where the process has ended: it stays there whatever the action and pays 0, so
        rollouts stop. By default the terminal column of the features tells (adapters add one), if there is one.
    horizon: the process ends after this many steps, and pays nothing afterwards; `discount` may then be 1. The state gets
        a clock: model, features, core pairs, table, mask and ends are given without it, and the problem's own have it.
        A policy acts on `at_time(states, t)`. With a clock, `discount` and `reward_range` of the problem are those that
        everything inside works with (`problem/horizon.py`); `to_return_units` maps to the user's own sum of rewards.
    horizon_nodes: by default the features have a block of coordinates for every step. With a number T there are T blocks,
        at steps from first to last, and features between them are interpolated.
    box: in place of features: a `Box`, or (low [D], high [D]), the bounds of a state's D numbers; infinite where a bound is
        not known. Once the problem is made, `Problem.bounds` has it.
    baseline: a simple rule to compare plans with, where `plan` is given no other: a function of a batch of states that
        returns actions, or a pair of its name and the function. With a horizon it sees states without the clock.
    periodic, whole: of the box: one True or False per coordinate, for angles, and for coordinates of whole numbers only.
    state_names, action_names, reward_name: what people call the numbers of a state, one name for each, the actions, and the
        reward, such as "profit in euros". Messages and reports use them, and nothing else does. A clock and a terminal
        column need none.
    """

    model: Model
    features: Features
    discount: float
    reward_range: tuple[float, float] = (0.0, 1.0)
    core_pairs: tuple[States, IntArray] | None = field(default=None, repr=False)
    name: str = "problem"
    tabular: Callable[[], Tabular] | None = field(default=None, repr=False)
    mask: Mask | None = field(default=None, repr=False)
    ends: Callable[[States], Any] | None = field(default=None, repr=False)
    horizon: int | None = None
    horizon_nodes: int | None = None
    box: Any = field(default=None, repr=False)
    periodic: Any = field(default=None, repr=False)
    whole: Any = field(default=None, repr=False)
    baseline: Any = field(default=None, repr=False)
    state_names: Any = field(default=None, repr=False)
    action_names: Any = field(default=None, repr=False)
    reward_name: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._take_box()
        settle(self, as_name, "name")
        self._set(baseline=as_baseline(self.baseline))
        horizon, nodes = check_horizon(self.horizon, self.horizon_nodes)
        self._set(horizon=horizon, horizon_nodes=nodes)
        settle(self, as_function, "tabular", form="tabular() -> Tabular")
        if not (
            self.tabular is None
            or isinstance(self.tabular, CheckedTable)
            or isinstance(self.model, ClockModel)
        ):
            self._set(
                tabular=CheckedTable(self.tabular)
            )  # a problem with a clock has made its own from a checked one
        settle(self, as_function, "mask", form="mask(states) -> bool [n, A]")
        settle(self, as_function, "ends", form="ends(states) -> bool [n]")
        if self.core_pairs is not None:
            check_pairs(self.core_pairs)
        has_clock_already = self._keep_clock()
        if not isinstance(self.model, Model):
            raise InputError(
                f"`Problem(model=...)` needs n_actions, initial(rng, n) and step(rng, states, actions); "
                f"{type(self.model).__name__} has not all three. FunctionModel makes a model from two functions."
            )
        if self.features is None:
            raise InputError(
                "`Problem(features=None)` needs the bounds of a state instead: box=(low, high), one number each per "
                "coordinate. Or give a feature map."
            )
        if not isinstance(self.features, Features):
            needs = ("n_actions", "dimension", "radius", "nonzeros", "description", "__call__")
            missing = [name for name in needs if not hasattr(self.features, name)]
            raise InputError(
                f"`Problem(features=...)` must be a feature map; {type(self.features).__name__} has no "
                f"{', '.join(missing)}. FunctionFeatures makes one from a function; where there are bounds and no features, "
                "give box=(low, high) and features=None."
            )
        discount = as_number("Problem", discount=self.discount)
        if not 0.0 < discount < 1.0 and (discount != 1.0 or horizon is None):
            raise InputError(
                f"`Problem(discount=...)` must lie strictly between 0 and 1, got {shown(self.discount)}. Discount 1 needs "
                "an end: `Problem(discount=1, horizon=n)` plans for n steps."
            )
        low, high = as_range("Problem", self.reward_range)
        if self.model.n_actions != self.features.n_actions:
            raise InputError(
                f"The model has {self.model.n_actions} actions and the features {self.features.n_actions}; "
                "they must agree."
            )
        if self.compiled and self.model.state_shape != self.features.state_shape:  # type: ignore[attr-defined]
            raise InputError(
                f"The model's states have shape {self.model.state_shape} each and the features "  # type: ignore[attr-defined]
                f"need {self.features.state_shape}."  # type: ignore[attr-defined]
            )
        self._take_names()
        if has_clock_already:
            return
        if self.mask is not None:
            self._apply_mask(self.mask)
        if self.has_ends and not low <= 0.0 <= high:
            raise InputError(
                "A process that ends pays 0 afterwards, so `Problem(reward_range=...)` must contain 0; got "
                f"{self.reward_range}."
            )
        self._set(discount=discount, reward_range=(low, high))
        if self.horizon is not None:
            fields = {name: getattr(self, name) for name in _CLOCKED}
            self._set(**clocked(fields, self.horizon, self.horizon_nodes))
        carried = getattr(self.features, "core", None)
        if self.core_pairs is None and carried is not None:
            self._set(core_pairs=carried())

    def _take_box(self) -> None:
        """Where there are bounds in place of features, the features are the state's coordinates."""
        bounds_only = self.features is None or (
            isinstance(self.features, Features) and bounds_of(self.features)
        )
        if self.mask is not None and bounds_only:
            raise InputError(
                "`Problem(mask=...)` needs features. With bounds only, the planner makes states of its own, and cannot know "
                "which actions they have: let a forbidden action do nothing, or give features."
            )
        if self.horizon is not None and bounds_only:
            raise InputError(
                "`Problem(horizon=...)` needs features. With bounds only, let the state have the time as a whole coordinate."
            )
        if self.box is None and self.periodic is None and self.whole is None:
            return
        if self.features is not None:
            raise InputError(
                "`Problem(box=...)`, with `periodic` and `whole`, is for a problem without features: give one of the two."
            )
        n_actions = getattr(self.model, "n_actions", None)
        if n_actions is not None:  # else the model is refused below
            features = Coordinates(box_of("Problem", self.box, self.periodic, self.whole), n_actions)
            self._set(features=features, box=None, periodic=None, whole=None)

    def _take_names(self) -> None:
        """Names as tuples, as many as there are coordinates and actions."""
        self._set(reward_name=as_reward_name(self.reward_name))
        if self.action_names is not None:
            A = self.model.n_actions
            self._set(action_names=as_names(self.action_names, A, "action_names", f"{A} actions"))
        if self.state_names is not None:
            D = self._columns()
            self._set(state_names=as_names(self.state_names, D, "state_names", f"a state's {D} numbers"))

    def _columns(self) -> int:
        """The numbers of a state, without a clock and without a terminal column."""
        features: Any = self.features
        if has_clock(features):
            return int(features.base.rows.columns)
        shape = getattr(features, "state_shape", None)
        if shape is not None and not has_terminal(features):
            return int(np.prod(shape))
        return rows_of(self.model, features).columns

    @property
    def names(self) -> Names:
        """What people call the coordinates, the actions and the reward, and how messages write a state and an action."""
        extra = appended(has_clock(self.features), has_terminal(self.features))
        return Names(self.state_names, self.action_names, self.reward_name, extra)

    @property
    def bounds(self) -> Box | None:
        """The bounds of a state, for a problem that came with a box in place of features; else None."""
        return bounds_of(self.features)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _keep_clock(self) -> bool:
        """Whether this is a copy, made by dataclasses.replace, of a problem with a horizon, and the clock stays as it is.

        Where discount, rewards, features, mask or horizon are others than in the original, what was not replaced goes back
        to what it was without the clock, for a new one to be made.
        """
        if self.horizon is not None and not isinstance(self.model, ClockModel) and has_clock(self.features):
            return True  # another model, of states with the clock
        if not isinstance(self.model, ClockModel):
            return False
        before, after = self.model.before, self.model.after
        changed = [name for name in _CLOCKED if getattr(self, name) is not after[name]]
        if (
            not {*changed} & {"discount", "reward_range", "features", "mask", "ends"}
            and self.horizon == self.model.steps
        ):
            times: Any = self.features
            if (self.horizon_nodes or self.horizon) == len(times.base.nodes):
                return True
        self._set(**{name: before[name] for name in _CLOCKED if name not in changed})
        return False

    def _apply_mask(self, mask: Mask) -> None:
        features, tabular = self.features, self.tabular
        # Not if they are masked already, as in a copy made by dataclasses.replace.
        if not isinstance(features, MaskedFeatures) or features.mask is not mask:
            carried = getattr(features, "core", None)
            given = self.core_pairs
            if carried and given and all(map(np.array_equal, carried(), given)):
                object.__setattr__(self, "core_pairs", None)  # taken from the masked features instead
            features = MaskedFeatures(features, mask)
            object.__setattr__(self, "features", features)
        if tabular is not None:
            object.__setattr__(self, "tabular", lambda: masked_table(tabular(), features))
        if self.core_pairs is not None:
            check_core(features, *self.core_pairs)

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return self.model.n_actions

    @property
    def compiled(self) -> bool:
        """Whether simulator and features are both Numba functions, so that a whole run can be compiled."""
        return isinstance(self.model, CompiledModel) and isinstance(self.features, CompiledFeatures)

    @property
    def has_ends(self) -> bool:
        """Whether the problem says in which states its process has ended."""
        return self.ends is not None or has_terminal(self.features)

    def ended(self, states: States) -> NDArray[np.bool_]:
        """In which states of a batch the process has ended, `[n]`; nowhere if the problem does not say."""
        states = plain("the states of `Problem.ended`", states, InputError)
        if states.ndim == 0:
            raise InputError("`Problem.ended` takes a batch of states, the first axis being the batch.")
        if self.ends is None:
            return ended(states) if has_terminal(self.features) else np.zeros(len(states), dtype=bool)
        try:
            answer = plain("the answer of `Problem(ends=...)`", self.ends(read_only(states)), SimulatorError)
        except SimulatorError:
            raise
        except (Exception, SystemExit) as error:
            in_place = changed_input("`Problem(ends=...)`", error)
            if in_place:
                raise SimulatorError(in_place) from error
            raise SimulatorError(
                f"`Problem(ends=...)` raised {type(error).__name__}: {text_of(error)} (on a batch of {len(states)} states)."
            ) from error
        if answer.shape != (len(states),) or answer.dtype != bool:
            raise SimulatorError(
                f"For a batch of {len(states)} states `Problem(ends=...)` must return bool of shape ({len(states)},), got "
                f"{answer.dtype} {answer.shape}."
            )
        return answer

    def to_gymnasium(self, max_steps: int | None = None) -> Any:
        """The problem as a Gymnasium environment (needs the extra `gymnasium`), for libraries that learn from episodes.

        Observations are states, without the column that says "ended"; with a horizon their last number is the step. Actions
        are numbers, and rewards in the problem's own units. `terminated` says that the process has ended (`ends`, a
        horizon's end); `truncated` that `max_steps` are over, if given. With a mask `info["action_mask"]` says which actions
        may be taken, and another one is refused. `reset(seed=...)` seeds everything. Nothing counts these steps.
        """
        max_steps = as_count("Problem.to_gymnasium", optional=True, max_steps=max_steps)
        try:
            from .adapters.stepped import ProblemEnv
        except ImportError as error:
            raise InputError(
                f"`to_gymnasium` needs Gymnasium ({error}): pip install 'coreplan[gymnasium]'."
            ) from None
        return ProblemEnv(self, max_steps)

    @property
    def end_reward(self) -> float:
        """The normalised reward per step after the end: the image of reward 0."""
        low, high = self.reward_range
        return -low / (high - low)

    def to_reward_units(self, value: float) -> float:
        """A normalised value in [0, 1] as a discounted average in the user's own reward units.

        With a horizon n and the discount g it is the return over sum_{t < n} g^t.
        """
        value = as_number("Problem.to_reward_units", value=value)
        if isinstance(self.model, ClockModel):
            return self.to_return_units(value) / self.model.weight
        low, high = self.reward_range
        return low + (high - low) * value

    def to_return_units(self, value: float) -> float:
        """A normalised value in [0, 1] as the expected discounted sum of the user's own rewards.

        Inside, a reward r is u = (r - low) / (high - low), and a value is v = (1 - gamma) E sum_t gamma^t u_t. Since
        sum_t gamma^t = 1 / (1 - gamma), putting r = low + (high - low) u into the sum gives

            E sum_t gamma^t r_t = (low + (high - low) v) / (1 - gamma).

        Ends need no case of their own: an ended process goes on for ever and pays u(0) = -low / (high - low), the image
        of reward 0, which the formula maps back to 0. So the sum is over the rewards until the end.

        With a horizon n, low, high and gamma are the inner ones, for which step t pays r_t (g / gamma)^t, g being the
        user's own discount. So the sum on the left is that of g^t r_t over n steps, and the total of rewards if g is 1.
        """
        low, high = self.reward_range
        return (low + (high - low) * as_number("Problem.to_return_units", value=value)) / (
            1.0 - self.discount
        )


def with_horizon(
    problem: Problem, horizon: int, *, discount: float | None = None, nodes: int | None = None
) -> Problem:
    """The problem with an end after `horizon` steps, and another discount where it is given: 1 is allowed.

    `nodes` is `Problem(horizon_nodes=...)`. A horizon that the problem has already is replaced.
    """
    as_kind("with_horizon", Problem, "a Problem", problem=problem)
    changes: dict[str, Any] = {"horizon": horizon, "horizon_nodes": nodes}
    if discount is not None:
        changes["discount"] = discount
    return replace(problem, **changes)
