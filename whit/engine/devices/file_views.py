"""Reading and writing views of files.

    read_view(view, "CPU")              a BUFFER with the elements of any view of a file
    write_view(view, value)             the elements of a value put where a view shows

A contiguous view is one read of exactly its bytes. Other views are read in pieces; pieces that lie less than a page
apart are read together with what is between them, because that costs less than asking twice. A view that no steps
describe (a reshape across a permute, padding) is worked out in memory, from the part of the file that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from whit.dtype import DType
from whit.engine.devices.device import is_disk
from whit.engine.devices.disk import DiskBuffer, allocate, not_computed, note_read, reads_of
from whit.engine.memory.layout import Runs, StridedLayout, chain_of, follow, row_major, runs_of
from whit.engine.memory.storage import attach, computed, new_buffer, storage
from whit.engine.report.counters import Counts, GlobalCounters
from whit.errors import ArgumentError, InternalError, NotSupportedError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, make
from whit.runtime.buffer import Buffer, has_memory

PAGE_BYTES = 4096  # bytes
Realize = Callable[[UOp, str], UOp]


def file_under(view: UOp) -> tuple[DiskBuffer, UOp, list[UOp]] | None:
    """The file that a node is a view of, its BUFFER, and the ops between them; None if it is something computed."""
    base, chain = chain_of(view)
    known = computed(base)
    base = base if known is None else known
    if base.op is not ops.BUFFER:
        return None
    buffer = storage(base)
    return (buffer, base, chain) if isinstance(buffer, DiskBuffer) else None


def read_view(view: UOp, device: str, realize: Realize) -> UOp:
    """A BUFFER on a device with the elements of a view of a file; `realize` computes what cannot be read."""
    found = file_under(view)
    if found is None:
        raise not_computed(view.device or "DISK")
    file, base, chain = found
    if 0 in view.shape:
        return attach(allocate(device, 0), view.dtype, view.shape)
    layout, done = follow(row_major(base.shape), chain)
    runs = runs_of(layout)
    while runs is None:  # elements overlap: less of the chain, the rest in memory
        layout, done = follow(row_major(base.shape), chain[: done - 1])
        runs = runs_of(layout)
    dtype = base.dtype if not done else chain[done - 1].dtype
    result = _read_runs(file, base, layout, runs, device)
    if result.dtype is not dtype:
        result = result.bitcast(dtype)
    for step in chain[done:]:
        result = make(step.op, (result, *step.src[1:]), step.arg)
    return result if result.op is ops.BUFFER else realize(result, device)


def _read_runs(file: DiskBuffer, base: UOp, layout: StridedLayout, runs: Runs, device: str) -> UOp:
    """The elements of a layout as a node over what was read."""
    itemsize, outer = base.dtype.itemsize, runs.outer
    first, hull = outer, prod(runs.sizes[outer:])  # axes from `first` on are read at once, with what is between them
    while first and (runs.steps[first - 1] - hull) * itemsize < PAGE_BYTES:
        first -= 1
        hull = (runs.sizes[first] - 1) * runs.steps[first] + hull
    places = [runs.start + place for place in _places(runs.sizes[:first], runs.steps[:first])]
    memory = Buffer(device, len(places) * hull * itemsize)
    if has_memory(device):
        target, part = memory.memory(), hull * itemsize
        for i, place in enumerate(places):
            file.read_into(target[i * part : (i + 1) * part], place * itemsize)
    moved = memory.nbytes
    GlobalCounters.add(device, Counts(copy_count=1, bytes_written=moved))
    if _is_plain(layout):
        return attach(memory, base.dtype, layout.sizes)
    node = attach(memory, base.dtype, (len(places), hull))
    return _arranged(_without_gaps(node, runs, first, outer), layout, runs)


def _is_plain(layout: StridedLayout) -> bool:
    """Whether memory has the elements in the order of the view."""
    return all(
        size == 1 or step == wanted
        for size, step, wanted in zip(layout.sizes, layout.steps, row_major(layout.sizes).steps, strict=True)
    )


def _without_gaps(node: UOp, runs: Runs, first: int, outer: int) -> UOp:
    """(pieces, elements with gaps) -> (pieces, elements of the axes from `first` on)"""
    pieces, length = node.shape
    shape: tuple[int, ...] = (pieces,)
    for axis in range(first, outer):
        size, step = runs.sizes[axis], runs.steps[axis]
        inner = length - (size - 1) * step  # what one position of this axis spans
        node = node.pad([*[(0, 0)] * len(shape), (0, size * step - length)])
        node = node.reshape((*shape, size, step))
        shape = (*shape, size)
        node = node.shrink([*[(0, part) for part in shape], (0, inner)])
        length = inner
    return node


def _arranged(node: UOp, layout: StridedLayout, runs: Runs) -> UOp:
    """The axes of runs in the order, direction and repetition of the layout."""
    node = node.reshape(runs.sizes)
    flipped = tuple(i for i, axis in enumerate(runs.axes) if layout.steps[axis] < 0)
    if flipped:
        node = node.flip(flipped)
    order = tuple(sorted(range(len(runs.axes)), key=lambda i: runs.axes[i]))
    if order != tuple(range(len(order))):
        node = node.permute(order)
    alone = tuple(size if step else 1 for size, step in zip(layout.sizes, layout.steps, strict=True))
    node = node.reshape(alone) if node.shape != alone else node
    return node if node.shape == layout.sizes else node.expand(layout.sizes)


def _places(sizes: Sequence[int], steps: Sequence[int]) -> Iterator[int]:
    """Where each piece begins."""
    for position in product(*map(range, sizes)):
        yield sum(i * step for i, step in zip(position, steps, strict=True))


def write_view(view: UOp, value: UOp, realize: Realize) -> None:
    """Writes the elements of a value, of the view's shape and dtype, to where the view shows."""
    found = file_under(view)
    if found is None:
        raise not_computed(view.device or "DISK", "assign")
    file, base, chain = found
    if 0 in view.shape:
        return
    layout, done = follow(row_major(base.shape), chain)
    runs = runs_of(layout)
    repeats = any(size > 1 and not step for size, step in zip(layout.sizes, layout.steps, strict=True))
    if done != len(chain) or runs is None or repeats:
        raise NotSupportedError(
            f"assign: this view of {file.device} cannot be written through",
            f"shape {spell_shape(view.shape)}, with elements that are repeated, padded or reshaped out of order",
            "Assign to slices of the tensor itself.",
        )
    if value.device not in (None, "CPU"):
        value = copy_of_view(value, "CPU")
    ordered = _in_order(value, layout, runs)
    data = storage(realize(ordered if ordered.dtype is base.dtype else ordered.bitcast(base.dtype), "CPU")).memory()
    finish_reads(file, realize)
    outer, itemsize = runs.outer, base.dtype.itemsize
    part = prod(runs.sizes[outer:]) * itemsize
    for i, place in enumerate(_places(runs.sizes[:outer], runs.steps[:outer])):
        file.write(data[i * part : (i + 1) * part], (runs.start + place) * itemsize)


