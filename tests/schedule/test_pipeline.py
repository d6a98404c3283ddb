"""The passes of the schedule: a list that can be read, and followed while it runs."""

from itertools import combinations

import pytest

from whit import Tensor
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.attention_form import find_attention
from whit.schedule import pipeline
from whit.schedule.groups.group import Group, group_kernels
from whit.schedule.pipeline import PASSES, Job, Pass, schedule
from whit.schedule.rewrites.narrow_reduce import NARROW_REDUCE
from whit.schedule.rewrites.reverse_scans import REVERSE_SCANS
from whit.schedule.rewrites.split_reduce import SPLIT_REDUCE
from whit.schedule.rewrites.split_sort import SPLIT_SORT
from whit.schedule.stages.attention import is_computed
from whit.target import Target, parse_target


def test_every_pass_has_a_name_of_its_own_and_a_reason() -> None:
    assert len({step.name for step in PASSES}) == len(PASSES)
    assert all(step.why for step in PASSES)


@pytest.mark.parametrize("spelled", ["CPU:LLVM:haswell", "CUDA:PTX:sm_80", "CUDA:PTX:sm_90a"])
def test_an_observer_sees_the_graph_after_every_pass(spelled: str) -> None:
    seen: list[tuple[str, UOp]] = []

    def observe(step: Pass, graph: UOp, job: Job) -> None:
        seen.append((step.name, graph))

    x, target = UOp.param(1, dtypes.float32, (64,)), parse_target(spelled)
    linear = schedule(UOp.group(UOp.param(0, dtypes.float32, (64,)).store(x + 1.0)), target, observe=observe)
    assert [name for name, _ in seen] == [step.name for step in PASSES if step.is_for(target)]
    assert seen[-1][1] is linear and linear.op is ops.LINEAR
    assert ("align_rows" in dict(seen)) == target.is_gpu


def test_passes_are_about_the_ops_of_their_rules() -> None:
    about = {step.name: step.about for step in PASSES if step.about}
    rules = {
        "narrow_reduce": NARROW_REDUCE,
        "split_reduce": SPLIT_REDUCE,
        "split_sort": SPLIT_SORT,
        "reverse_scans": REVERSE_SCANS,
    }
    assert about.pop("pack_constants") == {ops.LOOP}
    assert about.pop("raise_permutes") == {ops.PERMUTE}
    assert about == {name: set(found.compiled) for name, found in rules.items()}


RESULTS = [found for count in (1, 2, 3, 4) for found in combinations(("out", "dq", "dk", "dv"), count)]


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("wanted", RESULTS, ids="-".join)
def test_tensor_cores_have_code_for_all_that_is_computed_in_blocks(
    wanted: tuple[str, ...], dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever gradients are asked for. The values' alone need statistics that no product computes: scores are
    stored then."""
    found: list[Group] = []

    def grouped(*given: object, **named: object) -> list[Group]:
        found.extend(group_kernels(*given, **named))  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(pipeline, "group_kernels", grouped)
    with Context(TRAINING=1, CACHE=0):
        q, k, v, g = (Tensor.empty(2, 64, 64, dtype=dtypes.float16, device="NULL:PTX:sm_80") for _ in range(4))
        out = q.scaled_dot_product_attention(k, v, dropout_p=dropout)
        values = dict(zip(("out", "dq", "dk", "dv"), (out, *out.gradient(q, k, v, gradient=g)), strict=True))
        Tensor.realize(*(values[name] for name in wanted))
    target: Target = parse_target("CUDA:PTX:sm_80")
    forms = [find_attention(list(group.values.values())) for group in found if group.is_attention]
    assert all(form is not None and is_computed(form, target) for form in forms)
    assert bool(forms) == (wanted != ("dv",))
