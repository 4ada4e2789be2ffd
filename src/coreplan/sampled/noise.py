"""Quasi-random noise that can be extended: part of one scrambled Sobol sequence, found again by its seed."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
from scipy.stats import qmc

from ..base import FloatArray

MOST_COORDINATES = qmc.Sobol.MAXDIM  # more uniforms a query are beyond the tables
_SEED = (
    "rng" if "rng" in inspect.signature(qmc.Sobol.__init__).parameters else "seed"
)  # SciPy 1.15 renamed it


def sobol(seed: int, dimension: int, start: int, stop: int) -> FloatArray:
    """Points `start` to `stop - 1` of the scrambled Sobol sequence of a seed, `[stop - start, dimension]` in [0, 1)."""
    sequence = qmc.Sobol(dimension, scramble=True, **{_SEED: np.random.default_rng(seed)})
    with warnings.catch_warnings():  # about sizes that are no power of two, of which we know
        warnings.simplefilter("ignore", UserWarning)
        if start:
            sequence.fast_forward(start)
        return sequence.random(stop - start)
