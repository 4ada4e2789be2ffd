"""Trackers: JSON lines, tables, TensorBoard and MLflow hold what the trace holds, also after a resume."""

from __future__ import annotations

import json
import math
import os
import sys

import numpy as np
import pytest

from coreplan import CoreMirror, FileError, InputError, SampledLP, plan
from coreplan.run import Trace
from coreplan.tracking import CsvTracker, JsonlTracker, MLflowTracker, TensorBoardTracker, tracker_by_name
from helpers.runs import numpy_problem

ARGUMENTS = {"planner": CoreMirror(), "seed": 4}


def in_two(folder, make, **more):
    """A run in two sessions, each with a tracker of its own; the plan."""
    out = folder / "run"
    plan(numpy_problem(), budget=900, seconds=1e-9, out=out, callbacks=[make()], **ARGUMENTS)
    return plan(numpy_problem(), budget=900, out=out, resume=True, callbacks=[make()], **ARGUMENTS, **more)


def lines(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def same_rows(told, trace):
    """The rows, as dicts, are the trace's, but for seconds; unknown numbers are None or missing."""
    assert [int(row["row"]) for row in told] == list(range(len(trace)))
    for name in set(trace.columns) - {"seconds"}:
        found = [math.nan if row.get(name) in (None, "") else float(row[name]) for row in told]
        np.testing.assert_array_equal(found, trace[name])


def test_json_lines(tmp_path):
    result = in_two(tmp_path, lambda: JsonlTracker(tmp_path / "t.jsonl"), evaluate=10)
    found = lines(tmp_path / "t.jsonl")
    assert [line["event"] for line in found if line["event"] != "row"] == ["start", "end", "start", "end"]
    assert len({line["run"] for line in found}) == 1
    same_rows([line for line in found if line["event"] == "row"], result.trace)
    starts = [line for line in found if line["event"] == "start"]
    assert starts[0]["rows"] == 0 and starts[1]["rows"] == found.index(starts[1]) - 2
    assert starts[0]["settings"] == result.settings and starts[0]["folder"] == str(tmp_path / "run")
    assert found[-1]["sentence"] == result.sentence and found[-1]["value"] == result.evaluation.value


def test_a_table_is_the_trace(tmp_path):
    result = in_two(tmp_path, lambda: CsvTracker(tmp_path / "t.csv"))
    head, *rest = (tmp_path / "t.csv").read_text().splitlines()
    assert head.split(",")[:3] == ["run", "row", "queries"]
    same_rows([dict(zip(head.split(","), line.split(","), strict=True)) for line in rest], result.trace)
    text = "\n".join(line.split(",", 2)[2] for line in (head, *rest))
    assert isinstance(Trace.from_csv(text + "\n"), Trace)  # the same cells as in trace.csv


def test_a_table_gets_columns_for_another_planner(tmp_path):
    for planner in (CoreMirror(), SampledLP(), CoreMirror()):
        tracker = CsvTracker(tmp_path / "t.csv")
        plan(numpy_problem(), budget=400, planner=planner, reality=0, callbacks=[tracker])
    head, *rest = [line.split(",") for line in (tmp_path / "t.csv").read_text().splitlines()]
    assert len(set(head)) == len(head) and {len(line) for line in rest} == {len(head)}
    assert len({line[0] for line in rest}) == 2  # the first and the last are the same run


@pytest.mark.parametrize("make", [JsonlTracker, CsvTracker])
def test_half_a_line_is_dropped(tmp_path, make):
    path = tmp_path / "t"
    plan(numpy_problem(), budget=300, callbacks=[make(path)], **ARGUMENTS)
    before = path.read_bytes()
    path.write_bytes(before[:-9])
    plan(numpy_problem(), budget=300, callbacks=[make(path)], **ARGUMENTS)
    whole = before[: before[:-9].rfind(b"\n") + 1]
    assert path.read_bytes().startswith(whole) and path.read_bytes()[len(whole) :].count(b"\n") > 3
    if make is JsonlTracker:
        lines(path)


@pytest.mark.parametrize("make", [JsonlTracker, CsvTracker])
@pytest.mark.parametrize("there", ["precious", "{}\n", "[1]\n", "a,b\n1,2\n", "[" * 10_000, b"\xff\xfe"])
def test_a_file_of_somebody_else_is_left_alone(tmp_path, make, there):
    path = tmp_path / "t"
    path.write_bytes(there if isinstance(there, bytes) else there.encode())
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"left as it is|not text"):
        make(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("make", [JsonlTracker, CsvTracker])
def test_a_file_with_nothing_in_it_may_be_used(tmp_path, make):
    (tmp_path / "t").write_text("\n")
    plan(numpy_problem(), budget=300, callbacks=[make(tmp_path / "t")], **ARGUMENTS)
    assert len((tmp_path / "t").read_text().split("\n")) > 2


@pytest.mark.parametrize("make", [JsonlTracker, CsvTracker])
def test_what_is_no_file_is_refused_at_once(tmp_path, make):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/full", tmp_path / "no" / "t"):
        with pytest.raises(FileError):
            make(path)


def test_a_disk_that_fills_costs_the_tracker_and_not_the_run(tmp_path, monkeypatch):
    tracker = JsonlTracker(tmp_path / "t.jsonl")
    tracker.path = tmp_path  # a folder by now
    with pytest.warns(UserWarning, match="JsonlTracker is told no more"):
        assert plan(numpy_problem(), budget=300, callbacks=[tracker], **ARGUMENTS).queries > 250


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.event_file_writer import EventFileWriter  # noqa: F401  the library, not a stand-in
    from tensorboardX.proto.event_pb2 import Event

    result = in_two(tmp_path, lambda: TensorBoardTracker(tmp_path / "curves"))
    (folder,) = (tmp_path / "curves").iterdir()  # one for both sessions
    scalars = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns):
        data = file.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            event, data = Event.FromString(data[12 : 12 + size]), data[16 + size :]
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    steps, norms = zip(*sorted(scalars["theta_norm"]), strict=True)
    assert list(steps) == result.trace["queries"].tolist()
    np.testing.assert_allclose(norms, result.trace["theta_norm"], rtol=1e-6)
    assert "value" not in scalars and ("end/queries" in scalars) and "row" not in scalars


