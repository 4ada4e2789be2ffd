"""The policy as an ONNX model, in double precision: what the formulas do to arrays that write it down."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..base import need
from .compose import evaluated
from .graph import Constant, Graph, Symbol

OPSET, IR = 17, 8  # from 2022: what runtimes of the last years know


def onnx_model(spec: dict[str, Any]) -> Any:
    """The model of a description: `states` (or `phi`), and `mask` if need be, to `probabilities` and `q_values`."""
    onnx = need("onnx", "onnx")
    helper, kinds = onnx.helper, {
        "b": onnx.TensorProto.BOOL, "i": onnx.TensorProto.INT64, "f": onnx.TensorProto.DOUBLE
    }  # fmt: skip
    graph, A = Graph(), spec["n_actions"]
    shapes = {"number": (None,), "columns": (None, len(spec["columns"])), "phi": (None, A, spec["dimension"])}
    first = Symbol(
        graph, "phi" if spec["input"] == "phi" else "states",
        np.dtype(np.int64 if spec["input"] == "number" else np.float64), shapes[spec["input"]],
    )  # fmt: skip
    inputs = [first]
    if spec["mask"]:
        inputs.append(Symbol(graph, "mask", np.dtype(bool), (None, A)))
    q, p = evaluated(spec, first, inputs[-1] if spec["mask"] else None, Constant.of)
    nodes = [
        helper.make_node(operator, given, [name], **_attributes(attributes, kinds))
        for operator, given, name, attributes in graph.nodes
    ]
    outputs = {"probabilities": p, "q_values": q}
    nodes += [helper.make_node("Identity", [value.name], [name]) for name, value in outputs.items()]

    def described(name: str, value: Symbol) -> Any:
        shape = ["n" if size is None else size for size in value.shape]
        return helper.make_tensor_value_info(name, kinds[value.dtype.kind], shape)

    made = helper.make_graph(
        nodes,
        "policy",
        [described(value.name, value) for value in inputs],
        [described(name, value) for name, value in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.values()],
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="coreplan",
        producer_version=spec["coreplan"],
    )  # fmt: skip
    notes = {name: json.dumps(spec[name]) for name in ("problem", "columns", "actions", "scale")}
    helper.set_model_props(model, notes)
    onnx.checker.check_model(model, full_check=True)
    return model


def _attributes(given: dict[str, Any], kinds: dict[str, int]) -> dict[str, Any]:
    return given | {"to": kinds[given["to"].kind]} if "to" in given else given
