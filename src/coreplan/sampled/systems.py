"""The linear systems of LSTD-Q, (G - gamma C_pi + P) theta = b, in two forms: a matrix, or only products with it.

`Written` writes the matrix down, `[d + 1, d + 1]`, and factorises it. `Products` writes nothing down: sample i contributes
w_i phi_i (phi_i - gamma phi(y_i, pi(y_i)))' theta to a product, which costs O(N k) for features with k nonzeros, and GMRES
(Saad & Schultz 1986) needs a few dozen products. `system_of` is the one place that chooses between them, by d alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..base import FloatArray, IntArray
from ..features import UNAVAILABLE, Sparse, available
from .grouping import Supports, grouped_cross, grouped_gram, grouped_mean_cross, next_supports, supports

NONE, UNIFORM = (
    -1,
    -2,
)  # in place of a choice: no next features, such as at an end; the mean over the available actions
Choice: TypeAlias = NDArray[Any]  # what a policy does at the next states: see `Written.solve`
LARGE = 1500  # from this dimension on nothing of size d x d is made; a factorisation takes d^3 / 1.5 multiplications
TOLERANCE = 1e-5  # of GMRES: the residual, relative to b
WORTH = 8  # rows per group for which a matrix product is faster than loops
BASIS = 80  # vectors that GMRES keeps before it starts again from what it has
RESTARTS = 5
LOOK = 5  # it looks at the residual after every so many products; a divisor of BASIS


def is_large(dimension: int) -> bool:
    """Whether systems for features of this dimension d are solved without a d x d matrix."""
    return dimension >= LARGE


@njit(cache=True, nogil=True)
def gram(phi, w, G):
    """G += sum_i w_i phi_i phi_i'; of a G with one column `[d + 1, 1]`, the diagonal."""
    index, weight = phi
    diagonal = G.shape[1] == 1
    for n in range(index.shape[0]):
        for i in range(index.shape[1]):
            if diagonal:
                G[index[n, i], 0] += w[n] * weight[n, i] * weight[n, i]
                continue
            for j in range(index.shape[1]):
                G[index[n, i], index[n, j]] += w[n] * weight[n, i] * weight[n, j]


@njit(cache=True, nogil=True)
def _cross(phi, next_phi, w, old, new, C):
    """Update C = sum_i w_i phi_i phi(y_i, choice_i)' from the choices `old` to `new`; the choice NONE counts as 0."""
    index, weight = phi
    for n in range(index.shape[0]):
        if old[n] == new[n] or w[n] == 0.0:
            continue
        for i in range(index.shape[1]):
            row, value = index[n, i], w[n] * weight[n, i]
            for j in range(index.shape[1]):
                if new[n] != NONE:
                    C[row, next_phi.index[n, new[n], j]] += value * next_phi.weight[n, new[n], j]
                if old[n] != NONE:
                    C[row, next_phi.index[n, old[n], j]] -= value * next_phi.weight[n, old[n], j]


@njit(cache=True, nogil=True)
def _mean_cross(phi, next_phi, share, C):
    """C += sum_i phi_i (sum_a share_ia phi(y_i, a))', where `share [N, A]` is 0 for unavailable actions."""
    index, weight = phi
    for n in range(index.shape[0]):
        for a in range(share.shape[1]):
            if share[n, a] == 0.0:
                continue
            for i in range(index.shape[1]):
                row, value = index[n, i], share[n, a] * weight[n, i]
                for j in range(index.shape[1]):
                    C[row, next_phi.index[n, a, j]] += value * next_phi.weight[n, a, j]


@njit(cache=True, nogil=True)
def next_values(next_phi, choice, theta, out):
    """Write phi(y_n, choice_n) . theta into `out [n]`; for UNIFORM the mean over the available actions, for NONE 0."""
    for n in range(out.shape[0]):
        out[n] = 0.0
        if choice[n] == NONE:
            continue
        equal, count = choice[n] == UNIFORM, 0
        for a in range(next_phi.weight.shape[1]) if equal else range(choice[n], choice[n] + 1):
            if next_phi.weight[n, a, 0] != UNAVAILABLE:
                count += 1
                for i in range(next_phi.weight.shape[2]):
                    out[n] += next_phi.weight[n, a, i] * theta[next_phi.index[n, a, i]]
        out[n] /= max(count, 1)