def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()
    result = in_two(tmp_path, lambda: MLflowTracker("inventory", uri=uri))
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("inventory")
    (run,) = client.search_runs([experiment.experiment_id])  # one for both sessions
    told = client.get_metric_history(run.info.run_id, "theta_norm")
    assert [metric.step for metric in told] == result.trace["queries"].tolist()
    np.testing.assert_array_equal([metric.value for metric in told], result.trace["theta_norm"])
    assert run.info.status == "FINISHED" and run.data.params["planner"] == "core-mirror"
    assert (
        run.data.tags["coreplan.sentence"] == result.sentence
        and run.data.metrics["end.queries"] == result.queries
    )


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [
        ("tensorboardX", lambda: TensorBoardTracker("curves"), "tensorboard"),
        ("mlflow", MLflowTracker, "mlflow"),
        ("mlflow", lambda: tracker_by_name("mlflow:x"), "mlflow"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(module, make, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install 'coreplan\[{extra}\]'"):
        make()


def test_trackers_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(tracker_by_name("a.jsonl"), JsonlTracker) and isinstance(
        tracker_by_name("b:c.csv"), CsvTracker
    )
    assert tracker_by_name("tensorboard:curves").folder.name == "curves"
    for spec in ("", "a.json", "tensorboard", "tensorboard:", "mlflow:", "csv", "x" * 5000):
        with pytest.raises(InputError, match="There is no tracker for"):
            tracker_by_name(spec)
