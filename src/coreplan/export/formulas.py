"""What every kind of a described feature map computes, in NumPy. One text with three uses:

`--numpy` copies the functions that a policy needs into its file, with the lines `import numpy as np` above them; `--onnx`
calls them with arrays that write down what is done to them (`graph.py`); the tests compare them with the compiled maps.
`evaluate.js` is the same again, for one state, in JavaScript.

A function that computes base functions of states `[n, D]` returns the numbers and the weights of those that are not zero,
both `[n, k]`. One that computes features returns index and weight, both `[n, A, k]`, and which actions can be taken,
`[n, A]`; a length of 1 in place of n, A or k means that all are the same. A state that a map does not know, or that is
not a number, has weights that are not numbers. `base` is the function of the map below.
"""

from __future__ import annotations

import numpy as np

# Helpers.


def clipped(x, low, high):
    """x between low and high; what is not a number passes."""
    return np.where(x < low, low, np.where(x > high, high, x))


def whole(x):
    """x as whole numbers; 0 where it is not a number."""
    return np.where(np.isnan(x), 0.0, x).astype(np.int64)


def strides(shape):
    """How far apart neighbours along each axis of a grid are, when its places are numbered in order."""
    return np.append(np.cumprod(np.asarray(shape)[:0:-1])[::-1], 1).astype(np.int64)


def located(states, low, step, shape):
    """The cells [n, D] of states on a regular grid, and the places within them, from 0 to 1; states are clipped to it."""
    z = clipped((states[:, : len(low)] - low) / step, 0.0, shape - 1.0)
    cell = whole(np.minimum(np.floor(z), shape - 2.0))
    return cell, z - cell


def corner_weights(z):
    """The convex weights [n, 2^D] of a cell's corners at places z [n, D]; bit i of a corner says "upper end of axis i"."""
    weight = 1.0
    for i in range(z.shape[1]):
        upper = (np.arange(2 ** z.shape[1]) >> i) & 1
        weight = weight * np.where(upper == 1, z[:, i : i + 1], 1.0 - z[:, i : i + 1])
    return weight


def grid_corners(cell, shape):
    """The numbers [n, 2^D] of the corners of cells [n, D] on a grid."""
    upper = (np.arange(2 ** len(shape))[:, None] >> np.arange(len(shape))) & 1
    return np.sum((cell[:, None, :] + upper) * strides(shape), axis=2)


def looked_up(states, count):
    """Which states [n] are numbers below a count, and the numbers, 0 for the others."""
    known = (states >= 0) & (states < count)
    return known, np.where(known, states, 0).astype(np.int64)


def position(key, keys):
    """Where a key lies among rising keys: the last place that is not above it, by halving."""
    at, jump = np.zeros(1, dtype=np.int64), 1 << len(keys).bit_length()
    while jump > 1:
        jump //= 2
        further = np.minimum(at + jump, len(keys) - 1)
        at = np.where(keys[further] <= key, further, at)
    return at


def first_of(index):
    """The weights of a unit vector, in the form of the given index: 1, then zeros."""
    return np.where(np.arange(index.shape[-1]) == 0, 1.0, 0.0)


# Base functions of the state.


def one_hot(states, count):
    """One base function for each state."""
    known, x = looked_up(states, count)
    return x[:, None], np.where(known, 1.0, np.nan)[:, None]


def aggregation(states, groups):
    """One base function for each group of states."""
    known, x = looked_up(states, len(groups))
    return groups[x][:, None], np.where(known, 1.0, np.nan)[:, None]


def interpolation(states, low, step, shape):
    """Multilinear interpolation on a regular grid."""
    cell, z = located(states, low, step, shape)
    return grid_corners(cell, shape), corner_weights(z)


def simplicial(states, low, step, shape):
    """Kuhn's piecewise linear interpolation: from a cell's low corner to its high one, along the largest fraction first."""
    cell, z = located(states, low, step, shape)
    D = len(shape)
    mine, other = z[:, :, None], z[:, None, :]
    earlier = np.arange(D) < np.arange(D)[:, None]
    rank = np.sum((other > mine) | ((other == mine) & earlier), axis=2)[:, None, :]  # [n, 1, D]
    c = np.arange(D + 1)[:, None]
    index = np.sum((cell[:, None, :] + (rank < c)) * strides(shape), axis=2)
    before = np.sum(z[:, None, :] * (rank == c - 1), axis=2)
    after = np.sum(z[:, None, :] * (rank == c), axis=2)
    return index, np.where(c[:, 0] == 0, 1.0, before) - after


