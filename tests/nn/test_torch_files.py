"""Checkpoints of PyTorch: both formats, every layout of tensors, and pickles that want to run code."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from whit import Tensor, dtypes
from whit.errors import ParseError
from whit.nn.state import torch_load
from whit.nn.state.pickles import Unpickler
from whit.tensor.source import Reader, open_source

pytestmark = pytest.mark.slow  # many

FORMATS = pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "legacy"])


def unpickled(data: bytes) -> Any:
    return Unpickler(Reader(open_source("torch_load", data)), {}).load()


def checkpoint_of(data: bytes, **members: bytes) -> bytes:
    """A zip archive as PyTorch writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {"data.pkl": data, **members}.items():
            archive.writestr(zipfile.ZipInfo(f"a/{name}"), content)  # no time of day: every run is the same
    return file.getvalue()


# ---- pickles

PLAIN = [
    None,
    True,
    0,
    -1,
    255,
    65536,
    -(2**31),
    2**40,
    -(2**100),
    2**5000,
    1.5,
    float("inf"),
    "",
    "ü\n'\"\\",
    "x" * 300,
    b"\0\xff",
    b"y" * 300,
    bytearray(b"abc"),
    [],
    [1, [2, [3]]],
    (),
    (1,),
    (1, 2),
    (1, 2, 3),
    (1, 2, 3, 4),
    {},
    {"a": 1, 2: (3, None), (1, "k"): 0},
    {1, 2},
    frozenset({3}),
    list(range(2000)),
]


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_of_every_protocol(protocol: int) -> None:
    for value in PLAIN:
        text = pickle.dumps(value, protocol)
        if protocol < 5 and isinstance(value, bytes | bytearray | set | frozenset):
            text = checkpoint_of(text)  # older protocols call functions for these
        found = torch_load(text) if text[:2] == b"PK" else unpickled(text)
        assert found == value and type(found) is type(value)


def test_shared_and_cyclic_values() -> None:
    shared = [1]
    cyclic: list[Any] = [shared, shared]
    cyclic.append(cyclic)
    found = unpickled(pickle.dumps(cyclic))
    assert found[0] is found[1] and found[2] is found


class Evil:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


EVIL = [
    (os.system, "touch {}"),
    (eval, "open('{}', 'w')"),
    (exec, "open('{}', 'w')"),
    (open, "{}", "w"),
    (getattr, "{}", "x"),
    (__import__, "os"),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("index", range(len(EVIL)))
def test_no_code_is_run(index: int, protocol: int, tmp_path: Path) -> None:
    function, *arguments = EVIL[index]
    mark = tmp_path / "mark"
    evil = Evil(function, *[argument.format(mark) for argument in arguments])
    data = pickle.dumps({"model": [evil]}, protocol)
    legacy = b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})) + data
    for file in (checkpoint_of(data), legacy):
        with pytest.raises(ParseError, match="which is not loaded from files"):
            torch_load(file)
    assert not mark.exists()


def test_the_message_about_code_says_what_to_do() -> None:
    with pytest.raises(ParseError) as caught:
        unpickled(b"cos\nsystem\n(S'x'\ntR.")
    assert str(caught.value) == (
        "torch_load: bytes: it asks for 'os.system', which is not loaded from files\n"
        "  a file could run any code that way; tensors, dictionaries, lists, numbers and text are loaded\n"
        "  Where you trust the file, load it with the program that wrote it, and save the tensors alone."
    )


BAD_PICKLES = {
    "empty": b"",
    "no stop": b"N",
    "unknown code": b"\x80\x02\xfa.",
    "protocol 6": b"\x80\x06N.",
    "stop without a value": b".",
    "instance": b"(cos\nsystem\no.",
    "inst": b"(ios\nsystem\n.",
    "extension": b"\x82\x01.",
    "text longer than the file": b"X\xff\xff\xff\xffab.",
    "bytes longer than the file": b"\x8e" + struct.pack("<Q", 1 << 60) + b"ab.",
    "bytearray longer than the file": b"\x96" + struct.pack("<Q", 1 << 40) + b"ab.",
    "long longer than the file": b"\x8b\xff\xff\xff\x7fab.",
    "memo that is not there": b"h\x05.",
    "memo far away": b"r\xff\xff\xff\xff.",
    "append to a number": b"K\x01K\x02a.",
    "set item of a list": b"]K\x01K\x02s.",
    "odd items": b"}(K\x01u.",
    "items without a mark": b"}u.",
    "values below a mark": b"](a.",
    "call a number": b"K\x01)R.",
    "state of a number": b"K\x01}b.",
    "list as a key": b"}]K\x01s.",
    "tuples in a key": b"})" + b"\x85" * 100_000 + b"Ns.",
    "tuples in a set": b"\x8f()" + b"\x85" * 100_000 + b"\x90.",
    "marks in marks": b"(" * 200_000 + b".",
    "number of many digits": b"I" + b"9" * 6000 + b"\n.",
    "a line without an end": b"I" + b"9" * 70_000,
    "not a number": b"Ix\n.",
    "not utf-8": b"X\x01\0\0\0\xff.",
    "persistent": b"K\x01Q.",
}


