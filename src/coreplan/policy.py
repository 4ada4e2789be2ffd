"""`SoftmaxPolicy`, what a planner returns: a d-vector, a scale, and the features they belong to.

pi(a|x) = softmax_a(scale * phi(x, a) . theta); scale = infinity is the greedy policy, with ties broken by the
lowest index. It is saved as a `.npz` of numbers only: the description is JSON stored as bytes and nothing is
pickled, so that loading cannot execute code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .base import (
    FileError,
    FloatArray,
    InputError,
    States,
    as_array,
    as_flag,
    as_generator,
    as_kind,
    as_name,
    as_number,
    as_path,
    as_python,
    files,
    settle,
    shown,
)
from .features import (
    Box,
    Features,
    Tree,
    as_batch,
    begun,
    bounds_of,
    checked,
    clock_of,
    fingerprint,
    has_terminal,
    length,
    seen_features,
    spoken_of,
    tree_features,
    tree_of,
    tree_svg,
    with_features,
    with_terminal,
)
from .features import kernels as softmax
from .plots import draw_policy
from .problem import ZOO, Problem, make

VERSION = 1
POLICY_FILE = "policy.npz"


@dataclass(frozen=True)
class SoftmaxPolicy:
    """A policy given by d numbers and a scale: pi(a|x) = softmax_a(scale * phi(x, a) . theta).

    Parameters
    ----------
    theta: `[d]`, finite.
    scale: beta in `softmax(beta * phi . theta)`; positive, infinity for the greedy policy. With theta = 0 the policy is
        uniform at any finite scale.
    features: the feature map; None for a policy loaded without one, which cannot act.
    problem_name: for a built-in problem, the name from which its features can be rebuilt.
    """

    theta: FloatArray
    scale: float
    features: Features | None = None
    problem_name: str = ""

    def __post_init__(self) -> None:
        form = "a vector of finite numbers"
        theta = np.ascontiguousarray(as_array("SoftmaxPolicy", form, 1, theta=self.theta), dtype=np.float64)
        scale = as_python(self.scale)
        if not (isinstance(scale, float) and scale == np.inf):
            scale = as_number(
                "SoftmaxPolicy", "positive, or infinity for greedy", lambda b: b > 0.0, scale=scale
            )
        settle(self, as_name, "problem_name")
        if self.features is not None and not isinstance(self.features, Features):
            raise InputError(
                f"`SoftmaxPolicy(features=...)` must be a feature map, or None; got {type(self.features).__name__}."
            )
        if self.features is not None and len(theta) != self.features.dimension:
            raise InputError(
                f"The policy has {len(theta)} numbers and the features have dimension {self.features.dimension}."
            )
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "scale", float(scale))

    @classmethod
    def uniform(cls, features: Features) -> SoftmaxPolicy:
        """The policy that takes every action with the same probability: the paper's pi_1."""
        as_kind("SoftmaxPolicy.uniform", Features, "a feature map", features=features)
        return cls(np.zeros(features.dimension), 1.0, features)

    def probabilities(self, states: Any) -> FloatArray:
        """pi(a|x) for a batch of states, `[n, A]`, or for one state, `[A]`."""
        features, states, one = self._ready(states)
        p = np.empty((len(states), features.n_actions))
        softmax.probabilities(checked(features, states), self.theta, self.scale, p)
        return p[0] if one else p

    def act(self, states: Any, rng: np.random.Generator | int | None = None) -> Any:
        """One action for each state of a batch, `[n]`, or the action at one state, an int.

        `rng` is a seed, or a Generator whose stream is continued; a greedy policy (infinite scale) needs none. One state is
        told from a batch by the shape that the features declare; where they declare none, the first axis is the batch. If
        states have a terminal column, it may be left out for living states, so that an environment's observation will do.
        """
        features, states, one = self._ready(states)
        if rng is None and np.isfinite(self.scale):
            raise InputError(
                f"This policy draws its actions at random, from a softmax of scale {self.scale:g}, and so `act` needs a "
                "source of randomness: act(states, rng), with a seed or a generator such as np.random.default_rng(0)."
            )
        n = len(states)
        actions = np.empty(n, dtype=np.int64)
        u = np.zeros(n) if rng is None else as_generator(rng).random(n)
        softmax.act(
            checked(features, states), self.theta, self.scale, u, np.empty(features.n_actions), actions
        )
        return int(actions[0]) if one else actions

    def q_values(self, states: Any) -> FloatArray:
        """phi(x, a) . theta for a batch of states, `[n, A]`, or for one state, `[A]`; minus infinity for a forbidden action.

        What this number is depends on the planner. `PlugIn`, `SampledLP`, `Refine`, `CoreMirror` and `Grow` fit it to the
        discounted return Q(x, a) = E sum_t gamma^t r_t of action a and of the policy afterwards, rewards mapped to [0, 1]:
        (1 - gamma) Q is a normalised value. `Grow` leaves out a constant common to all states, and plans with a shorter
        horizon. With `PlugIn(output=...)` a number, it is (1 - gamma) Q. In `PrimalDual` and `OptimisticPrimalDual` theta is
        a sum of such estimates over iterations, and in `Search` any vector whose policy earns much: there only the
        differences between actions mean something, and no single number is a value. It is an estimate in every case:
        `coreplan.evaluate` says what a policy is worth.
        """
        features, states, one = self._ready(states)
        q = np.empty((len(states), features.n_actions))
        softmax.scores(checked(features, states), self.theta, q)
        return q[0] if one else q

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        rng: np.random.Generator | int | None = None,
    ) -> tuple[Any, Any]:
        """The environment's own actions for its own observations, and the next `state`: the protocol of Stable-Baselines3.

        `observation` is what the environment shows from which the problem was made by an adapter, or by
        `problem.to_gymnasium()`: one, or a batch of a vector environment. A terminal column need not be appended; the
        observations of Gymnasium's Acrobot and Pendulum are turned into states; and where the problem was made with
        `actions=[...]`, the values of actions are returned, not their numbers. With a horizon, `state` is the next step of
        each episode `[n]`: pass on what the last call returned, and True in `episode_start [n]` where an episode begins; one
        that outlasts the horizon is led on as at the last step. Without a horizon, `state` is returned as it came.

        `deterministic` takes the most probable action. Where the policy has a finite scale, that is another policy than the
        one that was judged. With False actions are drawn as `act` draws them, and `rng`, a seed or a Generator, is needed:
        `functools.partial(policy.predict, rng=np.random.default_rng(0))` where a caller cannot pass it on.
        """
        features = self._own_features()
        if not as_flag("predict", deterministic=deterministic) and rng is None and np.isfinite(self.scale):
            raise InputError(
                f"This policy draws its actions at random, from a softmax of scale {self.scale:g}, and so "
                "predict(..., deterministic=False) needs a source of randomness: predict(observation, deterministic=False, "
                "rng=np.random.default_rng(0))."
            )
        timed = clock_of(features) is not None
        steps = begun(state, episode_start) if timed else None
        phi, one = seen_features(features, observation, steps)
        n, spoken = length(phi), spoken_of(features)
        u = np.zeros(n) if deterministic or rng is None else as_generator(rng).random(n)
        actions = np.empty(n, dtype=np.int64)
        scale = np.inf if deterministic else self.scale
        softmax.act(phi, self.theta, scale, u, np.empty(features.n_actions), actions)
        if timed:
            state = (np.zeros(n, dtype=np.int64) if steps is None else steps) + 1
        out = actions if spoken is None or spoken.actions is None else spoken.actions[actions]
        return (out[0] if one else out), state

    def draw(self, x: int = 0, y: int = 1, *, at: Any = None, path: Any = None) -> str:
        """A picture of the policy's tree in two coordinates, as SVG: see `features.tree_svg`. Colours are actions.

        For policies of `Refine`, whose features are on a tree; `at` and `path` are states, without a terminal column.
        """
        tree = tree_of(self.features)
        if tree is None:
            raise InputError(
                "Only a policy whose features are on a tree, such as that of Refine, can be drawn."
            )

        def greedy(states: FloatArray) -> Any:
            return np.asarray(self.probabilities(states).argmax(axis=1))

        return tree_svg(tree, x, y, at=at, actions=greedy, path=path)

    def plot(
        self, x: Any = None, y: Any = None, what: str = "actions", *, at: Any = None, box: Any = None, shape: Any = None,
        state_names: Any = None, action_names: Any = None, problem: Problem | None = None, points: int = 200, ax: Any = None,
    ) -> Any:  # fmt: skip
        """A figure of the policy over two coordinates of the state, by Matplotlib (the extra `plot`); returns the figure.

        Parameters
        ----------
        x, y: the coordinates to the right and upwards, by number or by name; by default the first two.
        what: "actions" for the most probable action, or "values" for sum_a pi(a|x) phi(x, a) . theta, which is max_a for a
            greedy policy; `q_values` says what such a number means.
        at: a state, at which the other coordinates are held; by default the middle of the box, and the first step.
        box: (low, high), the bounds of all coordinates, where the features do not declare them.
        shape: for states that are numbers, how they are laid out: (4, 8) for four rows of eight. Rows go downwards, as in
            a table. With more than two sizes, x and y choose two, and `at` is a state. States beyond are left out.
        state_names, action_names: one per coordinate, such as "speed (m/s)", and one per action; by default those of
            `problem`, or of the built-in problem that the policy was planned for.
        points: how many states per axis, where a coordinate is not a whole number.
        ax: axes of your own; by default a new figure, one column of a paper wide: `policy.plot().savefig("policy.pdf")`.
        """
        return draw_policy(
            self, self._own_features(), x, y, what, at=at, box=box, shape=shape, state_names=state_names,
            action_names=action_names, problem=problem, points=points, ax=ax,
        )  # fmt: skip

    def _ready(self, states: Any) -> tuple[Features, States, bool]:
        """The features, the states as a batch, and whether one state was given."""
        features = self._own_features()
        states, one = as_batch(features, states)
        return features, states, one

    def _own_features(self) -> Features:
        if self.features is None:
            raise InputError(
                "This policy was loaded without its features, so it cannot act. Load it with "
                "load_policy(path, problem=...), giving the problem it was planned for."
            )
        return self.features

    def save(self, path: str | Path) -> None:
        """Write the policy to `path` (a `.npz` of numbers), atomically. A file that is there is replaced."""
        if self.features is None:
            raise InputError("A policy without features has no fingerprint and cannot be saved again.")
        meta = {
            "format": "coreplan policy",
            "version": VERSION,
            "features": dict(self.features.description),
            "fingerprint": fingerprint(self.features),
            "problem": self.problem_name,
        }
        arrays = {"theta": self.theta, "scale": np.array(self.scale)}
        tree = tree_of(self.features)
        if tree is not None:
            arrays |= _tree_arrays(tree)
            meta["terminal"] = has_terminal(self.features)
        files.write_npz(as_path("save", path=path), arrays, meta)

    @classmethod
    def load(cls, path: str | Path, features: Features | None = None) -> SoftmaxPolicy:
        """Read a policy; if `features` are given, check that they are the ones it was made for.

        A policy that brings its own features, on a tree, has them in the file: it acts without others. For such a policy
        `features` may be those of the problem that it was planned for: a state's coordinates, or features with its box.
        """
        arrays, meta = files.read_npz(as_path("load", path=path), "coreplan policy", VERSION)
        theta, scale = arrays.get("theta", np.empty(())), arrays.get("scale", np.empty(()))
        numbers = theta.dtype == scale.dtype == np.float64 and theta.ndim == 1 and scale.shape == ()
        if not numbers or not np.isfinite(theta).all() or not float(scale) > 0:
            raise FileError(f"{path} is damaged: it holds no finite parameter vector and positive scale.")
        as_kind("SoftmaxPolicy.load", Features, "a feature map", optional=True, features=features)
        boxed = (
            bounds_of(features) is not None or getattr(features, "box", None) is not None
            if features
            else True
        )
        if "tree_keys" in arrays and boxed:
            features = _with_tree(arrays, meta, features, path)
        if features is not None and fingerprint(features) != meta.get("fingerprint"):
            raise FileError(
                f"{path} was made for other features: {_differences(meta.get('features'), features)}. "
                "Load it against the problem it was planned for."
            )
        return cls(theta, float(scale), features, str(meta.get("problem", "")))


