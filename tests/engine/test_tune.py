"""The search for faster tilings: what it may choose, what it accepts, what it keeps, and who uses that."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from schedule.build import matmul, param, scheduled

from whit import Context, Tensor, TinyJit
from whit.codegen.pipeline import before_tiling, generate
from whit.codegen.strategy.choice import apply_choice
from whit.codegen.strategy.record import Choice, UnfitError
from whit.codegen.strategy.variants import first_choices, varied
from whit.dtype import dtypes
from whit.engine.compile import compile as compile_module
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import CompiledKernel, get_kernel, kernel_key, known_tuning, task_of
from whit.engine.compile.tune import search as search_module
from whit.engine.compile.tune import store
from whit.engine.compile.tune.alone import Alone
from whit.engine.compile.tune.check import Check, difference, nasty, sums_are_exact, tolerance, values
from whit.engine.compile.tune.search import Search, search
from whit.engine.compile.tune.store import Tuned
from whit.engine.compile.tune.task import Task
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.interpret import run
from whit.ir.uop import UOp
from whit.kernel.rates import Rates
from whit.target import parse_target

HASWELL = parse_target("CPU:LLVM:haswell")
INT = dtypes.int32
KEY = "a" * 64


def function_of(value: UOp) -> UOp:
    (call,) = scheduled(value).src
    return call.src[0]


def product(m: int, k: int, n: int) -> UOp:
    return function_of(matmul(param(0, m, k, dtype=INT), param(1, k, n, dtype=INT)))


KERNELS = {
    "elementwise": lambda: function_of(param(0, 5, 24, dtype=INT) * 3 + 1),
    "sum": lambda: function_of(param(0, 6, 40, dtype=INT).reduce(ops.ADD, (1,))),
    "sum of columns": lambda: function_of(param(0, 12, 19, dtype=INT).reduce(ops.ADD, (0,))),
    "product": lambda: product(33, 40, 30),
    "product of bytes": lambda: function_of(
        matmul(param(0, 33, 40, dtype=dtypes.int8).cast(INT), param(1, 40, 30, dtype=dtypes.int8).cast(INT))
    ),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> Iterator[None]:
    with Context(CACHE_DIR=str(tmp_path), CACHE=1, NOOPT=0, BEAM=0):
        compile_module._kernels.clear()
        yield
        compile_module._kernels.clear()


# ---- choices


def choices_of(function: UOp) -> tuple[UOp, list[Choice]]:
    body = before_tiling(function.src[0], HASWELL)
    assert body is not None
    first = first_choices(body, HASWELL)
    return body, list(dict.fromkeys([*first, *varied(first[0], body, HASWELL)]))


@pytest.mark.parametrize("name", KERNELS)
def test_the_first_choice_is_the_default(name: str) -> None:
    function = KERNELS[name]()
    _, choices = choices_of(function)
    assert len(choices) > 2
    default, chosen = (generate(function.src[0], HASWELL, choice=choice) for choice in (None, choices[0]))
    assert chosen.linear is default.linear
    assert chosen.explanation.startswith("tuned\n")
    assert generate(function.src[0], HASWELL, choice=choices[1]).linear is not default.linear


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_every_choice_means_the_same(name: str) -> None:
    task = task_of(KERNELS[name](), parse_target("CPU"))
    body = before_tiling(task.body, task.target)
    assert body is not None
    first = first_choices(body, task.target)
    choices = list(dict.fromkeys([*first, *varied(first[0], body, task.target)]))[1:]
    alone = Alone(task.body)
    inputs = {slot: values(node, "nasty", True, slot) for slot, node in alone.params.items()}
    alone.fill(inputs)
    run(task.body, {node: alone.arrays[slot] for slot, node in alone.params.items()})
    wanted = alone.arrays[0].copy()
    for choice in choices[:: -(-len(choices) // 6)]:
        alone.fill(inputs)
        with Context(CHECK_OOB=1):
            alone.run(task.build(choice.text))
        np.testing.assert_array_equal(alone.arrays[0], wanted, err_msg=choice.text)


def test_ranges_that_run_in_order_are_left_alone() -> None:
    r, gathered = UOp.range(64, 0), UOp.param(1, INT, (64,))
    place = gathered.index(r)
    out = UOp.param(0, INT, (8,))
    body = UOp.group(out.store(UOp.param(2, INT, (64,)).index(r), place.cast(dtypes.weakint), combine=ops.ADD))
    found = before_tiling(body, HASWELL)
    assert found is not None
    (first,) = first_choices(found, HASWELL)
    for choice in (first, *varied(first, found, HASWELL)):
        assert (choice.data["lanes"], choice.data["core"]) == ({}, None)


def test_rows_have_lanes_or_their_sums_do() -> None:
    x = param(0, 40, 30)
    _, choices = choices_of(function_of(x - x.reduce(ops.ADD, (1,)).reshape((40, 1)).expand((40, 30))))
    lanes = [set(choice.data["lanes"]) for choice in choices]
    assert {"r0"} in lanes and any("k0" in names for names in lanes)
    assert not any({"r0", "k0"} <= names for names in lanes)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"kind": "other"}', '{"kind": "loops"}', '{"kind": "panels", "operand": 7}'],
)
def test_what_is_no_choice_is_refused(text: str) -> None:
    body, _ = choices_of(KERNELS["product"]())
    with pytest.raises(UnfitError):
        apply_choice(Choice(text), body, HASWELL)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("product", "depth", [5, 1]),
        ("product", "depth", [0, 1000]),
        ("product", "rows", "6"),
        ("product", "rows", -1),
        ("product", "way_a", "UP"),
        ("sum", "lanes", {"r7": 8}),
        ("sum", "unroll", {"r0": 0}),
        ("sum", "order", []),
        ("sum", "core", "r99"),
    ],
)
def test_a_choice_of_another_kernel_is_refused(name: str, key: str, value: object) -> None:
    body, choices = choices_of(KERNELS[name]())
    data = {**choices[0].data, key: value}
    with pytest.raises(UnfitError):
        apply_choice(Choice(json.dumps(data)), body, HASWELL)


# ---- checking


def test_differences() -> None:
    nan, inf = np.nan, np.inf
    a = np.array([1.0, 2.0, nan, inf, -0.0], np.float32)
    assert difference(a, a.copy(), 0.0) == ""
    assert difference(a * np.float32(1 + 1e-6), a, 1e-5) == ""
    assert (
        difference(a + np.float32(1e-3), a, 1e-5)
        == "is 1.0010000467300415 in place of 1.0 at (0,), and wrong in 3 places"
    )
    for wrong in ([1, 2, 0, inf, 0], [1, 2, nan, -inf, 0], [1, nan, nan, inf, 0], [1, 2, nan, nan, 0]):
        assert difference(np.array(wrong, np.float32), a, 1e-2).endswith("wrong in 1 places")
    ints = np.array([[1, 2], [3, 4]])
    assert difference(ints, ints.copy(), 1.0) == ""
    assert difference(ints + 1, ints, 1.0) == "is 2 in place of 1 at (0, 0), and wrong in 4 places"


def test_results_that_are_mostly_zero_may_differ_by_rounding() -> None:
    """Those of a relu: what is small is the rest of a sum as large as the others."""
    wanted = np.maximum(np.random.default_rng(0).standard_normal(1000), 0).astype(np.float32)
    wanted[0] = 1e-6
    assert difference(wanted + np.float32(1e-7) * (wanted > 0), wanted, 1e-6) == ""
    assert difference(wanted + np.float32(1e-4) * (wanted > 0), wanted, 1e-6) != ""


X, Y = (UOp.param(slot, dtypes.float32, (64, 48)) for slot in (1, 2))


@pytest.mark.parametrize(
    ("value", "is_exact"),
    [
        ((X * Y).reduce(ops.ADD, (1,)), True),
        ((X * Y - 3.0).reduce(ops.ADD, (1,)).exp2(), True),
        ((X.cast(dtypes.half).cast(dtypes.float32) * Y).reduce(ops.ADD, (0,)), True),
        (X.exp2().reduce(ops.ADD, (1,)), False),
        ((X * 0.5).reduce(ops.ADD, (1,)), False),
        ((X / Y).reduce(ops.MAX, (1,)), False),
    ],
)
def test_sums_of_whole_numbers_are_exact(value: UOp, is_exact: bool) -> None:
    body = function_of(value).src[0]
    assert sums_are_exact(body) == is_exact
    kinds = [kind for kind, *_ in Check(body, Alone(body), lambda alone: None)._cases]
    assert kinds == ["random", "nasty", *(["whole"] if is_exact else [])]


def test_one_product_too_few_is_seen_on_whole_numbers() -> None:
    """Among very many, it is lost in what rounding allows for random inputs."""
    wanted = np.full((4, 4), 1000.0, np.float32)
    body = function_of((X * Y).reduce(ops.ADD, (0, 1))).src[0]
    assert difference(wanted - 1, wanted, tolerance(body, is_exact=True)) != ""
    assert difference(wanted - 1, wanted, 1e-3) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["product", "relu of a product", "product of halves"])
def test_candidates_compute_what_the_reference_does(name: str) -> None:
    """In other orders of their sums, also where half of the results are 0."""
    x, y = (Tensor.randn(128, 256), Tensor.randn(256, 128)) if "half" in name else (Tensor.randn(256, 256),) * 2
    x, y, z = x.realize(), y.realize(), Tensor.randn(y.shape[1]).realize()
    compile_module._kernels.clear()
    if name == "product of halves":
        x, y = x.half().realize(), y.half().realize()
    ((x @ y + z).relu() if "relu" in name else x @ y).realize()
    kernel, target = max(compile_module.linked_kernels(), key=lambda pair: pair[0].ops)
    assert kernel.graph is not None
    task = task_of(kernel.graph, target)
    result = search(task, 1, 6.0)
    assert (result.wrong, result.failed) == ((), 0)
    assert result.measured > 2


@pytest.mark.parametrize("shape", [(2, 3), (2000, 3)])
def test_whole_inputs_are_whole(shape: tuple[int, ...]) -> None:
    for dtype in (dtypes.float32, dtypes.half):
        found = values(UOp.param(0, dtype, shape), "whole", True, 0)
        assert set(np.unique(found)) <= {-2, -1, 0, 1, 2}


def test_nasty_inputs_have_what_goes_wrong_first() -> None:
    array = values(UOp.param(0, dtypes.float32, (200,)), "nasty", True, 0)
    assert np.isnan(array).any() and np.isinf(array).any() and np.signbit(array[array == 0]).any()
    assert np.isfinite(array).sum() > 190
    for dtype in (dtypes.int8, dtypes.uint32, dtypes.int64):
        found = values(UOp.param(0, dtype, (200,)), "nasty", True, 0)
        assert (found.min(), found.max()) == (dtype.min, dtype.max)
    assert dtypes.float32.largest / 4 < nasty(dtypes.float32, folds=False)[-1]
    assert nasty(dtypes.bool, folds=True) == [True, False]
    assert np.isfinite(values(UOp.param(0, dtypes.float32, ()), "nasty", True, 0))


# ---- the search, with programs that are made beforehand


def kernel_function(offset: float) -> UOp:
    """p0[i] = p1[i] + offset"""
    i = UOp.range(100, 0)
    out, source = UOp.param(0, dtypes.float32, (100,)), UOp.param(1, dtypes.float32, (100,))
    return UOp.group(out.store(source.index(i) + offset, i)).function("f")


@pytest.fixture
def task() -> Task:
    """A task whose candidates are all the same program: nothing is compiled for them."""
    function, target = kernel_function(1.5), parse_target("CPU")
    program = get_kernel(function, target)
    return Task(function, target, KEY, lambda choice: program)


def times(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    """Programs take so long, one after the other; the last one for ever."""

    def best(self: object, kernel: CompiledKernel, *rest: float) -> float:
        return seconds.pop(0) if len(seconds) > 1 else seconds[0]

    monkeypatch.setattr(Alone, "best_seconds", best)
    monkeypatch.setattr(Search, "race", lambda self, default: (best_of(self), 1.0, 2.0))


def best_of(state: Search) -> Choice:
    return state.fastest()


def test_the_fastest_is_kept_and_not_searched_again(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    times(monkeypatch, [5.0, 4.0, 3.0, 6.0])
    told: list[str] = []
    result = search(task, 2, 100.0, told.append)
    assert result.tuned is not None and result.tuned.choice is not None
    assert (result.tuned.beam, result.tuned.gain, result.wrong, result.failed) == (2, 2.0, (), 0)
    assert result.measured > 3
    assert len(told) == 1 and told[0].endswith("1.67 x the default")
    assert store.find(KEY) == result.tuned
    again = search(task, 2)
    assert (again.known, again.measured, again.tuned) == (True, 0, result.tuned)
    wider = search(task, 3)  # goes on with what is new
    assert wider.tuned is not None and wider.tuned.beam == 3
    assert set(wider.tuned.tried) >= set(result.tuned.tried)


def test_a_program_that_is_wrong_cannot_win(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = get_kernel(kernel_function(1.25), task.target)
    times(monkeypatch, [5.0, 1.0])
    lying = Task(task.function, task.target, KEY, lambda choice: task.build(None) if choice is None else wrong)
    result = search(lying, 1, 100.0)
    assert (result.measured, len(result.wrong) > 3) == (0, True)
    assert result.wrong[0].startswith(f"{wrong.explanation}: on random inputs: result 0 is ")
    assert result.tuned is not None and result.tuned.choice is None


def test_a_program_that_cannot_be_made_does_not_stop_the_search(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    times(monkeypatch, [5.0, 1.0])

    def build(choice: str | None) -> CompiledKernel:
        if choice is not None:
            raise RuntimeError("LLVM is lost")
        return get_kernel(task.function, task.target)

    result = search(Task(task.function, task.target, KEY, build), 1, 100.0)
    assert (result.measured, result.failed > 3) == (0, True)


def test_ctrl_c_loses_nothing(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    times(monkeypatch, [5.0, 4.0])
    built: list[str | None] = []

    def build(choice: str | None) -> CompiledKernel:
        built.append(choice)
        if len(built) == 4:
            raise KeyboardInterrupt
        return get_kernel(task.function, task.target)

    stopped = Task(task.function, task.target, KEY, build)
    with pytest.raises(KeyboardInterrupt):
        search(stopped, 2, 100.0)
    kept = store.find(KEY)
    assert kept is not None and (kept.choice, kept.beam) == (built[1], 0)
    done = search(stopped, 2, 100.0)
    assert done.tuned is not None and done.tuned.beam == 2
    assert built.count(built[2]) == 1  # what was measured is not measured again


def test_no_time_is_no_search(task: Task) -> None:
    result = search(task, 2, 0.0)
    assert result.tuned is not None
    assert (result.measured, result.tuned.choice, result.tuned.beam) == (0, None, 0)


def test_what_has_no_choice_is_skipped() -> None:
    r, rows = UOp.range(16, 0), UOp.param(1, INT, (16,))
    gather = UOp.group(
        UOp.param(0, INT, (16,)).store(UOp.param(2, INT, (9,)).index(rows.index(r).cast(dtypes.weakint)), r)
    ).function("gather")
    result = search(task_of(gather, parse_target("CPU")), 1)
    assert (result.tuned, result.skipped) == (None, "what it reads depends on data")


# ---- on disk


def test_damaged_and_foreign_entries_are_ignored(tmp_path: Path) -> None:
    tuned = Tuned("f", "CPU", '{"kind":"loops"}', 1e-6, 2e-6, 4, ("abc",))
    store.keep(KEY, tuned)
    (path,) = tmp_path.glob("*.tuned")
    good = path.read_bytes()
    assert store.find(KEY) == tuned
    for damage in (b"", b"nonsense", good[:-1], good[:-1] + b"?"):
        path.write_bytes(damage)
        assert store.find(KEY) is None
    for header in (
        {},
        {"choice": None},
        {**HEADER, "seconds": "soon"},
        {**HEADER, "choice": "[1]"},
        {**HEADER, "tried": 3},
    ):
        disk_cache.keep(KEY, header, b"", store.ENDING)
        assert store.find(KEY) is None
    disk_cache.keep(KEY, HEADER, b"", store.ENDING)
    assert store.find(KEY) is not None


HEADER = {"title": "f", "target": "", "choice": None, "seconds": 1, "default_seconds": 1, "beam": 0, "tried": []}


def keep_choice(function: UOp, choice: str) -> None:
    key = compile_module.digest(kernel_key(function, parse_target("CPU")), "tuned")
    store.keep(key, Tuned("f", "CPU", choice, 1e-6, 2e-6, 1))


def test_a_kernel_is_tiled_as_was_found() -> None:
    function, target = kernel_function(2.5), parse_target("CPU")
    plain = get_kernel(function, target)
    assert not plain.explanation.startswith("tuned")
    choice = '{"core":null,"kind":"loops","lanes":{"r0":4},"order":["r0"],"unroll":{"r0":2}}'
    keep_choice(function, choice)
    compile_module._kernels.clear()
    tuned = get_kernel(function, target)
    assert tuned.explanation.splitlines()[:2] == ["tuned", "lanes: 4 along r0"]
    found = known_tuning(function, target)
    assert found is not None and found.choice == choice
    compile_module._kernels.clear()
    with Context(NOOPT=1):
        assert "tuned" not in get_kernel(function, target).explanation
    with Context(CACHE=0):
        assert "tuned" not in get_kernel(function, target).explanation


def test_a_choice_that_does_not_fit_is_ignored() -> None:
    function = kernel_function(3.5)
    keep_choice(function, '{"core":null,"kind":"loops","lanes":{"r9":4},"order":["r0"],"unroll":{}}')
    assert "tuned" not in get_kernel(function, parse_target("CPU")).explanation


def test_beam_searches_when_a_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "SECONDS_A_CANDIDATE", 0.0)
    monkeypatch.setattr(search_module, "RACE_SECONDS", 0.0)
    monkeypatch.setattr(search_module, "VARIANTS_OF_EACH", 1)
    x = np.arange(70, dtype=np.float32)
    with Context(BEAM=1):
        np.testing.assert_array_equal((Tensor(x, device="CPU") * 2 + 1).numpy(), x * 2 + 1)
    where = disk_cache.folder()
    (entry,) = disk_cache.entries(where, store.ENDING)
    found = store.read(entry.header() or {})
    assert found is not None and found.beam == 1 and len(found.tried) >= 2


# ---- reports about kernels


def test_a_kernel_explains_itself() -> None:
    x, w = (Tensor.empty(64, 64, device="NULL:LLVM:haswell") for _ in range(2))
    first, second = (x @ w).softmax(1).kernels()
    assert (first.name, first.ops, first.bytes_read, first.bytes_written) == ("add_reduce_64x64", 524288, 32768, 16384)
    lines = first.explain().splitlines()
    assert re.fullmatch(r"  test_tune\.py:\d+, kernel add_reduce_64x64", lines.pop(1))
    assert lines[:3] == [
        "matmul on NULL:LLVM:haswell (CPU:LLVM:haswell), float32(64, 64)",
        "  524288 operations, reads 32.77 kB, writes 16.38 kB",
        "tiling:",
    ]
    assert lines[3].startswith("  contraction through panels: ")
    assert lines[4:] == [
        "roofline: 10.67 operations a byte",
        "  what the machine allows is measured there, not here",
    ]
    with pytest.raises(ArgumentError, match="measure: add_reduce_64x64 cannot run alone on NULL"):
        second.measure()
    assert Tensor.empty(3, device="PYTHON").kernels() == []
    assert "by the interpreter" in (Tensor.empty(3, device="PYTHON") + 1).kernels()[0].explain()


def test_what_was_achieved_is_a_part_of_the_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    from whit.engine.report import roofline as roof

    monkeypatch.setattr(roof, "roofline_of_this_machine", lambda: Rates(10e9, 100e9))
    f = TinyJit(lambda x: (x * 2).realize())
    x = Tensor(np.ones(1000, np.float32), device="CPU").realize()
    assert f.captured_kernels() == []
    f(x)
    (kernel,) = f.captured_kernels()
    text = "  this machine: 10.0 GB/s, 100.0 GFLOP/s; at least 0.8 us, bound by bytes"
    assert kernel.explain().splitlines()[-2:] == [
        text,
        "achieved: not timed yet; kernel.measure(), PROFILE=1 or DEBUG=2 do that",
    ]
    assert kernel.measure(0.0) == kernel.best_seconds
    last = kernel.explain().splitlines()[-1]
    assert last.startswith("achieved: best ") and last.endswith(" % of the roof")
