"""Problems: declarations that do not fit together are refused, and kernels close over nothing."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import coreplan


def tiny(**changes):
    arguments = {
        "model": coreplan.FunctionModel(
            2, lambda rng, n: np.zeros(n), lambda rng, x, a: (np.zeros(len(x)), x)
        ),
        "features": coreplan.FunctionFeatures(lambda x: np.ones((len(x), 2, 3)) / 2, 2, 3, radius=1.0),
        "discount": 0.9,
    }
    return coreplan.Problem(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"discount": 1.0}, "strictly between 0 and 1, got 1.0"),
        ({"discount": 0}, "strictly between"),
        ({"discount": "0.9"}, "a finite number, got '0.9'"),
        ({"discount": float("nan")}, "finite"),
        ({"reward_range": (1, 0)}, "(lowest, highest)"),
        ({"reward_range": 1}, "(lowest, highest)"),
        ({"reward_range": (0, float("inf"))}, "finite"),
        ({"model": object()}, "n_actions, initial(rng, n) and step"),
        ({"features": lambda x: x}, "FunctionFeatures"),
    ],
)
def test_bad_problems(changes, words):
    with pytest.raises(coreplan.InputError) as caught:
        tiny(**changes)
    assert words in str(caught.value)


def test_actions_must_agree():
    model = coreplan.FunctionModel(3, lambda rng, n: np.zeros(n), lambda rng, x, a: (np.zeros(len(x)), x))
    with pytest.raises(coreplan.InputError, match="3 actions and the features 2"):
        tiny(model=model)


@pytest.mark.parametrize("kind", [coreplan.CompiledModel, coreplan.CompiledFeatures])
def test_kernels_must_be_compiled(kind):
    arguments = (2, print, print) if kind is coreplan.CompiledModel else (print, 2, 3, 1.0)
    with pytest.raises(coreplan.InputError, match="Numba function"):
        kind(*arguments)


def test_kernels_have_no_python_objects():
    """Nothing in a compiled model or feature map closes over arrays: data travels as arguments."""
    for spec in ("random-linear", "river-swim", "mountain-car:grid=3"):
        problem = coreplan.make(spec)
        for kernel in (problem.model.initial_kernel, problem.model.step_kernel, problem.features.kernel):
            assert isinstance(kernel, numba.core.dispatcher.Dispatcher)
            assert kernel.py_func.__closure__ is None
