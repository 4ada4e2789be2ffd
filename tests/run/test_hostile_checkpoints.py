"""Checkpoints with right checksums and wrong numbers: refused as damaged, or resumed to a finished run; nothing else."""

from __future__ import annotations

import json
import shutil
import zlib

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, Grow, OptimisticPrimalDual, PlugIn, SampledLP
from coreplan.base import planner_stream, restore, simulator_stream, state_of
from coreplan.base.files import read_npz, write_npz
from coreplan.run.folder import KIND, VERSION
from coreplan.run.trace import Trace
from helpers.checkpoints import mutants
from helpers.runs import plan, planner, same

RUNS = {
    "primal-dual": ("river-swim", planner()),
    "core-mirror": ("river-linear", CoreMirror(allocation="occupancy")),
    "optimistic": ("river-linear", OptimisticPrimalDual(steps=5)),
    "plug-in": ("river-linear", PlugIn()),
    "sampled-lp": ("river-linear", SampledLP(n_initial=5)),
    "grow": ("river-swim", Grow(rounds=4)),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A function that gives the folder of a run, its checkpoint, and a way to resume it with another one."""

    def begin(name):
        spec, chosen = RUNS[name]
        problem, folder = coreplan.make(spec), tmp_path_factory.mktemp(name)
        plan(problem, planner=chosen, budget=160, out=folder / "run")
        arrays, meta = read_npz(folder / "run" / "checkpoint.npz", KIND, VERSION)

        def resume(arrays=arrays, meta=meta):
            shutil.rmtree(folder / "again", ignore_errors=True)
            shutil.copytree(folder / "run", folder / "again")
            write_npz(folder / "again" / "checkpoint.npz", arrays, meta)
            return plan(problem, planner=chosen, budget=240, out=folder / "again", resume=True)

        return problem, arrays, meta, resume

    return begin


@pytest.mark.parametrize("share", [60, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", RUNS)
def test_one_wrong_number_is_damage_or_does_no_harm(name, share, begun):
    """One in `share` of all changes, chosen by their names."""
    _, arrays, meta, resume = begun(name)
    tried = refused = 0
    for what, a, m in mutants(arrays, meta):
        if zlib.crc32(f"{name} {what}".encode()) % share:
            continue
        tried += 1
        try:
            resume(a, m)
        except coreplan.FileError as error:
            # The first answers of the run are compared with those that simulator and features give now.
            assert "damaged" in str(error) or (what.startswith("first.") and "began" in str(error)), what
            refused += 1
    assert tried > 10 and refused > 0.6 * tried


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("primal-dual", "state.log_lam", np.inf),
        ("primal-dual", "state.log_lam", np.nan),
        ("primal-dual", "state.log_lam", -1e9),
        ("primal-dual", "state.Theta", 1e9),
        ("primal-dual", "state.counts", -1),
        ("core-mirror", "state.mean_lam", 2.0),
        ("core-mirror", "state.sweeps", 10**9),
        ("core-mirror", "state.q", -1.0),
        ("optimistic", "state.lam", 0.0),
        ("optimistic", "state.Theta", 0.5),
        ("optimistic", "state.sweeps", 3),
        ("plug-in", "state.filled", 7),
        ("plug-in", "state.next_index", 20),
        ("plug-in", "state.next_weight", np.nan),
        ("plug-in", "state.rewards", 1.5),
        ("plug-in", "state.theta", np.inf),
        ("sampled-lp", "state.solved", 10**6),
        ("sampled-lp", "state.value", np.inf),
        ("grow", "state.chain_states", 10**6),
        ("grow", "state.next_states", -1),
        ("grow", "state.chain_index", 10**6),
        ("grow", "state.actions", 2),
        ("grow", "state.kind", 3),
        ("grow", "state.doubt", np.nan),
        ("grow", "state.S", -1.0),
    ],
)
def test_numbers_that_no_run_has(name, field, value, begun):
    """The whole field; many of these crashed the process, or were taken for results."""
    _, arrays, _, resume = begun(name)
    with pytest.raises(coreplan.FileError, match="damaged"):
        resume({**arrays, field: np.full_like(arrays[field], value)})


@pytest.mark.parametrize(("name", "field"), [("primal-dual", "state.tree"), ("grow", "state.gram")])
@pytest.mark.parametrize("value", [np.inf, np.nan, -1.0, 0.0])
def test_what_follows_from_other_fields_is_rebuilt_to_the_same_bits(name, field, value, begun):
    _, arrays, _, resume = begun(name)
    same(resume({**arrays, field: np.full_like(arrays[field], value)}), resume())


@pytest.mark.parametrize("name", RUNS)
def test_counters_that_contradict_each_other(name, begun):
    _, _, meta, resume = begun(name)
    simulator = meta["simulator"]
    for change in (
        {"queries": simulator["queries"] - 1},
        {"queries": 10**9},
        {"next_sweep": simulator["next_sweep"] + 10**6},
        {"watch": [0.0, 1, 10**15, 0.0] if name != "grow" else None, "repeated": 10**12},
    ):
        with pytest.raises(coreplan.FileError, match="damaged"):
            resume(meta={**meta, "simulator": simulator | change})


def test_settings_that_no_planner_takes(begun):
    for name, change in (
        ("plug-in", {"samples": 0.5}),
        ("core-mirror", {"step": [1]}),
        ("grow", {"rounds": "x"}),
    ):
        _, _, meta, resume = begun(name)
        config = {**meta["config"], "settings": meta["config"]["settings"] | change}
        with pytest.raises(coreplan.FileError):
            resume(meta={**meta, "config": config})


# Streams and traces.


@pytest.mark.parametrize("stream", [planner_stream(1), simulator_stream(1, 2)], ids=["planner", "simulator"])
def test_the_state_of_a_stream(stream):
    stream.random(1)
    stream.integers(9, dtype=np.int32)
    good = json.loads(json.dumps(state_of(stream)))
    restore(stream, good)
    wrong = [
        None,
        {},
        [],
        "PCG64",
        {**good, "more": 1},
        {**good, "bit_generator": "MT19937"},
        {**good, "state": {}},
    ]
    for key in ("has_uint32", "uinteger", "buffer_pos"):
        if key in good:
            wrong += [{**good, key: v} for v in (-1, 2**32, 2**70, 1.0, True, "1", None)]
    for key, value in good["state"].items():
        other = [value[0] + 2, *value[1:]] if isinstance(value, list) else -1
        wrong += [
            {**good, "state": {**good["state"], key: v}}
            for v in (other, None, "x", 0.5, [-1] * 4, [2**64] * 4)
        ]
    if "buffer" in good:
        wrong += [{**good, "buffer": v} for v in ([1, 2, 3, 4], [1], None, [0.5] * 4)]
    for state in wrong:
        with pytest.raises(ValueError):
            restore(stream, state)
    assert state_of(stream) == good
    for other in (planner_stream(2), simulator_stream(2, 2), simulator_stream(1, 3)):
        if state_of(other)["bit_generator"] == good["bit_generator"]:
            with pytest.raises(ValueError):  # of another seed, or of another block
                restore(other, good)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (["queries", "seconds"], [[1.0]]),
        (["queries", "queries"], [[1.0, 1.0]]),
        (["queries", 3], [[1.0, 1.0]]),
        (["queries", "a,b"], [[1.0, 1.0]]),
        ("queries", [[1.0] * 7]),
        (["seconds"], [[1.0]]),
        (["queries", "seconds"], [[np.nan, 1.0]]),
        (["queries", "seconds"], [[0.5, 1.0]]),
        (["queries", "seconds"], [[-1.0, 1.0]]),
        (["queries", "seconds"], [[2.0, 1.0], [1.0, 2.0]]),
        (["queries", "seconds"], [[1.0, np.inf]]),
        (["queries", "seconds"], [[[1.0, 1.0]]]),
    ],
)
def test_what_is_no_trace(columns, rows):
    with pytest.raises(ValueError):
        Trace.of(columns, np.array(rows))


@pytest.mark.parametrize(
    "text", ["", "\n", "queries,seconds\n1,x\n", "queries,seconds\n5,1\n4,2\n", "value\n1\n"]
)
def test_what_is_no_trace_in_a_file(text):
    with pytest.raises(ValueError):
        Trace.from_csv(text)
