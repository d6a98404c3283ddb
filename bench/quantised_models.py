"""Quantised ONNX models, made by onnxruntime.quantization of small nets written here and of float files.

    python bench/quantised_models.py                              the nets written here, in build/onnx/quantised
    python bench/quantised_models.py model.onnx --size "*=320"    the same of a file
    python bench/quantised_models.py --compare                    all that was made: differences and times

Of each float model there are `-qdq` (QuantizeLinear and DequantizeLinear around what stays as it is), `-qop`
(QLinear*), `-qdq-channel` (a scale for each channel), `-dynamic` (scales from the data), and of products `-nbits`
(MatMulNBits). A line of `--compare` says how far outputs are from onnxruntime's, as a part of the largest value, and
the times of both, in turns: threads that spin after a call disturb the other, so short times want `--seconds 0.5`.
Needs onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parents[1] / "build" / "onnx" / "quantised"
CALIBRATION = 3  # inputs whose ranges are looked at


class Net:
    """A graph of floats that is written down node by node."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.random = shape, np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int, fan: int = 0) -> str:
        values = self.random.standard_normal(shape) / math.sqrt(fan or 4)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def constant(self, values: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}_{op_type}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> str:
        part = inputs // groups
        weight, bias = self.weight(outputs, part, size, size, fan=part * size * size // 2), self.weight(outputs)
        return self.node("Conv", x, weight, bias, strides=[stride] * 2, pads=[size // 2] * 4, group=groups)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.weight(inputs, outputs, fan=inputs)), self.weight(outputs))

    def model(self, output: str) -> Any:
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [given], [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def resnet() -> Any:
    """ResNet-18 without its classes, at 128 x 128."""
    net = Net(1, 3, 128, 128)
    x = net.node("Relu", net.conv("x", 3, 64, 7, 2))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = net.node("Relu", net.conv(x, inputs, outputs, 3, stride))
        y = net.conv(y, outputs, outputs, 3)
        near = x if inputs == outputs else net.conv(x, inputs, outputs, 1, stride)
        x, inputs = net.node("Relu", net.node("Add", y, near)), outputs
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model(net.node("Gemm", x, net.weight(512, 100, fan=512), net.weight(100)))


def mobilenet() -> Any:
    """Blocks of MobileNetV2, at 160 x 160."""
    net = Net(1, 3, 160, 160)
    x, inputs = net.node("Clip", net.conv("x", 3, 32, 3, 2), *_six(net)), 32
    for outputs, stride, grow in (
        *((16, 1, 1), (24, 2, 6), (24, 1, 6), (32, 2, 6), (32, 1, 6), (64, 2, 6), (64, 1, 6), (96, 1, 6), (96, 1, 6)),
        *((160, 2, 6), (160, 1, 6), (320, 1, 6)),
    ):
        wide = inputs * grow
        y = net.node("Clip", net.conv(x, inputs, wide, 1), *_six(net)) if grow > 1 else x
        y = net.node("Clip", net.conv(y, wide, wide, 3, stride, wide), *_six(net))
        y = net.conv(y, wide, outputs, 1)
        x, inputs = net.node("Add", x, y) if stride == 1 and inputs == outputs else y, outputs
    x = net.node("Clip", net.conv(x, 320, 1280, 1), *_six(net))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model(net.node("Gemm", x, net.weight(1280, 100, fan=1280), net.weight(100)))


def _six(net: Net) -> tuple[str, str]:
    return net.constant(np.float32(0)), net.constant(np.float32(6))


def transformer() -> Any:
    """Two blocks of a transformer: 128 tokens, 384 wide, 6 heads."""
    length, wide, heads = 128, 384, 6
    net = Net(1, length, wide)
    x = "x"
    for _ in range(2):
        parts = [net.linear(x, wide, wide) for _ in range(3)]
        split = net.constant(np.array([1, length, heads, wide // heads]))
        q, k, v = (net.node("Reshape", part, split) for part in parts)
        q, v = (net.node("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        k = net.node("Transpose", k, perm=[0, 2, 3, 1])
        scores = net.node("Div", net.node("MatMul", q, k), net.constant(np.float32(math.sqrt(wide // heads))))
        seen = net.node("MatMul", net.node("Softmax", scores, axis=-1), v)
        seen = net.node("Transpose", seen, perm=[0, 2, 1, 3])
        seen = net.node("Reshape", seen, net.constant(np.array([1, length, wide])))
        x = _normalised(net, net.node("Add", x, net.linear(seen, wide, wide)), wide)
        y = net.linear(x, wide, 4 * wide)
        half = net.node("Div", y, net.constant(np.float32(math.sqrt(2))))
        y = net.node("Mul", y, net.node("Add", net.node("Erf", half), net.constant(np.float32(1))))
        y = net.node("Mul", y, net.constant(np.float32(0.5)))
        x = _normalised(net, net.node("Add", x, net.linear(y, 4 * wide, wide)), wide)
    return net.model(net.node("Identity", x))


def _normalised(net: Net, x: str, wide: int) -> str:
    ones, zeros = net.constant(np.ones(wide, np.float32)), net.constant(np.zeros(wide, np.float32))
    return net.node("LayerNormalization", x, ones, zeros, axis=-1)


def lstm() -> Any:
    """An LSTM of 256 over 50 steps, with a head."""
    net = Net(50, 1, 128)
    weights = [net.weight(1, 1024, 128, fan=128), net.weight(1, 1024, 256, fan=256), net.weight(1, 2048)]
    x = net.node("LSTM", "x", *weights, hidden_size=256)
    x = net.node("Squeeze", x, net.constant(np.array([1])))
    return net.model(net.linear(x, 256, 64))


NETS: dict[str, Callable[[], Any]] = {
    "resnet": resnet,
    "mobilenet": mobilenet,
    "transformer": transformer,
    "lstm": lstm,
}


class Examples:
    """What calibration reads: a few random inputs."""

    def __init__(self, path: Path, sizes: dict[str, int]) -> None:
        self.path, self.sizes, self.left = path, sizes, CALIBRATION

    def get_next(self) -> dict[str, Any] | None:
        self.left -= 1
        return inputs_of(self.path, self.sizes, self.left) if self.left >= 0 else None

    def rewind(self) -> None:
        self.left = CALIBRATION


def inputs_of(path: Path, sizes: dict[str, int], seed: int = 0) -> dict[str, Any]:
    """Random numbers for the inputs that a file declares."""
    from whit import onnx as ours
    from whit.onnx.examples import example_inputs

    model = ours.load(path)
    found = dict(sizes)
    for port in model.inputs:
        for axis, size in enumerate(port.type.shape or ()):
            if not isinstance(size, int):
                found.setdefault(str(size), 1 if axis == 0 else sizes.get("*", 1))
    return example_inputs(model.inputs, found, seed)


def made(name: str, source: Path, sizes: dict[str, int]) -> Iterator[Path]:
    """All quantised forms of a float file."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready = FOLDER / f"{name}-float.onnx"
    model = onnx.load(source)
    for port in model.graph.input:
        for axis, dim in enumerate(port.type.tensor_type.shape.dim):
            if not dim.dim_value:
                dim.dim_value = sizes.get(dim.dim_param, 1 if axis == 0 else sizes.get("*", 1))
    stored = {tensor.name for tensor in model.graph.initializer}
    for port in [port for port in model.graph.input if port.name in stored]:
        model.graph.input.remove(port)
    old = next(each for each in model.opset_import if each.domain in ("", "ai.onnx"))
    model = onnx.version_converter.convert_version(model, 17) if old.version < 13 else model  # axes of scales
    onnx.save(model, ready)
    quant_pre_process(str(ready), str(ready), skip_symbolic_shape=True)
    yield ready
    kinds: dict[str, dict[str, Any]] = {
        "qdq": {"quant_format": QuantFormat.QDQ},
        "qdq-channel": {"quant_format": QuantFormat.QDQ, "per_channel": True, "activation_type": QuantType.QInt8},
        "qop": {"quant_format": QuantFormat.QOperator},
    }
    for kind, options in kinds.items():
        if name != "lstm":
            path = FOLDER / f"{name}-{kind}.onnx"
            options = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, **options}
            quantize_static(str(ready), str(path), Examples(ready, sizes), **options)
            yield path
    path = FOLDER / f"{name}-dynamic.onnx"
    quantize_dynamic(str(ready), str(path), weight_type=QuantType.QUInt8)
    yield path
    if any(node.op_type == "MatMul" for node in model.graph.node):
        yield n_bits(ready, FOLDER / f"{name}-nbits.onnx")


def n_bits(source: Path, path: Path, block: int = 32) -> Path:
    """Products with weights of four bits: a scale and a zero point for each block along the sum."""
    model = onnx.load(source)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        weight = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if weight is None or weight.ndim != 2 or weight.shape[0] % block:
            continue
        depth, columns = weight.shape
        blocks = weight.T.reshape(columns, depth // block, block)
        low, high = blocks.min(2, keepdims=True).clip(max=0), blocks.max(2, keepdims=True).clip(min=0)
        scale = (high - low) / 15
        zero = np.round(-low / scale).clip(0, 15)
        whole = (np.round(blocks / scale) + zero).clip(0, 15).astype(np.uint8)
        zeros = zero.astype(np.uint8).reshape(columns, -1)
        zeros = np.pad(zeros, [(0, 0), (0, zeros.shape[1] % 2)])
        names = [f"{node.name}_{part}" for part in ("bits", "scales", "zeros")]
        parts = (whole[..., ::2] | whole[..., 1::2] << 4, scale.reshape(-1), zeros[:, ::2] | zeros[:, 1::2] << 4)
        for name, part in zip(names, parts, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(part, name))
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.input[:] = [node.input[0], *names]
        for name, value in (("K", depth), ("N", columns), ("bits", 4), ("block_size", block)):
            node.attribute.append(helper.make_attribute(name, value))
    used = {name for node in model.graph.node for name in node.input}
    left = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(left)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    return path


def compare(paths: list[Path], sizes: dict[str, int], seconds: float) -> None:
    """The table."""
    import onnx_models  # beside this file

    onnx_models.SECONDS = seconds
    print(f"{'model':34} {'nodes':>5} {'worst':>8} {'first ms':>9} {'whit':>9} {'ort':>9} {'ratio':>6}")
    ratios = []
    for path in paths:
        try:
            line = onnx_models.measure(path, sizes)
        except Exception as error:  # of onnxruntime or of a model: the others are measured still
            print(f"{path.stem[:34]:34} {type(error).__name__}: {str(error)[:200]}")
            continue
        ratios.append(line.ratio)
        print(
            f"{path.stem[:34]:34} {line.nodes:5} {line.worst:8.1e} {line.first:9.0f} {line.whit:9.3f} "
            f"{line.onnxruntime:9.3f} {line.ratio:6.2f}",
            flush=True,
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)}: {mean:.2f}; least {min(ratios):.2f}")


def main() -> None:
    """Makes models, or compares those that there are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.3, help="of a round of one contestant")
    options = parser.parse_args()
    sizes = {name: int(size) for name, _, size in (text.rpartition("=") for text in options.size)}
    FOLDER.mkdir(parents=True, exist_ok=True)
    if options.compare:
        found = [path for path in sorted(FOLDER.glob("*.onnx")) if not path.stem.endswith("-float")]
        compare([path for path in found if all(part in path.stem for part in options.only)], sizes, options.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        sources = {path.stem: path for path in options.files}
        for name, net in NETS.items() if not options.files else ():
            sources[name] = Path(folder) / f"{name}.onnx"
            onnx.save(net(), sources[name])
        for name, source in sources.items():
            for path in made(name, source, sizes):
                print(f"{path.stat().st_size:10} {path}", flush=True)


if __name__ == "__main__":
    main()
