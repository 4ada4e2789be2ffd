"""The query log and a disk that is full, or fails, or is slow to be written to."""

from __future__ import annotations

import os
import stat
import time

import numpy as np
import pytest

import coreplan
from coreplan import FileError
from coreplan.simulate import Simulator, logging_to
from coreplan.simulate.log.records import Bad
from helpers.executors import Here, eager
from helpers.paid import Paid, outcome, records_of


def test_a_full_disk_ends_the_run_with_all_answers_before(tmp_path, monkeypatch):
    from coreplan.simulate.log import records

    log, whole = tmp_path / "q.log", outcome(Paid())
    write, left = records._write, [5000]

    def full(descriptor, data, offset):
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        done = write(descriptor, data[: left[0]], offset)
        left[0] -= done
        return done

    monkeypatch.setattr(records, "_write", full)
    with pytest.raises(FileError, match="cannot be written: No space left"):
        outcome(Paid(), log=log)
    monkeypatch.undo()
    same, paid, known = outcome(Paid(), log=log)
    assert same == whole[0] and known > 20 and paid + known == whole[1]


def test_a_log_that_cannot_be_forced_onto_the_disk_is_left_whole(tmp_path, monkeypatch):
    log, whole = tmp_path / "q.log", outcome(Paid())
    sync, left = os.fsync, [3]
    monkeypatch.setattr("coreplan.simulate.log.querylog.SYNC", 0.0)

    def fails(descriptor):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(5, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(FileError, match="cannot be written: Input/output error"):
        outcome(
            Paid(), log=log, executor=eager(Here(), 4)
        )  # the answers of other workers come after the error
    monkeypatch.undo()
    assert not [record for record in records_of(log) if isinstance(record, Bad)]
    same, paid, known = outcome(Paid(), log=log)
    assert same == whole[0] and known > 0 and paid + known == whole[1]


def test_an_answer_is_on_disk_soon_even_if_no_other_comes(tmp_path, monkeypatch):
    monkeypatch.setattr("coreplan.simulate.log.querylog.SYNC", 1.0)
    synced, sync, paid = [], os.fsync, Paid()

    def spy(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # not the folder
            synced.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    with logging_to(tmp_path / "q.log", paid.problem, 0) as log:
        for state in range(3):
            Simulator(paid.problem).step(np.array([state]), np.array([1]))
        assert max(synced) < log.size, "the last answers are written, and not yet forced onto the disk"
        due = time.monotonic() + 20
        while max(synced) < log.size and time.monotonic() < due:
            time.sleep(0.01)
        assert max(synced) == log.size


def test_what_the_disk_refuses_later_is_said_at_the_next_answer_or_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("coreplan.simulate.log.querylog.SYNC", 0.05)
    for ends in (False, True):
        paid, sync = Paid(), os.fsync

        def refused(descriptor):
            raise OSError(5, "Input/output error")

        with logging_to(tmp_path / f"{ends}.log", paid.problem, 0) as log:
            Simulator(paid.problem).step(np.array([2]), np.array([1]))
            monkeypatch.setattr(os, "fsync", refused)
            log._synced = time.monotonic()
            Simulator(paid.problem).step(np.array([3]), np.array([1]))
            while log._trouble is None:
                time.sleep(0.01)
            monkeypatch.setattr(os, "fsync", sync)
            if ends:
                with pytest.warns(coreplan.CoreplanWarning, match="could not be forced onto the disk"):
                    log.close()
            else:
                with pytest.raises(FileError, match="cannot be written"):
                    Simulator(paid.problem).step(np.array([4]), np.array([1]))
                log._trouble = None
