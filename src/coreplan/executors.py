"""Who simulates: `plan(..., executor=...)`, and the same for `certify`, `evaluate`, `compare_policies` and `check`.

Any `concurrent.futures.Executor` will do, and the answer does not depend on it: docs/scale.md.
"""

from .problem import built
from .simulate import Engine, given, processes, ray, serial

__all__ = ["Engine", "built", "given", "processes", "ray", "serial"]
