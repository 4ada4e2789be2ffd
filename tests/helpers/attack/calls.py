"""A valid call of every public callable, for the attack to spoil: `CALLS[name]` gives its arguments, made afresh.

`public` finds the names; whoever adds one adds its call here, or says in `LEFT_OUT` why it has none.
"""

from __future__ import annotations

import functools
import importlib
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numba.extending import is_jitted

import coreplan
from coreplan import CoreSet, PlugIn, SoftmaxPolicy
from coreplan import problem as problems
from coreplan.core import uniform_pool

from .problems import (
    CORE,
    Fault,
    _features,
    _initial,
    _step,
    dense,
    features_of,
    first,
    model_of,
    moved,
    problem_of,
)

PARTS = (
    "",
    "problem",
    "core",
    "export",
    "judge",
    "planners",
    "planning",
    "policy",
    "tracking",
    "theory",
    "executors",
)  # what documentation imports from

_RECORD = "a record that coreplan fills in"
_AUTHORS = "for authors of planners, which `planners/testing.py` checks"
_INSIDE = "coreplan's own, between its parts"
LEFT_OUT = {
    "Features": "a protocol", "Model": "a protocol", "Step": _RECORD, "Report": _RECORD,
    "Status": _RECORD,
    "Evaluation": _RECORD, "Comparison": _RECORD, "Trajectories": _RECORD, "problem.OutsideBox": _RECORD,
    "problem.Names": _RECORD,
    "executors.Engine": _INSIDE, "problem.ClockModel": _INSIDE, "problem.first_fault": _INSIDE,
    "problem.check_policy": _INSIDE, "problem.available": _INSIDE, "problem.checked": _INSIDE,
    "problem.fingerprint": _INSIDE, "problem.gathered": _INSIDE,
    "core.CoreStates": _INSIDE, "core.Frame": _INSIDE, "core.HullWatch": _INSIDE, "core.Lift": _INSIDE,
    "core.Selection": _RECORD, "core.Pool": _RECORD,
    "core.convex_coefficients": _INSIDE, "core.hull_distances": _INSIDE, "core.is_inside": _INSIDE,
    "core.hull_errors": _INSIDE, "core.column_sizes": _INSIDE,
    "core.Design": _INSIDE, "core.optimal_design": _INSIDE, "core.weighted_fit": _INSIDE, "core.measurable": _INSIDE,
    "core.pair_features": _INSIDE, "core.all_actions": _INSIDE, "judge.Reality": _RECORD, "judge.Faced": _RECORD,
    "judge.Rule": _INSIDE,
    "judge.cheap_value": _INSIDE, "judge.is_cheap": _INSIDE, "judge.price": _INSIDE, "judge.face_reality": _INSIDE,
    "judge.least_queries": _INSIDE, "judge.optimal_values": _INSIDE, "judge.policy_value": _INSIDE,
    "judge.value_function": _INSIDE,
    "planning.choose": _INSIDE, "planning.certified": _INSIDE, "planning.evaluated": _INSIDE,
    "planning.planner_by_name": _INSIDE, "planning.TimeLimit": _INSIDE,
    "planning.default_planner": _INSIDE, "planning.documented_settings": _INSIDE, "policy.policy_of": _INSIDE,
    "theory.Advice": _RECORD, "theory.Bound": _RECORD, "theory.GapSeries": _RECORD, "theory.Row": _RECORD,
    "theory.Saddle": _RECORD,
    "theory.Solution": _RECORD,
    "tracking.RunInfo": _RECORD, "tracking.MLflowTracker": "its places are MLflow's to judge, and it takes seconds to start",
    "to_minari": "it writes into Minari's own folder; what it refuses stands in tests/judge/test_minari.py",
    "theory.Tuned": _RECORD, "from_gymnax": "needs an environment of gymnax, and JAX, which takes seconds to start",
    "LiveView": "serves until it is closed: tests/report/test_live.py spoils its arguments",
    "from_jax": "needs JAX, which takes seconds to start",
    "theory.verify": "takes seconds; the commands' generator spoils its names",
}  # fmt: skip
for _name in ("CoreSetup", "Doubt", "Kernels", "Planner", "ReadOut", "Setup", "Sum", "Verdict", "broken", "near_uniform",
              "require_ask", "following_ask", "require_planner", "require_policy", "require_state", "unresolved",
              "with_reality", "with_watch",
              "best_K", "best_rates", "constants", "set_aside", "against_policy", "scale_of", "Earlier"):  # fmt: skip
    LEFT_OUT[f"planners.{_name}"] = _AUTHORS
