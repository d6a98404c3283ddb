"""Random tensor graphs from a seed: `make_case(seed)` is always the same graph over the same arrays.

A case has one of four moods, which say how exactly compiled code has to agree with the interpreter:

- integer: integers and booleans only; every bit.
- exact: floats that are small whole numbers and stay so, so that sums are exact in any order; every bit.
- special: any floats (NaN, infinities, subnormals), and no sums or products over them; every bit.
- real: ordinary floats, sums, transcendental functions; within an error bound (`tolerance.py`), and nothing that jumps
  (comparisons, casts to integers) on what may differ.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.op import Op
from whit.ir.uop import UOp, const

INTS = (
    dtypes.int32,
    dtypes.int64,
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.uint32,
    dtypes.uint16,
    dtypes.uint64,
)
FLOATS = (*(dtypes.float32,) * 6, *(dtypes.float64,) * 3, *(dtypes.float16, dtypes.bfloat16) * 3, *dtypes.fp8s)
FIRST_OUTPUT = 100  # slots of outputs start here

SMALL = (1, 2, 3, 4, 5, 7, 8, 9)
ODD = (15, 16, 17, 31, 33, 63, 64, 65, 100, 129)
MOST_ELEMENTS = 1500

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A graph to be compiled, and the arrays of its params."""

    outputs: tuple[UOp, ...]
    inputs: dict[UOp, np.ndarray]
    mood: str

    @property
    def graph(self) -> UOp:
        """GROUP of stores of the outputs, as the scheduler wants it."""
        return stored(self.outputs)


def stored(outputs: tuple[UOp, ...]) -> UOp:
    """GROUP of stores of values into params of their own."""
    places = [UOp.param(FIRST_OUTPUT + i, value.dtype, value.shape) for i, value in enumerate(outputs)]
    return UOp.group(*(place.store(value) for place, value in zip(places, outputs, strict=True)))


def make_case(seed: int) -> Case:
    """The case of that number."""
    generator = Generator(seed)
    for _ in range(generator.random.choice((3, 5, 8, 12, 18))):
        generator.step()
    outputs = generator.outputs()
    used = {node for value in outputs for node in value.topological() if node.op is ops.PARAM}
    arrays = {node: generator.array(node) for node in sorted(used, key=lambda node: int(node.arg.slot))}
    return Case(outputs, arrays, generator.mood)


