"""Problems: simulators, features and the built-in zoo. Imports nothing else of coreplan but errors."""

from .adapters.gymnasium import from_gymnasium
from .adapters.jax import from_gymnax, from_jax
from .bases import aggregation, fourier, polynomial, radial, rectilinear, simplicial, tile_coding
from .features import (
    CompiledFeatures,
    Features,
    FunctionFeatures,
    Phi,
    Sparse,
    checked,
    fingerprint,
    first_fault,
)
from .maps import all_pairs, interpolation, interpolation_core, one_hot, table_features
from .model import CompiledModel, FunctionModel, Model
from .problem import Problem
from .tabular import Tabular, tabular_model
from .terminal import alive, terminal_pairs, widened, with_terminal
from .zoo import ZOO, make

__all__ = [
    "ZOO",
    "CompiledFeatures",
    "CompiledModel",
    "Features",
    "FunctionFeatures",
    "FunctionModel",
    "Model",
    "Phi",
    "Problem",
    "Sparse",
    "Tabular",
    "aggregation",
    "alive",
    "all_pairs",
    "checked",
    "fingerprint",
    "first_fault",
    "fourier",
    "from_gymnasium",
    "from_gymnax",
    "from_jax",
    "interpolation",
    "interpolation_core",
    "make",
    "one_hot",
    "polynomial",
    "radial",
    "rectilinear",
    "simplicial",
    "table_features",
    "tabular_model",
    "terminal_pairs",
    "tile_coding",
    "widened",
    "with_terminal",
]
