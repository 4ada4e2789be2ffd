"""Features on a tree: against interpolation on a grid, at hanging nodes, with periodic and whole coordinates."""

from __future__ import annotations

import re

import numpy as np
import pytest

import coreplan
from coreplan.features import Box, Tree, checked, dense, grid_tree, interpolation, tree_features, tree_svg
from coreplan.features.drawing import COLOURS


def split(tree: Tree, x, axis: int) -> Tree:
    """The tree with the leaf of state x split, and the corners of its halves as nodes."""
    k = int(tree.places(np.array([x]))[2][0])
    grown_axis, child = np.append(tree.axis, [-1, -1]), np.append(tree.child, [-1, -1])
    grown_axis[k], child[k] = axis, len(tree.child)
    lo, hi = (edge[k].copy() for edge in tree.edges)
    mid = (lo[axis] + hi[axis]) // 2
    corners = np.array(
        [[(hi if (c >> i) & 1 else lo)[i] for i in range(len(lo))] for c in range(2 ** len(lo))]
    )
    corners[:, axis] = mid
    at = np.where(tree.box.periodic & (corners == tree.sizes), 0, corners)
    keys = np.zeros(len(at), dtype=np.int64)
    for i, size in enumerate(tree.sizes):
        keys = keys * (size + 1) + at[:, i]
    return Tree(tree.box, grown_axis, child, np.concatenate([tree.keys, np.setdiff1d(keys, tree.keys)]))


@pytest.mark.parametrize("periodic", [(False, False), (True, False), (True, True)])
def test_a_regular_tree_is_interpolation_on_a_grid(periodic):
    box = Box([-1.0, 0.0], [1.0, 5.0], periodic=periodic)
    tree = grid_tree(box, 3)
    nodes = [8 if p else 9 for p in periodic]
    grid = interpolation(box.low, box.high, nodes, 2, periodic=periodic)
    states = np.random.default_rng(0).uniform([-1.5, -1.0], [1.5, 6.0], (500, 2))
    f = tree_features(tree, 2)
    assert f.dimension == grid.dimension
    values = np.sin(3 * grid.core()[0][:, 0]) + grid.core()[0][:, 1] + 7 * grid.core()[1]
    mine = np.sin(3 * f.core()[0][:, 0]) + f.core()[0][:, 1] + 7 * f.core()[1]
    expected = dense(grid(states), grid.dimension) @ values
    np.testing.assert_allclose(dense(checked(f, states), f.dimension) @ mine, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_core_is_exact_and_features_are_convex_after_any_splits(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 4))
    periodic = rng.random(D) < 0.4
    whole = rng.random(D) < 0.3
    box = Box(np.zeros(D), np.where(whole, rng.integers(3, 12, D), 1.0), periodic=periodic, whole=whole)
    tree = grid_tree(box, 1)
    for _ in range(25):
        x, axis = box.states(rng.random((1, D)))[0], int(rng.integers(D))
        k = tree.places(x[None])[2][0]
        lo, hi = tree.edges
        if hi[k, axis] - lo[k, axis] >= 2:
            tree = split(tree, x, axis)
    f = tree_features(tree, 2)
    states, actions = f.core()
    phi = dense(checked(f, states), f.dimension)
    np.testing.assert_array_equal(phi[np.arange(len(actions)), actions], np.eye(f.dimension))
    weight = checked(f, box.states(rng.random((300, D)))).weight
    assert (weight >= 0).all()
    np.testing.assert_allclose(weight.sum(axis=2), 1.0)


def test_linear_functions_are_exact_in_every_tree():
    box = Box([0.0, -2.0], [1.0, 2.0])
    tree, rng = grid_tree(box, 1), np.random.default_rng(3)
    for _ in range(30):
        tree = split(tree, box.states(rng.random((1, 2)))[0], int(rng.integers(2)))
    states = box.states(rng.random((200, 2)))
    node, weight, _ = tree.places(states)
    at = tree.nodes()
    np.testing.assert_allclose((weight[:, :, None] * at[node]).sum(axis=1), states, atol=1e-9)


