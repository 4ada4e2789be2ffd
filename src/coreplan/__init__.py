"""coreplan: plan in large Markov decision processes; a simulator and features in, one compact policy out."""

from ._version import __version__
from .check import Report, check
from .core import CoreSet
from .errors import CoreplanError, CoverageWarning, FeatureError, FileError, InputError, SimulatorError
from .judge import Certificate, Evaluation, certify, evaluate
from .planners import CoreMirror, Grow, OptimisticPrimalDual, PlugIn, PrimalDual, SampledLP
from .policy import SoftmaxPolicy, load_policy
from .problem import (
    CompiledFeatures,
    CompiledModel,
    Features,
    FunctionFeatures,
    FunctionModel,
    Model,
    NoiseModel,
    Problem,
    ScalarModel,
    Sparse,
    from_gymnasium,
    from_gymnax,
    from_jax,
    make,
)
from .run import Plan, plan
from .status import Status

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
