"""Trackers that hand a run on to TensorBoard and MLflow: thin, and imported when they are made."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from ..base import as_name, as_path, need
from .callbacks import RunInfo
from .files import summary

_LONGEST = 500  # characters of a parameter, the least that an MLflow server takes


class TensorBoardTracker:
    """Curves for TensorBoard, by the number of queries (extra `tensorboard`).

    Each run has a folder of its own inside `folder`, named by problem, planner and `RunInfo.run`; a resumed run goes on
    in it.
    """

    def __init__(self, folder: Any) -> None:
        self._library = need("tensorboardX", "tensorboard")
        self.folder = as_path("TensorBoardTracker", folder=folder)
        self._writer: Any = None

    def on_start(self, info: RunInfo) -> None:
        self._close()
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{info.problem}-{info.planner}")[
            :100
        ]
        where = str(self.folder / f"{name}-{info.run}")
        # Files are named by the second: without the suffix, a session would overwrite another of the same second.
        self._writer = self._library.SummaryWriter(where, filename_suffix=f".{info.rows}")
        self._writer.add_text("settings", json.dumps(dict(info.settings), default=str), info.rows)

    def on_row(self, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            if name not in ("row", "queries") and math.isfinite(value):
                self._writer.add_scalar(name, value, int(row["queries"]))
        self._writer.flush()

    def on_end(self, result: Any) -> None:
        for name, value in _numbers(summary(result)).items():
            self._writer.add_scalar(f"end/{name}", value, result.queries)
        self._close()

    def on_error(self, error: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflowTracker:
    """A run in an experiment of MLflow, by the number of queries (extra `mlflow`).

    `uri` says where; by default MLflow's own settings do, such as MLFLOW_TRACKING_URI. A resumed run goes on in the latest
    run of the experiment that has its tag `coreplan.run`. The user's own active run is left alone.
    """

    def __init__(self, experiment: Any = "coreplan", uri: Any = None) -> None:
        self._library = need("mlflow", "mlflow")
        self.experiment = as_name("MLflowTracker", experiment=experiment)
        self._client = self._library.MlflowClient(tracking_uri=uri)
        self._id = ""

    def on_start(self, info: RunInfo) -> None:
        if self._id:  # of an earlier stage
            self._client.set_terminated(self._id)
        found = self._client.get_experiment_by_name(self.experiment)
        where = found.experiment_id if found else self._client.create_experiment(self.experiment)
        self._id = (self._earlier(where, info) if info.rows else "") or self._begun(where, info)

    def _earlier(self, where: str, info: RunInfo) -> str:
        """The run in which an earlier session was told, made active again; "" if there is none."""
        found = self._client.search_runs(
            [where],
            f"tags.`coreplan.run` = '{info.run}'",
            max_results=1,
            order_by=["attributes.start_time DESC"],
        )
        if not found:
            return ""
        self._client.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)

    def _begun(self, where: str, info: RunInfo) -> str:
        name = f"{info.problem} by {info.planner}"
        run = self._client.create_run(where, tags={"coreplan.run": info.run}, run_name=name)
        known = {"problem": info.problem, "planner": info.planner, "seed": info.seed, "budget": info.budget}
        for key, value in (known | {f"planner.{k}": v for k, v in info.settings.items()}).items():
            self._client.log_param(run.info.run_id, key, str(value)[:_LONGEST])
        return str(run.info.run_id)

    def on_row(self, row: Mapping[str, float]) -> None:
        self._log(
            {name: value for name, value in row.items() if name not in ("row", "queries")},
            int(row["queries"]),
        )

    def on_end(self, result: Any) -> None:
        self._log({f"end.{name}": value for name, value in _numbers(summary(result)).items()}, result.queries)
        self._client.set_tag(self._id, "coreplan.sentence", result.sentence)
        self._client.set_terminated(self._id, "KILLED" if result.status.stopped else "FINISHED")

    def on_error(self, error: BaseException) -> None:
        self._client.set_terminated(self._id, "FAILED")

    def _log(self, numbers: Mapping[str, float], queries: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, float(v), now, queries) for name, v in numbers.items() if math.isfinite(v)]
        self._client.log_batch(self._id, metrics=metrics)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}
