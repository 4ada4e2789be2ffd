"""Problems: simulators, features, adapters to other libraries and the built-in zoo.

Of coreplan's parts it imports only `base` and `features`, and it re-exports what users need of `features`.
"""

from ..features import (
    UNAVAILABLE,
    Box,
    CompiledFeatures,
    Features,
    FunctionFeatures,
    MaskedFeatures,
    OutsideBox,
    Phi,
    Sparse,
    aggregation,
    alive,
    all_pairs,
    at_time,
    available,
    checked,
    fingerprint,
    first_fault,
    fourier,
    interpolation,
    interpolation_core,
    one_hot,
    outside_box,
    polynomial,
    radial,
    rectilinear,
    simplicial,
    table_features,
    terminal_pairs,
    tile_coding,
    widened,
    with_terminal,
)
from .adapters.gymnasium import from_gymnasium
from .adapters.jax import from_gymnax, from_jax
from .adapters.scikit import sklearn_features
from .by_name import problem_by_name
from .factory import built
from .horizon import ClockModel
from .matrices import from_linear, from_matrices, from_pairs
from .model import BLOCK, CompiledModel, FunctionModel, Model, NoiseModel, ScalarModel, gathered
from .names import Names
from .problem import Problem, with_horizon
from .tables import Tabular, check_policy, tabular_model
from .typed import typed_state
from .zoo import ZOO, make, parse_value

__all__ = [
    "BLOCK",
    "UNAVAILABLE",
    "ZOO",
    "Box",
    "ClockModel",
    "CompiledFeatures",
    "CompiledModel",
    "Features",
    "FunctionFeatures",
    "FunctionModel",
    "MaskedFeatures",
    "Model",
    "Names",
    "NoiseModel",
    "OutsideBox",
    "Phi",
    "Problem",
    "ScalarModel",
    "Sparse",
    "Tabular",
    "aggregation",
    "alive",
    "all_pairs",
    "at_time",
    "available",
    "built",
    "check_policy",
    "checked",
    "fingerprint",
    "first_fault",
    "fourier",
    "from_gymnasium",
    "from_gymnax",
    "from_jax",
    "from_linear",
    "from_matrices",
    "from_pairs",
    "gathered",
    "interpolation",
    "interpolation_core",
    "make",
    "one_hot",
    "outside_box",
    "parse_value",
    "polynomial",
    "problem_by_name",
    "radial",
    "rectilinear",
    "simplicial",
    "sklearn_features",
    "table_features",
    "tabular_model",
    "terminal_pairs",
    "tile_coding",
    "typed_state",
    "widened",
    "with_horizon",
    "with_terminal",
]
