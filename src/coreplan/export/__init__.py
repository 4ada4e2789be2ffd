"""Policies that leave the house: a description as plain data, and what is made of it (JSON, NumPy, ONNX, JavaScript)."""

from pathlib import Path

from .describe import policy_spec

EVALUATOR = Path(__file__).with_name("evaluate.js")

__all__ = ["EVALUATOR", "policy_spec"]