HOSTILE = {
    "a list copied again and again": b"](" + b"N" * 1000 + b"eq\0" + b"c__builtin__\nlist\nh\0\x85R0" * 1000 + b"N.",
    "an OrderedDict of a number": b"ccollections\nOrderedDict\nK\x05\x85R.",
    "bytearray of a number": b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "a storage that is called": b"ctorch\nFloatStorage\nK\x05\x85R.",
    "a dtype that is called": b"ctorch\nfloat32\nK\x05\x85R.",
    "a storage named by tuples": b"(X\x07\0\0\0storagectorch\nFloatStorage\n)" + b"\x85" * 100_000 + b"NK\x01tQ.",
    "a storage without a type": b"(X\x07\0\0\0storageNX\x01\0\0\x000NK\x01tQ.",
    "a tensor of no storage": b"ctorch._utils\n_rebuild_tensor_v2\n(NK\0))\x89NtR.",
    "arguments missing": b"ctorch._utils\n_rebuild_tensor_v2\n)R.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_checkpoints_that_misuse_what_is_allowed(name: str) -> None:
    with pytest.raises(ParseError):
        torch_load(checkpoint_of(HOSTILE[name]))


@pytest.mark.parametrize("name", BAD_PICKLES)
def test_bad_pickles_are_refused(name: str) -> None:
    with pytest.raises(ParseError):
        unpickled(BAD_PICKLES[name])


def test_deep_nesting_is_fine() -> None:
    found = unpickled(b"]" + b"\x85" * 100_000 + b".")
    assert isinstance(found, tuple)


# ---- checkpoints of PyTorch itself


def saved(value: Any, is_zip: bool) -> bytes:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=is_zip)
    return file.getvalue()


@pytest.mark.slow
@FORMATS
def test_layouts_of_tensors(is_zip: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(60, dtype=torch.float32)
    tensors = {
        "contiguous": base[:6].reshape(2, 3),
        "offset": base[7:13].reshape(2, 3),
        "scalar": base[5],
        "empty": torch.zeros(0, 3),
        "transposed": base[:12].reshape(3, 4).t(),
        "permuted": base.reshape(3, 4, 5).permute(2, 0, 1),
        "columns": base[5:29].reshape(4, 6)[:, 1:3],
        "columns at the end": base[-4:].reshape(2, 2)[:, :1],
        "last column": base.reshape(6, 10)[:, 9],
        "every third": base[1::3],
        "steps everywhere": base.reshape(3, 4, 5)[:, ::2, 1::3].permute(2, 0, 1),
        "repeated": base[3:5].reshape(2, 1).expand(2, 3),
        "one repeated": base[9].expand(2, 2),
        "overlapping": base.as_strided((3, 2), (1, 1), 2),
        "sizes of one": base[:4].as_strided((1, 4, 1), (77, 1, 5)),
    }
    data = saved(tensors, is_zip)
    (tmp_path / "x").write_bytes(data)
    for given in (tmp_path / "x", data):
        found = torch_load(given)
        assert {name: t.tolist() for name, t in found.items()} == {name: t.tolist() for name, t in tensors.items()}
    lazy = torch_load(tmp_path / "x")
    assert [name for name, t in lazy.items() if not t.device.startswith("DISK:")] == ["empty", "overlapping"]


@pytest.mark.slow
@FORMATS
def test_dtypes(is_zip: bool) -> None:
    torch = pytest.importorskip("torch")
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool"
    names += " float8_e4m3fn float8_e5m2 complex64 complex128"
    tensors = {name: torch.tensor([0, 1, 1]).to(getattr(torch, name)) for name in names.split()}
    found = torch_load(saved(tensors, is_zip))
    theirs = {"float8_e4m3fn": "fp8e4m3", "float8_e5m2": "fp8e5m2"}
    for name, tensor in found.items():
        assert tensor.dtype.name == theirs.get(name, name) and tensor.tolist() == [0, 1, 1]
    with pytest.raises(ParseError, match=r"ComplexHalf|complex32"):
        torch_load(saved(torch.zeros(1, dtype=torch.complex32), is_zip))


@pytest.mark.slow
@FORMATS
def test_what_is_around_the_tensors(is_zip: bool) -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.tensor([1.5, 2.5]))
    value = {
        "state": OrderedDict(w=parameter, tied=parameter),
        "epoch": 3,
        "text": "ü",
        "nested": [(1, 2.5), {"k": None}, {1, 2}, b"\0\xff"],
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
    }
    found = torch_load(saved(value, is_zip))
    state = found["state"]
    assert list(found) == list(value) and all(found[name] == value[name] for name in ("epoch", "text", "nested"))
    assert found["size"] == (1, 2) and found["dtype"] is dtypes.float16 and found["device"] == "cpu"
    assert type(state) is OrderedDict and isinstance(state["w"], Tensor) and state["tied"].tolist() == [1.5, 2.5]