@njit(cache=True, nogil=True)
def _mixed_values(next_phi, p, theta, out):
    """Write sum_a p_na phi(y_n, a) . theta into `out [n]`, where `p [N, A]` is 0 for unavailable actions."""
    for n in range(out.shape[0]):
        out[n] = 0.0
        for a in range(p.shape[1]):
            if p[n, a] != 0.0:
                for i in range(next_phi.weight.shape[2]):
                    out[n] += p[n, a] * next_phi.weight[n, a, i] * theta[next_phi.index[n, a, i]]


@njit(cache=True, nogil=True)
def _spread(phi, w, theta, less, out):
    """out += sum_i w_i (phi_i . theta - less_i) phi_i."""
    for n in range(phi.index.shape[0]):
        if w[n] == 0.0:
            continue
        t = -less[n]
        for i in range(phi.index.shape[1]):
            t += phi.weight[n, i] * theta[phi.index[n, i]]
        for i in range(phi.index.shape[1]):
            out[phi.index[n, i]] += w[n] * t * phi.weight[n, i]


def add_gram(phi: Sparse, w: FloatArray, G: FloatArray) -> None:
    """G += sum_i w_i phi_i phi_i', as `gram` does, by matrix products where that is faster."""
    s = None if G.shape[1] == 1 else supports(phi.index)
    if s is None or WORTH * len(s.table) > len(w):
        gram(phi, w, G)
    else:
        grouped_gram(phi, s, w, G)


class Written:
    """The systems of one set of samples, as matrices. C_pi is kept, and only updated where the policy has changed."""

    def __init__(self, phi: Sparse, next_phi: Sparse, w: FloatArray, size: int) -> None:
        self.phi, self.next_phi, self.w = phi, next_phi, w
        self.G = np.zeros((size, size))  # sum w phi phi'
        add_gram(phi, w, self.G)
        self.diagonal: FloatArray = np.diag(self.G)
        self._choice, self._C = np.full(len(w), NONE), np.zeros_like(self.G)

    def solve(
        self, choice: Choice, penalty: FloatArray, b: FloatArray, discount: float, start: FloatArray
    ) -> FloatArray:
        """theta `[d + 1]` of the policy that takes `choice` at the next states: actions, NONE or UNIFORM, `[N]`; or
        probabilities `[N, A]`.
        """
        matrix = self.G - discount * self._cross(choice)
        matrix[np.diag_indices(len(b))] += penalty
        try:
            return np.asarray(np.linalg.solve(matrix, b), dtype=np.float64)
        except np.linalg.LinAlgError:  # exactly singular: some features were never seen
            return np.asarray(np.linalg.lstsq(matrix, b, rcond=None)[0], dtype=np.float64)

    def _cross(self, choice: Choice) -> FloatArray:
        """C_pi."""
        if choice.ndim == 2:
            return self._mean_cross(self.w[:, None] * choice)
        if UNIFORM in choice:
            return self._mean_cross(self._uniform(choice))
        if self._supports is None:
            _cross(self.phi, self.next_phi, self.w, self._choice, choice, self._C)
        else:
            changed = np.flatnonzero((choice != self._choice) & (self.w > 0.0))
            for actions, sign in ((choice, 1.0), (self._choice, -1.0)):
                rows = changed[actions[changed] != NONE]
                here, there = self._supports
                w = sign * self.w[rows]
                grouped_cross(self.phi, here, self.next_phi, there, rows, actions[rows], w, self._C)
        self._choice = choice
        return self._C

    def _mean_cross(self, share: FloatArray) -> FloatArray:
        """C_pi of a policy by its probabilities times the weights, `share [N, A]`; 0 for unavailable actions."""
        C = np.zeros_like(self.G)
        if self._supports is None:
            _mean_cross(self.phi, self.next_phi, share, C)
        else:
            here, there = self._supports
            rows = np.flatnonzero(share.any(axis=1))
            grouped_mean_cross(self.phi, here, self.next_phi, there, rows, share, C)
        return C

    def _uniform(self, choice: IntArray) -> FloatArray:
        """The uniform policy's probabilities times the weights, `[N, A]`; 0 where the choice is NONE."""
        open_ = available(self.next_phi) & (choice != NONE)[:, None]
        return self.w[:, None] * open_ / np.maximum(open_.sum(axis=1, keepdims=True), 1)

    @cached_property
    def _supports(self) -> tuple[Supports, Supports] | None:
        """The supports of pairs and of next states `[N A]`, where there are so few that grouping pays."""
        here = supports(self.phi.index)
        if here is None:
            return None
        there = next_supports(self.next_phi.index)
        if there is None or WORTH * len(here.table) * len(there.table) > len(self.w):
            return None
        return here, there


