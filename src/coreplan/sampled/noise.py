"""Quasi-random noise that can be extended later: any part of the scrambled Sobol sequence of a seed."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
from scipy.stats import qmc

from ..base import FloatArray

MOST_COORDINATES = qmc.Sobol.MAXDIM  # SciPy's limit on the number of uniforms per query
# SciPy 1.15 renamed the argument.
_SEED = "rng" if "rng" in inspect.signature(qmc.Sobol.__init__).parameters else "seed"


def sobol(seed: int, dimension: int, start: int, stop: int) -> FloatArray:
    """Points `start` to `stop - 1` of the scrambled Sobol sequence of `seed`: `[stop - start, dimension]` in [0, 1)."""
    sequence = qmc.Sobol(dimension, scramble=True, **{_SEED: np.random.default_rng(seed)})
    with warnings.catch_warnings():  # sizes that are not a power of two are intended
        warnings.simplefilter("ignore", UserWarning)
        if start:
            sequence.fast_forward(start)
        return sequence.random(stop - start)
