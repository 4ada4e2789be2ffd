"""Maps of policies show what the policy itself says at every state of the slice."""

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import InputError, SoftmaxPolicy
from coreplan.features import Rows, TimeFeatures, row_scores, with_terminal
from coreplan.problem import (
    FunctionFeatures,
    alive,
    at_time,
    fourier,
    interpolation,
    one_hot,
    rectilinear,
    table_features,
    with_horizon,
)


def policy_on(features, scale=np.inf, name=""):
    return SoftmaxPolicy(np.random.default_rng(3).normal(size=features.dimension), scale, features, name)


def drawn(figure):
    """The numbers of a map, row by row from y's lowest value, masked where there are none."""
    ax = figure.axes[0]
    if ax.get_images():
        return ax.get_images()[0].get_array()
    return ax.collections[0].get_array().reshape(ax.collections[0].get_coordinates().shape[0] - 1, -1)


def centres(low, high, n):
    edges = np.linspace(low, high, n + 1)
    return (edges[1:] + edges[:-1]) / 2


BOX = ([-1.0, 0.0, 2.0], [1.0, 4.0, 3.0])


@pytest.fixture(scope="module")
def smooth():
    return policy_on(fourier(*BOX, order=2, n_actions=3))


def grid(smooth_at, n=30):
    """The states of a picture in coordinates 2 (right) and 0 (up), coordinate 1 held."""
    x, y = centres(2.0, 3.0, n), centres(-1.0, 1.0, n)
    return np.array([[v, smooth_at, u] for v in y for u in x])


@pytest.mark.parametrize("n", [30, 80], ids=["tiles", "image"])
def test_actions_are_those_the_policy_takes(smooth, n):
    figure = smooth.plot(2, 0, at=[0.0, 1.5, 2.5], points=n)
    np.testing.assert_array_equal(drawn(figure), smooth.act(grid(1.5, n)).reshape(n, n))
    assert figure.axes[0].get_title(loc="left") == "coordinate 1 = 1.5"


@pytest.mark.parametrize("scale", [np.inf, 0.7])
def test_values_are_the_policys_own_scores(scale):
    policy = policy_on(fourier(*BOX, order=2, n_actions=3), scale)
    states = grid(2.0)
    Q = row_scores(policy.features(states), policy.theta)
    expected = (policy.probabilities(states) * Q).sum(axis=1)
    np.testing.assert_allclose(drawn(policy.plot(2, 0, what="values", points=30)).ravel(), expected)
    if scale == np.inf:
        np.testing.assert_allclose(expected, Q.max(axis=1))


def test_names_stand_on_the_axes_word_for_word(smooth):
    names = ["$x$ (m)", "held", "_speed_ (m/s)"]
    figure = smooth.plot(
        "_speed_ (m/s)", "$x$ (m)", state_names=names, action_names=["_a", "$b$", "c"], points=5
    )
    figure._repr_svg_()
    ax = figure.axes[0]
    assert ax.get_xlabel().strip() == "_speed_ (m/s)" and ax.get_ylabel() == r"\$x\$ (m)"
    assert {text.get_text().strip() for text in ax.get_legend().get_texts()} <= {"_a", r"\$b\$", "c"}
    assert len(ax.get_legend().get_texts()) == len(np.unique(drawn(figure)))
    assert ax.get_title(loc="left") == "held = 2"


def test_an_action_has_the_same_colour_in_every_slice(smooth):
    colours = {}
    for at in ([0, 0, 0], [0, 4, 0]):
        figure = smooth.plot(0, 2, at=at, points=40)
        shown = figure.axes[0].collections[0]
        for action in np.unique(drawn(figure)):
            colours.setdefault(int(action), set()).add(shown.to_rgba(action))
    assert len(colours) > 1 and all(len(found) == 1 for found in colours.values())


def test_a_table_is_the_map_itself():
    policy = policy_on(one_hot(13, 4))
    figure = policy.plot(shape=(3, 4))  # state 12 has no place in it
    np.testing.assert_array_equal(drawn(figure), policy.act(np.arange(12)).reshape(3, 4))
    low, high = figure.axes[0].get_ylim()
    assert low > high, "rows go downwards"
    taken = [text.get_text() for text in figure.axes[0].texts]
    assert taken == [str(a) for a in policy.act(np.arange(12))]


def test_a_table_of_more_coordinates_is_cut_at_a_state():
    policy = policy_on(one_hot(500, 6))
    states = (
        (np.arange(5)[:, None] * 5 + np.arange(5)) * 5 + 4
    ) * 4 + 1  # [row, column], passenger 4, goal 1
    at = int(states[2, 3])
    figure = policy.plot(1, 0, shape=(5, 5, 5, 4), at=at, what="values")
    scores = policy.theta.reshape(500, 6).max(axis=1)
    np.testing.assert_allclose(drawn(figure), scores[states])
    assert figure.axes[0].get_title(loc="left") == "coordinate 2 = 4, coordinate 3 = 1"


def test_states_without_a_shape_stand_in_a_line_as_many_as_the_table_knows():
    table = table_features(np.random.default_rng(0).normal(size=(37, 2, 3)), 3, 10.0)
    policy = policy_on(table)
    (line,) = policy.plot(what="values").axes[0].get_lines()
    np.testing.assert_array_equal(line.get_xdata(), np.arange(37))
    np.testing.assert_allclose(line.get_ydata(), (table(np.arange(37)) @ policy.theta).max(axis=1))


