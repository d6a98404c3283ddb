"""Writes docs/glossary.md: the words of the field and those of whit, and where the code is that they are about.

A place is a file or a folder, or an object in a file: `whit/ir/uop.py:UOp`. It must exist; a word of the field must
stand in a docstring of the first file that is named, so that who searches for it arrives there
(tests/docs/test_glossary.py).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from pages import ROOT, publish


@dataclass(frozen=True)
class Word:
    """A word, what it means in two sentences, where the code is that does it, and the pages that say more."""

    name: str
    meaning: str
    places: tuple[str, ...]
    pages: tuple[str, ...] = ()


def word(name: str, meaning: str, *where: str) -> Word:
    """`where` are places in the sources, and names of pages."""
    pages = tuple(name for name in where if name.endswith(".md"))
    return Word(name, meaning, tuple(name for name in where if name not in pages), pages)


FIELD = (
    word(
        "bank conflict",
        "Threads of a warp that read different addresses of one bank of shared memory take turns. Rows of a tile are "
        "made longer than they have to be, or swizzled, so that neighbours in a column lie in different banks.",
        "whit/codegen/gpu/transpose.py",
        "whit/render/ptx/gemm/mma_tiles.py",
    ),
    word(
        "bitonic network",
        "A sorting network whose comparisons are known before the numbers are: threads compare pairs, all at once.",
        "whit/codegen/gpu/sort/bitonic.py",
    ),
    word(
        "coalesced",
        "Neighbouring threads access neighbouring memory, so that the GPU moves whole sectors. Threads are laid along "
        "the range for which most accesses are.",
        "whit/codegen/gpu/threads.py",
        "whit/codegen/gpu/transpose.py",
    ),
    word(
        "copy-on-write",
        "Writing to a tensor makes a new value; memory is copied only if somebody can still see the old content.",
        "whit/engine/realize/effects.py",
        "whit/engine/memory/ownership.py",
        "indexing.md",
    ),
    word(
        "dequantise",
        "Packed numbers of few bits become floats again. It is part of the graph, and fuses into the product that "
        "uses the weights.",
        "whit/nn/state/gguf_blocks.py",
        "whit/codegen/gpu/gemv/packed.py",
        "files.md",
    ),
    word(
        "double buffer",
        "Two places in fast memory: one is filled while the other is read. With more than two they are stages.",
        "whit/codegen/gpu/gemm/staged.py",
        "whit/codegen/gpu/grid_stride.py",
    ),
    word(
        "epilogue",
        "What is computed of the sums of a matrix product before they are stored: bias, activation, residual, cast.",
        "whit/schedule/stages/epilogue.py",
        "whit/codegen/gpu/arithmetic.py",
    ),
    word(
        "flash attention",
        "Attention whose scores are computed block by block and never stored as a whole, forward and backward.",
        "whit/kernel/attention_form.py",
        "whit/codegen/cpu/attention/blocks.py",
        "whit/codegen/gpu/attention/kernel.py",
        "attention.md",
    ),
    word(
        "GEMM",
        "A product of two matrices large enough that arithmetic is what takes the time.",
        "whit/codegen/gpu/gemm/matmul.py",
        "whit/codegen/strategy/panels.py",
        "performance.md",
    ),
    word(
        "GEMV",
        "A product of a matrix with one vector, or with few (skinny GEMM): reading the matrix is what takes the time.",
        "whit/codegen/gpu/gemv/rows.py",
        "whit/codegen/gpu/gemv/columns.py",
    ),
    word(
        "grid-stride loop",
        "As many blocks as a GPU runs at once, each with a loop over parts of the work that are that many blocks "
        "apart.",
        "whit/codegen/gpu/grid_stride.py",
    ),
    word(
        "hash-consing",
        "Equal nodes are one object: whoever builds a node gets the one that exists. So `is` is equality.",
        "whit/ir/uop.py",
        "design.md",
    ),
    word(
        "implicit GEMM",
        "A convolution as a matrix product whose operand is never written out: windows are read from the image "
        "(im2col).",
        "whit/codegen/gpu/gemm/im2col.py",
        "whit/codegen/cpu/images.py",
    ),
    word(
        "loop-invariant code",
        "What does not depend on a loop stands before it.",
        "whit/codegen/passes/linearise.py",
    ),
    word(
        "mode of a layout",
        "One digit of the number of a thread or of an element, and how far each of its values moves in a tile (CuTe's "
        "word).",
        "whit/ir/args.py",
        "whit/codegen/gpu/gemm/atoms.py",
    ),
    word(
        "online softmax",
        "The largest score of a row is known only at its end. When a larger one comes, what was summed so far is "
        "multiplied by a power of the difference, so keys are seen once.",
        "whit/kernel/online_softmax.py",
        "attention.md",
    ),
    word(
        "persistent kernel",
        "Blocks that stay on their multiprocessor and take one tile, or one part of the work, after the other.",
        "whit/codegen/gpu/grid_stride.py",
        "whit/codegen/gpu/gemm/matmul.py",
    ),
    word(
        "prefetch",
        "Memory is asked for before it is used: into a cache on CPUs, into registers or shared memory on GPUs.",
        "whit/codegen/cpu/prefetch.py",
        "whit/codegen/gpu/register_prefetch.py",
        "whit/render/ptx/gemm/tma_loads.py",
    ),
    word(
        "rematerialise",
        "A value is computed again where it is needed instead of being kept: gradient checkpointing.",
        "whit/schedule/groups/order_recompute.py",
        "whit/transform/checkpoint.py",
        "gradients.md",
    ),
    word(
        "roofline",
        "The least time that a kernel can take: its bytes at the speed of memory, or its operations at that of "
        "arithmetic.",
        "whit/engine/report/roofline.py",
        "whit/kernel/rates.py",
        "debug.md",
    ),
    word(
        "split-k",
        "The depth of a product is cut, so that more cores or blocks have work; the parts of each sum are added in "
        "order.",
        "whit/schedule/rewrites/split_reduce.py",
        "whit/render/ptx/gemm/wgmma_tiles.py",
    ),
    word(
        "streaming store",
        "A store that goes past the caches (non-temporal), because the result would not stay in them.",
        "whit/codegen/cpu/streaming_stores.py",
    ),
    word(
        "swizzle",
        "Pieces of 16 bytes of a row of shared memory change places with the number of the row, against bank "
        "conflicts.",
        "whit/render/ptx/gemm/wgmma_tiles.py",
        "whit/runtime/cuda/tensor_map.py",
    ),
    word(
        "warp specialisation",
        "Warps of a block have different programs: one copies, the others compute.",
        "whit/render/ptx/gemm/wgmma_tiles.py",
        "whit/render/ptx/gemm/tma_loads.py",
    ),
)

OURS = (
    word("UOp", "The only kind of node, from the tensor graph to the instruction.", "whit/ir/uop.py:UOp", "design.md"),
    word("op", "What a node does: one record with dtype, shape, meaning, gradient.", "whit/ir/op.py:Op", "ops.md"),
    word(
        "stage of a graph",
        "TENSOR, SCHEDULE, KERNEL or PROGRAM: which ops may appear.",
        "whit/ir/op.py:Stage",
        "tour.md",
    ),
    word(
        "STAGE",
        "An op: a value computed over some ranges, kept in some memory and read later. A buffer, a panel in a cache, "
        "a tile in shared memory and an accumulator are stages.",
        "whit/ir/ops.py:STAGE",
        "design.md",
    ),
    word("range", "A loop, or what counts blocks, threads, cores or lanes: its kind.", "whit/ir/args.py:RangeKind"),
    word(
        "free range", "A range that a value depends on and no reduction has ended.", "whit/kernel/ranges.py:free_ranges"
    ),
    word(
        "oracle", "The interpreter: says what a graph of any stage means, slowly.", "whit/ir/interpret", "semantics.md"
    ),
    word(
        "rule",
        "Before -> after, when: an identity of algebra as data, or a function.",
        "whit/ir/rules.py:Rule",
        "rules.md",
    ),
    word(
        "pass",
        "Graph -> graph with the same meaning; one file, a line in a table.",
        "whit/codegen/pipeline.py:Pass",
        "adding-a-pass.md",
    ),
    word(
        "target",
        "What the compiler knows about a machine, as `device:renderer:arch`.",
        "whit/target.py:Target",
        "devices.md",
    ),
    word(
        "backend",
        "An open device: loads a plan, runs it, waits.",
        "whit/engine/devices/device.py:Backend",
        "adding-a-backend.md",
    ),
    word(
        "schedule",
        "The kernels of a graph in order: a LINEAR of CALLs.",
        "whit/schedule/pipeline.py:schedule",
        "tour.md",
    ),
    word(
        "plan", "A schedule whose calls know their memory, temporaries in one arena.", "whit/engine/plan/plan.py:Plan"
    ),
    word(
        "parametrise",
        "A graph over buffers becomes a function of them: the key under which its plan is found again.",
        "whit/engine/realize/parametrise.py",
    ),
    word(
        "contraction",
        "A sum of products of two operands: a matrix product, a convolution.",
        "whit/kernel/contraction.py:Contraction",
    ),
    word(
        "panel",
        "A copy of part of an operand in a cache, in the order in which it is read.",
        "whit/codegen/strategy/panels.py",
    ),
    word(
        "tile",
        "The part of a result whose sums are in registers at the same time.",
        "whit/codegen/cpu/panel_sizes.py:Tiling",
    ),
    word(
        "atom",
        "What the threads of a block multiply in one go, and who gets which sums.",
        "whit/codegen/gpu/gemm/atoms.py:Atom",
    ),
    word("share of a loop", "Reductions over one range that run in one loop.", "whit/schedule/groups/share_loops.py"),
    word("group", "Values that one kernel computes.", "whit/schedule/groups/group.py:Group"),
    word(
        "join", "Values one after the other in one memory, each computed where it lies.", "whit/schedule/stages/join.py"
    ),
    word(
        "write",
        "A store into memory that has a content, ordered after those who read it.",
        "whit/schedule/writes/effects.py",
    ),
    word(
        "effect",
        "A change of memory as a node of the graph: AFTER(old, STORE).",
        "whit/engine/realize/effects.py:Effect",
        "design.md",
    ),
    word(
        "placeholder",
        "A BUFFER without memory, which stands for a tensor while a function is traced.",
        "whit/engine/memory/placeholder.py",
    ),
    word(
        "origins",
        "What a realised tensor was computed from, for a gradient that goes on.",
        "whit/engine/memory/origins.py:Origins",
    ),
    word(
        "resident",
        "A plan that stays ready on its device: a replay is one call.",
        "whit/engine/devices/cuda_resident.py",
    ),
    word(
        "capture, replay",
        "A function is run once on tensors without data; then its program alone.",
        "whit/jit/jit.py:TinyJit",
        "jit.md",
    ),
    word(
        "guard",
        "What a captured function depends on besides its arguments, checked before a replay.",
        "whit/jit/guards.py:FunctionGuards",
        "jit.md",
    ),
    word(
        "recording",
        "What whit did, in one file: graphs, rewrites, kernels, times, memory.",
        "whit/viz/session.py:trace",
        "viz.md",
    ),
    word("formula", "An elementwise function with a gradient of its own.", "whit/tensor/graphs/formulas.py:named"),
    word(
        "container",
        "What tensors are found in and put into again: lists, dictionaries, dataclasses, classes of the user.",
        "whit/containers.py:register_container",
        "transforms.md",
    ),
    word(
        "transform",
        "A graph -> the graph of its gradients, of its tangents, or of a batch of examples; and the functions of users "
        "that are made of it.",
        "whit/transform",
        "whit/tensor/transforms",
        "transforms.md",
    ),
    word(
        "loop",
        "A function of a step that the graph has once, run again and again; in a schedule a REPEAT, which moves the "
        "params of a step over memory.",
        "whit/schedule/loops.py:Placed",
        "control-flow.md",
    ),
    word(
        "stand-in",
        "A placeholder for one example of a batch, or for a direction, while a graph is transformed.",
        "whit/transform/stand_in.py:stand_in",
        "transforms.md",
    ),
    word(
        "weak dtype",
        "That of a Python number: it takes the dtype of what it meets.",
        "whit/dtype.py:dtypes",
        "dtypes.md",
    ),
    word("kernel diff", "The kernels of two checkouts, compared.", "tools/replay", "replay.md"),
)

INTRODUCTION = """\
# Glossary

