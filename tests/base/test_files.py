"""Files: damaged and foreign ones are refused, nothing in them is executed, and a folder has one writer."""

from __future__ import annotations

import io
import json
import os
import signal
import time
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan import load_policy
from coreplan.base.files import write_npz
from helpers.policies import saved


@pytest.mark.parametrize("keep", [0, 1, 10, 100, 0.5, 0.9, -1])
def test_truncated_files(tmp_path, keep):
    saved(tmp_path)
    path = tmp_path / "policy.npz"
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(coreplan.FileError):
        load_policy(path)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_never_gives_another_policy(tmp_path_factory, at, flip):
    """Either the file is refused, or the byte did not matter (zip headers have some that do not)."""
    folder = tmp_path_factory.mktemp("flip")
    problem, policy = saved(folder)
    path = folder / "policy.npz"
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= flip
    path.write_bytes(bytes(data))
    try:
        again = load_policy(path, problem)
    except coreplan.FileError:
        return
    assert again.theta.tobytes() == policy.theta.tobytes() and again.scale == policy.scale


def foreign(tmp_path, **arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    (tmp_path / "x.npz").write_bytes(buffer.getvalue())
    return tmp_path / "x.npz"


def test_foreign_files(tmp_path):
    good_meta = {"format": "coreplan policy", "version": 1}
    as_bytes = lambda m: np.frombuffer(json.dumps(m).encode(), dtype=np.uint8)  # noqa: E731
    with pytest.raises(coreplan.FileError, match="not a coreplan policy"):
        load_policy(foreign(tmp_path, theta=np.zeros(3)))
    with pytest.raises(coreplan.FileError, match="version 2"):
        load_policy(foreign(tmp_path, meta=as_bytes({**good_meta, "version": 2})))
    with pytest.raises(coreplan.FileError, match="checksum"):
        load_policy(foreign(tmp_path, meta=as_bytes(good_meta), theta=np.array([1.0]), scale=np.array(1.0)))
    for theta, scale in ((np.array([np.nan]), 1.0), (np.zeros((1, 1)), 1.0), (np.array([1.0]), -1.0)):
        write_npz(tmp_path / "y.npz", {"theta": theta, "scale": np.array(scale)}, good_meta)
        with pytest.raises(coreplan.FileError, match="damaged"):
            load_policy(tmp_path / "y.npz")
    write_npz(tmp_path / "y.npz", {"scale": np.array(1.0)}, good_meta)
    with pytest.raises(coreplan.FileError, match="damaged"):
        load_policy(tmp_path / "y.npz")
    with pytest.raises(coreplan.FileError, match="There is no file"):
        load_policy(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(coreplan.FileError):
        load_policy(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as z:
        z.writestr("a.txt", "hello")
    with pytest.raises(coreplan.FileError):
        load_policy(tmp_path / "zip.npz")


def test_a_pickle_is_not_executed(tmp_path):
    flag = tmp_path / "executed"

    class Trap:
        def __reduce__(self):
            return (flag.write_text, ("gotcha",))

    path = foreign(tmp_path, meta=np.array([Trap()], dtype=object))
    flag.unlink(missing_ok=True)
    with pytest.raises(coreplan.FileError):
        load_policy(path)
    np.save(tmp_path / "bare.npy", np.zeros(3))
    with pytest.raises(coreplan.FileError, match="bare array"):
        load_policy(tmp_path / "bare.npy")
    assert not flag.exists()


# The lock of a folder.


def test_a_forked_worker_does_not_hold_the_lock(tmp_path):
    lock = coreplan.base.FolderLock(tmp_path)
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    try:
        lock.close()
        for attempt in range(50):  # the child needs a moment to come to life and let go
            try:
                coreplan.base.FolderLock(tmp_path).close()
                break
            except coreplan.FileError:
                assert attempt < 49
                time.sleep(0.1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