def test_a_terminal_column_and_a_clock_are_added():
    base = interpolation([0.0, 0.0], [1.0, 2.0], [4, 4], 3)
    living = policy_on(with_terminal(base))
    states = np.array([[u, v] for v in centres(0, 2, 6) for u in centres(0, 1, 6)])
    np.testing.assert_array_equal(drawn(living.plot(points=6)).ravel(), living.act(alive(states)))
    box = ([-1.0, 0.0], [1.0, 4.0])
    timed = TimeFeatures(fourier(*box, order=1, n_actions=3), Rows((2,), float), np.arange(7))
    policy = policy_on(with_terminal(timed))
    figure = policy.plot(0, "step", at=[0.0, 3.0, 5.0], points=9)
    states = np.array([[u, 3.0] for u in centres(-1, 1, 9)])
    for t in range(7):
        np.testing.assert_array_equal(drawn(figure)[t], policy.act(at_time(states, t)))


def test_a_periodic_coordinate_is_drawn_over_its_period():
    features = interpolation([-3.0, 0.0], [3.0, 1.0], [12, 3], 2, periodic=[True, False])
    figure = policy_on(features).plot(points=10)
    np.testing.assert_allclose(figure.axes[0].get_xlim(), [-3.0, 3.0])


def test_states_that_a_mask_closes_are_blank():
    problem = coreplan.make("navigation")
    policy = policy_on(problem.features)
    if problem.mask is None:
        problem = dataclasses.replace(
            problem, mask=lambda x: np.repeat((x[:, :1] < 0.5), problem.n_actions, 1)
        )
        policy = policy_on(problem.features)
    blank = np.ma.getmaskarray(drawn(policy.plot(points=20)))
    assert blank[:, 10:].all() and not blank[:, :10].any()


def test_a_box_is_given_where_the_features_declare_none():
    features = FunctionFeatures(
        lambda x: np.stack([x, -x, x**2], axis=1)[:, :, :2], n_actions=3, dimension=2, radius=100.0
    )
    policy = policy_on(features)
    with pytest.raises(InputError, match=r"Give box=\(low, high\)"):
        policy.plot()
    figure = policy.plot(box=([0, 0], [1, 5]), points=4)
    states = np.array([[u, v] for v in centres(0, 5, 4) for u in centres(0, 1, 4)])
    np.testing.assert_array_equal(drawn(figure).ravel(), policy.act(states))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": 3}, "there are 3 coordinates, numbered from 0; got 3"),
        ({"x": "spede", "state_names": ["place", "speed", "load"]}, "Did you mean 'speed'"),
        ({"x": 1, "y": 1}, "two different coordinates"),
        ({"what": "action"}, "must be one of actions, values"),
        ({"at": [0.0]}, "must be one state, 3 numbers"),
        ({"at": [0.0, np.nan, 0.0]}, "must be one state, 3 numbers"),
        ({"points": 10**6}, "must be at most 1,000"),
        ({"shape": (2, 2), "box": BOX}, "give one of them"),
        ({"state_names": ["a", "b"]}, "3 different names"),
        ({"action_names": "abc"}, "3 names, one per action"),
        ({"box": (0, 1)}, "one number per coordinate"),
    ],
)
def test_mistakes_are_explained(smooth, arguments, said):
    with pytest.raises(InputError, match=said):
        smooth.plot(**arguments)


def test_a_shape_larger_than_the_table_is_refused():
    policy = policy_on(one_hot(13, 4))
    for shape in ((4, 4), (10**9, 10**9), (0, 3)):
        with pytest.raises(InputError, match="the 13 states are laid out"):
            policy.plot(shape=shape)


def test_a_policy_without_features_says_what_it_needs():
    with pytest.raises(InputError, match="loaded without its features"):
        SoftmaxPolicy(np.ones(3), 1.0).plot()


@pytest.mark.parametrize("n_actions", [2, 9, 30], ids=["few", "steps", "bar"])
def test_many_actions_have_a_legend_or_a_bar(n_actions):
    policy = policy_on(rectilinear([np.linspace(0, 1, 9), np.linspace(0, 1, 9)], n_actions))
    figure = policy.plot(points=30)
    legend = figure.axes[0].get_legend()
    assert (legend is None) == (len(figure.axes) == 2)
    assert legend is None or len(legend.get_texts()) == len(np.unique(drawn(figure)))


def test_names_are_those_of_the_problem():
    mine = coreplan.make("pendulum")
    figure = policy_on(mine.features, name="pendulum").plot(points=30)
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == mine.state_names == ("angle", "speed")
    assert {text.get_text() for text in ax.get_legend().get_texts()} <= set(mine.action_names)
    other = dataclasses.replace(mine, name="mine", state_names=("phi", "omega"))
    assert policy_on(mine.features).plot(problem=other, points=5).axes[0].get_ylabel() == "omega"
    own = policy_on(mine.features).plot("b", state_names=["a", "b"], problem=other, points=5)
    assert own.axes[0].get_xlabel() == "b"


def test_the_clock_of_a_horizon_is_called_step():
    problem = with_horizon(coreplan.make("pendulum"), 5)
    ax = policy_on(problem.features).plot("angle", "step", problem=problem, points=9).axes[0]
    assert ax.get_ylabel() == "step" and ax.get_title(loc="left").startswith("speed = ")
