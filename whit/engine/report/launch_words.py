"""What a launch is called: the most important thing that a kernel computes, in the user's words.

    blocks.3.attn softmax
    blocks.0.mlp.0 linear + gelu
    cross_entropy backward
    blocks.0.attn.qkv linear backward + Adam step
    head.weight Adam step

First where: the path of the layer, as its parameters are named. Then what: a method of a tensor, or a layer of whit in
small letters. Products, convolutions and attention come before softmax, norms and losses, these before other
reductions, and those before what is computed element by element. A launch that computes gradients is called after what
they are of. What else is in the kernel follows as far as there is room, and is in `fused` in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from whit.engine.report.spoken import spoken
from whit.engine.report.user_place import Place, is_step, spell_place
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass

OUTSIDE = "-"  # the layer of what is in none
FORWARD, BACKWARD, STEP = "forward", "backward", "step"
WIDTH = 50  # columns of a name, if the path of the layer leaves them
MOST_FUSED = 2  # further things in a name
SHOWN = 2  # names of one kernel

_PRODUCTS = re.compile(
    r"matmul|r?matmul|dot|v?dot|mm|bmm|mv|addmm|addbmm|baddbmm|addmv|addr|einsum|tensordot|inner|outer|bilinear|linear|"
    r".*conv\d?d?|conv_.*|.*attention|lstm|gru|rnn|.*_cell|.*fft\w*|stft|istft|sort|argsort|topk|cdist|solve\w*|inv|"
    r"cholesky|qr|svd\w*|eigh?\w*|lstsq|det|matrix_\w+|newton_schulz"
)
_WHOLE_ROWS = re.compile(
    r".*softmax|softmin|logsumexp|.*norm\w*|.*_loss|.*loss|.*cross_entropy\w*|.*embedding\w*|.*pool\d?d?|lp_pool.*|kl_div|"
    r"cum\w+|interpolate|grid_sample|scatter\w*|index_add|bincount|histc|unique\w*"
)
_PRODUCTS_OF_ONNX = re.compile(
    r"\w*(MatMul|Gemm|Conv|Attention)\w*|Einsum|LSTM|GRU|RNN|TopK|DFT|STFT|NonMaxSuppression"
)
_WHOLE_ROWS_OF_ONNX = re.compile(
    r"\w*(Softmax|Normalization|Pool|Resize|Upsample|Loss)|Reduce\w+|Scatter\w*|CumSum|LRN"
)
_RANDOM = re.compile(r"rand\w*|dropout\w*|normal\w*|uniform\w*|multinomial|bernoulli|kaiming\w*|xavier\w*|glorot\w*")
_SHORT = {
    "scaled_dot_product_attention": "attention",
    "binary_cross_entropy_with_logits": "binary_cross_entropy",
    "binary_crossentropy_logits": "binary_crossentropy",
    "sparse_categorical_crossentropy": "cross_entropy",
}
_SIMPLE = frozenset(
    {*ops.ELEMENTWISE, *ops.MOVEMENT, ops.STAGE, ops.CAST, ops.BITCAST, ops.CONST, ops.STORE, ops.AFTER}
)
_MOVES = frozenset({*ops.MOVEMENT, ops.STAGE})  # what computes nothing has no name beside what does


@dataclass(frozen=True, slots=True)
class LaunchName:
    """What one launch is called."""

    name: str = ""  # "blocks.3.attn softmax"; "" where nothing is known
    line: str = ""  # "model.py:31"
    fused: tuple[str, ...] = ()  # all that it computes, what it is called after first
    layer: str = OUTSIDE  # "blocks.3.attn"; "" of the outermost layer
    phase: str = ""  # FORWARD, BACKWARD or STEP
    also: str = ""  # what the name does not say of it
    layers: tuple[str, ...] = ()  # all that it computes something of in the forward pass

    def __str__(self) -> str:
        return f"{self.name}  {self.line}".strip()

    def __bool__(self) -> bool:
        return bool(self.name)


NO_NAME = LaunchName()


@dataclass(slots=True)
class _Item:
    """One thing that a kernel computes."""

    where: str
    what: str
    phase: str
    rank: int
    place: Place
    last: int = 0  # the last of its nodes, in order

    @property
    def text(self) -> str:
        """ "blocks.3.attn softmax backward"."""
        return " ".join(filter(None, (self.where, self.says)))

    @property
    def says(self) -> str:
        is_said = self.phase != BACKWARD or self.what.endswith("backward")
        return self.what if is_said else f"{self.what} backward".strip()


def name_of(region: Sequence[UOp], owners: Mapping[UOp, Place], parameter: str = "") -> LaunchName:
    """The name of the launch that computes these nodes, sources first. `parameter`: the path of what it writes."""
    items, stored = _items(region, owners)
    if not items:  # a call that stands for others, which no tensor has made
        called = [node for node in region if node.op is ops.CALL or node.op is ops.LOOP]
        return LaunchName(called_function(called[0])) if called else NO_NAME
    found = _ordered(items, stored)
    for item in found if parameter else ():
        item.where = parameter if item.phase == STEP else item.where
    main, texts = found[0], tuple(item.text for item in found)
    name, said = _short(found, stored == STEP)
    also = ", ".join(item.text for item in found if item not in said or item.where != main.where)
    return LaunchName(name, _line(main.place), texts, _layer(main), main.phase, also, _layers(region, owners))


def _layers(region: Sequence[UOp], owners: Mapping[UOp, Place]) -> tuple[str, ...]:
    """The paths of all layers that were watched."""
    places = [owners[node] for node in region if node in owners]
    return tuple(dict.fromkeys(place[3] for place in places if type(place[2]) is str and not place[4]))


def _items(region: Sequence[UOp], owners: Mapping[UOp, Place]) -> tuple[list[_Item], str]:
    """The things that these nodes compute, as they are first met; and the phase of what is stored."""
    placed = [node for node in region if node in owners and node.op not in _MOVES]
    placed = placed or [node for node in region if node in owners]
    items: dict[tuple[str, str, str], _Item] = {}
    stored = ""
    for number, node in enumerate(placed):
        place = owners[node]
        where, what = parts_of(place)
        if node.op is ops.CALL or node.op is ops.LOOP:
            what = called_function(node)
        stored = _phase(place)
        item = items.get((where, what, stored))
        if item is None:
            item = items[where, what, stored] = _Item(where, what, stored, _rank(what, is_whole=False), place)
        if node.op not in _SIMPLE:
            item.rank = _rank(what, is_whole=True)
        item.last = number
    return list(items.values()), stored


def called_function(node: UOp) -> str:
    """The name of a function whose kernels these are, "mish backward" of its gradient; of a loop its kind."""
    if node.op is ops.LOOP:
        return str(node.arg.kind)
    name, is_gradient = str(node.src[0].arg.name), node.src[0].arg.name.endswith("_grad")
    name = name.removesuffix("_grad")
    return f"{'function' if name.startswith('<') else name}{' backward' * is_gradient}"


def _layer(item: _Item) -> str:
    """The path of its layer, or of its parameter. Where a layer was watched, what it calls is a text."""
    if item.phase == STEP:
        return item.where or OUTSIDE
    return item.place[3] if type(item.place[2]) is str else OUTSIDE


def _ordered(items: list[_Item], stored: str) -> list[_Item]:
    """The most important first: what only serves what is stored comes last."""
    phases = {FORWARD: (FORWARD, BACKWARD, STEP), BACKWARD: (BACKWARD, FORWARD, STEP), STEP: (BACKWARD, STEP, FORWARD)}
    order = phases[stored]
    found = sorted(items, key=lambda item: (order.index(item.phase), -item.rank))  # stable: else as they are computed
    first = found[0]
    equals = [item for item in found if (item.phase, item.rank) == (first.phase, first.rank)]
    if first.rank and len(equals) > 1:  # the last of several that are as important is nearest to what is stored
        nearest = max(equals, key=lambda item: item.last)
        found.remove(nearest)
        found.insert(0, nearest)
    if stored == STEP and first.phase == BACKWARD and not first.rank:  # a gradient that is as simple as the step
        found.sort(key=lambda item: item.phase != STEP)
    return found


def _short(items: Sequence[_Item], is_step: bool) -> tuple[str, list[_Item]]:
    """The first of them, and more as far as there is room; and those that are in it."""
    main, *rest = items
    name, said, used = main.text, {main.says}, [main]
    if main.phase != STEP:
        rest = [item for item in rest if item.phase == main.phase or (is_step and item.phase == STEP)]
        rest.sort(key=lambda item: item.phase != STEP)  # that it changes parameters, in any case
    for item in rest[: MOST_FUSED + 1]:
        text = item.what
        if text and item.says not in said and (item.phase == STEP or len(name) + len(text) + 3 <= WIDTH):
            name, said = f"{name} + {text}", said | {item.says}
            used.append(item)
    return name, used


def _rank(what: str, is_whole: bool) -> int:
    """How much a thing is what a kernel is about. `is_whole`: more of it is here than what is elementwise, such as the
    bias of a product, or the quotient at the end of a softmax."""
    if _RANDOM.fullmatch(what):
        return 2
    if _PRODUCTS.fullmatch(what) or _PRODUCTS_OF_ONNX.fullmatch(what):
        return 4 if is_whole else 1
    if _WHOLE_ROWS.fullmatch(what) or _WHOLE_ROWS_OF_ONNX.fullmatch(what):
        return 3 if is_whole else 1
    return 2 if is_whole else 0


def _phase(place: Place) -> str:
    if place[4]:
        return BACKWARD
    return STEP if is_step(place) else FORWARD


# ---- places in words


def parts_of(place: Place) -> tuple[str, str]:
    """In which layer, and what was called: "blocks.3.attn", "softmax"; the class of the layer where its path is not
    known. Of optimisers "", "Adam step"."""
    code, _, called, path, _ = place
    if _phase(place) == STEP:
        return "", f"{path or 'optimiser'} step"
    what = "" if called is None else called if isinstance(called, str) else spoken(called)
    what = _SHORT.get(what, what)
    return path or (code.co_qualname.rpartition("<locals>.")[2].rpartition(".")[0]), what


def _line(place: Place) -> str:
    """The user's line, but none at a prompt."""
    return "" if place[0].co_filename.startswith("<") else spell_place(place)


# ---- several launches


def merged(names: Iterable[str]) -> str:
    """Names of several launches of one kernel: numbers that differ are left out."""
    found = list(dict.fromkeys(name for name in names if name))
    patterns = list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=[. ])|^\d+(?=[. ])", "*", name) for name in found))
    shown = found if len(found) <= 1 else patterns
    return "; ".join(shown[:SHOWN]) + (f"; and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")