Words that a reader of the sources meets, and where the code is that they are about. This page is generated: `make docs`
writes it (`docs/make_glossary.py`). Which folder is what stands in [CONTRIBUTING]({sources}/CONTRIBUTING.md).
"""


def sources() -> str:
    """Where the sources can be read, from pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]) + "/blob/main"


def link(place: str) -> str:
    """`whit/ir/uop.py:UOp` -> a link to the file, with the name of the object."""
    path, _, name = place.partition(":")
    shown = f"[{path}]({sources()}/{path})"
    return f"`{name}` in {shown}" if name else shown


def row(entry: Word) -> str:
    """A line of the table."""
    pages = [f"[{page.removesuffix('.md')}]({page})" for page in entry.pages]
    return f"| **{entry.name}** | {entry.meaning} | {', '.join([*map(link, entry.places), *pages])} |"


def table(words: tuple[Word, ...]) -> str:
    """The words in the order of the alphabet."""
    rows = sorted(words, key=lambda entry: re.sub(r"\W", "", entry.name.lower()))
    return "\n".join(["| word | what it is | where |", "|---|---|---|", *map(row, rows), ""])


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            INTRODUCTION.format(sources=sources()),
            "## Words of the field\n",
            table(FIELD),
            "## Words of whit\n",
            table(OURS),
        ]
    )


if __name__ == "__main__":
    publish("glossary.md", page())