class Generator:
    """Grows a pool of nodes, one a step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.mood = self.random.choice(("integer", "exact", "exact", "special", "real"))
        self.has_signed_zeros = self.random.random() < 0.5  # of max and min the sign of a zero is not specified
        self.limit: dict[UOp, float] = {}  # mood exact: no element of this float node is larger
        self.rough: set[UOp] = set()  # mood real: nodes that may differ in the last bits
        self.slots = 0
        self.pool: list[UOp] = []
        self.large = self.random.random() < 0.04
        for _ in range(self.random.choice((1, 2, 2, 3))):
            self.leaf()

    # ---- leaves

    def dtype(self) -> DType:
        """A dtype that the mood allows."""
        if self.mood == "integer":
            return self.random.choice((*INTS, dtypes.int32, dtypes.int32, dtypes.bool))
        if self.random.random() < 0.75:
            return self.random.choice(FLOATS)
        return self.random.choice((dtypes.int32, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.bool))

    def shape(self) -> Shape:
        """Mostly small sizes, one axis sometimes around a multiple of a vector; rarely 0."""
        if self.large:
            return self.random.choice(((5000,), (257, 33), (40, 200), (64, 128), (8197,)))
        shape = [self.random.choice(SMALL) for _ in range(self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
        if shape and self.random.random() < 0.4:
            shape[self.random.randrange(len(shape))] = self.random.choice(ODD)
        if shape and self.random.random() < 0.02:
            shape[self.random.randrange(len(shape))] = 0
        while math.prod(shape) > MOST_ELEMENTS:
            shape.pop(self.random.randrange(len(shape)))
        return tuple(shape)

    def leaf(self, shape: Shape | None = None, dtype: DType | None = None) -> UOp:
        """A param."""
        if self.pool and shape is None and self.random.random() < 0.3:
            shape = self.pick().shape
        node = UOp.param(self.slots, dtype or self.dtype(), self.shape() if shape is None else shape)
        self.slots += 1
        if self.mood == "exact" and node.dtype.is_float:
            self.limit[node] = 3.0
        return self.add(node)

    def array(self, node: UOp) -> np.ndarray:
        """Values for a param."""
        storage, dtype = numpy_dtype(node.dtype), node.dtype
        if dtype.is_bool:
            return self.numbers.integers(0, 2, node.shape).astype(np.bool_)
        if dtype.is_int:
            if self.random.random() < 0.5:
                return self.numbers.integers(max(dtype.min, -9), 10, node.shape).astype(storage)
            return self.numbers.integers(dtype.min, dtype.max, node.shape, storage, endpoint=True)
        if self.mood == "exact":
            return self.numbers.integers(-3, 4, node.shape).astype(storage)
        values = self.numbers.standard_normal(node.shape)
        if self.mood == "special":
            picks = [0.0, 1.0, -1.0, 0.5, 2.5, 1e-5, -1e-40, 300.7, -70000.0, 1e30, math.inf, -math.inf, math.nan]
            if self.has_signed_zeros:
                picks.append(-0.0)
            values = np.where(self.numbers.random(node.shape) < 0.5, self.numbers.choice(picks, node.shape), values)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(storage)

    # ---- the pool

    def add(self, node: UOp) -> UOp:
        self.pool.append(node)
        return node

    def derive(self, node: UOp, *sources: UOp, limit: float | None = None) -> UOp:
        """Adds a node whose values are as large and as rough as those it is made of."""
        if any(s in self.rough for s in sources):
            self.rough.add(node)
        if self.mood == "exact" and node.dtype.is_float:
            known = [self.limit[s] for s in sources if s in self.limit]
            self.limit[node] = max(known, default=1.0) if limit is None else limit
        return self.add(node)

    def pick(self, allowed: Callable[[UOp], bool] = lambda node: True) -> UOp:
        """A node of the pool, mostly a late one; a new leaf if none is allowed."""
        found = [node for node in self.pool if allowed(node)]
        if not found:
            return self.leaf()
        return found[-1 - min(int(self.random.expovariate(0.4)), len(found) - 1)]

    def fits(self, dtype: DType, limit: float) -> bool:
        """Whether whole numbers up to the limit are exact in a float dtype, and sums of them."""
        return self.mood != "exact" or not dtype.is_float or limit <= 2.0**dtype.mantissa_bits

    def match(self, x: UOp) -> UOp:
        """An operand of the same dtype and shape, or a scalar."""
        kind = self.random.random()
        if kind < 0.3:
            return self.number(x.dtype)
        same = [y for y in self.pool if y.dtype is x.dtype and y.shape in (x.shape, ())]
        if same and kind < 0.7:
            return self.random.choice(same)
        near = [y for y in self.pool if y.dtype is x.dtype and self.broadcasts(y.shape, x.shape)]
        if not near:
            return self.leaf(x.shape, x.dtype)
        y = self.random.choice(near)
        padded = (1,) * (len(x.shape) - len(y.shape)) + y.shape
        return self.derive(y.reshape(padded).expand(x.shape), y)

    @staticmethod
    def broadcasts(small: Shape, large: Shape) -> bool:
        if len(small) > len(large):
            return False
        ending = large[len(large) - len(small) :]
        return all(a in (1, b) for a, b in zip(small, ending, strict=True))

    def number(self, dtype: DType) -> UOp:
        """A constant."""
        if dtype.is_bool:
            return const(dtype, self.random.random() < 0.5)
        if dtype.is_int:
            picks = [0, 1, 2, 3, 7, dtype.max, dtype.min]
            return const(dtype, self.random.choice(picks if dtype.is_unsigned else [*picks, -1, -3]))
        if self.mood == "special":
            return const(dtype, self.random.choice((0.0, 1.0, -1.5, 0.1, math.inf, math.nan, 1e-7)))
        node = const(dtype, float(self.random.choice((0, 1, 2, -1, 3))))
        self.limit[node] = 3.0
        return node

    # ---- steps

    def step(self) -> None:
        """One more node."""
        self.random.choice(STEPS)(self)

    def elementwise(self) -> None:
        x = self.pick()
        if x.dtype.is_bool:
            self.bools(x)
        elif x.dtype.is_int:
            self.ints(x)
        elif self.mood == "exact":
            self.whole_floats(x)
        elif self.mood == "special":
            self.special_floats(x)
        else:
            self.real_floats(x)

    def bools(self, x: UOp) -> None:
        if self.random.random() < 0.2:
            self.derive(~x, x)
            return
        y = self.match(x)
        op = self.random.choice((ops.AND, ops.OR, ops.XOR, ops.EQ, ops.NE, ops.LT, ops.LE))
        self.derive(x.alu(op, y), x, y)

    def ints(self, x: UOp) -> None:
        if self.random.random() < 0.15:
            self.derive(x.alu(self.random.choice((ops.NEG, ops.ABS, ops.NOT))), x)
            return
        y = self.match(x)
        op = self.random.choice(INT_OPS)
        if op is ops.FMA:
            z = self.match(x)
            self.derive(x.fma(y, z), x, y, z)
        else:
            self.derive(x.alu(op, y), x, y)

    def whole_floats(self, x: UOp) -> None:
        y = self.match(x)
        op = self.random.choice((ops.ADD, ops.SUB, ops.MUL, ops.MAX, ops.MIN, ops.NEG, ops.ABS, ops.FLOOR, ops.ROUND))
        a, b = self.limit[x], self.limit.get(y, 3.0)
        if op.least == 1:
            self.derive(x.alu(op), x)
            return
        limit = a * b if op is ops.MUL else max(a, b) if op in (ops.MAX, ops.MIN) else a + b
        if self.fits(x.dtype, limit):
            self.derive(x.alu(op, y), x, y, limit=limit)

    def special_floats(self, x: UOp) -> None:
        unary = (ops.NEG, ops.ABS, ops.SQRT, ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND)
        if self.random.random() < 0.3:
            self.derive(x.alu(self.random.choice(unary)), x)
            return
        y = self.match(x)
        chosen = (ops.FDIV, ops.FDIV) if self.has_signed_zeros else (ops.MAX, ops.MIN)
        op = self.random.choice((ops.ADD, ops.SUB, ops.MUL, *chosen))
        self.derive(x.alu(op, y), x, y)

    def real_floats(self, x: UOp) -> None:
        kind = self.random.random()
        if kind < 0.25:
            op = self.random.choice((ops.EXP2, ops.SIN, ops.COS, ops.LOG2, ops.SQRT, ops.NEG, ops.ABS, ops.RECIPROCAL))
            if op in (ops.SQRT, ops.LOG2, ops.RECIPROCAL):
                x = self.derive(self.derive(abs(x), x) + 0.5, x)
            node = self.derive(x.alu(op), x)
            if op in (ops.EXP2, ops.SIN, ops.COS, ops.LOG2):
                self.rough.add(node)
            return
        y = self.match(x)
        if kind < 0.35:
            self.derive(x / self.derive(self.derive(abs(y), y) + 0.5, y), x, y)
            return
        self.derive(x.alu(self.random.choice((ops.ADD, ops.SUB, ops.MUL, ops.MAX, ops.MIN)), y), x, y)

    def compare(self) -> None:
        x = self.pick(lambda node: node not in self.rough)
        y = self.match(x)
        if y not in self.rough and x not in self.rough:
            self.derive(x.alu(self.random.choice((ops.LT, ops.LE, ops.EQ, ops.NE)), y), x, y)

    def choose(self) -> None:
        x = self.pick()
        conditions = [c for c in self.pool if c.dtype.is_bool and c.shape in (x.shape, ()) and c not in self.rough]
        y = self.match(x)
        if conditions:
            condition = self.random.choice(conditions)
        elif x in self.rough or x.dtype.is_bool:
            return
        else:
            condition = self.derive(x < self.number(x.dtype), x)
        self.derive(condition.where(x, y) if self.random.random() < 0.5 else condition.where(y, x), x, y)

    def cast(self) -> None:
        x = self.pick()
        dtype = self.dtype()
        if x in self.rough and not dtype.is_float:
            return
        limit = self.limit.get(x, 1.0)
        if self.mood == "exact" and dtype.is_float:
            if x.dtype.is_int:
                small = x.alu(ops.FLOORMOD, const(x.dtype, 4))
                self.derive(small.cast(dtype), x, limit=3.0)
                return
            if not self.fits(dtype, limit):
                return
        self.derive(x.cast(dtype), x, limit=limit)

    def bitcast(self) -> None:
        x = self.pick(lambda node: node.dtype.is_int and node.dtype.bitsize == 32)
        if not x.dtype.is_int or x.dtype.bitsize != 32:
            return
        self.derive(x.bitcast(dtypes.uint32 if x.dtype is dtypes.int32 else dtypes.int32), x)

    # ---- movement

    def reshape(self) -> None:
        x = self.pick()
        size = math.prod(x.shape)
        if size == 0:
            return
        shape: list[int] = []
        rest = size
        while rest > 1 and len(shape) < 4:
            divisors = [d for d in range(1, min(rest, 200) + 1) if rest % d == 0]
            shape.append(self.random.choice(divisors))
            rest //= shape[-1]
        if rest > 1:
            shape.append(rest)
        if self.random.random() < 0.3:
            shape.insert(self.random.randint(0, len(shape)), 1)
        self.derive(x.reshape(tuple(shape)), x)

    def permute(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 1)
        order = list(range(len(x.shape)))
        self.random.shuffle(order)
        self.derive(x.permute(tuple(order)), x)

    def expand(self) -> None:
        x = self.pick()
        shape = list(x.shape)
        if 1 not in shape or self.random.random() < 0.5:
            shape.insert(self.random.randint(0, len(shape)), 1)
        wide = [self.random.choice((1, 2, 3, 5, 9, 17)) if size == 1 else size for size in shape]
        if math.prod(wide) <= MOST_ELEMENTS and len(wide) <= 5:
            self.derive(x.reshape(tuple(shape)).expand(tuple(wide)), x)

    def pad(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        if not x.shape:
            return
        amounts = (0, 0, 0, 1, 2, 3, 17)
        pads = [(self.random.choice(amounts), self.random.choice(amounts)) for _ in x.shape]
        if math.prod(size + a + b for size, (a, b) in zip(x.shape, pads, strict=True)) <= 2 * MOST_ELEMENTS:
            self.derive(x.pad(pads), x)

    def shrink(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        parts = []
        for size in x.shape:
            start = self.random.randint(0, size // 2)
            parts.append((start, self.random.randint(min(1, size - start), size - start)))
        self.derive(x.shrink(parts), x)

    def flip(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        self.derive(x.flip(tuple(axis for axis in range(len(x.shape)) if self.random.random() < 0.6)), x)

    # ---- reductions

    def reducer(self, x: UOp, count: int) -> tuple[Op, float] | None:
        """An op by which so many elements of x may be combined, and how large the result can be."""
        limit = self.limit.get(x, 1.0)
        if x.dtype.is_bool:
            return self.random.choice((ops.OR, ops.AND)), limit
        if x.dtype.is_int:
            return self.random.choice((ops.ADD, ops.ADD, ops.MAX, ops.MIN, ops.MUL, ops.AND, ops.OR)), limit
        op = self.random.choice((ops.ADD, ops.ADD, ops.ADD, ops.MAX, ops.MIN, ops.MUL))
        if self.mood == "special" and (op in (ops.ADD, ops.MUL) or self.has_signed_zeros):
            return None if self.has_signed_zeros else (ops.MAX, limit)
        if self.mood == "real" and op is ops.MUL and count > 6:
            op = ops.ADD
        if self.mood == "exact" and op in (ops.ADD, ops.MUL):
            bound = limit * max(count, 1) if op is ops.ADD else max(limit, 1.0) ** min(count, 40)
            if not self.fits(x.dtype, bound):
                return ops.MAX, limit
            return op, bound
        return op, limit

    def reduce(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        axes = tuple(axis for axis in range(len(x.shape)) if self.random.random() < 0.6)
        count = math.prod(x.shape[axis] for axis in axes)
        chosen = self.reducer(x, count)
        if chosen is None or (count == 0 and x.dtype.is_float and chosen[0] not in (ops.ADD, ops.MUL)):
            return
        op, limit = chosen
        node = self.derive(x.reduce(op, axes), x, limit=max(limit, 1.0))
        self.note_order(node, op, count)
        if self.random.random() < 0.4:  # and back, as norms do
            wide = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
            if axes:
                self.derive(node.reshape(wide).expand(x.shape), node)

    def contract(self) -> None:
        """A matrix product, either side transposed or not, with something on top."""
        x = self.pick(lambda node: len(node.shape) == 2 and not node.dtype.is_bool)
        if len(x.shape) != 2 or x.dtype.is_bool or (self.mood == "special" and x.dtype.is_float):
            return
        m, k = x.shape
        n = self.random.choice((*SMALL, *ODD))
        if m * n * k > 20_000:
            return
        is_transposed = self.random.random() < 0.5
        y = self.leaf((n, k) if is_transposed else (k, n), x.dtype)
        limit = self.limit.get(x, 1.0) * 3.0 * max(k, 1)
        if not self.fits(x.dtype, limit):
            return
        columns = y if is_transposed else y.permute((1, 0))
        wide = (m, n, k)
        product = x.reshape((m, 1, k)).expand(wide) * columns.reshape((1, n, k)).expand(wide)
        node = self.derive(product.reduce(ops.ADD, (2,)), x, y, limit=limit)
        self.note_order(node, ops.ADD, k)

    def rows(self) -> None:
        """What norms do: something of each row, and the row again."""
        x = self.pick(lambda node: len(node.shape) == 2)
        if len(x.shape) != 2 or 0 in x.shape:
            return
        axis = self.random.randrange(2)
        chosen = self.reducer(x, x.shape[axis])
        if chosen is None:
            return
        op, limit = chosen
        row = self.derive(x.reduce(op, (axis,)), x, limit=max(limit, 1.0))
        self.note_order(row, op, x.shape[axis])
        ones = tuple(1 if a == axis else size for a, size in enumerate(x.shape))
        back = self.derive(row.reshape(ones).expand(x.shape), row)
        if x.dtype.is_bool:
            self.derive(x ^ back, x, back)
        elif x.dtype.is_int:
            self.derive(x - back, x, back)
        elif self.fits(x.dtype, limit + self.limit.get(x, 1.0)):
            self.derive(x - back, x, back, limit=limit + self.limit.get(x, 1.0))

    def scan(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        if not x.shape:
            return
        axis = self.random.randrange(len(x.shape))
        chosen = self.reducer(x, x.shape[axis])
        if chosen is not None:
            op, limit = chosen
            reverse = self.random.random() < 0.3
            node = self.derive(x.scan(op, axis, reverse=reverse), x, limit=max(limit, 1.0))
            self.note_order(node, op, x.shape[axis])

    def sort(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0 and 0 not in node.shape)
        if not x.shape or 0 in x.shape:
            return
        axis = self.random.randrange(len(x.shape))
        size = x.shape[axis]
        count = self.random.choice((size, size, self.random.randint(1, size)))
        others = [y for y in self.pool if y.shape == x.shape and x not in self.rough]
        value = self.random.choice([x, x, *others[-3:]])
        self.derive(x.sort(value, axis, count, self.random.random() < 0.5), x, value)

    def note_order(self, node: UOp, op: Op, count: int) -> None:
        if self.mood == "real" and node.dtype.is_float and op in (ops.ADD, ops.MUL) and count > 1:
            self.rough.add(node)

    # ---- the rest

    def gather(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0 and 0 not in node.shape)
        if not x.shape or 0 in x.shape:
            return
        index = self.pick(lambda node: node.dtype.is_int and len(node.shape) <= 2)
        if not index.dtype.is_int or math.prod(index.shape + x.shape[1:]) > MOST_ELEMENTS:
            return
        if max(x.shape[:2]) > index.dtype.max:
            return
        both = len(x.shape) > 1 and self.random.random() < 0.4
        positions = [index]
        if both:
            same = [y for y in self.pool if y.dtype.is_int and y.shape == index.shape]
            positions.append(self.random.choice([y for y in same if x.shape[1] <= y.dtype.max] or [index]))
        if self.random.random() < 0.5:
            inside = [p.alu(ops.FLOORMOD, const(p.dtype, size)) for p, size in zip(positions, x.shape, strict=False)]
            node = x.index(*inside)
        else:
            gate = const(dtypes.bool, True)
            for p, size in zip(positions, x.shape, strict=False):
                gate = gate & (p >= 0) & (p < size)
            node = x.index(*positions, gate=gate)
        self.derive(node, x)

    def largest(self) -> None:
        """The position of the largest element of each row, and perhaps the element there."""
        x = self.pick(lambda node: len(node.shape) == 2 and 0 not in node.shape and node not in self.rough)
        if len(x.shape) != 2 or 0 in x.shape or x in self.rough or x.dtype.is_bool:
            return
        rows, columns = x.shape
        top = x.reduce(ops.MAX, (1,)).reshape((rows, 1)).expand(x.shape)
        place = UOp.arange(columns, dtypes.int32).reshape((1, columns)).expand(x.shape)
        first = x.eq(top).where(place, const(dtypes.int32, columns - 1)).reduce(ops.MIN, (1,))
        self.derive(first)
        if self.random.random() < 0.5:
            self.derive(x.index(UOp.arange(rows, dtypes.int32), first), x)

    def stack(self) -> None:
        x = self.pick(lambda node: math.prod(node.shape) <= MOST_ELEMENTS // 3)
        same = [y for y in self.pool if y.dtype is x.dtype and y.shape == x.shape]
        parts = [x, *(self.random.choice(same) for _ in range(self.random.randint(0, 2)))] if same else [x]
        if math.prod(x.shape) * len(parts) <= MOST_ELEMENTS:
            self.random.shuffle(parts)
            self.derive(UOp.stack(*parts), *parts)

    def arange(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        if not x.shape:
            return
        axis = self.random.randrange(len(x.shape))
        ones = tuple(size if a == axis else 1 for a, size in enumerate(x.shape))
        dtype = self.random.choice((dtypes.int32, dtypes.int64))
        self.derive(UOp.arange(x.shape[axis], dtype).reshape(ones).expand(x.shape))

    def keep(self) -> None:
        x = self.pick(lambda node: len(node.shape) > 0)
        if 0 not in x.shape:
            self.derive(x.stage(), x)

    def outputs(self) -> tuple[UOp, ...]:
        """One to five nodes that are no leaves."""
        made = [node for node in self.pool if node.op not in (ops.PARAM, ops.CONST)]
        if not made:
            made = [self.pool[-1]]
        chosen = [made[-1]]
        for _ in range(self.random.choice((0, 0, 1, 2, 4))):
            chosen.append(self.random.choice(made))
        return tuple(dict.fromkeys(chosen))


INT_OPS = (
    *(ops.ADD, ops.SUB, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR, ops.XOR, ops.SHL, ops.SHR),
    *(ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD, ops.FMA),
)
STEPS = (
    *(Generator.elementwise,) * 6,
    *(Generator.reduce,) * 3,
    *(Generator.contract, Generator.rows, Generator.rows),
    *(Generator.reshape, Generator.permute, Generator.expand, Generator.pad, Generator.shrink, Generator.flip) * 2,
    *(Generator.compare, Generator.choose, Generator.cast, Generator.cast, Generator.bitcast),
    *(
        Generator.scan,
        Generator.sort,
        Generator.gather,
        Generator.gather,
        Generator.largest,
        Generator.stack,
        Generator.arange,
        Generator.keep,
        Generator.leaf,
    ),
)