def rectilinear(states, nodes, shape):
    """Multilinear interpolation on the product of axes; nodes [D, most] holds shape[i] rising numbers for axis i."""
    cells, places = [], []
    for i, count in enumerate(shape.tolist()):
        x, axis = states[:, i : i + 1], nodes[i, :count]
        cell = np.sum(x >= axis[1:-1], axis=1, keepdims=True)
        low, high = axis[cell], axis[cell + 1]
        cells.append(cell)
        places.append(clipped((x - low) / (high - low), 0.0, 1.0))
    return grid_corners(np.concatenate(cells, axis=1), shape), corner_weights(np.concatenate(places, axis=1))


def tile_coding(states, low, width, shape, shifts):
    """Several grids of tiles, each shifted by its part of a tile."""
    x = states[:, : len(low)]
    z = ((x - low) / width * shape)[:, None, :] + shifts  # [n, tilings, D]
    tile = whole(np.floor(clipped(z, 0.0, shape * 1.0)))
    index = np.sum(tile * strides(shape + 1), axis=2) + np.arange(len(shifts)) * int(np.prod(shape + 1))
    unknown = np.sum(np.isnan(x), axis=1, keepdims=True) > 0
    return index, np.where(unknown, np.nan, 1.0 / len(shifts))


def polynomial(states, low, width, powers):
    """Products of powers of the coordinates, scaled and clipped to [-1, 1]."""
    z = clipped(2.0 * (states[:, : len(low)] - low) / width - 1.0, -1.0, 1.0)
    weight = 1.0
    for i in range(len(low)):
        weight = weight * z[:, i : i + 1] ** (powers[:, i] * 1.0)
    return np.arange(len(powers))[None], weight


def fourier(states, low, width, coefficients, periodic):
    """cos(pi c . x), with x scaled to [0, 1]; a periodic coordinate multiplies it by one of its harmonics."""
    angle, harmonics = 0.0, 1.0
    for i in range(len(low)):
        c, z = coefficients[:, i] * 1.0, (states[:, i : i + 1] - low[i]) / width[i]
        if periodic[i]:
            sine = np.where(c > 0.0, np.sin(np.pi * c * z), 1.0 + 0.0 * z)
            harmonics = harmonics * np.where(c % 2.0 == 1.0, np.cos(np.pi * (c + 1.0) * z), sine)
        else:
            angle = angle + c * z
    return np.arange(len(coefficients))[None], harmonics * np.cos(np.pi * angle)


def radial(states, low, width, centres, scale, normalise, intercept, periodic):
    """Gaussian bumps around centres [k, D], in coordinates scaled to [0, 1]."""
    half = 0.0  # half squared distances [n, k]
    for i in range(len(low)):
        z = (states[:, i : i + 1] - low[i]) / width[i] - centres[:, i]
        if periodic[i]:
            z = z - np.rint(z)  # the shorter way round
        half = half + (z / scale) * (z / scale) / 2.0
    bump = np.exp((np.min(half, axis=1, keepdims=True) if normalise else 0.0) - half)
    if normalise:
        bump = bump / np.sum(bump, axis=1, keepdims=True)
    if intercept:
        bump = np.concatenate([bump, bump[:, :1] * 0.0 + 1.0], axis=1)
    return np.arange(len(centres) + int(intercept))[None], bump


def tree(states, low, width, sizes, periodic, depth, axis, child, middle, cell, lo, hi, corners, ticks):
    """Interpolation on a tree of cells; places are counted in ticks, sizes[i] of them along axis i.

    A cell k is split in the middle of an axis, and its halves are number child[k] and the next; a leaf is its own child.
    Leaves name the cell, lo to hi, among whose corners is interpolated. A node, at ticks[j], is its own unit vector.
    """
    u = (states[:, : len(low)] - low) / width
    u = np.where(periodic, u - np.floor(u), clipped(u, 0.0, 1.0))
    place = u * sizes  # [n, D]
    near = np.rint(place)
    snapped = np.abs(place - near) < 1e-6
    near = np.where(periodic & (near == sizes * 1.0), 0.0, near)
    place = np.where(snapped, near, place)
    k = np.zeros(1, dtype=np.int64)
    for _ in range(depth):
        along = np.arange(len(sizes)) == axis[k][:, None]
        k = child[k] + (np.sum(np.where(along, place, 0.0), axis=1) >= middle[k])
    k = cell[k]
    weight = corner_weights((place - lo[k]) / (hi[k] - lo[k]))
    keys = np.sum(ticks * strides(sizes + 1), axis=1)
    order = np.argsort(keys)
    key = np.sum(whole(place) * strides(sizes + 1), axis=1)
    at = position(key, keys[order])
    node = ((np.sum(snapped, axis=1) == len(sizes)) & (keys[order][at] == key))[:, None]
    return np.where(node, order[at][:, None], corners[k]), np.where(node, first_of(corners), weight)


