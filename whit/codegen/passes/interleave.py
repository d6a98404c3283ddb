"""Every second or fourth element: whole runs are loaded and stored, and lanes change places in registers.

    load p0 at x + (0, 2, 4, 6), load p0 at x + 1 + (0, 2, 4, 6)
    ->  load 8 of p0 from x on, its even lanes, its odd lanes

    store p0, a, x + (0, 2, 4, 6); store p0, b, x + 1 + (0, 2, 4, 6)
    ->  store p0, (a0, b0, a1, b1, ...), x

Gathering 16 elements takes 25 cycles on Ice Lake, loading four vectors and picking lanes 6. What lies between is read
with them, nothing before or behind: of the last vectors some lanes are left out. Stores must fill the whole run.
"""

from __future__ import annotations

from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.passes.vector_access import is_count, only_vector, scalar_part
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.simplify.sums import linear_form
from whit.target import Target

Key = tuple[UOp, UOp, int, int, int]  # buffer, position without constant and lanes, stride, width, lanes that count

STRIDES = (2, 3, 4)
_GATE = {ops.LOAD: 2, ops.STORE: 3}  # where the gate stands in the sources, if there is one; the position before it


def interleave(body: UOp, target: Target) -> UOp:
    """The kernel with accesses of a small stride made of whole runs."""
    has_masks = "avx512f" in target.features
    replaced: dict[UOp, UOp] = {}
    for key, columns in _accesses(body, ops.LOAD).items():
        _load_runs(key, columns, has_masks, replaced)
    body = body.substitute(replaced) if replaced else body
    replaced = {}
    for key, columns in _accesses(body, ops.STORE).items() if not target.is_gpu else ():
        _store_runs(key, columns, has_masks, replaced)
    return body.substitute(replaced) if replaced else body


def _accesses(body: UOp, op: Op) -> dict[Key, dict[int, UOp]]:
    """Loads or stores of a small stride, by the constant in their positions."""
    found: dict[Key, dict[int, UOp]] = {}
    for node in topological((body,)):
        if node.op is not op or (op is ops.STORE and not _is_vector_kept(node)):
            continue
        buffer, *_, position = node.src[: _GATE[op]]
        if not position.shape or position.dtype is not dtypes.weakint:
            continue
        width = position.shape[0]
        lanes = _first_lanes(node.src[_GATE[op] :], width)
        terms, offset = linear_form(position)
        vector, stride = only_vector(terms)
        if lanes and vector is not None and stride in STRIDES and is_count(vector):
            found.setdefault((buffer, scalar_part(terms, 0), stride, width, lanes), {})[offset] = node
    return found


def _is_vector_kept(store: UOp) -> bool:
    """Whether a store is of a vector, and combines nothing."""
    return store.arg.combine is None and bool(store.src[1].shape)


def _first_lanes(gate: tuple[UOp, ...], width: int) -> int:
    """How many lanes count, if it is the first ones; 0 if not."""
    if not gate:
        return width
    if gate[0].op is not ops.LT:
        return 0
    lane, limit = gate[0].src
    return int(limit.arg) if is_count(lane) and limit.op is ops.CONST else 0


def _first_of(width: int, lanes: int) -> UOp | None:
    """The gate of the first lanes."""
    return None if lanes == width else lane_numbers(width) < lanes


def _load_runs(key: Key, columns: dict[int, UOp], has_masks: bool, replaced: dict[UOp, UOp]) -> None:
    buffer, base, stride, width, lanes = key
    for start in sorted(columns):
        beside = {t: columns[start + t] for t in range(stride) if start + t in columns}
        if columns[start] in replaced or (len(beside) < stride and not has_masks):
            continue
        needed = (lanes - 1) * stride + max(beside) + 1
        if needed < width * stride and not has_masks:
            continue
        run = buffer.load(base + start, width * stride, _first_of(width * stride, needed))
        for t, load in beside.items():
            replaced[load] = make(ops.SHUFFLE, (run,), tuple(range(t, width * stride, stride)))


def _store_runs(key: Key, columns: dict[int, UOp], has_masks: bool, replaced: dict[UOp, UOp]) -> None:
    target, base, stride, width, lanes = key
    for start in sorted(columns):
        beside = [columns.get(start + t) for t in range(stride)]
        if any(store is None or store in replaced for store in beside) or (lanes < width and not has_masks):
            continue
        stores = [store for store in beside if store is not None]
        run = _mixed([store.src[1] for store in stores])
        whole = target.store(run, base + start, gate=_first_of(width * stride, lanes * stride))
        replaced.update(dict.fromkeys(stores, whole))


def _mixed(vectors: list[UOp]) -> UOp:
    """The first lanes of all vectors, then the second ones, and so on."""
    width, count = vectors[0].shape[0], len(vectors)
    pairs = [*vectors, vectors[-1]] if count == 3 else vectors
    while len(pairs) > 1:  # one after the other
        both = 2 * pairs[0].shape[0]
        order = (
            tuple(range(both)) if len(pairs) > 2 else tuple(t * width + i for i in range(width) for t in range(count))
        )
        pairs = [make(ops.SHUFFLE, (a, b), order) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    return pairs[0]
