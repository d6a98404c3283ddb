"""Runs PTX of products by warp groups without a GPU: one thread copies, others compute, and boxes of results are copied
back (`ptx_machine` has all other instructions).

The copy engine is as late as it may be: tiles arrive when somebody waits for them, boxes are read when the thread that
stored them waits for that. What was stored without a fence, or never waited for, is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render.ptx_machine import SHARED_BASE, Array, _Block

_SIZES = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def run_groups(text: str, blocks: int, launch: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Runs all blocks of a launch, one after another."""
    for block in range(blocks):
        with np.errstate(all="ignore"):
            machine = _CopyingBlock(text, block, launch["threads"], arrays, launch["shared"], 0)
            machine.maps = [(arrays[f"p{each['slot']}"].reshape(-1), each) for each in launch["maps"]]
            machine.run()
            assert not any(groups[0] for groups in machine.boxes.values()), "it ends before its boxes are read"


class _CopyingBlock(_Block):
    maps: list[tuple[Array, dict[str, Any]]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        names = [word.split("[")[0] for word in arguments[0].split() if word.startswith("map_") and "[128]" in word]
        self.symbols |= {name: number for number, name in enumerate(names)}
        self.barriers: dict[
            int, list[int]
        ] = {}  # address -> who must arrive, who and how many bytes are missing, phase
        self.coming: list[tuple[int, Array, int]] = []  # barrier, bytes, where to
        self.boxes: dict[int, list[list[tuple[int, list[int], int]]]] = {}  # thread -> groups of its copies
        self.unseen = np.zeros(self.shared.size, bool)  # bytes that the copy engine does not see yet

    def where(self, text: str, who: int) -> tuple[int, list[int]]:
        """The map of a thread, and the place in it."""
        name, _, place = text.strip("[]").partition(", ")
        numbers = place.strip("{}").split(", ")
        return int(self.registers[name][who]), [int(self.get(each, "s32")[who]) for each in numbers]

    def do_mov(self, kinds: list[str], x: list[str]) -> None:
        super().do_mov(["u64"] if x[1].startswith("map_") else kinds, x)

    def do_prefetch(self, kinds: list[str], x: list[str]) -> None:
        """Nothing is late because of it."""

    def do_setmaxnreg(self, kinds: list[str], x: list[str]) -> None:
        assert self.active.sum() % 128 == 0

    # ---- barriers

    def do_mbarrier(self, kinds: list[str], x: list[str]) -> None:
        if kinds[0] == "init":
            count = int(x[1])
            (at,) = self.address(x[0])[self.active]
            self.barriers[int(at)] = [count, count, 0, 0]
        elif kinds[0] == "try_wait":
            self.try_wait(x)
        else:
            (at,) = {int(address) for address in self.address(x[1])[self.active]}
            self.arrive(at, int(self.active.sum()), int(x[2]) if "expect_tx" in kinds else 0)

    def try_wait(self, x: list[str]) -> None:
        (at,) = {int(address) for address in self.address(x[1])[self.active]}
        for barrier, value, to in [each for each in self.coming if each[0] == at]:
            self.shared[to : to + value.size] = value
            self.arrive(barrier, 0, -value.size)
        self.coming = [each for each in self.coming if each[0] != at]
        passed = self.barriers[at][3] != self.get(x[2], "u32") & 1
        self.put(x[0], passed)
        self.waits |= self.active & ~passed

    def arrive(self, at: int, threads: int, nbytes: int) -> None:
        state = self.barriers[at]
        state[1] -= threads
        state[2] += nbytes
        assert state[1] >= 0, "too many threads arrive"
        if not state[1] and not state[2]:
            state[1], state[3] = state[0], 1 - state[3]
            self.waits[:] = False

    # ---- copies

    def do_st(self, kinds: list[str], x: list[str]) -> None:
        super().do_st(kinds, x)
        if kinds[0] == "shared":
            _, places, _ = self.bytes_at(self.address(x[0]), 1)
            self.unseen[places // 16 * 16] = True

    def do_stmatrix(self, kinds: list[str], x: list[str]) -> None:
        super().do_stmatrix(kinds, x)
        _, places, _ = self.bytes_at(self.address(x[0]), 1)
        self.unseen[places] = True

    def do_fence(self, kinds: list[str], x: list[str]) -> None:
        super().do_fence(kinds, x)
        if kinds[0] == "proxy":
            self.unseen[:] = False

    def do_cp(self, kinds: list[str], x: list[str]) -> None:
        if "bulk" not in kinds:
            super().do_cp(kinds, x)
            return
        for who in np.flatnonzero(self.active):
            groups = self.boxes.setdefault(int(who), [[]])  # the last one is open
            if "wait_group" in kinds:
                while len(groups) - 1 > int(x[0]):
                    for box in groups.pop(0):
                        self.copy_out(*box)
            elif "commit_group" in kinds:
                groups.append([])
            elif "bulk_group" in kinds:
                number, place = self.where(x[0], who)  # type: ignore[arg-type]
                at = int(self.address(x[1])[who]) - SHARED_BASE
                assert not self.unseen[at : at + self.swizzled(number).size].any(), "there is no fence"
                groups[-1].append((number, place, at))
            else:
                barrier, to = (int(self.address(each)[who]) for each in (x[2], x[0]))
                self.coming.append((barrier, self.copy_in(*self.where(x[1], who)), to - SHARED_BASE))  # type: ignore[arg-type]

    def swizzled(self, number: int) -> Array:
        """Where the bytes of a box are, from its innermost axis on: lines of 128 bytes, groups of 16 turned."""
        _, each = self.maps[number]
        lanes, lines, _ = each["box"]
        assert lanes * each["itemsize"] == 128
        place = np.arange(lines * 128)
        return place ^ (place >> 7 & 7) << 4

    def elements(self, number: int, place: list[int]) -> tuple[Array, Array]:
        """The positions of a box in memory, and which are inside of the matrix."""
        _, each = self.maps[number]
        steps = [each["itemsize"], *each["strides"]]
        axes = [np.arange(size) + first for size, first in zip(each["box"], place, strict=True)]
        grid = np.meshgrid(*axes[::-1], indexing="ij")[::-1]
        inside = np.logical_and.reduce([(g >= 0) & (g < s) for g, s in zip(grid, each["sizes"], strict=True)])
        position = each["start"] + sum(g * s for g, s in zip(grid, steps, strict=True))
        return position.reshape(-1) // each["itemsize"], inside.reshape(-1)

    def copy_in(self, number: int, place: list[int]) -> Array:
        memory, each = self.maps[number]
        position, inside = self.elements(number, place)
        flat = memory.view(_SIZES[each["itemsize"]])
        found = np.where(inside, flat[np.where(inside, position, 0)], 0).astype(flat.dtype).view(np.uint8)
        result = np.empty_like(found)
        result[self.swizzled(number)] = found
        return result

    def copy_out(self, number: int, place: list[int], box: int) -> None:
        memory, each = self.maps[number]
        position, inside = self.elements(number, place)
        flat = memory.view(_SIZES[each["itemsize"]])
        found = self.shared[box + self.swizzled(number)].view(flat.dtype)
        flat[position[inside]] = found[inside]
