"""Who makes the ranges of a kernel, and the one order in which their loops nest.

    for core0: for tile3: for k0        the cores of a CPU, around loops over tiles, around the sum that a tile is of

Every range has an owner, and a number among those of its owner: two passes cannot name one range by accident, and no
pass has to know which numbers another one uses. Where loops can be nested in any order, they nest in this one.
"""

from __future__ import annotations

import enum


class Owner(enum.Enum):
    """What made a range, outermost first; ranges of one owner nest by their numbers."""

    CORE = "core"  # the cores of a CPU
    BLOCK = "block"  # the thread blocks of a GPU
    THREAD = "thread"  # the threads of a block
    ROUND = "round"  # what a core or block does again and again: other rows, other tiles
    GUARD = "guard"  # no iteration or one: whether a core or thread has anything to do here
    OUTPUT = "output"  # r0: the axes of what a kernel stores; all loops of kernels that are written by hand
    REDUCE = "reduce"  # k0: the axes that a reduction is over
    PIECE = "piece"  # an axis of what is stored, in steps of vectors or of several elements
    TILE = "tile"  # the tiles of a contraction
    DEPTH = "depth"  # inside of a block of the axis that a contraction sums over: its tiles, and the sums
    CHUNK = "chunk"  # blocks of the keys of attention
    PHASE = "phase"  # what attention does with such a block: scores, statistics, sums, one after another
    STEP = "step"  # what one thread has of an axis that a block of threads shares
    PART = "part"  # what one thread, or one lane, sums up of a reduction
    TEAM = "team"  # the values that threads have left for each other in shared memory
    SUM = "sum"  # reductions inside of the pieces that they belong to
    FILL = "fill"  # what fills panels
    INNER = "inner"  # what the scores of attention are summed over, wherever they stand
    APART = "apart"  # reductions that had a range in common and run inside of different loops
    STRIP = "strip"  # a long loop as a loop over strips, each with sums of its own
    UNKNOWN = "unknown"  # stands for a position that is not known yet

    __hash__ = object.__hash__  # in the key of every RANGE

    def __init__(self, word: str) -> None:
        self.place = len(type(self).__members__)
        self.stem = {"output": "r", "reduce": "k"}.get(word, word)  # what the names of its ranges begin with