def load_policy(path: str | Path, problem: Problem | None = None) -> SoftmaxPolicy:
    """Load the policy from a file or from a run's folder.

    The features of a built-in problem are found by its name. For a problem of your own pass
    `problem`: loading never imports or runs code named in the file.
    """
    file: Path = as_path("load_policy", path=path)
    if problem is not None and not isinstance(problem, Problem):
        raise InputError(f"`load_policy(problem=...)` must be a Problem, got {type(problem).__name__}.")
    if file.is_dir():
        file = file / POLICY_FILE
    policy = SoftmaxPolicy.load(file, problem.features if problem else None)
    if problem is None and policy.problem_name.partition(":")[0] in ZOO:
        try:
            features = make(policy.problem_name).features
        except InputError as error:
            raise FileError(f"{file} names a built-in problem that cannot be built: {error}") from None
        return SoftmaxPolicy.load(file, features)
    return policy


def _tree_arrays(tree: Tree) -> dict[str, Any]:
    box = tree.box
    arrays: dict[str, Any] = {"axis": tree.axis, "child": tree.child, "keys": tree.keys}
    arrays |= {"low": box.low, "high": box.high, "periodic": box.periodic, "whole": box.whole}
    return {f"tree_{name}": value for name, value in arrays.items()}


def _with_tree(arrays: Any, meta: Any, features: Features | None, path: Any) -> Features | None:
    """The features on the tree in a policy's file, in the place of coordinates; None if there was a mask as well."""
    try:
        low, high, periodic, whole = (arrays[f"tree_{name}"] for name in ("low", "high", "periodic", "whole"))
        axis, child, keys = (arrays[f"tree_{name}"] for name in ("axis", "child", "keys"))
        if any(a.dtype != np.int64 or a.ndim != 1 for a in (axis, child, keys)) or low.dtype != np.float64:
            raise ValueError("its tree has other types")
        tree = Tree(Box(low, high, periodic, whole), axis, child, keys)
        width = len(arrays["theta"]) - (1 if meta.get("terminal") else 0)
        if width < len(keys) or width % len(keys):
            raise ValueError("its numbers do not fit its tree")
        own = tree_features(tree, width // len(keys))
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path} is damaged: {error}.") from None
    if features is not None:
        theirs = bounds_of(features)
        if features.n_actions == own.n_actions and _within(
            features, tree
        ):  # made within the box of other features
            return own
        if features.n_actions != own.n_actions or theirs is None or not theirs.contains(tree.box):
            raise FileError(f"{path} was made for other features: the problem has other bounds or actions.")
        return with_features(features, own)
    alone = with_terminal(own) if meta.get("terminal") else own
    return alone if fingerprint(alone) == meta.get("fingerprint") else None


