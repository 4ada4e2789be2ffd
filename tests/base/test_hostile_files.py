"""Files that somebody made to do harm: each is refused at once, in little memory, and nothing outside is touched."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import socket
import stat
import struct
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FileError, load_policy
from coreplan.base import FolderLock, files
from helpers.policies import saved

META = {"format": "coreplan policy", "version": 1}


@contextmanager
def soon(seconds=5):
    """What takes longer than this is an error: a pipe is waited for without end."""

    def ring(*_):
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def as_bytes(meta):
    return np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)


def sum_of(arrays):
    """The checksum of the format, written out once more."""
    h = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        h.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return np.frombuffer(h.digest(), dtype=np.uint8)


def npy(array=None, **header):
    """The bytes of an .npy file, with parts of its header replaced."""
    buffer = io.BytesIO()
    array = np.arange(3.0) if array is None else array
    head = np.lib.format.header_data_from_array_1_0(array) | header
    np.lib.format.write_array_header_1_0(buffer, head)
    return buffer.getvalue() + array.tobytes()


def archive(path, members, **how):
    with zipfile.ZipFile(path, "w", **how) as z:
        for name, data in members:
            z.writestr(name, data)
    return path


# Archives.


def test_files_of_the_first_version_are_read(tmp_path):
    """As np.savez wrote them from memory, with 0-d arrays summed as 1-d ones, and an array in Fortran order."""
    theta, scale = np.arange(6.0), np.array(2.0)
    arrays = {"meta": as_bytes(META), "theta": theta, "scale": scale}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, checksum=sum_of(arrays))
    (tmp_path / "old.npz").write_bytes(buffer.getvalue())
    old = load_policy(tmp_path / "old.npz")
    assert old.theta.tobytes() == theta.tobytes() and old.scale == 2.0
    states = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    arrays = {
        "meta": as_bytes({"format": "coreplan core set", "version": 1}),
        "states": states,
        "actions": np.arange(3),
    }
    np.savez(tmp_path / "core.npz", **arrays, checksum=sum_of(arrays))
    read = CoreSet.load(tmp_path / "core.npz")
    assert (read.states == states).all() and read.states.flags.c_contiguous


def test_what_is_written_has_the_checksum_of_the_format(tmp_path):
    saved(tmp_path)
    with np.load(tmp_path / "policy.npz") as f:
        arrays = {name: f[name] for name in f.files}
    assert (arrays.pop("checksum") == sum_of(arrays)).all()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    arrays = {"meta": as_bytes(META), "theta": np.zeros(4_000_000), "scale": np.array(1.0)}
    np.savez_compressed(tmp_path / "x.npz", **arrays, checksum=sum_of(arrays))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match="larger than the file"):
            load_policy(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        npy(shape=(10**9,)),
        npy(shape=(2**40, 2**40)),
        npy(shape=(-3,)),
        npy(shape=(-1, -3)),
        npy(shape=(0, 2**70)),
        npy(shape=(1,) * 70 + (3,)),
        npy(shape=(3.0,)),
        npy(shape=(True, 3)),
        npy(descr="|O"),
        npy(descr=[("a", "<f8")]),
        npy(descr="<U2"),
        npy(descr="<c8"),
        npy(descr="<M8[s]"),
        npy(descr="f8" * 10_000),
        npy()[:-1],
        npy() + b"x",
        npy(np.array([0, 1, 2, 7], dtype=np.uint8), descr="|b1"),
        b"\x93NUMPY\x09\x00" + npy()[8:],
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{" * 100,
        b"",
        b"text",
    ],
    ids=range(21),
)
def test_a_crafted_array_is_refused(tmp_path, data):
    path = archive(tmp_path / "x.npz", [("meta.npy", npy(as_bytes(META))), ("theta.npy", data)])
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match="damaged"), soon():
            load_policy(path)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "members",
    [
        [("meta.npy", npy(as_bytes(META))), ("meta.npy", npy(as_bytes(META)))],
        [("../theta.npy", npy())],
        [("/etc/theta.npy", npy())],
        [("a\\theta.npy", npy())],
        [("theta.txt", npy())],
        [("inner.zip", b"PK\x05\x06" + bytes(18))],
        [(f"{i}.npy", npy()) for i in range(1001)],
        [("meta.npy", npy(np.array("a text")))],
        [("meta.npy", npy(np.array([np.nan])))],
    ],
    ids=["twice", "above", "root", "backslash", "no array", "nested", "many", "text", "not bytes"],
)
def test_a_crafted_archive_is_refused(tmp_path, members):
    with pytest.raises(FileError), soon():
        load_policy(archive(tmp_path / "x.npz", members))


def test_lies_of_an_archive_about_its_members(tmp_path):
    """Encrypted, patched, larger than the file, and a list of members that is longer than any that we write."""
    path = archive(tmp_path / "x.npz", [("theta.npy", npy())])
    good = path.read_bytes()
    at = good.index(b"PK\x01\x02")
    for where, value in ((8, 1), (8, 0x20), (10, 8), (10, 99), (24, 2**31), (42, 2**31)):
        size = 2 if value < 2**16 else 4
        path.write_bytes(good[: at + where] + value.to_bytes(size, "little") + good[at + where + size :])
        with pytest.raises(FileError), soon():
            load_policy(path)
    path = archive(tmp_path / "x.npz", [("theta.npy", npy()), ("a" * 60_000, b"")])
    data = path.read_bytes()
    entry = data[data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4) : data.index(b"PK\x05\x06")]
    start = data.index(b"PK\x01\x02")
    directory = data[start : -22 - len(entry)] + entry * 30
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 31, 31, len(directory), start, 0)
    path.write_bytes(data[:start] + directory + end)
    with pytest.raises(FileError, match="list of members is too long"):
        load_policy(path)


# What is no file.


@pytest.mark.parametrize(
    "kind", ["pipe", "folder", "socket", "device", "endless device", "nowhere", "itself", "NUL"]
)
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "policy.npz"
    bound = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        bound.bind(str(path))
    elif kind == "nowhere":
        path.symlink_to(tmp_path / "absent")
    elif kind == "itself":
        path.symlink_to(path)
    else:
        path = {"device": "/dev/null", "endless device": "/dev/zero", "NUL": "a\0b"}[kind]
    readers = (coreplan.SoftmaxPolicy.load, CoreSet.load, files.read_json, files.read_text)
    with bound, soon():
        for read in readers:
            with pytest.raises(FileError):
                read(path)


@pytest.mark.parametrize(
    "file", ["run.json", "policy.npz", "trace.csv", "evaluation.json", "core.npz", "reality.json"]
)
def test_a_pipe_in_a_runs_folder(tmp_path, file):
    problem = coreplan.make("random-linear")
    coreplan.plan(problem, budget=200, out=tmp_path, evaluate=True)
    (tmp_path / file).unlink(missing_ok=True)
    os.mkfifo(tmp_path / file)
    with soon(), pytest.raises(FileError):
        coreplan.load_run(tmp_path)


def test_a_pipe_as_a_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "checkpoint.npz")
    for resume in (True, False):
        with soon(), pytest.raises(FileError):
            coreplan.plan(coreplan.make("random-linear"), budget=200, out=tmp_path, resume=resume)


# Writing.


def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run").mkdir()
    for name in ("policy.npz.partial", "policy.npz", "core.npz.partial"):
        (tmp_path / "run" / name).symlink_to(victim)
    problem, policy = saved(tmp_path / "run")
    CoreSet.of(problem).save(tmp_path / "run" / "core.npz")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "run" / "policy.npz").is_symlink()  # the link itself was replaced
    assert load_policy(tmp_path / "run", problem).theta.tobytes() == policy.theta.tobytes()


def test_the_lock_follows_no_link_and_is_a_file(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(FileError, match="Cannot write into the folder"):
        FolderLock(tmp_path)
    assert not (tmp_path / "victim").exists()
    (tmp_path / ".lock").unlink()
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(FileError, match="not a plain file"), soon():
        FolderLock(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_replaced(tmp_path, make):
    make(tmp_path / "policy.npz")
    with pytest.raises(FileError, match="not a file"), soon():
        saved(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["policy.npz"]
    assert not stat.S_ISREG((tmp_path / "policy.npz").stat().st_mode)


def test_what_a_killed_process_left_is_cleared_and_what_is_being_written_is_not(tmp_path):
    for name in (
        "policy.npz.partial",
        "policy.npz.0123abcd.partial",
        "other.npz.0123abcd.partial",
        "policy.npz.x.partial",
    ):
        (tmp_path / name).write_text("half")
    with files.replacing(tmp_path / "policy.npz") as f:
        f.write(b"the first to begin")
        (live,) = set(tmp_path.glob("policy.npz.*.partial")) - {tmp_path / "policy.npz.x.partial"}
        saved(tmp_path)
        assert live.exists()
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"policy.npz", "other.npz.0123abcd.partial", "policy.npz.x.partial"}
    assert (tmp_path / "policy.npz").read_bytes() == b"the first to begin"


def test_an_error_while_writing_leaves_what_was_there(tmp_path):
    (tmp_path / "a").write_text("old")
    for error in (KeyboardInterrupt, ValueError, OSError):
        with pytest.raises(FileError if error is OSError else error), files.replacing(tmp_path / "a") as f:
            f.write(b"new")
            raise error
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


def test_the_folder_is_synced_after_the_renaming(tmp_path, monkeypatch):
    seen, fsync = [], os.fsync

    def watched(descriptor):
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), (tmp_path / "a").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    files.write_atomic(tmp_path / "a", b"x")
    assert seen == [(False, False), (True, True)]


def test_no_array_is_copied_to_be_written_or_checked(tmp_path):
    big = np.random.default_rng(0).random(4_000_000)  # 32 MB
    tracemalloc.start()
    try:
        files.write_npz(tmp_path / "x.npz", {"big": big, "other": big[:1_000_000]}, META)
        assert tracemalloc.get_traced_memory()[1] < 0.6 * big.nbytes  # NumPy writes in pieces of 16 MB
        tracemalloc.reset_peak()
        arrays, _ = files.read_npz(tmp_path / "x.npz", "coreplan policy", 1)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * big.nbytes
    finally:
        tracemalloc.stop()
    assert (arrays["big"] == big).all() and arrays["big"].flags.writeable


# JSON.


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": "\\ud800"}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 5000,
        "\ufeff{}",
        "",
        "{",
        "nul",
    ],
    ids=range(9),
)
def test_json_that_we_cannot_have_written(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FileError, match="damaged"), soon():
        files.read_json(tmp_path / "a.json")


def test_a_huge_text_is_not_read(tmp_path):
    with open(tmp_path / "a.json", "wb") as f:
        f.truncate(2**40)
    with pytest.raises(FileError, match="larger than any text"), soon():
        files.read_json(tmp_path / "a.json")
