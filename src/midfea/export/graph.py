"""A small builder of ONNX graphs: values that can be calculated with, nodes behind them.

Only operators of the standard domain are used. Constants lie in the outermost graph, where the bodies of
loops and branches see them too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray
from onnx import helper, numpy_helper

OPSET = 18  # the first that scatters maxima
IR_VERSION = 8  # of the same time: also read by older programs

Operand: TypeAlias = "Value | NDArray[Any] | float"  # whole numbers and truth values, too
Sides: TypeAlias = "Sequence[int] | Value"
Shape = Sequence[str | int]  # sides that differ from call to call have names


def _infix(
    operator: str, kind: DTypeLike | None = None, swapped: bool = False
) -> Callable[[Value, Operand], Value]:
    def method(self: Value, other: Operand) -> Value:
        inputs = (other, self) if swapped else (self, other)
        return self.graph.op(operator, *inputs, kind=kind)

    return method


class Value:
    """The output of a node. Numbers and arrays beside it become constants of its type."""

    __array_ufunc__ = None  # array + value is the value's business

    def __init__(self, graph: Graph, name: str, kind: DTypeLike) -> None:
        self.graph, self.name, self.kind = graph, name, np.dtype(kind)

    __add__ = _infix("Add")
    __sub__ = _infix("Sub")
    __mul__ = _infix("Mul")
    __truediv__ = _infix("Div")  # of whole numbers, none below zero, the whole part
    __matmul__ = _infix("MatMul")
    __rsub__ = _infix("Sub", swapped=True)
    __rtruediv__ = _infix("Div", swapped=True)
    __gt__ = _infix("Greater", bool)

    def to(self, kind: DTypeLike) -> Value:
        """The same numbers as another type."""
        to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self.graph.op("Cast", self, to=to, kind=kind)

    def side(self, axis: int) -> Value:
        """Its length along an axis, (1,)."""
        return self.graph.op("Shape", self, start=axis, end=axis + 1, kind=np.int64)

    def reshape(self, *sides: int | Value) -> Value:
        """Sides are numbers, or values (1,)."""
        return self.graph.op("Reshape", self, self.graph.join(sides, np.int64))

    def expand(self, *sides: int | Value) -> Value:
        """Repeated along sides of length one."""
        return self.graph.op("Expand", self, self.graph.join(sides, np.int64))

    def transpose(self, *axes: int) -> Value:
        return self.graph.op("Transpose", self, perm=axes)

    def unsqueeze(self, *axes: int) -> Value:
        return self.graph.op("Unsqueeze", self, np.array(axes, dtype=np.int64))

    def take(self, places: Value | NDArray[np.integer[Any]], axis: int) -> Value:
        return self.graph.op("Gather", self, places, axis=axis)

    def cut(self, axes: Sides, starts: Sides, stops: Sides, steps: Sides | None = None) -> Value:
        """self[start:stop:step] along some axes; starts and stops are numbers or values (n,)."""
        given = [starts, stops, axes] if steps is None else [starts, stops, axes, steps]
        bounds = [a if isinstance(a, Value) else np.array(a, dtype=np.int64) for a in given]
        return self.graph.op("Slice", self, *bounds)

    def reduce(self, how: str, *axes: int, keep: bool = True) -> Value:
        """`how` is such as "Sum"; all axes if none is named."""
        named = [np.array(axes, dtype=np.int64)] if axes else []
        return self.graph.op(f"Reduce{how}", self, *named, keepdims=int(keep))


class Graph:
    """Nodes in the order of their making; `scan` and `choose` make graphs inside."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: dict[Any, tuple[str, Any]] = {}
        self._count = 0

    def op(
        self, operator: str, *inputs: Operand, kind: DTypeLike | None = None, **attributes: Any
    ) -> Value:
        """One output of type `kind`, that of the first value if not said."""
        return self.ops(operator, *inputs, kinds=(kind,), **attributes)[0]

    def ops(
        self, operator: str, *inputs: Operand, kinds: Sequence[DTypeLike | None], **attributes: Any
    ) -> list[Value]:
        """Several outputs."""
        first = next((i.kind for i in inputs if isinstance(i, Value)), np.dtype(np.float32))
        names = [i.name if isinstance(i, Value) else self.constant(i, first).name for i in inputs]
        outputs = [self.new(first if kind is None else kind) for kind in kinds]
        node = helper.make_node(operator, names, [value.name for value in outputs], **attributes)
        self._nodes.append(node)
        return outputs

    def new(self, kind: DTypeLike) -> Value:
        """A value without a node: of the body of a loop, or an input."""
        self._count += 1
        return Value(self, f"v{self._count}", kind)

    def constant(self, content: NDArray[Any] | float, kind: DTypeLike | None = None) -> Value:
        """Numbers take the type `kind`, arrays keep their own."""
        array = np.asarray(content, dtype=None if isinstance(content, np.ndarray) else kind, order="C")
        key = array.dtype.str, array.shape, hashlib.sha256(array.data).digest()
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            self._constants[key] = name, numpy_helper.from_array(array, name)
        return Value(self, self._constants[key][0], array.dtype)

    def join(self, parts: Sequence[Value | float], kind: DTypeLike, axis: int = 0) -> Value:
        """Parts one after the other; numbers count as arrays of one of them."""
        values = [
            part if isinstance(part, Value) else self.constant(np.array([part], dtype=kind))
            for part in parts
        ]
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def arange(self, start: Value | int, stop: Value | int, step: int = 1) -> Value:
        """Whole numbers; values (1,) or numbers."""
        bounds = [
            self.op("Squeeze", bound) if isinstance(bound, Value) else self.constant(bound, np.int64)
            for bound in (start, stop, step)
        ]
        return self.op("Range", *bounds)

    def where(self, condition: Value, yes: Value, no: Value | float) -> Value:
        other = no if isinstance(no, Value) else self.constant(no, yes.kind)
        return self.op("Where", condition, yes, other, kind=yes.kind)

    def scan(self, body: Callable[[Value], Sequence[Value]], sequence: Value) -> list[Value]:
        """What `body` makes of each item along the first axis of the sequence, stacked."""
        item = self.new(sequence.kind)
        results, inside = self._inside(lambda: body(item), [item])
        kinds = [result.kind for result in results]
        return self.ops("Scan", sequence, kinds=kinds, body=inside, num_scan_inputs=1)

    def choose(self, condition: Value, then: Callable[[], Value], otherwise: Value) -> Value:
        """`then` is computed only if it is chosen."""
        (yes,), then_branch = self._inside(lambda: [then()])
        _, else_branch = self._inside(lambda: [otherwise])
        scalar = self.op("Squeeze", condition)
        return self.op("If", scalar, kind=yes.kind, then_branch=then_branch, else_branch=else_branch)

    def _inside(
        self, make: Callable[[], Sequence[Value]], items: Sequence[Value] = ()
    ) -> tuple[list[Value], Any]:
        outside, self._nodes = self._nodes, []
        results = [self.op("Identity", value) for value in make()]  # outputs must be made inside
        given, made = ([_info(value) for value in values] for values in (items, results))
        body = helper.make_graph(self._nodes, f"body{self._count}", given, made)
        self._nodes = outside
        return results, body

    def model(
        self,
        source: Value,
        source_shape: Shape,
        results: Mapping[str, tuple[Value, Shape]],
        about: dict[str, str],
    ) -> onnx.ModelProto:
        """The whole, checked; results by name."""
        outputs = []
        for name, (value, shape) in results.items():
            self._nodes.append(helper.make_node("Identity", [value.name], [name]))
            outputs.append(_info(Value(self, name, value.kind), shape))
        graph = helper.make_graph(
            self._nodes,
            "midfea",
            [_info(source, source_shape)],
            outputs,
            [tensor for _, tensor in self._constants.values()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        made = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="midfea"
        )
        helper.set_model_props(made, about)
        if made.ByteSize() >= 2**31:
            raise ValueError(
                f"the model has {made.ByteSize() / 1e9:.1f} GB and an ONNX file holds 2 GB at most: "
                'train with projection="random", or with fewer words or components'
            )
        onnx.checker.check_model(made, full_check=True)
        return made


def _info(value: Value, shape: Shape | None = None) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(value.kind)
    return helper.make_tensor_value_info(value.name, kind, shape)
