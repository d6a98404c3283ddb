"""Elementwise graphs as machine code: fast enough for millions of values, and with a fused multiply-add that is one.

    run(graph, {x: array, y: array})    the graph's value for every element

A small printer of its own for the few ops that math expansions consist of, so that accuracy can be measured without the
rest of the compiler. `tests/codegen/test_math.py` compares it with the interpreter.
"""

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from whit.dtype import DType, dtypes, encode
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_BINARY = {
    ops.ADD: ("add", "fadd"),
    ops.SUB: ("sub", "fsub"),
    ops.MUL: ("mul", "fmul"),
    ops.FDIV: ("", "fdiv"),
    ops.AND: ("and", ""),
    ops.OR: ("or", ""),
    ops.XOR: ("xor", ""),
    ops.SHL: ("shl", ""),
}
_UNARY = {ops.ABS: "fabs", ops.FLOOR: "floor", ops.SQRT: "sqrt"}
_COMPARE = {ops.LT: ("lt", "olt"), ops.LE: ("le", "ole"), ops.EQ: ("eq", "oeq"), ops.NE: ("ne", "une")}
_KEPT: list[Any] = []  # engines: the code lives as long as they do


def _type(dtype: DType) -> str:
    if dtype is dtypes.bool:
        return "i1"
    if dtype.is_float:
        return {16: "half", 32: "float", 64: "double"}[dtype.bitsize]
    return f"i{dtype.bitsize}"


def _constant(node: UOp) -> str:
    if node.dtype is dtypes.bool:
        return str(node.arg).lower()
    if node.dtype.is_float:  # LLVM writes float32 constants as doubles
        return f"0x{encode(dtypes.float64, node.arg):016X}"
    return str(node.arg)


def _cast(value: str, source: DType, target: DType) -> str:
    if source.is_float and target.is_float:
        name = "fpext" if target.bitsize > source.bitsize else "fptrunc"
    else:
        raise NotImplementedError(f"cast of {source} to {target}")
    return f"{name} {_type(source)} {value} to {_type(target)}"


def _instruction(node: UOp, names: list[str]) -> str:
    op, dtype = node.op, node.dtype
    kind = _type(dtype)
    source = node.src[0].dtype
    if op in _BINARY:
        return f"{_BINARY[op][dtype.is_float]} {kind} {names[0]}, {names[1]}"
    if op is ops.SHR:
        return f"{'lshr' if dtype.is_unsigned else 'ashr'} {kind} {names[0]}, {names[1]}"
    if op in _COMPARE:
        name = _COMPARE[op][source.is_float]
        sign = "" if source.is_float or op in (ops.EQ, ops.NE) else "u" if source.is_unsigned else "s"
        return f"{'f' if source.is_float else 'i'}cmp {sign}{name} {_type(source)} {names[0]}, {names[1]}"
    if op is ops.WHERE:
        return f"select i1 {names[0]}, {kind} {names[1]}, {kind} {names[2]}"
    if op is ops.FMA:
        return f"call {kind} @llvm.fma.f{dtype.bitsize}({', '.join(f'{kind} {n}' for n in names)})"
    if op in (ops.MAX, ops.MIN):
        name = "maximum" if op is ops.MAX else "minimum"
        return f"call {kind} @llvm.{name}.f{dtype.bitsize}({kind} {names[0]}, {kind} {names[1]})"
    if op in _UNARY:
        return f"call {kind} @llvm.{_UNARY[op]}.f{dtype.bitsize}({kind} {names[0]})"
    if op is ops.NEG:
        return f"fneg {kind} {names[0]}"
    if op is ops.NOT:
        return f"xor i1 {names[0]}, true"
    if op is ops.BITCAST:
        return f"bitcast {_type(source)} {names[0]} to {kind}"
    if op is ops.CAST:
        return _cast(names[0], source, dtype)
    raise NotImplementedError(op.name)


def _source(graph: UOp, params: list[UOp]) -> str:
    names: dict[UOp, str] = {}
    body: list[str] = []
    for i, p in enumerate(params):
        body += [
            f"%p{i} = getelementptr {_type(p.dtype)}, ptr %in{i}, i64 %i",
            f"%x{i} = load {_type(p.dtype)}, ptr %p{i}",
        ]
        names[p] = f"%x{i}"
    for number, node in enumerate(graph.topological()):
        if node.op is ops.CONST:
            names[node] = _constant(node)
        elif node not in names:
            names[node] = f"%v{number}"
            if node.op is ops.BITCAST and _type(node.dtype) == _type(node.src[0].dtype):
                names[node] = names[node.src[0]]
                continue
            body.append(f"%v{number} = {_instruction(node, [names[s] for s in node.src])}")
    kind = _type(graph.dtype)
    arguments = "".join(f"ptr noalias %in{i}, " for i in range(len(params)))
    declared = {"fma": 3, "maximum": 2, "minimum": 2, "fabs": 1, "floor": 1, "sqrt": 1}
    declarations = [
        f"declare {t} @llvm.{name}.f{bits}({', '.join([t] * count)})"
        for name, count in declared.items()
        for t, bits in (("float", 32), ("double", 64))
    ]
    return "\n".join(
        [
            *declarations,
            f"define void @f({arguments}ptr noalias %out, i64 %n) {{",
            "entry:\n  br label %loop\nloop:\n  %i = phi i64 [0, %entry], [%next, %loop]",
            *body,
            f"%q = getelementptr {kind}, ptr %out, i64 %i",
            f"store {kind} {names[graph]}, ptr %q",
            "%next = add nuw nsw i64 %i, 1\n  %more = icmp ult i64 %next, %n",
            "br i1 %more, label %loop, label %done\ndone:\n  ret void\n}",
        ]
    )


def compile(graph: UOp, params: list[UOp]) -> Any:
    """A function of arrays, one for each param, that gives the graph's values."""
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(_source(graph, params))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _KEPT.append(engine)
    pointers = [ctypes.c_void_p] * (len(params) + 1)
    function = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(engine.get_function_address("f"))

    def call(*arrays: np.ndarray) -> np.ndarray:
        inputs = [np.ascontiguousarray(a, numpy_dtype(p.dtype)) for a, p in zip(arrays, params, strict=True)]
        result = np.empty(inputs[0].shape, numpy_dtype(graph.dtype))
        function(*(a.ctypes.data for a in (*inputs, result)), result.size)
        return result

    return call


def run(graph: UOp, inputs: dict[UOp, np.ndarray]) -> np.ndarray:
    """The graph's value on arrays of one shape."""
    return compile(graph, list(inputs))(*inputs.values())
