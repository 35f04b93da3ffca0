"""A graph of ONNX that is written down as formulas: values with operators, and float64 throughout.

Only operators that onnxruntime has for float64 on the CPU are used. Erf is not among them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
"""Of 2022 and later: every onnxruntime from 1.15 on reads them."""


class Value:
    """A tensor in a graph."""

    __array_ufunc__ = None  # so that array − value is asked of the value

    def __init__(self, graph: "Graph", name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> "Value":
        return self.graph.apply("Add", self, other)

    def __radd__(self, other: Any) -> "Value":
        return self.graph.apply("Add", other, self)

    def __sub__(self, other: Any) -> "Value":
        return self.graph.apply("Sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self.graph.apply("Sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return self.graph.apply("Mul", self, other)

    def __rmul__(self, other: Any) -> "Value":
        return self.graph.apply("Mul", other, self)

    def __truediv__(self, other: Any) -> "Value":
        return self.graph.apply("Div", self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self.graph.apply("Div", other, self)

    def __matmul__(self, other: Any) -> "Value":
        return self.graph.apply("MatMul", self, other)

    def __neg__(self) -> "Value":
        return self.graph.apply("Neg", self)

    def __gt__(self, other: Any) -> "Value":
        return self.graph.apply("Greater", self, other)

    def __lt__(self, other: Any) -> "Value":
        return self.graph.apply("Less", self, other)


class Graph:
    """Inputs, constants, nodes and outputs, in the order in which they were made."""

    def __init__(self) -> None:
        self.inputs: list[tuple[str, type, int]] = []
        self.constants: list[NDArray[Any]] = []
        self.nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self.outputs: list[tuple[str, NDArray[Any], tuple[int, ...]]] = []

    def input(self, name: str, dtype: type, n_columns: int) -> Value:
        """An input of shape (n, columns), of float64 or str."""
        self.inputs.append((name, dtype, n_columns))
        return Value(self, name)

    def output(self, name: str, value: Value, example: NDArray[Any], *shape: int) -> None:
        """An output of shape (n, …), with values of the type of the example."""
        self.nodes.append(("Identity", [value.name], name, {}))
        self.outputs.append((name, example, shape))

    def constant(self, value: Any) -> Value:
        """A constant: as it is if it is an array, else of float64."""
        array = value if isinstance(value, np.ndarray) else np.asarray(value, np.float64)
        self.constants.append(array)
        return Value(self, f"sepgp:constant {len(self.constants) - 1}")

    def apply(self, operator: str, *values: Any, **attributes: Any) -> Value:
        """The first output of an operator; values that are no `Value` are constants."""
        names = [(v if isinstance(v, Value) else self.constant(v)).name for v in values]
        self.nodes.append((operator, names, f"sepgp:value {len(self.nodes)}", attributes))
        return Value(self, self.nodes[-1][2])

    def reduce(self, operator: str, value: Value, axis: int, keep: bool = True) -> Value:
        """Sum, maximum or minimum along an axis, which is kept with length 1 or dropped."""
        return self.apply(operator, value, np.array([axis]), keepdims=int(keep))

    def insert(self, value: Value, *axes: int) -> Value:
        """The value with axes of length 1 at these places."""
        return self.apply("Unsqueeze", value, np.array(axes))

    def where(self, condition: Value, yes: Any, no: Any) -> Value:
        """One value where the condition holds and another elsewhere."""
        return self.apply("Where", condition, yes, no)

    def to_bytes(self, version: str) -> bytes:
        """The file of ONNX."""
        onnx = library()
        types = {np.float64: onnx.TensorProto.DOUBLE, str: onnx.TensorProto.STRING}
        info, tensor = onnx.helper.make_tensor_value_info, onnx.numpy_helper.from_array
        domains = {"LabelEncoder": "ai.onnx.ml"}
        proto = onnx.helper.make_graph(
            [
                onnx.helper.make_node(op, names, [result], domain=domains.get(op), **attributes)
                for op, names, result, attributes in self.nodes
            ],
            "sepgp",
            [info(name, types[dtype], ["rows", n]) for name, dtype, n in self.inputs],
            [
                info(name, onnx.helper.np_dtype_to_tensor_dtype(example.dtype), ["rows", *shape])
                for name, example, shape in self.outputs
            ],
            [tensor(array, f"sepgp:constant {i}") for i, array in enumerate(self.constants)],
        )
        opsets = [
            onnx.helper.make_opsetid(*pair) for pair in (("", OPSET), ("ai.onnx.ml", ML_OPSET))
        ]
        made = {"producer_name": "sepgp", "producer_version": version, "ir_version": IR_VERSION}
        model = onnx.helper.make_model(proto, opset_imports=opsets, **made)
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def library() -> Any:
    """The library that writes graphs, or one sentence that says how to install it."""
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError(
            "onnx is needed to export a model; install it by `pip install 'sepgp[onnx]'`."
        ) from error
    return onnx
