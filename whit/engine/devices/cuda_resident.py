"""A loaded plan that stays ready on a GPU: a replay is one launch of a graph (`runtime.cuda.graph`).

What each kernel waits for are the edges of the plan (`dependencies`), so kernels that have nothing to do with each
other may run at once. A run writes only arguments that have changed, and tells the graph of the kernels that have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whit.engine.compile.cuda import Launch
from whit.engine.devices.cpu import shared_arena
from whit.engine.devices.cuda import VECTOR_BYTES, Arguments, CudaDevice, LoadedPlan
from whit.engine.programs.dependencies import Access, dependencies, lanes
from whit.runtime.buffer import Buffer
from whit.runtime.cuda.graph import Graph, Words, update

# Kernels that may run at once. 99 sums of 512 rows take 227 us with 1, 122 with 2, 74 with 4, 53 with 8; with 64 they
# take 92, and launching takes twice as long (bench/cuda_replay.py, H200).
LANES = 8
NAMED_KERNELS = 4  # kernels of a graph that an error names


class CudaResident:
    """Graphs of a plan's launches, one for each batch. Residents of a GPU share their arena, and take turns."""

    def __init__(self, device: CudaDevice, loaded: LoadedPlan) -> None:
        self.device = device
        self.loaded = loaded
        plan = loaded.plan
        slots = len(plan.params)
        self._arena = shared_arena(device.name, plan.arena_bytes)
        self._launches = [self._fitting(step) for step in range(len(plan.steps))]
        self._graphs: list[Graph] = []
        self._arguments: list[Arguments] = []  # of all launches; the graphs read them
        self._addresses = [0] * slots
        self._uses: list[list[tuple[Any, int, int]]] = [[] for _ in range(slots)]  # values, place there, bytes behind
        self._maps: list[list[tuple[Any, int]]] = [[] for _ in range(slots)]  # tensor maps, bytes behind the slot
        self._users: list[dict[Words, None]] = [{} for _ in range(slots)]  # the kernels that have a slot
        self._variables: dict[str, int | None] = {}
        self._numbers: dict[str, list[tuple[Any, int]]] = {}  # values, place there
        self._counters: dict[str, dict[Words, None]] = {}  # the kernels that have a variable
        self._stale: dict[Words, None] = {}  # kernels whose arguments their graph does not know yet
        self._unaligned: set[int] = set()  # slots whose memory vectors cannot access
        names = [step.function.arg.name for step in plan.steps]
        more = ", ..." if len(names) > NAMED_KERNELS else ""
        name = f"a graph of {len(names)} kernels ({', '.join(names[:NAMED_KERNELS])}{more})"
        sources = [source for launches in self._launches for launch in launches for source in launch.started[1]]
        self._started = name, list(dict.fromkeys(sources))

    def _fitting(self, step: int) -> tuple[Launch, ...]:
        """The launches of a step; without vectors where a part of a memory begins in between."""
        offsets = [self._where(place)[1] for place in self.loaded.plan.steps[step].places]
        if any(offset % VECTOR_BYTES for offset in offsets):
            return self.device.without_vectors(self.loaded, step).launches
        return self.loaded.kernels[step].launches

    def _where(self, place: int) -> tuple[int, int]:
        """The slot, or -1 for the arena, and the byte at which a place of the plan's table is there."""
        plan = self.loaded.plan
        slots, offset = len(plan.params), 0
        if place >= slots + len(plan.temporaries):
            place, offset = plan.parts[place - slots - len(plan.temporaries)]
        return (place, offset) if place < slots else (-1, plan.temporaries[place - slots].offset + offset)

    # ---- making

    def add_graph(self, steps: range, accesses: Sequence[Sequence[Access]]) -> tuple[Any, ...]:
        """Makes a graph of some steps, of which these are the accesses. The call that launches it: a function and its
        arguments."""
        graph = Graph(self.device.gpu)
        queues = lanes(dependencies(accesses), LANES)
        last: list[int] = []  # of each step's launches, which follow one another
        newest: dict[int, int] = {}  # of each lane
        added: list[tuple[int, Arguments]] = []
        for step, lane, others in zip(steps, queues, dependencies(accesses, queues), strict=True):
            waits = [last[other] for other in others] + ([newest[lane]] if lane in newest else [])
            for launch in self._launches[step]:
                made = Arguments(launch)
                waits = [graph.add(launch.function, launch.blocks, launch.threads, made.pointers, waits, launch.shared)]
                added.append((step, made))
            last += waits
            newest[lane] = last[-1]
        graph.finish()
        self._graphs.append(graph)
        for (step, made), words in zip(added, graph.words, strict=True):
            self._place(made, self.loaded.plan.steps[step].places, words)
        return graph.launching()

    def _place(self, arguments: Arguments, places: Sequence[int], kernel: Words) -> None:
        """Says of each argument of a launch what it depends on."""
        self._arguments.append(arguments)
        self._stale[kernel] = None
        launch, values = arguments.launch, arguments.values
        for position, argument in enumerate(launch.slots):
            slot, offset = self._where(places[argument])
            if slot < 0:
                values[position] = self._arena.address + offset
            else:
                self._uses[slot].append((values, position, offset))
                self._users[slot][kernel] = None
        for each in arguments.maps:
            slot, offset = self._where(places[each.slot])
            if slot < 0:
                each.encode(self._arena.address + offset)
            else:
                self._maps[slot].append((each, offset))
                self._users[slot][kernel] = None
        for position, name in enumerate(launch.variables, len(launch.slots)):
            self._variables[name] = None
            self._numbers.setdefault(name, []).append((values, position))
            self._counters.setdefault(name, {})[kernel] = None

    # ---- running

    def prepare(
        self, buffers: Sequence[Buffer], variables: Mapping[str, int], changed: Iterable[int] | None = None
    ) -> bool:
        """Says where the slots are this time: all of them, or those that may have changed. False if the kernels cannot
        access one of them in vectors: then the plan has to be run without the graphs."""
        self.device.gpu.use()
        addresses = self._addresses
        for slot in range(len(addresses)) if changed is None else changed:
            address = buffers[slot].address
            if address != addresses[slot]:
                addresses[slot] = -1  # an interrupt may come before the end
                (self._unaligned.add if address % VECTOR_BYTES and self._uses[slot] else self._unaligned.discard)(slot)
                self._stale.update(self._users[slot])
                for values, position, offset in self._uses[slot]:
                    values[position] = address + offset
                for each, offset in self._maps[slot]:
                    each.encode(address + offset)
                addresses[slot] = address
        for name, known in self._variables.items():
            number = variables[name]
            if number != known:
                self._variables[name] = None
                self._stale.update(self._counters[name])
                for values, position in self._numbers[name]:
                    values[position] = number & 0xFFFF_FFFF_FFFF_FFFF
                self._variables[name] = number
        if self._unaligned:
            return False
        if self._stale:
            update(self.device.gpu, self._stale)
            self._stale.clear()
        self.device.gpu.recent.append(self._started)
        return True
