"""Problems by name: parameters in a text, and what is said where they are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coreplan
from coreplan.problem import ZOO, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15", 15),
        ("-3", -3),
        ("10**15", 10**15),
        ("2^40", 2**40),
        ("0.99", 0.99),
        ("1e6", 1e6),
        ("true", True),
        ("x", "x"),
    ],
)
def test_parse_value(text, value):
    assert parse_value(text) == value and type(parse_value(text)) is type(value)


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_clear_error(text):
    parse_value(text)
    for spec in (text, f"random-linear:{text}"):
        try:
            problem = coreplan.make(spec)
        except coreplan.InputError as error:
            assert str(error)
        else:
            assert isinstance(problem, coreplan.Problem)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("river-linaer", "Did you mean 'river-linear'"),
        ("river-linear:l=3", "no parameter 'l'"),
        ("river-linear:L", "parameter=value"),
        ("river-linear:L=2.5", "whole number, got '2.5'"),
        ("random-linear:lazy=1", "true or false"),
        ("random-linear:discount=1.0", "strictly between 0 and 1"),
        ("random-linear:states=2^63,lazy=true", "2^62"),
        ("random-linear:states=10**9", "lazy=true"),
        ("random-linear:states=1,actions=2", "at least d = 8 pairs"),
        ("mountain-car:grid=1", "from 2 to 1000 nodes per side, got 1"),
        ("river-swim:states=1", "from 2 to 2000, got 1"),
        ("random-linear:d=0", "d=...)` must be a whole number of at least 1, got 0"),
        ("random-linear:instance=-1", "cannot be built"),
        ("mountain-car:grid=100000", "got 100000"),
    ],
)
def test_bad_names(spec, words):
    with pytest.raises(coreplan.InputError) as caught:
        coreplan.make(spec)
    assert words in str(caught.value)


def test_every_problem_is_documented():
    for name, factory in ZOO.items():
        assert factory.__doc__, name
