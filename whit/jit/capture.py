"""From a trace to something that can be replayed: what a function reads, writes, draws and returns.

Goes in: the `Trace` of a call, its tensor arguments, its result. Comes out: a `Replay`, with

    seen       every tensor from outside that the function reads, and the placeholder (site) it is seen through
    changes    tensors and families of views that have another value afterwards
    gradients  what `.grad` of tensors becomes
    results    tensors to be made, and how the result is put together from them
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from whit.engine.memory.placeholder import gradient_used_up, is_placeholder, new_placeholder
from whit.engine.memory.storage import is_known
from whit.engine.programs.program import Program, build, plain
from whit.engine.programs.trace import Shown, Trace
from whit.engine.realize.parametrise import NO_NAMES, Names
from whit.errors import JitError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.jit.records import CapturedInput, Change, Escape, Grad, Guards, Output, ReadTensor, Shared
from whit.jit.replayer import Replay
from whit.jit.signature import Result, of_further_values, result_of
from whit.tensor.core import Core
from whit.transform import flow


class NeedsViewsError(Exception):
    """An argument that is a view of another tensor is written to: trace again, and look at it as a view."""


def capture(
    trace: Trace,
    arguments: Sequence[Core],
    returned: Any,
    device: str,
    is_pruned: bool = False,
    donated: Sequence[Core] = (),
    kept: Sequence[Core] | None = None,
    names: Names = NO_NAMES,
) -> Replay:
    """What a trace has become; `device` is for constants. `donated` are arguments whose memory results may get. `kept`:
    it runs once; then the tensors that the trace has made, and the function has put elsewhere, have their values.
    `names` are those of variables with the values that they have as arguments."""
    places = {id(tensor): number for number, tensor in enumerate(arguments)}
    numbers = {key: number for key, number in places.items() if key in trace.arguments}
    result, returns = result_of(trace.name, returned, places)
    for tensor in returns:
        trace.entry(tensor)  # one from outside may be returned and not be read
    captured_inputs, seen = _find_sites(trace, numbers)
    changes = _find_changes(trace, {id(one.tensor): number for number, one in enumerate(seen)})
    gradients, computed = _find_gradients(trace, changes, numbers, kept is not None)
    escapes = _find_escapes(trace, kept or ())
    if kept is not None:  # the tensors that the function has returned are among them
        result, returns = Result(0, None), []
    made, shared = _find_shared(trace, returns, numbers, bool(donated))
    result.count = len(made)
    outputs = made + computed
    outputs += [(e.tensor, trace.value(e.tensor) if e.family is None else e.family.uop) for e in escapes]
    fixed = _captured_alone(captured_inputs, seen) if is_pruned else set()
    program = _build([value for _, value in outputs], changes, device, fixed, _donations(trace, donated), names)
    program.assume(trace.rooms)
    for captured_input in captured_inputs:
        captured_input.place = program.inputs.get(captured_input.placeholder, -1)
    return Replay(
        name=trace.name,
        program=program,
        views=trace.views,
        captured_inputs=captured_inputs,
        seen=seen,
        changes=[
            Change(state, one.seen, one.tensor, one.is_replaced, one.writes_first, one.value.dtype, one.value.shape)
            for state, one in zip(program.states, changes, strict=True)
        ],
        gradients=gradients,
        outputs=[_output(trace, tensor, value, device, numbers) for tensor, value in outputs],
        escapes=escapes,
        result=result,
        shared=shared,
        guards=_guards(trace, arguments, numbers),
        draws=trace.draws,
        seed=trace.seed,
        drawn=trace.drawn,
        names=of_further_values(names),
    )


def _captured_alone(captured_inputs: Sequence[CapturedInput], seen: Sequence[ReadTensor]) -> set[UOp]:
    """The placeholders that captured tensors are seen through, and no argument."""
    of_arguments = {one.captured_input for one in seen if one.argument >= 0}
    return {captured_inputs[one.captured_input].placeholder for one in seen if one.captured_input not in of_arguments}


def _donations(trace: Trace, donated: Sequence[Core]) -> list[UOp]:
    """What arguments show whose memory results may get: not those that are views."""
    is_whole = [tensor for tensor in donated if id(tensor) in trace.shown and trace.raw_family(tensor) is None]
    return [trace.shown[id(tensor)].start for tensor in is_whole]


def _build(
    values: Sequence[UOp],
    changes: Sequence[_Changed],
    device: str,
    fixed: set[UOp],
    donated: Sequence[UOp],
    names: Names,
) -> Program:
    """The program that computes values and writes changes. What it writes is neither fixed nor given away."""
    written = {one.old for one in changes}
    return build(
        values,
        [(one.value, one.old) for one in changes],
        device,
        fixed=fixed - written,
        donated=[node for node in donated if node not in written],
        given=names,
    )


def _find_sites(trace: Trace, numbers: Mapping[int, int]) -> tuple[list[CapturedInput], list[ReadTensor]]:
    """The placeholders of a trace, and the tensors that were seen through them."""
    entries = trace.shown.values()
    owners = {id(e.first_grad): e.tensor for e in entries if e.reads_grad and e.first_grad is not None}
    captured_inputs: list[CapturedInput] = []
    seen: list[ReadTensor] = []
    for place in trace.places.values():
        for tensor in place.tensors:
            start = trace.shown[id(tensor)].start
            owner = owners.get(id(tensor))
            seen.append(
                ReadTensor(
                    tensor, numbers.get(id(tensor), -1), owner, numbers.get(id(owner), -1), start, len(captured_inputs)
                )
            )
        captured_inputs.append(CapturedInput(place.placeholder))
    return captured_inputs, seen


class _Changed(NamedTuple):
    """A new value: the graph, the placeholder of the old one, the number of a `ReadTensor` and its tensor."""

    value: UOp
    old: UOp | None
    seen: int
    tensor: Core
    is_replaced: bool = False
    writes_first: bool = False


def _find_changes(trace: Trace, seen: Mapping[int, int]) -> list[_Changed]:
    """The tensors and families that have another value at the end. Families first: a tensor that has left one keeps
    the value that it was given then."""
    known: dict[UOp, UOp] = {}
    shown = [node for entry in trace.shown.values() for node in (entry.uop, entry.start)]
    plain([*[standing.uop for _, _, standing in trace.families.values()], *shown], known)  # all at once
    return _changed_families(trace, seen, known) + _changed_tensors(trace, seen, known)


def _changed_families(trace: Trace, seen: Mapping[int, int], known: dict[UOp, UOp]) -> list[_Changed]:
    found: list[_Changed] = []
    for family, place, standing in trace.families.values():
        (new,) = plain([standing.uop], known)
        if new is (family.uop if place is None else place.placeholder):
            continue
        if not trace.views and _has_argument(trace, family):
            raise NeedsViewsError
        tensor = next(entry.tensor for entry in trace.shown.values() if entry.first_family is standing)
        before = None if place is None else place.placeholder
        found.append(_Changed(new, before, seen.get(id(tensor), -1), tensor))
    return found


def _has_argument(trace: Trace, family: Any) -> bool:
    """Whether an argument is one of the tensors of a family."""
    shown = trace.shown.values()
    return any(trace.raw_family(one.tensor) is family and id(one.tensor) in trace.arguments for one in shown)


def _changed_tensors(trace: Trace, seen: Mapping[int, int], known: dict[UOp, UOp]) -> list[_Changed]:
    """Those whose family does not say it."""
    found: list[_Changed] = []
    for entry in trace.shown.values():
        if entry.first_family is not None and entry.family is entry.first_family:
            continue  # its family was looked at
        new, old = plain([entry.uop, entry.start], known)
        if new is old and not entry.is_replaced:
            continue
        if entry.left is not None and entry.first_family is None and plain([entry.left.uop], known) != [old]:
            entry.writes_first = True
        _check_change(trace, entry, new)
        has_memory = is_placeholder(entry.start) and entry.first_family is None  # else it is the family's
        before, number = entry.start if has_memory else None, seen.get(id(entry.tensor), -1)
        found.append(_Changed(new, before, number, entry.tensor, entry.is_replaced, entry.writes_first))
    return found


def _check_change(trace: Trace, entry: Shown, new: UOp) -> None:
    """Raises for a new value that the tensor cannot get outside."""
    tensor, old = entry.tensor, entry.start
    if new.dtype is not old.dtype or (old.device is not None and new.device not in (None, old.device)):
        raise _cannot(trace, "changes the dtype or the device of a tensor from outside", "Return the new tensor.")
    if entry.family is not None and entry.family.uop is not entry.uop:
        raise _cannot(trace, "makes a tensor from outside a view of another one", "Do it before.")
    family = trace.raw_family(tensor)
    if (
        (entry.is_replaced and not entry.writes_first)
        or family is None
        or trace.views
        or id(tensor) not in trace.arguments
    ):
        return
    relatives = [other for other in trace.shown.values() if trace.raw_family(other.tensor) is family]
    if trace.raw_uop(tensor) is not family.uop or len(relatives) > 1:
        raise NeedsViewsError


def _cannot(trace: Trace, what: str, fix: str) -> JitError:
    return JitError(f"{trace.name}: the captured function {what}", fix=fix)


def _find_shared(
    trace: Trace, returns: Sequence[Core], numbers: Mapping[int, int], is_alone: bool
) -> tuple[list[tuple[Core, UOp]], list[Shared]]:
    """Tensors and values for which memory is made, and what each result shows then; nothing if each shows its own.

    y, y[1:] -> [y], [y, a view of y]               w, x[1:] -> [], [w, a view of the argument]
    """
    grads = {id(entry.first_grad) for entry in trace.shown.values()}  # each call may find others there
    families = [None if is_alone else _family_to_share(trace, tensor) for tensor in returns]
    made: list[tuple[Core, UOp]] = []
    places: dict[int, int] = {}  # of what families show, among those
    found: list[Shared] = []
    for tensor, family in zip(returns, families, strict=True):
        is_outside = not trace.is_made(tensor) and id(tensor) not in grads and not is_alone
        if is_outside:
            found.append(Shared(-1, -1, tensor))
            continue
        owner = trace.outside(family)
        if family is None or (owner is None and families.count(family) == 1):
            found.append(Shared(len(made), -1, None))
            made.append((tensor, trace.value(tensor)))
            continue
        if owner is not None:
            found.append(_view_of_outside(trace, tensor, family, owner, numbers))
            continue
        if id(family) not in places:
            places[id(family)] = len(made)
            made.append((tensor, family.uop))
        view, stand_in, around = _shown_by(trace, tensor, family)
        is_base = view is stand_in
        found.append(Shared(places[id(family)], -1, None, None if is_base else view, stand_in, around))
    return made, [] if _shows_its_own(found) else found


def _shows_its_own(results: Sequence[Shared]) -> bool:
    """Whether each result is what was made for it."""
    return all(one.output == number and one.view is None for number, one in enumerate(results))


def _view_of_outside(trace: Trace, tensor: Core, family: Any, owner: Core, numbers: Mapping[int, int]) -> Shared:
    """A result that is a view of what a tensor from before shows."""
    entry = trace.shown[id(owner)]
    argument = numbers.get(id(owner), -1)
    is_whole = entry.family is not entry.first_family or entry.first_family is None
    return Shared(-1, argument, None if argument >= 0 else owner, *_shown_by(trace, tensor, family), is_whole)


def _shown_by(trace: Trace, tensor: Core, family: Any) -> tuple[UOp, UOp, Any]:
    """What a tensor shows over a placeholder for all of its family, that placeholder, and a family around it."""
    stand_in = new_placeholder(family.uop.dtype, family.uop.shape, family.uop.device or "CPU")
    around = family.shown_on(stand_in)
    return around.same_view(trace.raw_uop(tensor), family.uop), stand_in, around


def _family_to_share(trace: Trace, tensor: Core) -> Any:
    """The family of a result that the trace has made, if what it shows depends on no variable."""
    family = trace.raw_family(tensor) if trace.is_made(tensor) else None
    if family is None or not is_known(family.uop.shape):
        return None
    node = trace.raw_uop(tensor)
    while node is not family.uop:
        if len(node.src) > 1 or not is_known(node.shape):
            return None
        node = node.src[0]
    return family


def _find_escapes(trace: Trace, kept: Sequence[Core]) -> list[Escape]:
    """What gets memory after a program that runs once: tensors that the trace has made, views with what they show."""
    found: dict[int, Escape] = {}
    for tensor in kept:
        family = trace.raw_family(tensor)
        if trace.outside(family) is not None:
            raise _cannot(
                trace,
                "keeps a view of a tensor from outside",
                f"The view was {tensor._made()}. Make it outside, or keep a copy: view.contiguous().",
            )
        node = trace.raw_uop(tensor) if family is None else family.uop
        if node.device is not None and (node.op is not ops.BUFFER or is_placeholder(node)):
            found.setdefault(id(tensor) if family is None else id(family), Escape(tensor, family))
    return list(found.values())


def _find_gradients(
    trace: Trace, changes: list[_Changed], numbers: Mapping[int, int], is_once: bool
) -> tuple[list[Grad], list[tuple[Core, UOp]]]:
    """What `.grad` of tensors becomes, and the gradients that are to be computed for that, with their values.

    A gradient that the same function has used to change its tensor is not kept: it would have to be stored in every
    step, and most programs never look at it. Who does gets an error.
    """
    written = {id(one.tensor) for one in changes}
    found: list[Grad] = []
    kept: list[tuple[Core, UOp]] = []
    for entry in trace.shown.values():
        if not entry.writes_grad or entry.grad is entry.first_grad:
            continue
        argument = numbers.get(id(entry.tensor), -1)
        grad = entry.grad
        if grad is None or is_once or not trace.is_made(grad):
            found.append(Grad(entry.tensor, argument, grad, -1))
        elif entry.reads_grad or id(entry.tensor) not in written:
            found.append(Grad(entry.tensor, argument, None, len(kept)))
            kept.append((grad, trace.value(grad)))
        else:
            value = trace.value(grad)
            node = gradient_used_up(value.dtype, value.shape, grad.device)
            found.append(Grad(entry.tensor, argument, type(grad)._of_buffer(node, grad._place), -1))
    return found, kept


def _guards(trace: Trace, arguments: Sequence[Core], numbers: Mapping[int, int]) -> Guards:
    """What a trace has found out about tensors, besides what they show."""
    reads = [entry for entry in trace.shown.values() if entry.reads_grad]
    grads = {id(entry.first_grad) for entry in reads}  # each call may find others there
    asked: list[Core] = []
    if trace.asks_gradients:
        tensors = [entry.tensor for entry in trace.shown.values()]
        asked = [tensor for tensor in tensors if id(tensor) not in numbers and id(tensor) not in grads]
    without, arguments_without = _without_grad(reads, numbers)
    return Guards(
        same=[(number, tensor) for number, tensor in enumerate(arguments) if id(tensor) not in numbers],
        constants=[(tensor, node) for tensor, node in trace.constants.values() if id(tensor) not in grads],
        without_grad=without,
        arguments_without_grad=arguments_without,
        with_grad=_given_grads(trace, reads, numbers),
        asked=asked,
        requires_grad=[tensor.requires_grad for tensor in asked],
    )


def _without_grad(reads: Sequence[Shown], numbers: Mapping[int, int]) -> tuple[list[Core], list[int]]:
    """The captured tensors that had no gradient, and the numbers of such arguments."""
    without = [entry.tensor for entry in reads if entry.first_grad is None]
    captured = [tensor for tensor in without if id(tensor) not in numbers]
    return captured, [numbers[id(tensor)] for tensor in without if id(tensor) in numbers]


def _given_grads(trace: Trace, reads: Sequence[Shown], numbers: Mapping[int, int]) -> list[tuple[Any, int, UOp | None]]:
    """Tensors that have a gradient which is a constant, or of which only that is known."""
    placed = {id(tensor) for place in trace.places.values() for tensor in place.tensors}
    found: list[tuple[Any, int, UOp | None]] = []
    for entry in reads:
        if entry.first_grad is not None and id(entry.first_grad) not in placed:
            argument = numbers.get(id(entry.tensor), -1)
            _, node = trace.constants.get(id(entry.first_grad), (None, None))
            found.append((None if argument >= 0 else entry.tensor, argument, node))
    return found


def _output(trace: Trace, tensor: Core, value: UOp, device: str, numbers: Mapping[int, int]) -> Output:
    reached = _reached(trace, value)
    return Output(
        type(tensor),
        value.dtype,
        value.shape,
        value.device or tensor._wanted or device,
        tensor._place,
        trace.name if reached else "",
        any(found.requires_grad for found in reached),
        tuple(numbers[id(found)] for found in reached if id(found) in numbers),
        tuple(weakref.ref(found) for found in reached if id(found) not in numbers),
    )


def _reached(trace: Trace, value: UOp) -> list[Any]:
    """The tensors that a gradient would go on to from a result of the function."""
    takes: dict[UOp, list[Any]] = {}
    for entry in trace.shown.values():
        if entry.tensor.requires_grad is not False and entry.start.dtype.is_continuous:
            takes.setdefault(entry.start, []).append(entry.tensor)
    return [tensor for node in flow([value]) for tensor in takes.get(node, ())]