def queue_polynomial(states, largest):
    """1, x_i, x_i x_j for i <= j, and whether x_i = 0, of four queues; lengths are divided by the largest."""
    z = states[:, :4] / largest
    products = [z[:, i : i + 1] * z[:, i:] for i in range(4)]
    empty = np.where(states[:, :4] == 0.0, 1.0, 0.0)
    return np.arange(19)[None], np.concatenate([z[:, :1] * 0.0 + 1.0, z, *products, empty], axis=1)


def queue_politex(states, groups, buffer):
    """1, x_i, and for each group of four queues whether all of its members hold jobs."""
    z = states[:, :4] / buffer
    held = np.sum(np.where(groups == 1, states[:, None, :4], 1.0) <= 0.0, axis=2) == 0
    parts = [z[:, :1] * 0.0 + 1.0, z, np.where(held, 1.0, 0.0)]
    return np.arange(5 + len(groups))[None], np.concatenate(parts, axis=1)


# Maps of another map's states or base functions.


def wrapped(states, low, high, periodic, base):
    """The map below at states whose periodic coordinates are taken into [low, high)."""
    x, period = states[:, : len(low)], high - low
    rest = np.fmod(x - low, period)
    rest = np.where(rest < 0.0, rest + period, rest)
    outside = periodic & ~((x >= low) & (x < high))
    return base(np.where(outside, low + rest, x))


def cos_sin(states, low, width, periodic, base):
    """The map below at states with the cosine and the sine of its angle in place of each periodic coordinate."""
    columns = []
    for i in range(len(low)):
        x = states[:, i : i + 1]
        angle = 2.0 * np.pi * (x - low[i]) / width[i]
        columns += [np.cos(angle), np.sin(angle)] if periodic[i] else [x]
    return base(np.concatenate(columns, axis=1))


def folded(states, fold, base):
    """The map below with base function i renamed to fold[i]: the two ends of a periodic axis are one place."""
    index, weight = base(states)
    return fold[index], weight


def own_end(states, column, above, feature, base):
    """The map below, and one base function for the states at the end, those in which a column exceeds a number."""
    index, weight = base(states)
    end = states[:, column : column + 1] > above
    return np.where(end, feature, index), np.where(end, first_of(index), weight)


# Features.


def copied(states, n_actions, base):
    """One copy per action of the base functions."""
    index, weight = base(states)
    index = index[:, None, :] * n_actions + np.arange(n_actions)[:, None]
    return index, weight[:, None, :], np.ones((1, n_actions), dtype=bool)


def table(states, table):
    """A table of features [X, A, d], looked up by the number of the state."""
    known, x = looked_up(states, len(table))
    weight = np.where(known[:, None, None], table[x], np.nan)
    return np.arange(table.shape[2])[None, None], weight, np.ones((1, table.shape[1]), dtype=bool)


def sparse_table(states, index, weight):
    """The same as indices and weights [X, A, k]."""
    known, x = looked_up(states, len(weight))
    found = np.where(known[:, None, None], weight[x], np.nan)
    return index[x], found, np.ones((1, weight.shape[1]), dtype=bool)


