"""Problems: simulators, features and the built-in zoo. Imports nothing else of coreplan but errors."""

from .adapters.gymnasium import from_gymnasium
from .adapters.jax import from_gymnax, from_jax
from .adapters.scikit import sklearn_features
from .bases import aggregation, fourier, polynomial, radial, rectilinear, simplicial, tile_coding
from .boxes import Coverage, coverage
from .features import (
    UNAVAILABLE,
    CompiledFeatures,
    Features,
    FunctionFeatures,
    Phi,
    Sparse,
    available,
    checked,
    fingerprint,
    first_fault,
)
from .maps import all_pairs, interpolation, interpolation_core, one_hot, table_features
from .masks import MaskedFeatures
from .matrices import from_matrices, from_pairs
from .model import CompiledModel, FunctionModel, Model, NoiseModel, ScalarModel
from .problem import Problem
from .tabular import Tabular, tabular_model
from .terminal import alive, terminal_pairs, widened, with_terminal
from .zoo import ZOO, make

__all__ = [
    "UNAVAILABLE",
    "ZOO",
    "CompiledFeatures",
    "CompiledModel",
    "Coverage",
    "Features",
    "FunctionFeatures",
    "FunctionModel",
    "MaskedFeatures",
    "Model",
    "NoiseModel",
    "Phi",
    "Problem",
    "ScalarModel",
    "Sparse",
    "Tabular",
    "aggregation",
    "alive",
    "all_pairs",
    "available",
    "checked",
    "coverage",
    "fingerprint",
    "first_fault",
    "fourier",
    "from_gymnasium",
    "from_gymnax",
    "from_jax",
    "from_matrices",
    "from_pairs",
    "interpolation",
    "interpolation_core",
    "make",
    "one_hot",
    "polynomial",
    "radial",
    "rectilinear",
    "simplicial",
    "sklearn_features",
    "table_features",
    "tabular_model",
    "terminal_pairs",
    "tile_coding",
    "widened",
    "with_terminal",
]
