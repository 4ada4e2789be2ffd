"""Policies that leave the house: a description as plain data, and what is made of it (JSON, NumPy, ONNX, JavaScript)."""

from pathlib import Path

from .describe import policy_spec
from .writing import export_policy

EVALUATOR = Path(__file__).with_name("evaluate.js")  # plain JavaScript: `coreplan.policy(spec)`

__all__ = ["EVALUATOR", "export_policy", "policy_spec"]