def test_a_cell_without_all_its_nodes_borrows_from_the_one_above():
    box = Box([0.0], [1.0])
    tree = Tree(box, [0, -1, -1], [1, -1, -1], grid_tree(box, 0).keys)
    node, weight, leaf = tree.places(np.array([[0.75]]))
    assert leaf[0] == 2
    np.testing.assert_allclose(tree.nodes()[node[0], 0] @ weight[0], 0.75)


@pytest.mark.parametrize(
    ("axis", "child", "keys"),
    [
        ([], [], [0]),
        ([0, -1], [1, -1], [0, 2**14]),  # half of a cell is missing
        ([0, -1, -1], [0, -1, -1], [0, 2**14]),  # a cell within itself
        ([1, -1, -1], [1, -1, -1], [0, 2**14]),  # no such axis
        ([0, -1, -1, -1], [1, -1, -1, -1], [0, 2**14]),  # a cell that is nobody's half
        ([-1], [-1], [0]),  # a corner is missing
        ([-1], [-1], [0, 2**14, 0]),
        ([-1], [-1], [-1, 0, 2**14]),
        ([-1], [-1], [0, 2**14, 2**15]),
    ],
)
def test_trees_that_are_none(axis, child, keys):
    with pytest.raises(ValueError, match="tree"):
        Tree(
            Box([0.0], [1.0]), np.array(axis, dtype=np.int64), np.array(child, dtype=np.int64), np.array(keys)
        )


# Pictures.


def drawn(text):
    """The rectangles of a picture, left, bottom, right and top `[n, 4]`, and their colours."""
    found = [
        (fill, box)
        for fill, path in re.findall(r'<path fill="(.*?)" d="(.*?)"/>', text)
        for box in re.findall(r"M(\S+) (\S+?)H(\S+?)V(\S+?)H\S+?z", path)
    ]
    return np.array([[float(v) for v in box] for _, box in found]), [fill for fill, _ in found]


def test_a_picture_shows_every_leaf_of_a_slice_once():
    """A grid of 4 x 4 x 4 cells, drawn in coordinates 2 and 0: sixteen rectangles that fill the picture."""
    tree = grid_tree(Box([0.0, -1.0, 5.0], [1.0, 1.0, 9.0]), 2)
    boxes, fills = drawn(
        tree_svg(tree, 2, 0, at=[0.5, 0.3, 6.0], actions=lambda s: (s[:, 2] > 7.0).astype(int))
    )
    assert len(boxes) == 16 and (boxes[:, 2:] - boxes[:, :2] == [120.0, -80.0]).all()
    assert len(np.unique(boxes, axis=0)) == 16 and boxes.min() == 0.0 and boxes[:, 2].max() == 480.0
    assert [fill == COLOURS[1] for fill in fills] == (boxes[:, 0] >= 240.0).tolist()
    line = re.search(r'points="(.*?)"', tree_svg(tree, 2, 0, path=[[0.0, 0.0, 5.0], [1.0, 0.0, 9.0]])).group(
        1
    )
    assert line == "0,320 480,0"  # y goes upwards


def test_pictures_that_cannot_be_drawn():
    tree = grid_tree(Box([0.0, -1.0], [1.0, 1.0]), 1)
    for x, y in ((0, 0), (0, 2), (-1, 0)):
        with pytest.raises(coreplan.InputError):
            tree_svg(tree, x, y)
    with pytest.raises(coreplan.InputError, match="2 coordinates, got 3"):
        tree_svg(tree, at=[0.0, 0.0, 0.0])
    with pytest.raises(coreplan.InputError, match="on a tree"):
        coreplan.SoftmaxPolicy.uniform(coreplan.make("river-swim").features).draw()
