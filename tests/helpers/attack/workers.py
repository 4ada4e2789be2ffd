"""Forked workers that do the inputs, so that a crash, a hang or a leak costs one input and is put down to it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .rule import Finding, Generator, Result, one_input

HANG = 12.0  # seconds without an answer after which a worker is killed
RECYCLE = 2_000  # inputs after which a worker is replaced, so that nothing that inputs leave behind adds up
_ROOM = (
    4 * 2**30
)  # bytes of address space that an input may add: beyond, it gets a MemoryError instead of the machine


class Attack:
    """Does inputs of one generator in a worker, replacing it when it dies, and keeps the totals."""

    def __init__(self, generator: Generator, scratch: Path | None = None) -> None:
        self.generator = generator
        self.scratch = scratch or Path(tempfile.mkdtemp(prefix="attack-", dir=_memory_disk()))
        self.totals: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self.seconds = 0.0
        self.slowest = 0.0

    def run(self, seeds: Sequence[int], until: float = float("inf")) -> None:
        """Do the inputs with these seeds, in order, or as many as are done when `time.monotonic()` reaches `until`."""
        begin, left = time.monotonic(), list(seeds)
        while left and time.monotonic() < until:
            batch, left = left[:RECYCLE], left[RECYCLE:]
            while batch and time.monotonic() < until:
                done = 0
                for result in self._worker(batch, until):
                    self._add(result)
                    done += 1
                batch = batch[done:]
        self.seconds += time.monotonic() - begin

    def _add(self, result: Result) -> None:
        self.totals[result.label] += 1
        self.slowest = max(self.slowest, result.seconds)
        if result.finding is not None:
            self.findings.append(result.finding)

    def _worker(self, seeds: list[int], until: float) -> Iterator[Result]:
        """Results of one worker, until it is through, out of time, or dead; the input that killed it is a finding."""
        context: Any = multiprocessing.get_context("fork")
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(self.generator, seeds, self.scratch, send, until))
        process.start()
        send.close()
        done = 0
        try:
            while done < len(seeds):
                if not receive.poll(HANG):
                    yield self._lost(seeds[done], "hang", f"no answer in {HANG:g} s")
                    return
                try:
                    result = receive.recv()
                except EOFError:
                    process.join()
                    if time.monotonic() < until or process.exitcode != 0:
                        text = f"the process died with exit code {process.exitcode}"
                        yield self._lost(seeds[done], "crash", text)
                    return
                if result is None:  # out of time
                    return
                yield result
                done += 1
                if result.label == "memory":  # its peak of memory stays: a fresh worker can be measured again
                    return
        finally:
            process.kill()
            process.join()
            receive.close()

    def _lost(self, seed: int, kind: str, text: str) -> Result:
        finding = Finding(self.generator.name, seed, kind, "", text, "(repeat it to see)")
        return Result(seed, kind, 0.0, finding)


def _work(generator: Generator, seeds: list[int], scratch: Path, send: Connection, until: float) -> None:
    _be_a_worker()
    for seed in seeds:
        if time.monotonic() > until:
            send.send(None)
            break
        send.send(one_input(generator, seed, scratch))
    send.close()
    os._exit(0)  # nothing of the parent's is cleaned up here


def _be_a_worker() -> None:
    """Give the process a session of its own, nothing to print to, and a limit of memory."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    used = _address_space()
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, resource.RLIM_INFINITY))


def _address_space() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0  # not on this system: then the limit of the rule has to do
    return pages * resource.getpagesize()


def _memory_disk() -> str | None:
    """A folder in memory where there is one: the inputs write and sync thousands of files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
