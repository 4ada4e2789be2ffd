"""Features from scikit-learn: the columns of any fitted transformer, one copy per action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ...base import (
    CoreplanError,
    FeatureError,
    FloatArray,
    InputError,
    States,
    as_count,
    as_flag,
    as_positive,
    digest,
    plain,
    text_of,
)
from ...features import FunctionFeatures, Sparse

MARGIN = 1.25  # the default radius, as a multiple of the longest feature vector on the sample


def sklearn_features(
    transformer: Any, n_actions: int, *, states: States, intercept: bool = True, radius: float | None = None
) -> FunctionFeatures:
    """phi(x, a) is the transformer's columns at x, one copy per action, at coordinates `column * A + a`.

    Parameters
    ----------
    transformer: anything fitted with `transform(states [n, D]) -> [n, k]`, dense or scipy.sparse: RBFSampler, Nystroem,
        SplineTransformer, KBinsDiscretizer, PolynomialFeatures, a Pipeline. States of other shapes are flattened.
    states: a sample `[n, ...]` that covers what the planner will meet. It determines the number of columns, the number
        of nonzeros if the output is sparse, and the default radius.
    intercept: add a constant column. Without one, constants may lie outside the span, and a Q-function cannot be shifted.
    radius: R; by default 1.25 times the longest feature vector on the sample. A longer one later is an error that names it.

    There is no core set, and runs use the NumPy loop. The fingerprint includes the transformer's output on the sample,
    so that a policy cannot be loaded with another fit.
    """
    n_actions = as_count("sklearn_features", n_actions=n_actions)
    radius = as_positive("sklearn_features", optional=True, radius=radius)
    intercept = as_flag("sklearn_features", intercept=intercept)
    sample = plain("the states of `sklearn_features`", states, InputError)
    if sample.ndim == 0 or len(sample) == 0:
        raise InputError(
            "`sklearn_features(states=...)` must be a sample of states, the first axis being the batch."
        )
    columns = _transform(transformer, sample)
    if not np.isfinite(columns.data if sparse.issparse(columns) else columns).all():
        raise InputError("The transformer gives values that are not finite on the sample of states.")
    width = columns.shape[1]
    most = int(np.diff(columns.indptr).max()) if sparse.issparse(columns) else width
    k, d = max(1, most) + bool(intercept), width + bool(intercept)
    square = columns.multiply(columns) if sparse.issparse(columns) else columns**2
    longest = float(np.sqrt(np.asarray(square.sum(axis=1)).max() + bool(intercept)))
    return FunctionFeatures(
        _crossed(transformer, n_actions, width, max(1, most), bool(intercept)), n_actions, d * n_actions,
        radius or MARGIN * longest or 1.0, nonzeros=k, name=f"{type(transformer).__name__} {_fit(columns)}",
    )  # fmt: skip


def _transform(transformer: Any, states: States) -> Any:
    """The transformer's columns `[n, k]` as floats, csr or dense."""
    if not callable(getattr(transformer, "transform", None)):
        raise InputError(
            f"`sklearn_features(transformer=...)` needs a method transform(states); {type(transformer).__name__} has none."
        )
    try:
        columns = transformer.transform(states.reshape(len(states), -1))
    except CoreplanError:
        raise
    except Exception as error:
        if type(error).__name__ == "NotFittedError":
            raise InputError(
                f"The transformer {type(transformer).__name__} is not fitted. Call transformer.fit(states) on a sample of "
                "states first."
            ) from None
        raise FeatureError(
            f"The transformer {type(transformer).__name__} raised {type(error).__name__} (on {len(states)} states): "
            f"{text_of(error)}."
        ) from error
    columns = (
        sparse.csr_matrix(columns, dtype=float)
        if sparse.issparse(columns)
        else np.asarray(columns, dtype=float)
    )
    if columns.ndim != 2 or len(states) != columns.shape[0] or columns.shape[1] == 0:
        raise FeatureError(
            f"transform must return one row of columns for each of {len(states)} states, got shape {columns.shape}."
        )
    return columns


def _crossed(transformer: Any, A: int, width: int, most: int, intercept: bool) -> Callable[[States], Sparse]:
    def phi(states: States) -> Sparse:
        columns = _transform(transformer, np.asarray(states))
        if columns.shape[1] != width:
            raise FeatureError(
                f"The transformer {type(transformer).__name__} gave {columns.shape[1]} columns for a batch of {len(states)} "
                f"states, and {width} for the sample. It must give the same columns for every batch."
            )
        index, weight = _rows(columns, most)  # [n, k]
        if intercept:
            index = np.append(index, np.full((len(index), 1), width), axis=1)
            weight = np.append(weight, np.ones((len(weight), 1)), axis=1)
        crossed = index[:, None, :] * A + np.arange(A)[:, None]  # [n, A, k]
        return Sparse(crossed, np.broadcast_to(weight[:, None, :], crossed.shape))

    return phi


def _rows(columns: Any, most: int) -> tuple[Any, FloatArray]:
    """Index and weight, `[n, most]`, of the nonzeros of each row, padded with weight 0."""
    n = columns.shape[0]
    if not sparse.issparse(columns):
        return np.tile(np.arange(columns.shape[1]), (n, 1)), columns
    columns.sum_duplicates()
    counts = np.diff(columns.indptr)
    if counts.max(initial=0) > most:
        raise FeatureError(
            f"The transformer gave {counts.max()} nonzeros for a state, and at most {most} on the sample. "
            "Give sklearn_features a sample of states that holds such states."
        )
    index, weight = np.zeros((n, most), dtype=np.int64), np.zeros((n, most))
    row = np.repeat(np.arange(n), counts)
    place = np.arange(len(row)) - np.repeat(columns.indptr[:-1], counts)
    index[row, place], weight[row, place] = columns.indices, columns.data
    return index, weight


def _fit(columns: Any) -> str:
    """A short hash of the transformed sample, rounded, since BLAS may differ in the last bits between machines."""
    values = columns.data if sparse.issparse(columns) else columns
    return digest(np.float32(values))[:8]
