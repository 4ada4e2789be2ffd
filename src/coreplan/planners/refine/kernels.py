"""Compiled parts of `Refine`: policy iteration on stored samples, and cells that are made where states go."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def improve(node, weight, theta, A, action):
    """The greedy action `[S]` at every next state, ties to the lowest; returns how many have changed."""
    changed = 0
    for s in range(len(node)):
        best, at = 0.0, -1
        for a in range(A):
            q = 0.0
            for c in range(node.shape[1]):
                q += weight[s, c] * theta[node[s, c] * A + a]
            if at < 0 or q > best:
                best, at = q, a
        changed += at != action[s]
        action[s] = at
    return changed


@njit(cache=True, nogil=True)
def sweep(node, weight, action, R, g, end, end_value, theta, A, first, backward):
    """One Gauss-Seidel sweep: theta of pair j becomes the mean of the targets of its samples, number first[j] and up.

    Returns the largest change.
    """
    most, m = 0.0, len(theta)
    for p in range(m):
        j = m - 1 - p if backward else p
        total = 0.0
        for s in range(first[j], first[j + 1]):
            v = end_value
            if not end[s]:
                v = 0.0
                for c in range(node.shape[1]):
                    v += weight[s, c] * theta[node[s, c] * A + action[s]]
            total += R[s] + g[s] * v
        new = total / (first[j + 1] - first[j])
        most = max(most, abs(new - theta[j]))
        theta[j] = new
    return most


@njit(cache=True, nogil=True)
def solve(node, weight, action, R, g, end, end_value, theta, A, first, tolerance, most):
    """Policy iteration in place, each policy evaluated by sweeps; returns how many sweeps were made.

    It stops when values AND the greedy actions have settled, or after `most` sweeps.
    """
    done = 0
    while done < most:
        changed = improve(node, weight, theta, A, action)
        first_change = sweep(node, weight, action, R, g, end, end_value, theta, A, first, False)
        change = first_change
        done += 1
        for k in range(20):
            if change <= tolerance:
                break
            change = sweep(node, weight, action, R, g, end, end_value, theta, A, first, k % 2 == 0)
            done += 1
        if first_change <= tolerance and (changed == 0 or first_change <= 0.1 * tolerance):
            break
    return done


@njit(cache=True, nogil=True)
def touch(ticks, axis, child, lo, hi, wanted, count, widest, start):
    """Make cells where states are: split the leaf of each place until no axis is wider than `widest [D]`.

    The arrays have room for more cells than `count`. Returns the count, and the first place that found no room.
    """
    D = lo.shape[1]
    for n in range(start, len(ticks)):
        k = 0
        while True:
            if child[k] < 0:
                at, ratio = -1, 1.0
                for i in range(D):
                    r = (hi[k, i] - lo[k, i]) / widest[i]
                    if r > ratio and hi[k, i] - lo[k, i] >= 2:
                        at, ratio = i, r
                if at < 0:
                    break
                if count + 2 > len(child):
                    return count, n
                count = halve(k, at, axis, child, lo, hi, wanted, count)
            i = axis[k]
            k = child[k] + (1 if ticks[n, i] >= (lo[k, i] + hi[k, i]) // 2 else 0)
        wanted[k] = True
    return count, len(ticks)


@njit(cache=True, nogil=True)
def halve(k, i, axis, child, lo, hi, wanted, count):
    """Split cell k along axis i; returns the new number of cells."""
    axis[k], child[k] = i, count
    for half in range(2):
        c = count + half
        axis[c], child[c], wanted[c] = -1, -1, False
        for j in range(lo.shape[1]):
            lo[c, j], hi[c, j] = lo[k, j], hi[k, j]
    mid = (lo[k, i] + hi[k, i]) // 2
    hi[count, i] = mid
    lo[count + 1, i] = mid
    return count + 2