class Products:
    """The systems of one set of samples, by products alone, in the coordinates that were sampled: the others stay 0.

    GMRES is preconditioned by the diagonal of G + P. It begins with the theta of the policy before, which is nearly right
    when few actions have changed.
    """

    def __init__(self, phi: Sparse, next_phi: Sparse, w: FloatArray, size: int) -> None:
        self.phi, self.next_phi, self.w = phi, next_phi, w
        diagonal = np.zeros((size, 1))
        gram(phi, w, diagonal)
        self.diagonal: FloatArray = diagonal[:, 0]
        self._used = np.flatnonzero(self.diagonal)

    def solve(
        self, choice: Choice, penalty: FloatArray, b: FloatArray, discount: float, start: FloatArray
    ) -> FloatArray:
        """theta `[d + 1]` of the policy that takes `choice` at the next states: actions, NONE or UNIFORM, `[N]`; or
        probabilities `[N, A]`.
        """
        used = self._used
        theta, out, after = np.zeros(len(b)), np.empty(len(b)), np.empty(len(self.w))
        scale = (self.diagonal + penalty)[used]

        def product(x: FloatArray) -> FloatArray:
            theta[used] = x / scale
            if choice.ndim == 2:
                _mixed_values(self.next_phi, choice, theta, after)
            else:
                next_values(self.next_phi, choice, theta, after)
            np.multiply(penalty, theta, out=out)
            _spread(self.phi, self.w, theta, discount * after, out)
            return out[used]

        theta[used] = gmres(product, b[used], start[used] * scale) / scale
        return theta


def gmres(product: Callable[[FloatArray], FloatArray], b: FloatArray, x: FloatArray) -> FloatArray:
    """x with |product(x) - b| at most TOLERANCE |b|, from a first guess x; or what RESTARTS times BASIS products reach."""
    goal = TOLERANCE * float(np.linalg.norm(b))
    for _ in range(RESTARTS):
        r = b - product(x)
        if np.linalg.norm(r) <= goal:
            break
        x = x + _best_step(product, r, goal)
    return x


def _best_step(product: Callable[[FloatArray], FloatArray], r: FloatArray, goal: float) -> FloatArray:
    """The step s in the Krylov space of r that makes |r - product(s)| least, by up to BASIS products (Arnoldi)."""
    V = np.empty((BASIS + 1, len(r)))  # orthonormal rows; product(V[:j].T) = V[:j + 1].T H[:j + 1, :j]
    H, size = np.zeros((BASIS + 1, BASIS)), float(np.linalg.norm(r))
    V[0] = r / size
    for j in range(BASIS):
        u = product(V[j])
        for _ in range(2):  # once is not enough in finite precision
            h = V[: j + 1] @ u
            u -= h @ V[: j + 1]
            H[: j + 1, j] += h
        H[j + 1, j] = np.linalg.norm(u)
        exact = H[j + 1, j] <= 1e-14 * size  # the space holds the solution
        if exact or j % LOOK == LOOK - 1:
            y, left = _least(H[: j + 2, : j + 1], size)
            if exact or left <= goal:
                break
        V[j + 1] = u / H[j + 1, j]
    return np.asarray(y @ V[: len(y)], dtype=np.float64)


def _least(H: FloatArray, size: float) -> tuple[FloatArray, float]:
    """The y for which |size e_1 - H y| is least, and that norm."""
    e = np.zeros(len(H))
    e[0] = size
    y = np.asarray(np.linalg.lstsq(H, e, rcond=None)[0], dtype=np.float64)
    return y, float(np.linalg.norm(e - H @ y))


def system_of(phi: Sparse, next_phi: Sparse, w: FloatArray, dimension: int) -> Written | Products:
    """The systems of samples with features `[N, K]`, next features `[N, A, K]` and weights `[N]`."""
    form = Products if is_large(dimension) else Written
    return form(phi, next_phi, w, dimension + 1)
