"""Networks: an ONNX graph that is built as arrays are computed.

``Value`` stands for an array of the graph, and the functions below have the names and the meaning
of NumPy's. So a function that takes ``numpy`` as an argument writes its graph where it gets this
module.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lpo.errors import LPOError


class Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.onnx: Any = library()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.numbers = itertools.count()

    def input(self, name: str) -> Value:
        """Returns an array that comes from outside."""
        return Value(self, name)

    def constant(self, value: Any) -> str:
        """Returns the name of an array."""
        name = f"#{next(self.numbers)}"
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: Value | np.ndarray, **attributes: Any) -> Value:
        """Returns the result of ``op``; arrays among the inputs become constants."""
        return self.several(op, 1, *inputs, **attributes)[0]

    def several(
        self, op: str, count: int, *inputs: Value | np.ndarray, **attributes: Any
    ) -> list[Value]:
        """Returns the ``count`` results of ``op``."""
        outputs = [f"#{next(self.numbers)}" for _ in range(count)]
        names = [x.name if isinstance(x, Value) else self.constant(x) for x in inputs]
        self.nodes.append(self.onnx.helper.make_node(op, names, outputs, **attributes))
        return [Value(self, name) for name in outputs]

    def output(self, value: Value, name: str) -> None:
        """Gives a result the name that it has outside."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value.name], [name]))

    def type_of(self, dtype: Any) -> int:
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def as_array(x: Any) -> Any:
    """Returns a number of Python as float32, as the weights are; any array as it is."""
    return np.array(x, np.float32) if isinstance(x, int | float) else x


class Value:
    """An array of a graph."""

    __array_ufunc__ = None  # arrays leave the operators to us

    def __init__(self, graph: Graph, name: str):
        self.graph, self.name = graph, name

    def _with(self, op: str, *inputs: Any) -> Value:
        return self.graph.add(op, *map(as_array, inputs))

    def __add__(self, other: Any) -> Value:
        return self._with("Add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self._with("Add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self._with("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self._with("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self._with("Mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self._with("Mul", other, self)

    def __matmul__(self, other: Any) -> Value:
        return self._with("MatMul", self, other)

    def astype(self, dtype: Any) -> Value:
        return self.graph.add("Cast", self, to=self.graph.type_of(dtype))

    def reshape(self, *shape: int) -> Value:
        return self.graph.add("Reshape", self, np.array(shape, np.int64))

    def transpose(self, *axes: int) -> Value:
        return self.graph.add("Transpose", self, perm=list(axes))


def library() -> Any:
    """Imports onnx. Raises LPOError where it is not installed."""
    try:
        import onnx
    except ImportError as error:
        raise LPOError("An ONNX export needs onnx; run `pip install 'lpo-rl[onnx]'`.") from error
    return onnx


def concatenate(parts: Sequence[Value], axis: int) -> Value:
    return parts[0].graph.add("Concat", *parts, axis=axis)


def split(x: Value, count: int, axis: int) -> list[Value]:
    return x.graph.several("Split", count, x, axis=axis)


def tanh(x: Value) -> Value:
    return x.graph.add("Tanh", x)


def relu(x: Value) -> Value:
    return x.graph.add("Relu", x)


def where(condition: Value, here: Any, there: Any) -> Value:
    return condition.graph.add("Where", condition, here, there)
