"""coreplan: plan in large Markov decision processes; a simulator and features in, one compact policy out.

Names and subpackages are imported when they are first used (PEP 562), so that `import coreplan` alone is quick.
"""

from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:  # for mypy and editors; at run time the table `_PARTS` below does the same
    from . import base as base
    from . import bench as bench
    from . import cli as cli
    from . import core as core
    from . import enumerated as enumerated
    from . import envs as envs
    from . import executors as executors
    from . import export as export
    from . import features as features
    from . import judge as judge
    from . import lp as lp
    from . import planners as planners
    from . import planning as planning
    from . import plots as plots
    from . import policy as policy
    from . import problem as problem
    from . import report as report
    from . import run as run
    from . import sampled as sampled
    from . import simulate as simulate
    from . import theory as theory
    from . import tracking as tracking
    from .base import (
        CoreplanError,
        CoreplanWarning,
        CoverageWarning,
        ExecutorError,
        FeatureError,
        FileError,
        InputError,
        ReproducibilityWarning,
        RunError,
        SimulatorError,
    )
    from .bench import Results, compare
    from .core import CoreSet
    from .features import CompiledFeatures, Features, FunctionFeatures, Sparse
    from .judge import (
        Certificate,
        Comparison,
        Evaluation,
        Report,
        Trajectories,
        certify,
        check,
        compare_policies,
        evaluate,
        rollout,
        to_minari,
    )
    from .planners import (
        CoreMirror,
        Grow,
        OptimisticPrimalDual,
        PlugIn,
        PrimalDual,
        Refine,
        SampledLP,
        Search,
        Status,
    )
    from .planning import Plan, load_run, plan
    from .policy import SoftmaxPolicy, load_policy
    from .problem import (
        CompiledModel,
        FunctionModel,
        Model,
        NoiseModel,
        Problem,
        ScalarModel,
        from_gymnasium,
        from_gymnax,
        from_jax,
        make,
    )
    from .report import LiveView, write_report
    from .run import Step, steps

__all__ = [
    "Certificate",
    "Comparison",
    "CompiledFeatures",
    "CompiledModel",
    "CoreMirror",
    "CoreSet",
    "CoreplanError",
    "CoreplanWarning",
    "CoverageWarning",
    "Evaluation",
    "ExecutorError",
    "FeatureError",
    "Features",
    "FileError",
    "FunctionFeatures",
    "FunctionModel",
    "Grow",
    "InputError",
    "LiveView",
    "Model",
    "NoiseModel",
    "OptimisticPrimalDual",
    "Plan",
    "PlugIn",
    "PrimalDual",
    "Problem",
    "Refine",
    "Report",
    "ReproducibilityWarning",
    "Results",
    "RunError",
    "SampledLP",
    "ScalarModel",
    "Search",
    "SimulatorError",
    "SoftmaxPolicy",
    "Sparse",
    "Status",
    "Step",
    "Trajectories",
    "__version__",
    "certify",
    "check",
    "compare",
    "compare_policies",
    "evaluate",
    "from_gymnasium",
    "from_gymnax",
    "from_jax",
    "load_policy",
    "load_run",
    "make",
    "plan",
    "rollout",
    "steps",
    "to_minari",
    "write_report",
]

_PARTS: dict[str, tuple[str, ...]] = {  # subpackage -> its names that `coreplan` re-exports
    "base": (
        "CoreplanError", "CoreplanWarning", "CoverageWarning", "ExecutorError", "FeatureError", "FileError", "InputError",
        "ReproducibilityWarning", "RunError", "SimulatorError",
    ),
    "bench": ("Results", "compare"),
    "cli": (),
    "core": ("CoreSet",),
    "enumerated": (),
    "envs": (),
    "executors": (),
    "export": (),
    "features": ("CompiledFeatures", "Features", "FunctionFeatures", "Sparse"),
    "judge": (
        "Certificate", "Comparison", "Evaluation", "Report", "Trajectories", "certify", "check", "compare_policies",
        "evaluate", "rollout", "to_minari",
    ),
    "lp": (),
    "planners": (
        "CoreMirror", "Grow", "OptimisticPrimalDual", "PlugIn", "PrimalDual", "Refine", "SampledLP", "Search", "Status",
    ),
    "planning": ("Plan", "load_run", "plan"),
    "plots": (),
    "policy": ("SoftmaxPolicy", "load_policy"),
    "problem": (
        "CompiledModel", "FunctionModel", "Model", "NoiseModel", "Problem", "ScalarModel", "from_gymnasium",
        "from_gymnax", "from_jax", "make",
    ),
    "report": ("LiveView", "write_report"),
    "run": ("Step", "steps"),
    "sampled": (),
    "simulate": (),
    "theory": (),
    "tracking": (),
}  # fmt: skip
_PART_OF = {name: part for part, names in _PARTS.items() for name in names}


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS, *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # otherwise mypy would accept every name, even `coreplan.plann`

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _PARTS:
            return import_module(f"{__name__}.{name}")
        if name in _PART_OF:
            value = getattr(import_module(f"{__name__}.{_PART_OF[name]}"), name)
            globals()[name] = value  # the next lookup finds it here, without this function
            return value
        message = f"module '{__name__}' has no attribute '{name}'."
        if not name.startswith("_"):  # tools look for such names, people do not
            from .base import nearest

            message += nearest(name, {*_PART_OF, *_PARTS})
        raise AttributeError(message, name=name)
