"""Arrays that write down what is done to them, as nodes of an ONNX graph.

The formulas are NumPy, and NumPy hands its functions over to arrays of another kind. So they are called with `Symbol`s, and
what comes out is the graph of the same computation, in double precision. Kinds of numbers are three: truth values, whole
numbers of 64 bits, and double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

Shape = tuple[int | None, ...]  # None: the number of states

_BOOL, _INT, _FLOAT = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64)
_ARITHMETIC = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "minimum": "Min", "maximum": "Max", "power": "Pow",
    "divide": "Div", "fmod": "Mod", "floor": "Floor", "rint": "Round", "absolute": "Abs", "negative": "Neg", "exp": "Exp",
    "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos",
}  # fmt: skip
_COMPARISONS = {
    "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
    "equal": "Equal",
}  # fmt: skip
_LOGIC = {"bitwise_and": "And", "bitwise_or": "Or", "invert": "Not"}
_ON_FLOATS = {"divide", "power", "floor", "rint", "exp", "log", "sqrt", "sin", "cos", "fmod", "isnan"}
_REDUCTIONS = {
    "sum": "ReduceSum",
    "amax": "ReduceMax",
    "amin": "ReduceMin",
    "max": "ReduceMax",
    "min": "ReduceMin",
}


class Graph:
    """The nodes so far, and the constants that they use."""

    def __init__(self) -> None:
        self.nodes: list[
            tuple[str, list[str], str, dict[str, Any]]
        ] = []  # operator, inputs, output, attributes
        self.constants: dict[tuple[str, Shape, bytes], tuple[str, NDArray[Any]]] = {}

    def put(self, operator: str, inputs: list[Any], dtype: Any, shape: Shape, **attributes: Any) -> Symbol:
        """Append a node; its inputs are symbols, or arrays that become constants."""
        name = f"v{len(self.nodes)}"
        self.nodes.append((operator, [self.name_of(value) for value in inputs], name, attributes))
        return Symbol(self, name, np.dtype(dtype), shape)

    def name_of(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return value.name
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        return self.constants.setdefault(key, (f"c{len(self.constants)}", array))[0]

    def cast(self, value: Any, dtype: Any) -> Any:
        """The value with this kind of numbers."""
        if not isinstance(value, Symbol):
            return np.asarray(value).astype(dtype)
        if value.dtype == dtype:
            return value
        return self.put("Cast", [value], dtype, value.shape, to=np.dtype(dtype))


class Constant(np.ndarray):
    """An array of numbers that a symbol may index."""

    @classmethod
    def of(cls, value: Any) -> Any:
        return np.asarray(value).view(cls)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Symbol):
            table = key.graph.cast(np.asarray(self), _common([self]))
            return key.graph.put("Gather", [table, key], table.dtype, key.shape + self.shape[1:], axis=0)
        return super().__getitem__(key)


class Symbol(NDArrayOperatorsMixin):
    """The result of a node: its name, kind of numbers and shape."""

    def __init__(self, graph: Graph, name: str, dtype: Any, shape: Shape) -> None:
        self.graph, self.name, self.dtype, self.shape = graph, name, np.dtype(dtype), shape

    def astype(self, dtype: Any) -> Any:
        return self.graph.cast(self, np.dtype(dtype))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if method != "__call__" or options:
            return NotImplemented
        shape = _broadcast([_shape(value) for value in inputs])
        if name == "isnan":
            return self.graph.put("IsNaN", [self.graph.cast(inputs[0], _FLOAT)], _BOOL, shape)
        if name in _LOGIC:
            return self.graph.put(_LOGIC[name], [self.graph.cast(v, _BOOL) for v in inputs], _BOOL, shape)
        if name == "not_equal":
            return ~(inputs[0] == inputs[1])
        if name not in _ARITHMETIC and name not in _COMPARISONS:
            return NotImplemented
        dtype = _FLOAT if name in _ON_FLOATS else max(_common(inputs), _INT, key=_rank)
        cast = [self.graph.cast(value, dtype) for value in inputs]
        if name in _COMPARISONS:
            return self.graph.put(_COMPARISONS[name], cast, _BOOL, shape)
        more = {"fmod": 1} if name == "fmod" else {}
        return self.graph.put(_ARITHMETIC[name], cast, dtype, shape, **more)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        name = function.__name__
        if name == "where":
            return self._where(*given)
        if name == "concatenate":
            return self._concatenate(*given, **options)
        if name == "argmax":
            return self._argmax(*given, **options)
        if name in _REDUCTIONS:
            return self._reduced(_REDUCTIONS[name], *given, **options)
        return NotImplemented

    def _where(self, condition: Any, yes: Any, no: Any) -> Symbol:
        dtype = _common([yes, no])
        shape = _broadcast([_shape(condition), _shape(yes), _shape(no)])
        parts = [
            self.graph.cast(condition, _BOOL),
            self.graph.cast(yes, dtype),
            self.graph.cast(no, dtype),
        ]
        return self.graph.put("Where", parts, dtype, shape)

    def _concatenate(self, parts: Any, axis: int) -> Symbol:
        dtype, first = _common(parts), _shape(parts[0])
        width = sum(_shape(part)[axis] or 0 for part in parts)
        shape = (*first[:axis], width, *first[axis + 1 :])
        return self.graph.put("Concat", [self.graph.cast(p, dtype) for p in parts], dtype, shape, axis=axis)

    def _argmax(self, x: Symbol, axis: int) -> Symbol:
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return self.graph.put("ArgMax", [x], _INT, shape, axis=axis, keepdims=0)

    def _reduced(self, operator: str, x: Symbol, axis: int, keepdims: bool = False) -> Symbol:
        axis %= len(x.shape)
        x = self.graph.cast(x, max(x.dtype, _INT, key=_rank))
        shape = x.shape[:axis] + ((1,) if keepdims else ()) + x.shape[axis + 1 :]
        if (
            operator == "ReduceSum"
        ):  # it alone takes its axes as an input, in the version of the operators that is used
            return self.graph.put(operator, [x, np.array([axis])], x.dtype, shape, keepdims=int(keepdims))
        return self.graph.put(operator, [x], x.dtype, shape, axes=[axis], keepdims=int(keepdims))

    def __getitem__(self, key: Any) -> Any:
        """Slices without steps, single places, and new axes, from the first axis on."""
        keys = key if isinstance(key, tuple) else (key,)
        old = [k for k in keys if k is not None]
        found = self._sliced({i: k for i, k in enumerate(old) if isinstance(k, slice) and k != slice(None)})
        for i in reversed([i for i, k in enumerate(old) if isinstance(k, (int, np.integer))]):
            shape = found.shape[:i] + found.shape[i + 1 :]
            found = self.graph.put("Gather", [found, np.asarray(int(old[i]))], self.dtype, shape, axis=i)
        kept = [k for k in keys if k is None or isinstance(k, slice)]
        new = [i for i, k in enumerate(kept) if k is None]
        if not new:
            return found
        sizes = list(found.shape)
        for i in new:
            sizes.insert(i, 1)
        return self.graph.put("Unsqueeze", [found, np.array(new)], self.dtype, tuple(sizes))

    def _sliced(self, slices: dict[int, slice]) -> Symbol:
        if not slices:
            return self
        shape, starts, ends = list(self.shape), [], []
        for i, part in slices.items():
            size = shape[i]
            assert size is not None  # the batch is never cut
            start, end, _ = part.indices(size)
            starts.append(start)
            ends.append(end)
            shape[i] = max(end - start, 0)
        where = [np.array(starts), np.array(ends), np.array(list(slices))]
        return self.graph.put("Slice", [self, *where], self.dtype, tuple(shape))


def _rank(dtype: Any) -> int:
    return [_BOOL, _INT, _FLOAT].index(dtype)


def _common(values: Any) -> Any:
    """The kind of numbers that holds all of the values."""
    kinds = {"b": _BOOL, "i": _INT, "u": _INT, "f": _FLOAT}
    return max(
        (v.dtype if isinstance(v, Symbol) else kinds[np.asarray(v).dtype.kind] for v in values), key=_rank
    )


def _shape(value: Any) -> Shape:
    return value.shape if isinstance(value, Symbol) else np.shape(value)


def _broadcast(shapes: list[Shape]) -> Shape:
    """The shape of the result of an operation on arrays of these shapes."""
    length = max(map(len, shapes))
    full = [(1,) * (length - len(shape)) + shape for shape in shapes]
    return tuple(_size(sizes) for sizes in zip(*full, strict=True))


def _size(sizes: tuple[int | None, ...]) -> int | None:
    others = [size for size in sizes if size != 1]
    return others[0] if others else 1