def coordinates(states, low, width, finite, periodic, integer, least, most, n_actions):
    """The place in a box, and 1 if the state lies outside, for every action; unbounded coordinates are squeezed."""
    x = states[:, : len(low)]
    u = (x - low) / width
    u = np.where(periodic, u - np.floor(u), clipped(u, 0.0, 1.0))
    size = np.abs(x)
    squeezed = np.log(np.where(size > 1e8, 2.0 * size, size + np.sqrt(size * size + 1.0))) / 711.0
    u = np.where(finite, u, np.where(x < 0.0, -squeezed, squeezed))
    outside = np.where(np.sum((x < least) | (x > most), axis=1, keepdims=True) > 0, 1.0, 0.0)
    known = np.sum(integer & (np.abs(x - np.rint(x)) > 1e-6), axis=1, keepdims=True) == 0
    weight = np.where(known, np.concatenate([u, outside], axis=1), np.nan)[:, None, :]
    return np.arange(len(low) + 1)[None, None], weight, np.ones((1, n_actions), dtype=bool)


def shared_end(states, column, above, coordinate, base):
    """The map below, and one coordinate, the same for all actions, where a column exceeds a number."""
    index, weight, available = base(states)
    end = (states[:, column] > above)[:, None, None]
    return np.where(end, coordinate, index), np.where(end, first_of(index), weight), available


def terminal(states, coordinate, base):
    """The map below for living states; a coordinate of its own where the last column, 0 or 1, says that it has ended."""
    index, weight, available = base(states[:, :-1])
    last = states[:, -1]
    end = (last == 1.0)[:, None, None]
    unknown = ((last != 0.0) & (last != 1.0))[:, None, None]
    weight = np.where(unknown, np.nan, np.where(end, first_of(index), weight))
    return np.where(end, coordinate, index), weight, end[:, 0] | available


def time(states, nodes, width, base):
    """The map below in the block of the step, the last column: width coordinates per node, linear between nodes."""
    index, weight, available = base(states[:, :-1])
    clock = states[:, -1]
    known = (clock >= 0.0) & (clock <= 1.0 * nodes[-1]) & (clock == np.rint(clock))
    before = np.sum(clock[:, None] >= nodes[1:-1], axis=1)
    after = np.minimum(before + 1, len(nodes) - 1)
    z = (clock - nodes[before]) / np.maximum(nodes[after] - nodes[before], 1)
    z = np.where(known, z, np.nan)[:, None, None]
    blocks = [index + (width * block)[:, None, None] for block in (before, after)]
    weight = weight + np.zeros(index.shape[1:])  # full rows, to be put side by side
    return np.concatenate(blocks, axis=2), np.concatenate([weight * (1.0 - z), weight * z], axis=2), available


def number(states, base):
    """The map below for states that are written as numbers in the first column."""
    x = np.rint(states[:, 0])
    return base(np.where(np.isnan(x), -1.0, clipped(x, -1.0, 2.0**53)).astype(np.int64))


def masked(states, allowed, base):
    """The map below with the actions that a table [X, A] forbids at numbered states."""
    index, weight, available = base(states)
    _, x = looked_up(states, len(allowed))
    return index, weight, available & allowed[x]


def masked_by_input(states, mask, base):
    """The map below with the actions that a mask [n, A] forbids."""
    index, weight, available = base(states)
    return index, weight, available & mask


def given(phi, dimension):
    """Features [n, A, d] as they are; a first entry of minus the largest number marks an action that is not available."""
    available = phi[:, :, 0] > -1.7e308
    return np.arange(dimension)[None, None], np.where(available[:, :, None], phi, 0.0), available


# The policy.


def scores(index, weight, available, theta):
    """Q-values phi . theta [n, A]; minus infinity where an action cannot be taken."""
    return np.where(available, np.sum(weight * theta[index], axis=-1), -np.inf)


def softmax(q, scale):
    """The probabilities of actions [n, A]; with an infinite scale the best action, the first of equals."""
    top = np.max(q, axis=1, keepdims=True)
    if scale == np.inf:
        weight = np.where(np.arange(q.shape[1]) == np.argmax(q, axis=1)[:, None], 1.0, 0.0)
    else:
        weight = np.exp(scale * (q - top))
    unknown = np.sum(np.isnan(q), axis=1, keepdims=True) > 0
    return np.where(unknown, np.nan, weight / np.sum(weight, axis=1, keepdims=True))


KINDS = {
    function.__name__: function
    for function in (
        one_hot, aggregation, interpolation, simplicial, rectilinear, tile_coding, polynomial, fourier, radial, tree,
        queue_polynomial, queue_politex, wrapped, cos_sin, folded, own_end, copied, table, sparse_table, coordinates,
        shared_end, terminal, time, number, masked, masked_by_input, given,
    )
}  # fmt: skip