for _name in ("Enumerated", "best_fit", "core_errors", "default_D", "duality_gap", "duality_gaps", "gradients",
"conditional_entropy", "inherent_bellman_error", "saddle_point",
              "lagrangian", "linear_fit", "occupancy", "optimal", "policy_values", "q_approximation_error", "record",
              "solve",
              "state_occupancy", "value"):  # fmt: skip
    LEFT_OUT[f"theory.{_name}"] = (
        "of matrices that `Enumerated.of(problem)` makes: mathematics, for the theory's own tests"
    )


def public() -> dict[str, Any]:
    """Every public callable by name: those of `coreplan`, and those of its parts that it does not re-export."""
    found: dict[str, Any] = {}
    for part in PARTS:
        module = importlib.import_module(f"coreplan.{part}" if part else "coreplan")
        names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for name in names:
            value = getattr(module, name)
            ours = callable(value) and str(getattr(value, "__module__", "")).startswith("coreplan")
            own = hasattr(module, "__all__") or value.__module__ == module.__name__ if ours else False
            if (
                own
                and not is_jitted(value)
                and not _is_error(value)
                and not any(value is v for v in found.values())
            ):
                found[f"{part}.{name}" if part else name] = value
    return found


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def tiny() -> Any:
    return problem_of("function", "dense", Fault())


@functools.cache
def enumerable() -> Any:
    return coreplan.make("river-swim")


@functools.cache
def policy() -> SoftmaxPolicy:
    return SoftmaxPolicy(np.array([0.0, 1.0, 0.5, 2.0]), 3.0, features_of("dense", Fault()))


@functools.cache
def exportable() -> SoftmaxPolicy:
    return SoftmaxPolicy(np.arange(6.0), 3.0, problems.one_hot(3, 2))


@functools.cache
def saved() -> Path:
    """A finished run's folder."""
    folder = Path(tempfile.mkdtemp(prefix="attack-run-"))
    coreplan.plan(tiny(), budget=60, seed=1, out=folder, reality=0)
    return folder


@functools.cache
def compared_folder() -> Path:
    """The folder of a finished comparison."""
    folder = Path(tempfile.mkdtemp(prefix="attack-compare-"))
    coreplan.compare(
        "river-swim", ["plug-in", "core-mirror"], budgets=240, seeds=2, executor="serial", out=folder
    )
    return folder


def compared() -> coreplan.Results:
    return coreplan.Results.load(compared_folder())


def _matrices() -> dict[str, Any]:
    P = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]])
    return {"P": P, "R": np.array([[0.0, 0.5], [1.0, 0.2]]), "discount": 0.9}


def _box() -> dict[str, Any]:
    return {"low": [0.0, 0.0], "high": [1.0, 1.0], "n_actions": 2}


def _table() -> problems.Tabular:
    given = _matrices()
    return problems.Tabular(
        states=np.arange(2), r=given["R"], nu0=np.array([0.5, 0.5]), P=given["P"].reshape(4, 2)
    )


CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    "plan": lambda: {"problem": tiny(), "planner": PlugIn(), "budget": 60, "seed": 1, "out": "out", "reality": 0},
    "steps": lambda: {"problem": tiny(), "planner": PlugIn(), "budget": 60, "seed": 1},
    "evaluate": lambda: {"problem": tiny(), "policy": policy(), "rollouts": 10, "seed": 1},
    "compare_policies": lambda: {"problem": tiny(), "a": policy(), "b": 1, "queries": 500, "seed": 1},
    "compare": lambda: {"problems": [tiny()], "planners": ["plug-in"], "budgets": [60], "seeds": 1, "rollouts": 10,
                        "executor": "serial", "out": "table"},
    "Results": lambda: {"rows": list(compared())}, "Results.save": lambda: {"self": compared(), "path": "table.csv"},
    "Results.load": lambda: {"path": compared_folder()}, "Results.overall": lambda: {"self": compared(), "level": 0.1},
    "Results.improvement": lambda: {"self": compared(), "a": "plug-in", "b": "core-mirror"},
    "Results.plot": lambda: {"self": compared(), "what": "profile"},
    "certify": lambda: {"problem": tiny(), "core": None, "policy": policy(), "queries": 4_000, "seed": 1,
                        "target": 0.9, "tell": str},
    "check": lambda: {"problem": tiny(), "queries": 300, "seed": 1},
    "load_policy": lambda: {"path": saved(), "problem": tiny()},
    "load_run": lambda: {"folder": saved(), "problem": tiny()},
    "rollout": lambda: {"problem": tiny(), "policy": policy(), "episodes": 3, "steps": 4, "seed": 1},
    "write_report": lambda: {"runs": saved(), "path": "page.html", "problem": tiny()},
    "make": lambda: {"spec": "river-swim"},
    "problem.typed_state": lambda: {"text": "0.5, 0.25", "problem": tiny(), "step": 0},
    "Problem": lambda: {"model": model_of("function", Fault(), 64), "features": features_of("dense", Fault()),
    "discount": 0.8,
                        "reward_range": (0.0, 1.0), "core_pairs": CORE, "name": "mine",
                        "baseline": ("first", lambda states: np.zeros(len(states), dtype=np.int64)),
                        "state_names": ("here", "there"), "action_names": ("go", "stay"), "reward_name": "profit"},
    "CoreSet": lambda: {"states": CORE[0], "actions": CORE[1]},
    "FunctionModel": lambda: {"n_actions": 2, "initial": lambda rng, n: first(rng.random(n)),
                              "step": lambda rng, x, a: moved(x, a, rng.random(len(a))), "block": 64},
    "ScalarModel": lambda: {"n_actions": 2, "initial": lambda rng: first(rng.random()),
                            "step": lambda rng, x, a: moved(x, a, rng.random())},
    "NoiseModel": lambda: {"n_actions": 2, "initial": lambda rng, n: first(rng.random(n)),
                           "step": lambda x, a, u: moved(x, a, u[:, 0]), "noise_dimension": 1},
    "CompiledModel": lambda: {"n_actions": 2, "initial_kernel": _initial, "step_kernel": _step,
                              "data": (0, 0, np.zeros(1, dtype=np.int64)), "state_shape": (2,),
                              "state_dtype": np.float64},
    "FunctionFeatures": lambda: {"function": dense, "n_actions": 2, "dimension": 4, "radius": 1.0, "name": "mine"},
    "CompiledFeatures": lambda: {"kernel": _features, "n_actions": 2, "dimension": 4, "radius": 1.0, "state_shape": (2,),
                                 "state_dtype": np.float64},
    "Sparse": lambda: {"index": np.zeros((1, 2, 2), int), "weight": np.zeros((1, 2, 2))},
    "SoftmaxPolicy": lambda: {"theta": np.ones(4), "scale": 2.0, "features": features_of("dense", Fault())},
    "SoftmaxPolicy.act": lambda: {"self": policy(), "states": CORE[0], "rng": 1},
    "SoftmaxPolicy.q_values": lambda: {"self": policy(), "states": CORE[0]},
    "SoftmaxPolicy.predict": lambda: {"self": policy(), "observation": CORE[0], "state": None,
                                      "episode_start": np.ones(len(CORE[1]), dtype=bool), "deterministic": False,
                                      "rng": 1},
    "SoftmaxPolicy.probabilities": lambda: {"self": policy(), "states": CORE[0]},
    "SoftmaxPolicy.save": lambda: {"self": policy(), "path": "saved.npz"},
    "SoftmaxPolicy.load": lambda: {"path": saved() / "policy.npz", "features": features_of("dense", Fault())},
    "SoftmaxPolicy.plot": lambda: {"self": policy(), "x": 0, "y": 1, "what": "values", "at": [0.5, 0.5],
                                   "box": ([0, 0], [1, 1]), "points": 5, "state_names": ["a", "b"],
                                   "action_names": ["c", "d"]},
    "Plan.plot": lambda: {"self": coreplan.load_run(saved(), tiny()), "what": "theta_norm", "logarithmic": False},
    "Certificate.plot": lambda: {"self": coreplan.Certificate(0.2, 0.7, 0.95, ("nothing",), True, 1_000, 10, None)},
    "SoftmaxPolicy.uniform": lambda: {"features": features_of("dense", Fault())},
    "policy.with_own_features": lambda: {"problem": tiny(), "policy": policy()},
    "CoreSet.of": lambda: {"problem": tiny()},
    "CoreSet.every": lambda: {"problem": coreplan.make("river-swim")},
    "CoreSet.completed": lambda: {"self": CoreSet(*CORE), "problem": tiny()},
    "CoreSet.distinct": lambda: {"states": CORE[0], "actions": CORE[1]},
    "CoreSet.save": lambda: {"self": CoreSet(*CORE), "path": "core.npz"},
    "CoreSet.load": lambda: {"path": saved() / "policy.npz"},
    "CoreSet.features": lambda: {"self": CoreSet(*CORE), "features": features_of("dense", Fault())},
    "Problem.to_return_units": lambda: {"self": tiny(), "value": 0.5},
    "Problem.to_reward_units": lambda: {"self": tiny(), "value": 0.5},
    "Problem.to_gymnasium": lambda: {"self": tiny(), "max_steps": 3},
    "Problem.ended": lambda: {"self": tiny(), "states": CORE[0]},
    "PlugIn": lambda: {"samples": 3}, "Grow": lambda: {"rounds": 3}, "Refine": lambda: {"rounds": 3},
    "Search": lambda: {"horizon": 2.0, "rollouts": 2, "width": 0.5, "start": np.ones(4)},
    "CoreMirror": dict,
    "planners.LSPI": dict, "planners.FittedQ": lambda: {"iterations": 5}, "planners.Politex": lambda: {"phases": 3},
    "planners.PPQ": lambda: {"version": "plain", "rounds": 3}, "planners.QLearning": lambda: {"speed": 0.5},
    "planners.ALP": lambda: {"samples": 2}, "planners.RLP": lambda: {"constraints": 9},
    "planners.LRALP": lambda: {"groups": 3},
    "planners.CoreStoMP": lambda: {"rate": 0.5}, "planners.ConfidentLSPI": lambda: {"iterations": 2, "length": 2.0},
    "planning.LocalPolicy": lambda: {"problem": tiny(), "planner": PlugIn(samples=3), "budget": 40, "seed": 3},
    "planners.TabularSMD": lambda: {"estimator": "cheng", "batch": 3},
    "planners.ConstrainedSMD": lambda: {"steps": 1_000},
    "planners.Saddle": lambda: {"steps": 50, "accuracy": 0.01},
    "planners.Bilinear": lambda: {"batch": 8, "rate": 2.0, "C": np.ones((4, 1))},
    "planners.QREPS": lambda: {"phases": 3, "eta": 1.0},
    "planners.DesignLSPI": lambda: {"phases": 2, "length": 3},
    "planners.VWLSMDVI": lambda: {"alpha": 0.5, "rounds": 3},
    "SampledLP": lambda: {"n_initial": 10},
    "OptimisticPrimalDual": lambda: {"steps": 5, "n_initial": 4},
    "PrimalDual": lambda: {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": 12.0},
    "from_gymnasium": lambda: {"env": "FrozenLake-v1", "discount": 0.9},
    "problem.MaskedFeatures": lambda: {"features": features_of("dense", Fault()), "mask": lambda x: np.ones((len(x),
    2), bool)},
    "problem.Tabular": lambda: {"states": np.arange(2), "r": _matrices()["R"], "nu0": np.array([0.5, 0.5]),
                                "P": _matrices()["P"].reshape(4, 2)},
    "problem.tabular_model": lambda: {"tabular": _table()},
    "problem.aggregation": lambda: {"groups": np.array([0, 0, 1]), "n_actions": 2},
    "problem.Box": lambda: {"low": [0.0, 1.0], "high": [1.0, 3.0], "periodic": [True, False], "whole": [False, True]},
    "problem.alive": lambda: {"states": CORE[0]}, "problem.all_pairs": lambda: {"n_states": 3, "n_actions": 2},
    "problem.at_time": lambda: {"states": CORE[0], "t": 3},
    "problem.fourier": lambda: {**_box(), "order": 2}, "problem.polynomial": lambda: {**_box(), "degree": 2},
    "problem.radial": lambda: {**_box(), "centres": [2, 2]}, "problem.interpolation": lambda: {**_box(), "shape": [2, 3]},
    "problem.interpolation_core": lambda: {**_box(), "shape": [2, 3]}, "problem.simplicial": lambda: {**_box(),
    "shape": [2, 3]},
    "problem.tile_coding": lambda: {**_box(), "shape": [2, 3], "tilings": 2},
    "problem.rectilinear": lambda: {"axes": [[0.0, 0.5, 1.0], [0.0, 1.0]], "n_actions": 2},
    "problem.one_hot": lambda: {"n_states": 3, "n_actions": 2},
    "problem.table_features": lambda: {"table": np.ones((3, 2, 4)) / 2, "dimension": 4, "radius": 1.0},
    "problem.outside_box": lambda: {"features": problems.fourier([0.0, 0.0], [1.0, 1.0], 2, 2), "states": CORE[0]},
    "problem.parse_value": lambda: {"text": "3"}, "problem.problem_by_name": lambda: {"spec": "river-swim", "horizon": 5},
    "problem.terminal_pairs": lambda: {"states": CORE[0], "actions": CORE[1]},
    "problem.widened": lambda: {"reward_range": (1.0, 2.0)},
    "problem.with_horizon": lambda: {"problem": tiny(), "horizon": 5},
    "problem.with_terminal": lambda: {"features": features_of("dense", Fault())},
    "problem.from_matrices": _matrices,
    "problem.from_pairs": lambda: {"R": [0.0, 1.0, 0.5], "Q": [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], "discount": 0.9,
                                   "s_indices": [0, 0, 1], "a_indices": [0, 1, 0]},
    "problem.from_linear": lambda: {"Phi": np.eye(4).reshape(2, 2, 4), "W": np.full((4, 2), 0.5),
    "vartheta": np.array([0.1, 0.2, 0.3, 0.4])},
    "problem.sklearn_features": lambda: {"transformer": _transformer(), "n_actions": 2, "states": CORE[0]},
    "export.policy_spec": lambda: {"policy": exportable(), "problem": None, "from_phi": False},
    "export.export_policy": lambda: {"policy": exportable(), "numpy": "policy.py", "json": "policy.json"},
    "core.select": lambda: {"pool": uniform_pool(tiny(), 20, box=([0, 0], [1, 1])), "size": 4},
    "core.uniform_pool": lambda: {"problem": tiny(), "n": 10, "box": ([0, 0], [1, 1])},
    "core.rollout_pool": lambda: {"problem": tiny(), "policy": policy(), "n": 10},
    "planners.make_planner": lambda: {"name": "grow", "settings": {"rounds": 3}},
    "planners.options": lambda: {"name": "grow"},
    "tracking.Callbacks": lambda: {"given": [_Counts()]},
    "tracking.JsonlTracker": lambda: {"path": "run.jsonl"}, "tracking.CsvTracker": lambda: {"path": "run.csv"},
    "tracking.TensorBoardTracker": lambda: {"folder": "curves"},
    "tracking.tracker_by_name": lambda: {"spec": "run.csv"},
    "theory.advise": lambda: {"problem": tiny(), "epsilon": 0.1, "budget": None},
    "theory.bound": lambda: {"T": 10, "K": 5, "eta": 0.1, "beta": 0.1, "alpha": 0.1, "m": 4, "A": 2, "R": 1.0, "D": 5.0},
    "theory.compact": lambda: {"problem": enumerable(), "pi": np.full((6, 2), 0.5)},
    "theory.queries_needed": lambda: {"epsilon": 0.1, "m": 4, "A": 2, "R": 1.0, "D": 5.0},
    "problem.built": lambda: {"factory": lambda: model_of("function", Fault(), 64)},
    "executors.processes": lambda: {"workers": 1, "timeout": 1.0, "retries": 1},
    "executors.ray": lambda: {"workers": 1, "address": None, "timeout": 1.0, "retries": 1},
    "executors.given": lambda: {"executor": ThreadPoolExecutor(1), "workers": 1, "timeout": 1.0, "retries": 1},
    "executors.serial": dict,
    "theory.tuned": lambda: {"epsilon": 0.1, "m": 4, "A": 2, "R": 1.0, "D": 5.0},
}  # fmt: skip


class _Counts:
    """A callback."""

    def on_row(self, row: Any) -> None:
        self.row = row


def _transformer() -> Any:
    from sklearn.preprocessing import PolynomialFeatures

    return PolynomialFeatures(2).fit(CORE[0])


def callable_of(name: str) -> Any:
    """The callable of a call: a name of `public`, or a method of one."""
    if name in public():
        return public()[name]
    owner, _, method = name.rpartition(".")
    return getattr(public()[owner], method)
