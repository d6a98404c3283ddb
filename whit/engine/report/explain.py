"""What would run to compute a tensor, and why: a report in text. Nothing is executed, and no machine code is made.

    print(explain(node, "CPU"))

The way is that of `realize`: copies between devices first, each with what has to be computed for it; then one schedule
with its kernels in order, what each waits for where that is not the one before, why the values that it stores for
others are not computed where they are read, how it is tiled and why, and the memory that it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from whit.engine.devices.device import Device, canonicalize, is_disk
from whit.engine.memory.placeholder import new_placeholder
from whit.engine.memory.storage import computed_entries, nbytes_of
from whit.engine.memory.view import view_of_buffer
from whit.engine.plan.find_plan import call_names, load_scheduler
from whit.engine.plan.plan import Plan, make_plan
from whit.engine.programs.dependencies import accesses_of, dependencies
from whit.engine.realize.changes import needs_kernel, shows
from whit.engine.realize.effects import effect_of, last_changes, stored_value
from whit.engine.realize.known import filled_by_hand, known, value_of
from whit.engine.realize.parametrise import Parametrised, below, parametrise
from whit.engine.realize.parametrise_effects import parametrise_effects
from whit.engine.realize.windows import find_windows
from whit.engine.report.kernel import KernelReport, spell_bytes, spell_count
from whit.engine.report.launch_words import NO_NAME, LaunchName
from whit.engine.report.why_stored import WhyStored, stored_lines
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, make


def explain(root: UOp, device: str | None = None) -> str:
    """The report about one node. `device` is for a value that has none: one of constants."""
    report = Report([])
    report.value(root, root.device or canonicalize(device))
    return "\n".join(report.lines)


@dataclass(slots=True)
class Report:
    """The lines so far."""

    lines: list[str]

    def value(self, root: UOp, device: str) -> None:
        """What has to be done for a value on a device."""
        node = value_of(root)
        title = f"{_spelled(root)} on {device}"
        if is_disk(device):
            self.lines.append(f"{title}: in a file, nothing is computed there")
        elif known(node) is not None:
            self.lines.append(f"{title}: in memory already, nothing to do")
        elif view_of_buffer(node) is not None:
            self.lines.append(f"{title}: a part of memory that is there already, no kernel")
        elif filled_by_hand(node, device) is not None:
            self.lines.append(f"{title}: a number, written without a kernel")
        else:
            self.schedule(self.without_copies(node), device, title)

    def without_copies(self, root: UOp) -> UOp:
        """The graph with the results of copies in place of the copies, which are reported."""
        order, has_special = below([root])
        if not has_special:
            return root
        done: dict[UOp, UOp] = {}
        for node in order:
            if node.op is ops.COPY and id(node) not in computed_entries:
                done[node] = self.copy(node)
                continue
            value = node.member if node.op is ops.ITEM else stored_value(node)
            if value is not None and value in done:  # the other sources are not looked at
                done[node] = done[value]
            elif any(source in done for source in node.src):
                done[node] = make(node.op, tuple(done.get(source, source) for source in node.src), node.arg)
        return done.get(root, root)

    def copy(self, node: UOp) -> UOp:
        """Reports a copy, and what has to be computed before it; a BUFFER that stands for its result."""
        (source,) = node.src
        target = canonicalize(node.arg)
        if known(value_of(source)) is None and not is_disk(source.device):
            self.value(source, source.device or target)
        count = nbytes_of(node.dtype, node.shape)
        self.lines.append(f"copy of {_spelled(node)}, {spell_bytes(count)}, from {source.device} to {target}")
        return new_placeholder(node.dtype, node.shape, target)

    def schedule(self, node: UOp, device: str, title: str) -> None:
        """Reports the kernels that compute a node, and their memory."""
        graph, changed = _graph_of(node)
        why = WhyStored()
        linear = load_scheduler(device, observe=why.observe)(graph.graph)
        plan = make_plan(linear, graph.outputs + len(graph.slots))
        steps = reports(plan, device, call_names(graph, device))
        work = sum(step.ops for step in steps)
        read, written = sum(step.bytes_read for step in steps), sum(step.bytes_written for step in steps)
        count = f"{len(steps)} kernel{'' if len(steps) == 1 else 's'}"
        moved = f"reads {spell_bytes(read)}, writes {spell_bytes(written)}"
        target = Device[device].target
        is_gpu = target is not None and target.is_gpu
        least = f", at least {sum(step.least_seconds for step in steps) * 1e6:.1f} us" if is_gpu else ""
        self.lines.append(f"{title}: {count}, {spell_count(work)} operations, {moved}{least}")
        first: dict[UOp, int] = {}  # the body of a kernel -> the number of the step that was the first with it
        for number, (step, waits) in enumerate(zip(steps, dependencies(accesses_of(plan)), strict=True), 1):
            self.lines.append(f"  {number}  {step.launch.name or step.name}  {step.result}")
            same = first.setdefault(step.body, number)
            said = [*step.where(), _waiting(number, waits), step.amounts]
            if same == number:
                _, stored = why.calls[number - 1]
                said += [*stored_lines(stored), *step.reasons, f"{step.bound()}{step.achieved()}" if is_gpu else ""]
            else:
                said.append(f"the same kernel as {same}")
            self.lines += [f"     {line}" for line in said if line]
        self.memory(graph, plan, changed)

    def memory(self, graph: Parametrised, plan: Plan, changed: int) -> None:
        """Reports what is in memory while the kernels run."""
        sizes = [nbytes_of(param.dtype, param.shape) if param is not None else 0 for param in plan.params]
        results, inputs = sum(sizes[: graph.outputs]), sum(sizes[graph.outputs :])
        apart = sum(temporary.nbytes for temporary in plan.temporaries)
        self.lines.append(
            f"memory: inputs {spell_bytes(inputs)}, results {spell_bytes(results)}, "
            f"temporaries {spell_bytes(plan.arena_bytes)}; at the peak {spell_bytes(sum(sizes) + plan.arena_bytes)}"
        )
        for temporary in plan.temporaries:
            lives = f"kernels {temporary.first + 1} to {temporary.last + 1}"
            self.lines.append(f"  {_spelled(temporary.node)}  {spell_bytes(temporary.nbytes)}, {lives}")
        if apart > plan.arena_bytes:
            self.lines.append(f"  they share memory: apart they would take {spell_bytes(apart)}")
        if changed:
            self.lines.append(
                "  what is written to is changed in place if nobody can see the old content, else copied first"
            )


def _waiting(number: int, waits: Collection[int]) -> str:
    """Which steps one waits for, counted from 1; "" if for none but the one before."""
    if number == 1 or [*waits] == [number - 2]:
        return ""
    return f"waits for {' and '.join(str(other + 1) for other in waits) or 'none of these'}"


def _graph_of(node: UOp) -> tuple[Parametrised, int]:
    """The graph that `realize` would schedule for a node, and how many memories it changes."""
    order, has_special = below([node])
    tops = [top for top in last_changes(order) if top.device is not None] if has_special else []
    found = [(top, effect_of(top)) for top in tops]
    effects = [effect for _, effect in found if effect is not None]
    if not effects:
        return parametrise([node], order, find_windows(order), is_named=True), 0
    roots = [top for top, effect in found if effect is None]
    if not shows(node, set(tops)) and needs_kernel(node, {effect.memory for effect in effects}):
        roots.append(node)
    windows = find_windows(order, {effect.memory for effect in effects})
    return parametrise_effects(list(dict.fromkeys(roots)), effects, order, windows, is_named=True), len(effects)


# ---- kernels


def kernels(root: UOp, device: str | None = None) -> list[KernelReport]:
    """The kernels that `realize` would run for a node once what it copies is there, in order."""
    node, name = value_of(root), root.device or canonicalize(device)
    if is_disk(name) or known(node) is not None or view_of_buffer(node) or filled_by_hand(node, name) is not None:
        return []
    graph, _ = _graph_of(Report([]).without_copies(node))
    plan = make_plan(load_scheduler(name)(graph.graph), graph.outputs + len(graph.slots))
    return reports(plan, name, call_names(graph, name))


def linear(roots: Sequence[UOp], device: str | None = None) -> UOp:
    """The calls of kernels that `realize` would run for each of these nodes, one node after another."""
    calls: list[UOp] = []
    for root in roots:
        node, name = value_of(root), root.device or canonicalize(device)
        if is_disk(name) or known(node) is not None or view_of_buffer(node) or filled_by_hand(node, name) is not None:
            continue
        graph, _ = _graph_of(Report([]).without_copies(node))
        calls += load_scheduler(name)(graph.graph).src
    return UOp.linear(*calls)


def reports(plan: Plan, device: str, launches: Sequence[LaunchName] = ()) -> list[KernelReport]:
    """A report about each step of a plan."""
    found = []
    for number, (step, call) in enumerate(zip(plan.steps, plan.linear.src, strict=True)):
        result = _spelled(call.src[1]) if len(call.src) > 1 else ""
        launch = launches[number] if len(launches) == len(plan.steps) else NO_NAME
        found.append(KernelReport(step.function, device, Device[device].target, result, launch=launch))
    return found


def _spelled(node: UOp) -> str:
    return f"{node.dtype.name}{spell_shape(node.shape)}"
