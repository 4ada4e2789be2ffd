"""Smooth bases over a box: polynomials, cosines and Gaussian bumps, one nonzero per base function; without a core set.

Each has base functions of the state and one copy of them per action, so d = (number of base functions) x A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from ..base import FloatArray, InputError, IntArray, as_array, as_count, as_flag, as_positive, shown
from .bases import copy_to_actions
from .formulas import Formula, copied, describes
from .grids import as_box, as_nodes, check_size
from .periodic import Flags, as_flags, named, open_box, wrapped, wrapped_formula
from .protocol import CompiledFeatures

_MOST = 1_000_000  # base functions, each of which is a nonzero of every feature vector


@njit(cache=True, nogil=True)
def polynomial_into(data, states, out):
    low, width, powers = data  # powers [k, D]
    for n in range(states.shape[0]):
        for j in range(powers.shape[0]):
            value = 1.0
            for i in range(powers.shape[1]):
                z = 2.0 * (states[n, i] - low[i]) / width[i] - 1.0
                z = -1.0 if z < -1.0 else 1.0 if z > 1.0 else z
                for _ in range(powers[j, i]):
                    value *= z
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = value
        copy_to_actions(out, n, powers.shape[0])


@njit(cache=True, nogil=True)
def _fourier(data, states, out):
    low, width, coefficients = data  # [k, D]
    for n in range(states.shape[0]):
        for j in range(coefficients.shape[0]):
            angle = 0.0
            for i in range(coefficients.shape[1]):
                angle += coefficients[j, i] * (states[n, i] - low[i]) / width[i]
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = math.cos(math.pi * angle)
        copy_to_actions(out, n, coefficients.shape[0])


# The same with periodic coordinates: data are those of the base functions, then the box and the flags.


@njit(cache=True, nogil=True)
def _polynomial_periodic(data, states, out):
    base, low, high, periodic = data  # the base's coordinates have cos and sin in place of a periodic one
    states = wrapped(states, low, high, periodic)
    points = np.empty((states.shape[0], base[0].shape[0]))
    for n in range(states.shape[0]):
        j = 0
        for i in range(states.shape[1]):
            points[n, j] = states[n, i]
            if periodic[i]:
                angle = 2.0 * math.pi * (states[n, i] - low[i]) / (high[i] - low[i])
                points[n, j], points[n, j + 1] = math.cos(angle), math.sin(angle)
                j += 1
            j += 1
    polynomial_into(base, points, out)


@njit(cache=True, nogil=True)
def _fourier_periodic(data, states, out):
    base, low, high, periodic = data
    _, width, coefficients = base  # [k, D]
    states = wrapped(states, low, high, periodic)
    for n in range(states.shape[0]):
        for j in range(coefficients.shape[0]):
            angle, value = 0.0, 1.0
            for i in range(coefficients.shape[1]):
                z, c = (states[n, i] - low[i]) / width[i], coefficients[j, i]
                if not periodic[i]:
                    angle += c * z
                elif c % 2 == 1:  # c = 1, 2, 3, 4, ...: cos and sin of one turn per period, then of two, ...
                    value *= math.cos(math.pi * (c + 1) * z)
                else:
                    value *= math.sin(math.pi * c * z) if c > 0 else 1.0 + 0.0 * z  # NaN passes
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = value * math.cos(math.pi * angle)
        copy_to_actions(out, n, coefficients.shape[0])


# What the kernels compute, for exported policies. Those of Fourier and radial features have flags for periodic coordinates.


def _monomials(data: Any) -> Formula:
    low, width, powers = data
    return {"kind": "polynomial", "low": low, "width": width, "powers": powers}


@describes(polynomial_into)
def _polynomial_formula(data: Any, A: int) -> Formula:
    return copied(_monomials(data), A)


@describes(_polynomial_periodic)
def _periodic_polynomial_formula(data: Any, A: int) -> Formula:
    base, low, high, periodic = data
    angles = {
        "kind": "cos_sin", "low": low, "width": high - low, "periodic": periodic, "base": _monomials(base),
    }  # fmt: skip
    return copied(wrapped_formula(low, high, periodic, angles), A)


def _cosines(data: Any, periodic: Flags) -> Formula:
    low, width, coefficients = data
    return {
        "kind": "fourier",
        "low": low,
        "width": width,
        "coefficients": coefficients,
        "periodic": periodic,
    }


@describes(_fourier)
def _fourier_formula(data: Any, A: int) -> Formula:
    return copied(_cosines(data, np.zeros(len(data[0]), dtype=bool)), A)


@describes(_fourier_periodic)
def _periodic_fourier_formula(data: Any, A: int) -> Formula:
    base, low, high, periodic = data
    return copied(wrapped_formula(low, high, periodic, _cosines(base, periodic)), A)


def _tuples(owner: str, highest: Sequence[int], total: int | None = None) -> IntArray:
    """All tuples of whole numbers from 0 to `highest`, in order; with `total`, those of at most that sum."""
    rows: list[tuple[int, ...]] = [()]
    for h in highest:
        most = [h if total is None else min(h, total - sum(row)) for row in rows]
        if sum(most) + len(most) > _MOST:
            raise InputError(
                f"`{owner}` would have more than {_MOST:,} base functions of {len(highest)} coordinates. Take a lower one."
            )
        rows = [(*row, n) for row, m in zip(rows, most, strict=True) for n in range(m + 1)]
    return np.array(rows, dtype=np.int64)


def polynomial(
    low: Sequence[float], high: Sequence[float], degree: int, n_actions: int, *,
    periodic: Sequence[bool] | None = None,
) -> CompiledFeatures:  # fmt: skip
    """All monomials of total degree at most `degree`, the constant included, in coordinates scaled and clipped to [-1, 1].

    The radius is sqrt(number of monomials), which is attained at a corner of the box. In place of a `periodic` coordinate
    stand the cosine and the sine of its angle, 2 pi per period; the sine's power is at most 1, since its square is
    1 - cos^2.
    """
    degree, n_actions = (
        as_count("polynomial", least=0, degree=degree),
        as_count("polynomial", n_actions=n_actions),
    )
    lows, highs = as_box("polynomial", low, high)
    flags, width = as_flags("polynomial", periodic, len(lows)), highs - lows
    edges = [
        e for x, w, p in zip(lows, width, flags, strict=True) for e in ([(-1.0, 2.0)] * 2 if p else [(x, w)])
    ]
    highest = [h for p in flags for h in ((degree, min(degree, 1)) if p else (degree,))]
    base = (
        *(np.array(edge) for edge in zip(*edges, strict=True)),
        _tuples("polynomial", highest, total=degree),
    )
    return _smooth(
        _polynomial_periodic if flags.any() else polynomial_into, base, "polynomial", lows, width, flags, n_actions, True
    )  # fmt: skip


def fourier(
    low: Sequence[float], high: Sequence[float], order: int, n_actions: int, *,
    periodic: Sequence[bool] | None = None,
) -> CompiledFeatures:  # fmt: skip
    """cos(pi c . x) for all c in {0..order}^D, the constant (c = 0) included, with x scaled to [0, 1]^D.

    The radius is sqrt(number of base functions). States outside the box are not clipped: the cosines continue, mirrored.
    A `periodic` coordinate does not enter c . x; instead each cosine is multiplied by each of its harmonics: 1, and
    cos(2 pi j x), sin(2 pi j x) for j = 1..order.
    """
    order, n_actions = as_count("fourier", least=0, order=order), as_count("fourier", n_actions=n_actions)
    lows, highs = as_box("fourier", low, high)
    flags, width = as_flags("fourier", periodic, len(lows)), highs - lows
    base = (lows, width, _tuples("fourier", [2 * order if p else order for p in flags]))
    return _smooth(
        _fourier_periodic if flags.any() else _fourier, base, "Fourier", lows, width, flags, n_actions, False
    )  # fmt: skip


def _smooth(
    kernel: object, base: tuple[Any, ...], name: str, lows: FloatArray, width: FloatArray,
    flags: Flags, n_actions: int, clips: bool,
) -> CompiledFeatures:  # fmt: skip
    k = len(base[2])
    check_size(name, k * n_actions)
    return CompiledFeatures(
        kernel, n_actions, k * n_actions, math.sqrt(k), nonzeros=k, data=_data(base, lows, width, flags),  # type: ignore[arg-type]
        name=named(name, flags), state_shape=lows.shape, state_dtype=np.float64,
        box=open_box(lows, lows + width, flags), clips=clips,
    )  # fmt: skip


def _data(base: tuple[Any, ...], lows: FloatArray, width: FloatArray, flags: Flags) -> tuple[Any, ...]:
    """What the kernel gets; without periodic coordinates nothing but the base's own, as policies' files know it."""
    return (base, lows, lows + width, flags) if flags.any() else base


@njit(cache=True, nogil=True, inline="always")
def _bumps(out, n, k, least, normalise, intercept):
    """Turn half squared distances, the least of which is given, into bumps, for state n and all actions."""
    total = 0.0
    shift = least if normalise else 0.0  # so that far from all centres the sum does not underflow to 0
    for j in range(k):
        out.weight[n, 0, j] = math.exp(shift - out.weight[n, 0, j])
        total += out.weight[n, 0, j]
    for j in range(k):
        out.weight[n, 0, j] /= total if normalise else 1.0
    if intercept:
        out.index[n, 0, k] = k
        out.weight[n, 0, k] = 1.0
    copy_to_actions(out, n, k + 1 if intercept else k)


@njit(cache=True, nogil=True)
def radial_into(data, states, out):
    low, width, centres, scale, normalise, intercept = data  # centres [k, D] in [0, 1]^D
    k = centres.shape[0]
    for n in range(states.shape[0]):
        least = np.inf
        for j in range(k):
            square = 0.0
            for i in range(centres.shape[1]):
                z = ((states[n, i] - low[i]) / width[i] - centres[j, i]) / scale
                square += z * z
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = square / 2.0
            least = min(least, square / 2.0)
        _bumps(out, n, k, least, normalise, intercept)


@njit(cache=True, nogil=True)
def _radial_periodic(data, states, out):
    base, low, high, periodic = data
    _, width, centres, scale, normalise, intercept = base
    k = centres.shape[0]
    states = wrapped(states, low, high, periodic)
    for n in range(states.shape[0]):
        least = np.inf
        for j in range(k):
            square = 0.0
            for i in range(centres.shape[1]):
                z = (states[n, i] - low[i]) / width[i] - centres[j, i]
                z = (z - round(z) if periodic[i] else z) / scale  # the shorter way round
                square += z * z
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = square / 2.0
            least = min(least, square / 2.0)
        _bumps(out, n, k, least, normalise, intercept)


def _centred(data: Any, periodic: Flags) -> Formula:
    names = ("low", "width", "centres", "scale", "normalise", "intercept")
    return {"kind": "radial", **dict(zip(names, data, strict=True)), "periodic": periodic}


@describes(radial_into)
def _radial_formula(data: Any, A: int) -> Formula:
    return copied(_centred(data, np.zeros(len(data[0]), dtype=bool)), A)


@describes(_radial_periodic)
def _periodic_radial_formula(data: Any, A: int) -> Formula:
    base, low, high, periodic = data
    return copied(wrapped_formula(low, high, periodic, _centred(base, periodic)), A)


def radial(
    low: Sequence[float], high: Sequence[float], centres: Sequence[int] | FloatArray, n_actions: int, *,
    scale: float | None = None, normalise: bool = True, intercept: bool = False,
    periodic: Sequence[bool] | None = None,
) -> CompiledFeatures:  # fmt: skip
    """Gaussian bumps of width `scale`, centred on a grid of `centres [D]` nodes or at given points `centres [k, D]`.

    Coordinates are scaled to [0, 1] before `scale` applies; its default is the grid's spacing. With `normalise` the bumps
    are a partition of unity: they sum to 1, constants are in the span, and the radius is 1. Without, the radius is sqrt(k),
    and `intercept` adds a constant (with `normalise` it would add nothing to the span). States outside the box are not
    clipped: far out, normalised bumps tend to the indicator of the nearest centre, and others fade to zero. Along a
    `periodic` coordinate the distance is the shorter way round, and a grid of centres is spread over one period.
    """
    n_actions, scale = (
        as_count("radial", n_actions=n_actions),
        as_positive("radial", optional=True, scale=scale),
    )
    normalise, intercept = as_flag("radial", normalise=normalise), as_flag("radial", intercept=intercept)
    lows, highs = as_box("radial", low, high)
    flags, width = as_flags("radial", periodic, len(lows)), highs - lows
    given = as_array(
        "radial", f"{len(lows)} whole numbers, or points of shape (k, {len(lows)})", centres=centres
    )
    if given.ndim == 1:
        as_nodes("radial", given, lows, flags, n_actions)
        axes = [np.linspace(0, 1, int(c), endpoint=not p) for c, p in zip(given, flags, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        spacing = 1.0 / (int((given + flags).max()) - 1)
    else:
        if given.ndim == 0 or given.shape[1:] != lows.shape or len(given) == 0:
            raise InputError(
                f"`radial(centres=...)` must be points of shape (k, {len(lows)}), got {shown(given)}."
            )
        points, spacing = (given - lows) / width, 1.0 / max(1.0, len(given) ** (1 / len(lows)) - 1)
    k = len(points) + intercept
    radius = math.sqrt(1.0 + intercept) if normalise else math.sqrt(k)
    data = (
        lows,
        width,
        np.ascontiguousarray(points),
        float(scale or spacing),
        bool(normalise),
        bool(intercept),
    )
    return CompiledFeatures(
        _radial_periodic if flags.any() else radial_into, n_actions, k * n_actions, radius, nonzeros=k,
        data=_data(data, lows, width, flags), name=named("radial", flags), state_shape=(len(lows),),
        state_dtype=np.float64, box=open_box(lows, lows + width, flags), clips=False,
    )  # fmt: skip
