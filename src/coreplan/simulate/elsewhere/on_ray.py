"""Ray as an Executor: every task stateless, tried once by Ray; retries, time limits and counts are the engine's."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from typing import Any

from ...base import ExecutorError, InputError, as_text, shown, text_of
from .engine import Engine

_PATIENCE = 25.0  # seconds for a cluster to answer; Ray itself has no limit
_KNOCK = 10.0  # seconds for anything to answer at its address
_START = 120.0  # seconds for Ray to start on this machine, which may be busy


def ray(
    workers: int | None = None, *, address: str | None = None, timeout: float | None = None, retries: int = 3
) -> Engine:
    """Ray (extra `ray`): workers on this machine, or on the cluster at `address`.

    A worker that dies, or whose call takes longer than `timeout` seconds per query, costs its own task only, which is done
    again with the same noise, at most `retries` times. Ray's usage statistics are switched off.
    """
    address = as_text("ray", address=address) if address is not None else None
    engine: Engine

    def start() -> Executor:
        return _RayExecutor(engine.workers, address)

    engine = Engine(
        "ray", start, workers=workers, timeout=timeout, retries=retries, ours=True, shared_fate=False,
        close=lambda executor: None,
    )  # fmt: skip
    return engine


class WorkerDied(BrokenExecutor):
    """One worker died, and the others go on."""


class _RayExecutor(Executor):
    """`submit` as a Ray task. Ray is started, or joined, when the executor is made; it stays until the process ends."""

    def __init__(self, workers: int, address: str | None) -> None:
        self.ray = _ray()
        if not self.ray.is_initialized():
            _started(self.ray, workers, address)
        self.tasks: dict[Any, Any] = {}
        self.away: dict[_Waiting, Any] = {}  # futures, and Ray's names of their results

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        task = self.tasks.get(function)
        if task is None:
            task = self.tasks[function] = self.ray.remote(max_retries=0, num_cpus=1)(function)
        name, ours = task.remote(*arguments, **named), _Waiting()
        ours.set_running_or_notify_cancel()
        self.away[ours] = name
        name.future().add_done_callback(lambda done: self._told(done, ours))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End what is simulated, if it is to be cancelled, and its workers; Ray itself stays."""
        if cancel_futures:
            for name in list(self.away.values()):
                with suppress(Exception):
                    self.ray.cancel(name, force=True)

    def _told(self, theirs: Future[Any], ours: _Waiting) -> None:
        self.away.pop(ours, None)
        error = theirs.exception()
        if error is None:
            ours.set_result(theirs.result())
        elif isinstance(error, self.ray.exceptions.RayTaskError):
            ours.set_exception(getattr(error, "cause", None) or error)
        else:
            died = WorkerDied((text_of(error) or type(error).__name__).splitlines()[0])
            died.__cause__ = error
            ours.set_exception(died)


class _Waiting(Future[Any]):
    """A future of a task of which nobody knows whether it has begun, so that it cannot be taken back."""

    def cancel(self) -> bool:
        return False


def _ray() -> Any:
    try:
        import ray as library
    except ImportError:
        raise InputError("The executor 'ray' needs the extra `ray`: pip install 'coreplan[ray]'.") from None
    return library


def _require_somebody(address: str) -> None:
    """An ExecutorError if nobody answers at host:port, at once: Ray would go on trying in the background."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():  # "auto", or a name that only Ray knows
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ExecutorError(
            f"Nobody answers for the Ray cluster at {shown(address)}: {text_of(error) or type(error).__name__}. Is it "
            "running, and reachable?"
        ) from error


def _started(library: Any, workers: int, address: str | None) -> None:
    """Start Ray or join a cluster; an ExecutorError if nobody answers, since Ray would wait for ever."""
    import os

    if address is not None:
        _require_somebody(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:  # else Ray gives its workers way to everything else that runs here (niceness 15)
        os.environ.setdefault("RAY_worker_niceness", "0")
    failed: list[BaseException] = []
    answered = threading.Event()

    def init() -> None:
        more: dict[str, Any] = {"address": address}
        if address is None:  # one of our own, even if there is another one on this machine
            more = {
                "address": "local",
                "num_cpus": workers,
                "include_dashboard": False,
                "_node_ip_address": "127.0.0.1",
            }
        try:
            library.init(configure_logging=False, log_to_driver=False, **more)
        except BaseException as error:  # handed to the thread that waits
            failed.append(error)
        answered.set()
        threading.Event().wait()  # for ever: the system ends Ray's own processes when the thread that began them ends

    threading.Thread(target=init, daemon=True, name="ray.init").start()
    if not answered.wait(_START if address is None else _PATIENCE):
        raise ExecutorError(
            f"The Ray cluster at {shown(address)} did not answer within {_PATIENCE:g} s. Is it running, and reachable?"
            if address
            else f"Ray did not start within {_START:g} s on this machine. Try `processes`."
        )
    if failed:
        where = f"The Ray cluster at {shown(address)}" if address else "Ray"
        raise ExecutorError(
            f"{where} cannot be used: {text_of(failed[0]) or type(failed[0]).__name__}"
        ) from failed[0]
