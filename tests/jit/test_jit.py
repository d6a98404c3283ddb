"""TinyJit: how often a function is captured, what a replay costs in kernels, copies and memory, and what it leaves."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest

from whit import Context, GlobalCounters, JitError, Tensor, TinyJit, UOp, Variable, nn
from whit.engine.memory.storage import storage
from whit.engine.programs.trace import Trace
from whit.jit import jit as jit_module


def test_jit_error_and_tinyjit_are_found_where_programs_look_for_them() -> None:
    assert jit_module.JitError is JitError
    assert jit_module.TinyJit is TinyJit


def test_function_is_run_once_and_works_from_the_first_call(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Tensor) -> Tensor:
        print("run")
        return x * 2

    g = TinyJit(f)
    assert [g(Tensor([float(i)])).item() for i in range(4)] == [0, 2, 4, 6]
    assert capsys.readouterr().out == "run\n" and len(g.captured) == 1 and g.kernels == 1 and g.memory == 0
    assert repr(g) == "<TinyJit f: 1 captured>"


@pytest.mark.parametrize(
    ("arguments", "captures"),
    [
        ([Tensor(1.0), Tensor(2.0), Tensor(3.0)], 1),  # numbers
        ([Tensor([1.0]), Tensor([2.0]) + 1, Tensor([[3.0]])[0]], 1),  # computed or not
        ([Tensor([1.0]), Tensor([1])], 2),
        ([Tensor([1.0]), Tensor([1.0, 2.0])], 2),
        ([Tensor([1.0]), Tensor([1.0], requires_grad=True)], 2),
        ([1, True, 1.0, 2], 4),
        ([1, 2, 1, 2], 2),
        (["a", b"a", None, (1, 2), [1, 2]], 5),
    ],
)
def test_number_of_captures(arguments: list[Any], captures: int) -> None:
    f = TinyJit(lambda x, y: x if isinstance(y, str | bytes | list | tuple) or y is None else x * y)
    for argument in arguments:
        f(Tensor([1.0]), argument)
    assert len(f.captured) == captures


def test_parts_of_one_tensor_are_one_program() -> None:
    data = Tensor.arange(12).reshape(6, 2).contiguous().realize()
    f = TinyJit(lambda x: x.sum())
    assert [f(data[i : i + 2]).item() for i in range(0, 6, 2)] == [6, 22, 38]
    assert len(f.captured) == 1


def make_step() -> tuple[Any, Any]:
    net = nn.Linear(64, 64)
    opt = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)

    def step(x: Tensor) -> Tensor:
        opt.zero_grad()
        loss = (net(x) ** 2).mean().backward()
        opt.step()
        return loss

    return TinyJit(step), [*opt.params, *opt.m, *opt.v]


def test_training_step_updates_in_place_and_copies_nothing() -> None:
    step, tensors = make_step()
    x = Tensor.rand(4, 64).realize()
    step(x)
    addresses = [storage(tensor.uop).address for tensor in tensors]
    used = GlobalCounters.mem_used
    GlobalCounters.reset()
    for _ in range(3):
        step(x)
    assert [storage(tensor.uop).address for tensor in tensors] == addresses
    assert GlobalCounters.kernel_count == 3 * step.kernels
    assert GlobalCounters.copy_count == 0
    assert GlobalCounters.mem_used == used
    assert len(step.captured) == 1


def test_two_programs_that_share_weights_write_in_place() -> None:
    w = Tensor.rand(100).realize()

    def down(x: Tensor) -> None:
        w.assign(w - x)

    def ask(x: Tensor) -> Tensor:
        return w * x

    f, g = TinyJit(down), TinyJit(ask)
    x = Tensor.rand(100).realize()
    f(x), g(x)
    address = storage(w.uop).address
    for _ in range(3):
        f(x), g(x)
    assert storage(w.uop).address == address


def test_what_numpy_shows_is_not_overwritten() -> None:
    np = pytest.importorskip("numpy")
    w = Tensor([1.0, 2.0]).realize()

    def f() -> None:
        w.assign(w + 1)

    g = TinyJit(f)
    g()
    shown = np.asarray(w)
    g()
    assert shown.tolist() == [2.0, 3.0] and w.tolist() == [3.0, 4.0]


def test_captures_go_with_the_instance_of_a_method() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = Tensor([1.0])
            self.me = self  # a circle

        @TinyJit
        def run(self, x: Tensor) -> Tensor:
            return x * self.w

    model = Model()
    model.run(Tensor([1.0]))
    assert len(model.run.captured) == 1 and not Model.run.captured
    tensor, instance = weakref.ref(model.w), weakref.ref(model)
    del model
    gc.collect()
    assert instance() is None and tensor() is None


def test_copies_of_an_instance_start_anew() -> None:
    model = Named()
    model.run(Tensor([1.0]))
    for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        other.w = Tensor([5.0])
        assert other.run(Tensor([1.0])).item() == 5.0
    assert model.run(Tensor([1.0])).item() == 2.0
    assert list(nn.state.get_state_dict(model)) == ["w"]


class Named:
    def __init__(self) -> None:
        self.w = Tensor([2.0])

    @TinyJit
    def run(self, x: Tensor) -> Tensor:
        return x * self.w


def test_arguments_and_results_are_not_kept() -> None:
    f = TinyJit(lambda x: (x * 2).sum())
    x = Tensor.rand(1000).realize()
    y = f(x)
    references = weakref.ref(x), weakref.ref(y)
    del x, y
    assert [reference() for reference in references] == [None, None]


def test_reset_forgets_and_frees() -> None:
    w = [Tensor.rand(1000).realize()]
    f = TinyJit(lambda x: x * w[0])
    f(Tensor([1.0]))
    reference = weakref.ref(w.pop())
    assert reference() is not None
    f.reset()
    gc.collect()
    assert reference() is None and not f.captured and f.kernels == 0


def test_setting_jit_0_runs_plainly() -> None:
    f = TinyJit(lambda x: x * x.sum().item())
    with Context(JIT=0):
        assert f(Tensor([2.0])).item() == 4.0
    with pytest.raises(JitError, match="item: "):
        f(Tensor([2.0]))


def test_message_names_the_line_inside_the_function() -> None:
    with pytest.raises(JitError, match=r"called at test_jit.py:\d+"):
        TinyJit(lambda x: x.numpy())(Tensor([1.0]))


def test_failed_capture_changes_nothing() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    node = w.uop

    def f(x: Tensor) -> Tensor:
        (w * x).sum().backward()
        w.assign(w * 2)
        w[0] = 5
        Tensor.rand(3)
        return x.sum().item()

    Tensor.manual_seed(1)
    with pytest.raises(JitError):
        TinyJit(f)(Tensor([1.0, 1.0]))
    drawn = Tensor.rand(2).tolist()
    Tensor.manual_seed(1)
    assert w.uop is node and w.grad is None and w._family is None and drawn == Tensor.rand(2).tolist()


def test_tensor_that_every_call_puts_somewhere_is_an_error() -> None:
    kept = _Box()

    def f(x: Tensor) -> Tensor:
        kept.keep(x * 2)
        return x

    g = TinyJit(f)
    for value in (1.0, 2.0):
        g(Tensor([value]))
        assert kept.value.tolist() == [2 * value]
    with pytest.raises(JitError, match="in every call, and a replay would not"):
        g(Tensor([3.0]))
    with pytest.raises(JitError, match="has no value afterwards"):
        kept.value.tolist()


class _Box:
    value: Any

    def keep(self, value: Any) -> None:
        object.__setattr__(self, "value", value)


def test_copies_between_devices_are_part_of_the_program() -> None:
    w = Tensor([1.0, 2.0], device="PYTHON")

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * 2).to("PYTHON") + w
        w.assign(w + 1)
        return y, y.to("CPU") + x

    g = TinyJit(f)
    for i in range(3):
        a, b = g(Tensor([1.0, float(i)], device="CPU"))
        assert (a.device, b.device) == ("PYTHON", "CPU")
        assert a.tolist() == [3.0 + i, 2.0 + 3 * i] and b.tolist() == [4.0 + i, 2.0 + 4 * i]
    assert len(g.captured) == 1


def test_bound_variable_counts_by_name_and_its_value_is_passed() -> None:
    position = Variable("position", 0, 3)
    data = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])

    def f(i: UOp) -> Tensor:
        return data[i] * 2

    g = TinyJit(f)
    assert [g(position.bind(i)).tolist() for i in (0, 3, 1)] == [[2.0, 4.0], [14.0, 16.0], [6.0, 8.0]]
    assert len(g.captured) == 1


def test_cache_with_a_variable_position_is_one_program() -> None:
    cache, position = Tensor.zeros(8).contiguous().realize(), Variable("position", 0, 7)

    def put(value: Tensor, at: UOp) -> tuple[Tensor, Tensor]:
        cache[at] = value
        return cache[: at + 1].sum(), cache[: at + 1] * 2

    g = TinyJit(put)
    for i in range(8):
        total, shown = g(Tensor(float(i)), position.bind(i))
        assert total.item() == i * (i + 1) / 2 and shown.tolist() == [2.0 * k for k in range(i + 1)]
    assert cache.tolist() == list(range(8)) and len(g.captured) == 1


def test_trace_gives_what_a_function_reads_and_writes() -> None:
    w, x = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    trace = Trace("f")

    def f() -> Tensor:
        y = w * x
        w.assign(y)
        return y

    y = trace.run(f)
    assert [place.node for place in trace.places.values()] == [w.uop, x.uop]
    entry = trace.shown[id(w)]
    assert entry.uop is not entry.start and trace.shown[id(x)].uop is trace.shown[id(x)].start
    assert trace.is_made(y) and not trace.is_made(w) and w.tolist() == [1.0, 2.0]


def test_check_mode_finds_what_a_capture_cannot_see() -> None:
    limit = sys.getrecursionlimit()  # what Python keeps for itself is not watched
    w = Tensor([0.0, 0.0]).realize()

    def f(x: Tensor) -> Tensor:
        number = 2 + sys.getrecursionlimit() - limit
        w.assign(w + number)
        return x * number

    g = TinyJit(f)
    with Context(JIT_CHECK=2):
        for i in range(1, 5):
            assert g(Tensor([1.0])).tolist() == [2.0] and w.tolist() == [2.0 * i] * 2
        sys.setrecursionlimit(limit + 1)
        try:
            with pytest.raises(
                JitError, match=r"result 0 differs from that of a plain run\n  plain \[3.0\], captured \[2.0\]"
            ):
                g(Tensor([1.0]))
        finally:
            sys.setrecursionlimit(limit)


def test_check_mode_leaves_random_numbers_and_training_as_they_are() -> None:
    results = []
    for check in (0, 1):
        Tensor.manual_seed(3)
        step, tensors = make_step()
        with Context(JIT_CHECK=check):
            losses = [step(Tensor.rand(4, 64)).item() for _ in range(4)]
        results.append((losses, [tensor.tolist() for tensor in tensors[:1]]))
    assert results[0] == results[1]


def test_pruned_work_is_done_once_and_again_after_a_change() -> None:
    w, scale = Tensor([1.0, 2.0]).realize(), Tensor([10.0]).realize()

    def f(x: Tensor) -> Tensor:
        return (x * (w * scale).contiguous()).sum()

    def down() -> None:
        w.assign(w - 1)

    plain, pruned, update = TinyJit(f), TinyJit(f, prune=True), TinyJit(down)
    x = Tensor([1.0, 1.0]).realize()
    for expected in (30.0, 10.0, -10.0):
        assert plain(x).item() == expected == pruned(x).item()
        GlobalCounters.reset()
        assert pruned(x).item() == expected and GlobalCounters.kernel_count == 1
        update()  # writes to the memory that the pruned work has read, unless it is kept from that
    assert (plain.kernels, pruned.kernels) == (2, 1) and len(pruned.captured) == 1


def test_pruned_work_is_kept_before_it_is_expanded() -> None:
    w = Tensor.rand(32, 16).realize()
    pruned = TinyJit(lambda x: x @ (w * 2).contiguous().T, prune=True)
    for _ in range(3):
        x = Tensor.rand(8, 16).realize()
        assert pruned(x).allclose(x @ w.T * 2, 1e-5)
    ((replay, _),) = next(iter(pruned._captures.values()))
    assert [node.shape for node in replay.program.pruned] == [(32, 16)]


def test_donated_argument_gives_its_memory_to_the_result() -> None:
    f = TinyJit(lambda x, y: x * 2 + y, donate=(0,))
    x, y = Tensor.rand(1000).realize(), Tensor.rand(1000).realize()
    f(Tensor.rand(1000).realize(), y)
    address = storage(x.uop).address
    expected = (x * 2 + y).tolist()
    result = f(x, y)
    assert storage(result.uop).address == address and result.tolist() == expected and len(y.tolist()) == 1000
    with pytest.raises(JitError, match="was donated"):
        x.tolist()
    seen = Tensor.rand(1000).realize()
    later = seen + 1  # somebody else needs it: it is not given away
    f(seen, y)
    assert len(later.tolist()) == len(seen.tolist()) == 1000


def test_replays_after_replays_that_were_timed(capsys: pytest.CaptureFixture[str]) -> None:
    weight = Tensor([2.0, 3.0, 4.0]).realize()
    f = TinyJit(lambda x: (x * weight).contiguous().sum())
    inputs = [Tensor([float(i), 1.0, 1.0]).realize() for i in range(3)]
    with Context(DEBUG=2):  # kernels run one by one, and not through the list that is kept ready
        timed = [f(x).item() for x in inputs]
    assert capsys.readouterr().out.count("***") == 6
    assert [f(x).item() for x in inputs] == timed == [7.0, 9.0, 11.0]