def _within(features: Features, tree: Tree) -> bool:
    """Whether a tree was made within the box that other features declare."""
    box: Any = getattr(features, "box", None)
    if box is None or bounds_of(features) is not None:
        return False
    return bool(np.array_equal(box[0], tree.box.low) and np.array_equal(box[1], tree.box.high))


def with_own_features(problem: Problem, policy: SoftmaxPolicy) -> Problem:
    """The problem as a judge of this policy sees it: with the features that its planner made, if it made any."""
    as_kind("with_own_features", Problem, "a Problem", problem=problem)
    own = policy_of("with_own_features", policy).features
    tree = None if own is None else tree_of(own)
    if own is None or tree is None or problem.mask is not None:
        return problem
    if bounds_of(problem.features) is None and not _within(problem.features, tree):
        return problem
    return replace(problem, features=own, core_pairs=None)


def _differences(saved: Any, features: Features) -> str:
    here = dict(features.description)
    if not isinstance(saved, dict):
        return "its description is missing"
    keys = [k for k in here if saved.get(k) != here[k]]
    return (
        ", ".join(f"{k} is {shown(saved.get(k))} in the file and {shown(here[k])} here" for k in keys)
        or "unknown"
    )


def policy_of(who: str, policy: Any) -> SoftmaxPolicy:
    """The policy that a judge is given, or that of a plan; else an InputError that names the judge."""
    found = getattr(policy, "policy", policy)  # a Plan carries its policy
    if not isinstance(found, SoftmaxPolicy):
        raise InputError(
            f"`{who}(policy=...)` must be a SoftmaxPolicy, as plan(...).policy and load_policy give, or a Plan; got "
            f"{type(policy).__name__}. Plan first."
        )
    return found
