"""Symbolic sizes in the engine: one plan and one set of kernels for all values, memory for the largest of them."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from whit import Context, Device, Tensor, Variable, nn
from whit.engine.compile import compile as compile_module
from whit.engine.memory.storage import concrete_shape, storage
from whit.engine.memory.values import from_numpy, to_numpy
from whit.engine.plan import find_plan as plans_module
from whit.engine.plan.find_plan import find_plan
from whit.engine.realize.parametrise import below, parametrise
from whit.engine.report.counters import GlobalCounters
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer

pytestmark = pytest.mark.slow

HAS_SOLVER = find_spec("z3") is not None  # proofs about blocks and threads need it
SIZE = 61  # no multiple of any vector
X = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((SIZE, 40)).astype(np.float32)


def rounded(n: Any) -> Tensor:
    x = Tensor(X)[:n]
    return (x @ Tensor(W)).softmax() @ Tensor(W).T + x


PROGRAMS = {
    "rows": lambda n: Tensor(X)[:n] * 2 + 1,
    "columns": lambda n: Tensor(X)[:, :n] * 2 + 1,
    "sums": lambda n: Tensor(X)[:, :n].sum(1) + Tensor(X)[:n].sum(0),
    "all": lambda n: Tensor(X)[:n, :n].sum(),
    "softmax": lambda n: Tensor(X)[:, :n].softmax(),
    "running sum": lambda n: Tensor(X)[:, :n].cumsum(1),
    "transposed": lambda n: Tensor(X)[:n].T.contiguous(),
    "m": lambda n: Tensor(X)[:n] @ Tensor(W),
    "n": lambda n: Tensor(W).T @ Tensor(X)[:, :n],
    "k": lambda n: Tensor(X)[:, :n] @ Tensor(W)[:n],
    "layers": rounded,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_is_right_for_all_values(name: str) -> None:
    """Sizes around those of vectors, unrolled vectors and blocks for the cores."""
    program, n = PROGRAMS[name], Variable("n", 1, SIZE)
    plans_module._plans.clear()
    with Context(CHECK_OOB=HAS_SOLVER):
        for value in (SIZE, 1, 8, 15, 33, 48):
            with Context(DEV="PYTHON"):
                wanted = program(value).numpy()
            found = program(n.bind(value)).numpy()
            assert found.shape == wanted.shape
            assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    plans = [key for key in plans_module._plans if key[2] == Device.DEFAULT]
    assert len(plans) == 1


def test_concrete_axes_keep_their_lanes() -> None:
    """What the code generator says about products with a symbolic axis."""
    from whit.codegen import generate
    from whit.schedule import schedule
    from whit.target import parse_target

    n = UOp.variable("n", 1, 64)
    a, b = UOp.param(1, Tensor(X).dtype, (n, 64)), UOp.param(2, Tensor(X).dtype, (64, 64))
    left, right = a.reshape((n, 1, 64)).expand((n, 64, 64)), b.permute((1, 0)).reshape((1, 64, 64)).expand((n, 64, 64))
    product = (left * right).reduce(ops.ADD, (2,))
    store = UOp.param(0, Tensor(X).dtype, (n, 64)).store(product)
    (call,) = schedule(UOp.group(store)).src
    program = generate(call.src[0].src[0], parse_target("CPU:LLVM:haswell"))
    wide = [node for node in program.linear.src if node.op is ops.FMA and node.shape == (8,)]
    alone = [node for node in program.linear.src if node.op is ops.FMA and not node.shape]
    assert len(wide) >= 12
    assert not alone


def test_a_plan_runs_with_other_values_without_any_rewriting() -> None:
    """What a replay does: the same loaded plan, other variables; temporaries lie where the largest need them."""
    n = UOp.variable("n", 1, 8)
    x = from_numpy(X[:8, :8].copy(), "CPU")
    rows = x.shrink(((0, n.bind(8)), (0, 8)))
    total = rows.reduce(ops.ADD, (0,)).reshape((1, 8)).expand((8, 8)).stage()
    root = (x * total).reduce(ops.ADD, (1,)).shrink(((0, n.bind(8)),))
    graph = parametrise([root], below([root])[0])
    loaded = find_plan(graph, "CPU")
    assert dict(graph.variables) == {"n": 8}
    for value in (8, 1, 5):
        out = Buffer("CPU", 8 * 4)
        Device["CPU"].run(loaded, [out, storage(x)], {"n": value})
        wanted = (X[:8, :8] * X[:value, :8].sum(0)).sum(1)[:value]
        assert np.allclose(np.frombuffer(out.memory(), np.float32)[:value], wanted, rtol=1e-4, atol=1e-4)


def test_a_realised_tensor_has_room_for_the_largest_value_and_is_packed() -> None:
    n = Variable("n", 1, 50)
    y = (Tensor(X)[:, : n.bind(7)] * 2).realize()
    assert storage(y.uop).nbytes == SIZE * 50 * 4
    assert concrete_shape(y.shape) == (SIZE, 7)
    assert (to_numpy(y.uop) == X[:, :7] * 2).all()
    z = (Tensor(X)[:, : n.bind(9)] * 2).realize()  # another value is another tensor
    assert (y.numpy() == X[:, :7] * 2).all()
    assert (z.numpy() == X[:, :9] * 2).all()


def test_operations_and_bytes_count_the_largest_value() -> None:
    x, n = Tensor(X).realize(), Variable("n", 1, SIZE)
    GlobalCounters.reset()
    (x[: n.bind(5)] + 1).realize()
    assert GlobalCounters.kernel_count == 1
    assert GlobalCounters.global_mem == 2 * SIZE * SIZE * 4


# ---- generation with a cache of keys and values

BATCH, HEADS, DEPTH, LENGTH, WORDS = 1, 2, 8, 6, 11
LAYERS = 1


class Block:
    """A layer of a small GPT that keeps its keys and values."""

    def __init__(self, width: int) -> None:
        self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.keys, self.values = (Tensor.zeros(BATCH, LENGTH, HEADS, DEPTH).contiguous().realize() for _ in range(2))

    def __call__(self, x: Tensor, position: Any) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).reshape(BATCH, 1, 3, HEADS, DEPTH).permute(2, 0, 1, 3, 4)
        self.keys[:, position : position + 1] = k
        self.values[:, position] = v.squeeze(1)
        seen = (self.keys[:, : position + 1], self.values[:, : position + 1])
        q, keys, values = (part.transpose(1, 2) for part in (q, *seen))
        mixed = q.scaled_dot_product_attention(keys, values).transpose(1, 2).reshape(BATCH, 1, HEADS * DEPTH)
        x = x + self.out(mixed)
        return x + self.down(self.up(self.second_norm(x)).gelu())


class Gpt:
    """A few of them."""

    def __init__(self) -> None:
        width = HEADS * DEPTH
        self.words, self.positions = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = [Block(width) for _ in range(LAYERS)]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def __call__(self, word: int, position: Any) -> Tensor:
        x = self.words(Tensor([[word]])) + self.positions(Tensor.arange(position, position + 1).reshape(1, 1))
        for block in self.blocks:
            x = block(x, position)
        return self.head(self.norm(x))[:, -1]

    def generate(self, position_of: Any) -> tuple[list[Any], list[tuple[int, int]]]:
        """The logits of every step, and how many plans and kernels there are after it."""
        for block in self.blocks:
            block.keys.assign(Tensor.zeros_like(block.keys)).realize()
            block.values.assign(Tensor.zeros_like(block.values)).realize()
        word, logits, counts = 3, [], []
        for position in range(LENGTH):
            logits.append(self(word, position_of(position)).numpy())
            word = int(logits[-1].argmax())
            counts.append((len(plans_module._plans), len(compile_module._kernels)))
        return logits, counts


@pytest.mark.slow
def test_generation_with_a_symbolic_position_compiles_once() -> None:
    Tensor.manual_seed(3)
    model = Gpt()
    Tensor.realize(*nn.state.get_parameters(model))
    position = Variable("position", 0, LENGTH - 1)
    found, counts = model.generate(position.bind)
    assert len(set(counts)) == 1  # nothing is planned or compiled after the first step
    with Context(DEV="PYTHON"):
        Tensor.manual_seed(3)
        plain = Gpt()
        wanted, _ = plain.generate(int)
    for one, other in zip(found, wanted, strict=True):
        assert np.allclose(one, other, rtol=1e-4, atol=1e-5)
