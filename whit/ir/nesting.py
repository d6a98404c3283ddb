"""Who makes the ranges of a kernel, and the one order in which their loops nest.

    for core0: for tile3: for k0        the cores of a CPU, around loops over tiles, around the sum that a tile is of

Every range has an owner, and a number among those of its owner: two passes cannot name one range by accident, and no
pass has to know which numbers another one uses. Where loops can be nested in any order, they nest in this one.
"""

from __future__ import annotations

import enum


class Owner(enum.Enum):
    """What made a range, outermost first; ranges of one owner nest by their numbers."""

    CORE = "core", 10  # the cores of a CPU
    BLOCK = "block", 20  # the thread blocks of a GPU
    THREAD = "thread", 30  # the threads of a block
    ROUND = "round", 40  # what a core or block does again and again: other rows, other tiles
    GUARD = "guard", 50  # no iteration or one: whether a core or thread has anything to do here
    OUTPUT = "output", 60  # r0: the axes of what a kernel stores; all loops of kernels that are written by hand
    REDUCE = "reduce", 70  # k0: the axes that a reduction is over
    PIECE = "piece", 80  # an axis of what is stored, in steps of vectors or of several elements
    TILE = "tile", 90  # the tiles of a contraction
    DEPTH = "depth", 100  # inside of a block of the axis that a contraction sums over: its tiles, and the sums
    CHUNK = "chunk", 110  # blocks of the keys of attention
    PHASE = "phase", 120  # what attention does with such a block: scores, statistics, sums, one after another
    STEP = "step", 130  # what one thread has of an axis that a block of threads shares
    PART = "part", 140  # what one thread, or one lane, sums up of a reduction
    TEAM = "team", 150  # the values that threads have left for each other in shared memory
    SUM = "sum", 160  # reductions inside of the pieces that they belong to
    FILL = "fill", 170  # what fills panels
    INNER = "inner", 180  # what the scores of attention are summed over, wherever they stand
    APART = "apart", 190  # reductions that had a range in common and run inside of different loops
    STRIP = "strip", 200  # a long loop as a loop over strips, each with sums of its own
    UNKNOWN = "unknown", 210  # stands for a position that is not known yet

    __hash__ = object.__hash__  # in the key of every RANGE

    place: int
    stem: str  # what the names of its ranges begin with

    def __new__(cls, word: str, place: int) -> Owner:
        """A word, which stands for it in texts, and its place in the order, which also tells it apart in digests: a new
        one goes between two tens, and leaves the others theirs."""
        owner = object.__new__(cls)
        owner._value_ = word
        owner.place = place
        owner.stem = {"output": "r", "reduce": "k"}.get(word, word)
        return owner
