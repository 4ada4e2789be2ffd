"""Quasi-random noise that can be extended later: any part of the scrambled Sobol sequence of a seed."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
from scipy.stats import qmc

from ..base import FloatArray, IntArray

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


def sobol_points(seed: int, dimension: int, which: IntArray) -> FloatArray:
    """The points of the sequence with the given numbers `[n]`, `[n, dimension]`; a number may occur many times."""
    first = int(which.min())
    return sobol(seed, dimension, first, int(which.max()) + 1)[which - first]


def balanced(size: int) -> int:
    """The largest number of points up to `size` that leaves the sequence balanced: whole quarters of a power of two."""
    return size - size % max(1, 2 ** (size.bit_length() - 3))
