"""The engines that are ready to use: `serial`, `processes`, `ray`, and any `concurrent.futures.Executor`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ...base import InputError, as_count, nearest, shown
from .engine import Engine
from .on_ray import ray


def serial() -> None:
    """This process simulates: no executor at all."""
    return None


def processes(workers: int | None = None, *, timeout: float | None = None, retries: int = 3) -> Engine:
    """Worker processes on this machine (loky), by default one per processor.

    A worker that dies, or whose call takes longer than `timeout` seconds per query, is replaced, and its pairs are simulated
    again with the same noise, at most `retries` times. Workers stay for the next plan, and end when they are idle.
    """
    engine: Engine

    def start() -> Executor:
        from loky import get_reusable_executor

        found: Executor = get_reusable_executor(
            max_workers=engine.workers, timeout=60, initializer=_child, reuse=True, kill_workers=True
        )
        return found

    def stop(executor: Any) -> None:
        if executor._flags.broken or executor._flags.shutdown:
            executor.shutdown(kill_workers=True)

    engine = Engine(
        "processes", start, workers=workers, timeout=timeout, retries=retries, ours=True, close=stop
    )
    return engine


def given(
    executor: Executor, workers: int | None = None, *, timeout: float | None = None, retries: int = 3
) -> Engine:
    """Any Executor: Dask's, MPI's, a thread pool. `workers`: how many it has, which need not be exact.

    It is not ours to mend or to end: if it breaks, the run stops with everything answered so far kept. A task beyond its
    time limit is abandoned, and its worker stays occupied.
    """
    if not isinstance(executor, Executor) and not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"`executor` must be a concurrent.futures.Executor, or {', '.join(sorted(NAMES))}; got {shown(executor)}."
        )
    workers = as_count("given", optional=True, workers=workers)
    most = workers or getattr(executor, "_max_workers", None)
    return Engine(type(executor).__name__, lambda: executor, workers=most, timeout=timeout, retries=retries)


NAMES: dict[str, Callable[..., Engine | None]] = {"serial": serial, "processes": processes, "ray": ray}


def named(
    name: str | None, workers: int | None = None, timeout: float | None = None, retries: int | None = None
) -> Engine | None:
    """The engine of a name and some settings, as the command line gives them."""
    given_settings = {"workers": workers, "timeout": timeout, "retries": retries}
    settings: dict[str, Any] = {key: value for key, value in given_settings.items() if value is not None}
    if name is None and settings:
        name = "processes"
    if name is None or name == "serial":
        if settings:
            raise InputError(
                f"`serial` has no workers, and takes no {' or '.join(settings)}. Try `processes`."
            )
        return None
    return as_engine(name, **settings)[0]


def as_engine(executor: Any, **settings: Any) -> tuple[Engine | None, bool]:
    """The engine for what a caller gave, and whether it was made here; `settings` go with a name."""
    if isinstance(executor, Engine):
        return executor, False
    if isinstance(executor, str):
        if executor not in NAMES:
            raise InputError(f"There is no executor '{shown(executor)[1:-1]}'.{nearest(executor, NAMES)}")
        return NAMES[executor](**settings), True
    return given(executor), True


def _child() -> None:
    """In a worker: Ctrl-C is for the main process, which decides what becomes of the batch; and nobody outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True, name="coreplan.follow").start()


def _follow(parent: int) -> None:
    """End this process when its parent is gone: if that was killed, nobody would hear the answers, which are paid for."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
