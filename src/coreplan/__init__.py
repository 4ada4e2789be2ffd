"""coreplan: plan in large Markov decision processes; a simulator and features in, one compact policy out."""

from ._version import __version__
from .base import CoreplanError, CoverageWarning, FeatureError, FileError, InputError, SimulatorError
from .core import CoreSet
from .features import CompiledFeatures, Features, FunctionFeatures, Sparse
from .judge import Certificate, Evaluation, Report, certify, check, evaluate
from .planners import CoreMirror, Grow, OptimisticPrimalDual, PlugIn, PrimalDual, SampledLP, Status
from .planning import Plan, plan
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

__all__ = [
    "Certificate",
    "CompiledFeatures",
    "CompiledModel",
    "CoreMirror",
    "CoreSet",
    "CoreplanError",
    "CoverageWarning",
    "Evaluation",
    "FeatureError",
    "Features",
    "FileError",
    "FunctionFeatures",
    "FunctionModel",
    "Grow",
    "InputError",
    "Model",
    "NoiseModel",
    "OptimisticPrimalDual",
    "Plan",
    "PlugIn",
    "PrimalDual",
    "Problem",
    "Report",
    "SampledLP",
    "ScalarModel",
    "SimulatorError",
    "SoftmaxPolicy",
    "Sparse",
    "Status",
    "__version__",
    "certify",
    "check",
    "evaluate",
    "from_gymnasium",
    "from_gymnax",
    "from_jax",
    "load_policy",
    "make",
    "plan",
]
