"""Comments in PTX: what a reader learns, and that they are comments."""

import re

from whit import Context, Tensor
from whit.engine.compile.cuda import compile_ptx
from whit.target import parse_target

TARGET = parse_target("CUDA:PTX:sm_90a")


def text_of(x: Tensor) -> str:
    (kernel,) = x.kernels()
    return compile_ptx(kernel.function, TARGET)[1].decode()


def test_parameters_ranges_and_accesses_are_explained() -> None:
    with Context(DEV="NULL:PTX:sm_90a"):
        notes = re.findall(r"^ *// (.*)$", text_of((Tensor.empty(3, 64, 100) * 2).sum(1)), re.MULTILINE)
    assert "p0: 300 x float32, written" in notes
    assert "p1: 19200 x float32, read" in notes
    ranges = {note[:2] for note in notes if re.fullmatch(r"r\d+ = 0 \.\. \d+(, the (block|thread))?", note)}
    (load,) = {note for note in notes if note.startswith("load p1[")}
    assert set(re.findall(r"r\d+", load)) <= ranges, notes


def test_what_the_threads_of_a_product_do_is_said_once() -> None:
    with Context(DEV="NULL:PTX:sm_90a"):
        a = Tensor.empty(256, 256, dtype="bfloat16")
        text = text_of(a @ a)
    for words in ("then one thread copies both operands\n", "// all others multiply what has come\n"):
        assert text.count(words) == 1
    assert "of 256 of the depth at a time\n" in text


def test_positions_that_are_no_line_are_left_out() -> None:
    with Context(DEV="NULL:PTX:sm_90a"):
        x = Tensor.empty(5, 6, 7, 8, 9).permute(4, 2, 0, 3, 1).contiguous()
        text = text_of(x)
    assert max(map(len, re.findall(r"// (?:load|store).*", text))) < 125