def _in_order(value: UOp, layout: StridedLayout, runs: Runs) -> UOp:
    """The elements of a value in the order of memory: `_arranged` backwards."""
    if value.shape != layout.sizes:
        raise ArgumentError(
            f"assign: {spell_shape(value.shape)} into {spell_shape(layout.sizes)}", fix="Shapes must be equal."
        )
    if _is_plain(layout):
        return value
    value = value.reshape(tuple(layout.sizes[axis] for axis in sorted(runs.axes)))
    ranks = sorted(runs.axes)
    value = value.permute(tuple(ranks.index(axis) for axis in runs.axes))
    flipped = tuple(i for i, axis in enumerate(runs.axes) if layout.steps[axis] < 0)
    return value.flip(flipped) if flipped else value


# ---- what `realize` does with files


def copy_of_view(view: UOp, device: str) -> UOp:
    """A COPY of what a view shows. Of a file it is a node of its own, because equal reads may find different content,
    and it will be carried out before the file is written."""
    found = file_under(view) if is_disk(view.device) else None
    if found is None:
        return view.copy_to(device)
    file, base, chain = found
    node = attach(file, base.dtype, base.shape)
    for step in chain:
        node = make(step.op, (node, *step.src[1:]), step.arg)
    copy = node.copy_to(device)
    note_read(file.file, copy)
    return copy


def bitcast_view(view: UOp, dtype: DType) -> UOp | None:
    """The bytes of a view of a file as elements of another dtype, which the last axis has a whole number of; None where
    they do not lie side by side."""
    found = file_under(view)
    if found is None:
        return None
    file, base, chain = found
    old, new = base.dtype.itemsize, dtype.itemsize
    shape = (*view.shape[:-1], view.shape[-1] * old // new) if view.shape else ()
    if 0 in shape:
        return attach(file.view(0, 0), dtype, shape)
    layout, done = follow(row_major(base.shape), chain)
    *steps, last = layout.steps or (0,)
    is_together = old == new or view.shape[-1] == 1 or last == 1
    if done != len(chain) or not is_together or any(step * old % new for step in steps):
        return None
    first = layout.start * old  # bytes: a file may be read from anywhere
    layout = StridedLayout(0, shape, (*[step * old // new for step in steps], last)[: len(shape)])
    runs = runs_of(layout)
    if runs is None:
        return None
    hull = sum((size - 1) * step for size, step in zip(runs.sizes, runs.steps, strict=True)) + 1
    part = file.view(first + runs.start * new, hull * new)
    if _is_plain(layout):
        return attach(part, dtype, shape)
    return _arranged(_without_gaps(attach(part, dtype, (1, hull)), runs, 0, runs.outer), layout, runs)


def finish_reads(file: DiskBuffer, realize: Realize) -> None:
    """Carries out the copies that were asked for before a write."""
    for copy in reads_of(file.file):
        if computed(copy) is None:
            realize(copy, copy.arg)


def copy_into_file(source: UOp, device: str, realize: Realize) -> UOp:
    """The elements of a BUFFER as the first bytes of a file."""
    result = new_buffer(source.dtype, source.shape, device)
    file, memory = storage(result), storage(source)
    if not isinstance(file, DiskBuffer):
        raise InternalError(f"copy: {device} is no file")
    finish_reads(file, realize)
    file.copy_from(memory)
    read = 0 if isinstance(memory, DiskBuffer) else memory.nbytes  # a file counts its own reads
    GlobalCounters.add(device, Counts(copy_count=1, bytes_read=read))
    return result


def compute_into_file(root: UOp, device: str, realize: Realize) -> UOp:
    """What has no device can be wanted in a file; what is in a file cannot be computed with."""
    if root.device is not None:
        raise not_computed(device)
    return copy_into_file(realize(root, "CPU"), device, realize)