@pytest.mark.slow
@FORMATS
def test_state_of_modules_and_optimisers(is_zip: bool) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimiser = torch.optim.Adam(module.parameters())
    module(torch.ones(4, 3)).sum().backward()
    optimiser.step()
    found = torch_load(saved({"model": module.state_dict(), "optim": optimiser.state_dict()}, is_zip))
    assert list(found["model"]) == list(module.state_dict())
    assert all(found["model"][name].tolist() == t.tolist() for name, t in module.state_dict().items())
    assert found["optim"]["param_groups"][0]["betas"] == (0.9, 0.999)
    assert found["optim"]["state"][0]["exp_avg"].shape == (2, 3)


@pytest.mark.slow
@FORMATS
def test_whole_modules_are_refused(is_zip: bool) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ParseError, match=r"torch\.nn\.modules\.linear\.Linear"):
        torch_load(saved(torch.nn.Linear(2, 2), is_zip))


# ---- files that are wrong


def checkpoint(
    arguments: bytes, count: int = 4, data: bytes = bytes(16), function: bytes = b"", **members: bytes
) -> bytes:
    """One tensor: a zip with `_rebuild_tensor_v2(storage, *arguments)`, or with a function of it."""
    storage = b"((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
    storage += b"J" + struct.pack("<i", count) + b"tQ"
    text = b"ctorch._utils\n_rebuild_tensor_v2\n" + storage + arguments + b"tR"
    text = b"\x80\x02" + (function + text + b"\x85R" if function else text) + b"."
    return checkpoint_of(text, **{"data/0": data}, **members)


def numbers(*values: int) -> bytes:
    """A tuple of numbers in a pickle."""
    return b"(" + b"".join(b"\x8a\x09" + value.to_bytes(9, "little", signed=True) for value in values) + b"t"


REST = b"\x89N"  # requires_grad, hooks


def test_a_checkpoint_made_by_hand() -> None:
    data = struct.pack("<4f", 1, 2, 3, 4)
    assert torch_load(checkpoint(b"K\0" + numbers(2, 2) + numbers(1, 2) + REST, data=data)).tolist() == [[1, 3], [2, 4]]


BAD_TENSORS = {
    "outside": b"K\1" + numbers(4) + numbers(1),
    "steps outside": b"K\0" + numbers(2, 2) + numbers(1 << 60, 1),
    "negative offset": b"J\xff\xff\xff\xff" + numbers(1) + numbers(1),
    "negative size": b"K\0" + numbers(-1) + numbers(1),
    "negative step": b"K\3" + numbers(4) + numbers(-1),
    "steps missing": b"K\0" + numbers(2, 2) + numbers(1),
    "huge": b"K\0" + numbers(1 << 40, 1 << 40) + numbers(0, 0),
    "not sizes": b"K\0" + b"X\x01\0\0\0a" + numbers(1),
    "a float as offset": b"G" + bytes(8) + numbers(1) + numbers(1),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_tensors_that_do_not_fit_their_storage(name: str) -> None:
    with pytest.raises(ParseError):
        torch_load(checkpoint(BAD_TENSORS[name] + REST))


def test_repeated_elements_cost_nothing() -> None:
    found = torch_load(checkpoint(b"K\0" + numbers(1 << 30, 1 << 20) + numbers(0, 0) + REST))
    assert found.shape == (1 << 30, 1 << 20)
    found = torch_load(checkpoint(b"K\0" + numbers(1 << 30, 2) + numbers(0, 1) + REST))
    assert found.shape == (1 << 30, 2)


def test_tensors_are_not_made_into_lists() -> None:
    many = b"K\0" + numbers(1 << 30) + numbers(0) + REST
    for name in (
        b"__builtin__\nlist",
        b"builtins\ntuple",
        b"builtins\nset",
        b"torch\nSize",
        b"collections\nOrderedDict",
    ):
        with pytest.raises(ParseError, match="a Tensor is not a container"):
            torch_load(checkpoint(many, function=b"c" + name + b"\n"))


def test_storages_that_are_wrong() -> None:
    good = b"K\0" + numbers(1) + numbers(1) + REST
    assert torch_load(checkpoint(good)).tolist() == [0]
    with pytest.raises(ParseError, match="cut off"):
        torch_load(checkpoint(good, count=5))
    with pytest.raises(ParseError, match="no storage"):
        torch_load(checkpoint(good, count=-1))
    with pytest.raises(ParseError, match="little-endian"):
        torch_load(checkpoint(good, byteorder=b"big"))


def test_other_files_are_told_apart() -> None:
    with pytest.raises(ParseError, match="no checkpoint of PyTorch"):
        torch_load(b"GGUF....")
    with pytest.raises(ParseError, match=r"before 0\.1\.10"):
        torch_load(b"\0" * 257 + b"ustar" + bytes(250))
    with pytest.raises(ParseError, match="no checkpoint of PyTorch"):
        torch_load(b"")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(ParseError, match=r"without one data\.pkl"):
        torch_load(file.getvalue())


def test_the_bad_pickles_are_what_they_are_called() -> None:
    """The table above is only worth something if Python reads the same codes in it."""
    assert [code.name for code, _, _ in pickletools.genops(b"(cos\nsystem\no.")] == ["MARK", "GLOBAL", "OBJ", "STOP"]
