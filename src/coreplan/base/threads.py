"""One thread for linear algebra, so that the last bits of a result do not depend on the number of processors.

A BLAS that splits a product or a factorisation among threads adds in another order, and rounds otherwise. Every public
function that computes enters `one_thread` once; inside, entering again costs next to nothing.
"""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from typing import Any


class _OneThread(ContextDecorator):
    """A context, and a decorator: one BLAS thread while anybody is inside, as many as before when the last one leaves.

    The number usually belongs to the process, so the Python threads inside are counted: of two plans, the one that ends
    first must not give the other one its threads back. With OpenMP it belongs to the Python thread, so each sets its own.
    """

    def __init__(self) -> None:
        self._lock, self._own = threading.Lock(), threading.local()
        self._inside, self._before = (
            0,
            [0],
        )  # Python threads; what each library had when the first of them came

    def __enter__(self) -> _OneThread:
        depth = getattr(self._own, "depth", 0)
        if not depth:
            with self._lock:
                if not self._inside:
                    self._before = [library.get_num_threads() for library in libraries()]
                self._inside += 1
                for library in libraries():
                    _set(library, 1)
        self._own.depth = depth + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._own.depth -= 1
        if self._own.depth:
            return
        with self._lock:
            self._inside -= 1
            for library, number in zip(libraries(), self._before, strict=True):
                if not self._inside or getattr(library, "threading_layer", None) == "openmp":
                    _set(library, number)


one_thread = _OneThread()


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def libraries() -> list[Any]:
    """threadpoolctl's controllers of the libraries that NumPy, SciPy and compiled code use for linear algebra."""
    import scipy.linalg  # noqa: F401  a library that is loaded later would not be limited
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(library: Any, number: int) -> None:
    """Set a library's number of threads. Recent versions of threadpoolctl leave this to one Python thread at a time."""
    let_go = getattr(library, "clear_controlling_thread", lambda **_: None)
    let_go(force=True)
    library.set_num_threads(number)
    let_go(force=True)
