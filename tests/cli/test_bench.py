"""`python -m whit bench`: the table, the gate, the roof."""

import dataclasses
import json

import numpy as np
import pytest

from cli.schemas import differences, document
from whit import Context, Tensor
from whit.cli import bench
from whit.cli.bench import Result, measure
from whit.cli.bench_works import Work, works
from whit.cli.main import main
from whit.engine.report.roofline import peak_flops, peak_text
from whit.errors import BackendError
from whit.kernel.cost import Cost
from whit.kernel.rates import Rates
from whit.runtime.code.llvm import compile_llvm
from whit.target import parse_target

ROOF = Rates(bytes_per_second=10e9, flops_per_second=100e9, threads=2)


def test_the_table() -> None:
    results = [
        Result("matmul 512", True, 1e-6, 1e-4, None, 4.0, 67.1, 0.8, "compute", 67.4),
        Result("sum", True, 9e-6, 1e-4, None, 11.9561, None, 5.6, "memory", 55.0),
        Result("sort", False, 0.5, 1e-4, None, None, None, None, "memory", None),
        Result("fft", False, None, 1e-4, "LLVM is lost", None, None, None, "memory", None),
    ]
    assert bench._table(results, ROOF, "CPU", quick=True).splitlines() == [
        "CPU, 2 threads; roof: copy 10.0 GB/s, multiply-adds 100.0 GFLOP/s",
        "",
        "work            ms  GFLOP/s  GB/s  limit    % of roof  error",
        "matmul 512   4.000     67.1   0.8  compute         67  1e-06",
        "sum         11.956            5.6  memory          55  9e-06",
        "sort         WRONG                                     5e-01",
        "fft          WRONG",
        "fft: LLVM is lost",
        "",
        "Tiny inputs: the speeds mean nothing.",
    ]


def test_a_quick_run_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick", "--json", "sum", "matmul 20", "training"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert differences(printed, document("bench")) == []
    names = [result["name"] for result in printed["results"]]
    assert names == ["sum 4096", "matmul 20x33x17", "training step 8x16x24x4"]
    for result in printed["results"]:
        assert result["ok"] and result["error"] <= result["tolerance"] and result["ms"] > 0
        assert result["roof_percent"] > 0
    assert captured.err.startswith("bench: 100%|#")  # one plain line: there is no terminal


@pytest.mark.parametrize("work", works(quick=True), ids=lambda work: work.name)
def test_every_work_has_the_meaning_of_its_reference(work: Work) -> None:
    result = measure(work, ROOF, 0.0, "PYTHON")
    assert result.ok, result


def test_the_works_of_both_sizes_are_the_same() -> None:
    kinds = [[work.name.partition(" ")[0] for work in works(quick)] for quick in (False, True)]
    assert [list(dict.fromkeys(names)) for names in kinds] == [
        ["add", "gelu", "sum", "softmax", "layernorm", "matmul", "conv", "training"]
    ] * 2


def test_a_wrong_result_has_no_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (right,) = (work for work in works(quick=True) if work.name.startswith("sum"))
    wrong = dataclasses.replace(right, name="wrong", reference=lambda a: (np.asarray(a.sum() + 1.0),))
    shape = dataclasses.replace(right, name="shape", reference=lambda a: (a,))
    nan = dataclasses.replace(right, name="nan", ours=lambda a: (a.sum() * float("nan"),))

    def fail(a: Tensor) -> tuple[Tensor]:
        raise BackendError("LLVM is lost")

    failing = dataclasses.replace(right, name="failing", ours=fail)
    monkeypatch.setattr(bench, "works", lambda quick: [right, wrong, shape, nan, failing])
    monkeypatch.setattr(bench, "measure_roofline", lambda seconds, nbytes: ROOF)
    assert main(["bench", "--quick", "--json", "--device", "PYTHON"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert differences(printed, document("bench")) == []
    assert [result["ok"] for result in printed["results"]] == [True, False, False, False, False]
    assert [result["ms"] is None for result in printed["results"]] == [False, True, True, True, True]
    assert printed["results"][-1]["failure"] == "LLVM is lost"


# ---- the roof


def test_the_floor_is_the_slower_of_memory_and_arithmetic() -> None:
    copies, products = Cost(100 * 10**9, 10 * 10**9, 10 * 10**9), Cost(100 * 10**9, 10**9)
    assert (copies.seconds(ROOF), copies.limit(ROOF)) == (2.0, "memory")
    assert (products.seconds(ROOF), products.limit(ROOF)) == (1.0, "compute")


@pytest.mark.parametrize("threads", [1, 3])
def test_multiply_adds_are_counted_on_any_number_of_threads(threads: int) -> None:
    with Context(THREADS=threads):
        assert peak_flops(0.0) > 0  # an error if a piece was left out: the results are checked


@pytest.mark.parametrize("name", ["x86-64", "znver4", "cortex-a76"])
def test_multiply_adds_compile_for_other_machines(name: str) -> None:
    target = parse_target(f"CPU:LLVM:{name}")
    text = peak_text(target)
    assert ("llvm.fma." in text) == target.has_fma
    assert compile_llvm(text, target)
