"""Attention: which matrices of scores are computed block by block, and never stored.

    p = softmax(q @ k' + mask);  out = p @ v          the scores, and everything up to p, are computed inside of the
                                                      kernel of `out`: `whit.kernel.attention_form` has its form

Goes in: the values to compute. Comes out: the nodes of such matrices, which no kernel may keep and every kernel may
compute again (its gradients do), and the values that get a kernel of this form each.

Whatever computes with a matrix of scores must be such a kernel, or a statistic of its rows. A matrix that something
else reads, as a mask whose gradient is asked for, is stored as any other value. Where tensor cores compute it, a kernel
of statistics alone would not be one for them: some product must compute its own, with which they share a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.attention_form import AttentionForm, find_attention
from whit.kernel.online_softmax import as_online_softmax
from whit.records import dataclass, field
from whit.schedule.values import narrowest, prod_of
from whit.target import Target

VIEWS = frozenset({ops.RESHAPE, ops.PERMUTE, ops.EXPAND})
POSITIONS = frozenset({ops.ARANGE, ops.CONST})
Lower = Callable[[UOp, Collection[UOp], Collection[UOp]], UOp]

OF_BLOCKS = "its kernel computes a matrix of scores block by block"  # why a value is stored
FOR_BLOCKS = "each block of scores reads it, and would compute the reduction again"

MOST_NODES = 300  # of a part: attention has 30, its gradients as many again
MOST_BELOW = 3000  # nodes that a part is made of, element by element
MOST_COLUMNS = 256  # columns of what is computed, and depth of scores: heads are not wider


@dataclass(slots=True)
class Attentions:
    """What is computed block by block."""

    inline: set[UOp] = field(default_factory=set)  # the matrices
    scores: set[UOp] = field(default_factory=set)  # those of them that are contractions
    # the values that have a kernel of this form, and what they read
    stored: dict[UOp, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    """Contractions that are connected by what is computed of them, element by element."""

    nodes: dict[UOp, None]
    scores: list[UOp]
    statistics: dict[UOp, None] = field(default_factory=dict)
    products: dict[UOp, None] = field(default_factory=dict)

    def inline(self) -> set[UOp]:
        """What is computed wherever it is needed: the matrices, and what only depends on where one is in them."""
        products = [score.src[0] for score in self.scores]
        beside = [s for node in self.nodes for s in node.src if s not in self.nodes and node not in self.scores]
        return {*self.nodes, *products, *_by_position(beside)}


def find_attentions(order: list[UOp], stored: Collection[UOp], lower: Lower, target: Target) -> Attentions:
    """The attention among these nodes, sources before users, that the target computes. `lower` gives the expression of
    a value if some nodes are computed there and others stored."""
    found = Attentions()
    candidates = [node for node in order if _is_contraction(node)]
    if not candidates:
        return found
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for s in dict.fromkeys(node.src):
            users.setdefault(s, []).append(node)
    ends = set(stored)
    parts: list[_Part] = []
    known: set[UOp] = set()  # nodes of parts
    for score in candidates:
        if score in known:
            continue
        part = _grow_part(score, users, ends)
        if part is not None and part.statistics and part.products:
            parts.append(part)
            known.update(part.nodes)
    computed: set[UOp] = set()
    for part in parts:
        if not computed.isdisjoint(part.nodes):
            continue  # what another kernel of this form computes is read from memory
        aside, inline = _aside(part), part.inline()
        tops = _tops(part, users, ends, _Forms(part, inline, aside, lower, target))
        if tops is not None and _is_closed(part, tops, users):
            found.inline.update(inline)
            found.scores.update(part.scores)
            found.stored.update(dict.fromkeys(tops, OF_BLOCKS) | dict.fromkeys(aside, FOR_BLOCKS))
            computed.update((*tops, *aside))
    return found


def _is_contraction(node: UOp) -> bool:
    if node.op is not ops.REDUCE or node.arg.op is not ops.ADD or node.src[0].op is not ops.MUL:
        return False
    return all(isinstance(size, int) for size in node.src[0].shape) and _depth(node) <= MOST_COLUMNS


def _depth(node: UOp) -> int:
    depth = 1
    for axis in node.arg.axes:
        depth *= node.src[0].shape[axis]
    return depth


def _is_plain(node: UOp) -> bool:
    """Whether an element of a value is made of one element of each operand."""
    return node.op.elementwise or node.op is ops.CAST or node.op in VIEWS


def _grow_part(score: UOp, users: dict[UOp, list[UOp]], ends: set[UOp]) -> _Part | None:
    """Everything that is computed of a contraction element by element, with the other contractions that go into it;
    None if it goes anywhere else than into statistics and products."""
    part = _Part({score: None}, [score])
    size, fresh, seen = prod_of(score.shape), [score], {score}
    while fresh:
        # First up, where what goes on for ever ends soon: the sums of a deep network are all made of each other.
        above = _made_of(fresh, part, size, users, ends)
        below = None if above is None else _beside(above, size, seen)
        if below is None:
            return None
        part.nodes.update(dict.fromkeys(below))
        part.scores.extend(below)
        fresh = below
    return part if all(len(node.arg.axes) == 1 for node in part.statistics) else None


def _made_of(nodes: list[UOp], part: _Part, size: int, users: dict[UOp, list[UOp]], ends: set[UOp]) -> list[UOp] | None:
    """These nodes of a part and what is computed of them element by element, which is entered there; None if they go
    anywhere else than into statistics and products, or too far."""
    found, stack = list(nodes), list(nodes)
    while stack:
        node = stack.pop()
        if node in ends or len(part.nodes) > MOST_NODES:
            return None
        for user in users.get(node, ()):
            if user.op is ops.REDUCE:
                (part.statistics if prod_of(node.shape) == size else part.products)[user] = None
            elif not _is_plain(user):
                return None
            elif user not in part.nodes:
                part.nodes[user] = None
                found.append(user)
                stack.append(user)
    return found


def _beside(nodes: list[UOp], size: int, seen: set[UOp]) -> list[UOp] | None:
    """The contractions of this size that values are made of, element by element; None if that goes too far."""
    found: list[UOp] = []
    stack = list(reversed(nodes))
    while stack:
        if len(seen) > MOST_BELOW:
            return None
        for s in stack.pop().src:
            if s in seen or prod_of(s.shape) != size:
                continue
            seen.add(s)
            if _is_contraction(s):
                found.append(s)
            elif _is_plain(s):
                stack.append(s)
    return found


def _by_position(roots: list[UOp]) -> set[UOp]:
    """Those of these nodes, and of what they are made of element by element, that are computed from positions alone, as
    the mask of what is later."""
    found: set[UOp] = set()
    for node in topological(roots, stop=_ends_of(roots)):
        if node.op in POSITIONS or (_is_plain(node) and found.issuperset(node.src)):
            found.add(node)
    return found


def _ends_of(roots: list[UOp]) -> set[UOp]:
    """Where to stop on the way down: what is not made element by element."""
    stack, seen, ends = list(roots), set(roots), set[UOp]()
    while stack:
        node = stack.pop()
        if not _is_plain(node) and node.op not in POSITIONS:
            ends.add(node)
            continue
        fresh = [s for s in node.src if s not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return ends


def _aside(part: _Part) -> list[UOp]:
    """Reductions that go into the matrices and are none of them, nor statistics of them: they are stored."""
    inside = {*part.nodes, *part.statistics}
    stack = [s for node in part.nodes if node not in part.scores for s in node.src if s not in inside]
    seen, found = set(stack), []
    while stack:
        node = stack.pop()
        if node.op is ops.REDUCE:
            found.append(node)
            continue
        if _is_plain(node) or node.op in ops.MOVEMENT:
            fresh = [s for s in node.src if s not in seen and s not in inside]
            seen.update(fresh)
            stack.extend(fresh)
    return found


@dataclass(slots=True)
class _Forms:
    """Which values would be kernels of this form."""

    part: _Part
    inline: set[UOp]
    aside: list[UOp]
    lower: Lower
    target: Target
    with_statistics: set[UOp] = field(default_factory=set)  # those whose kernels compute statistics, as they need them

    def has(self, top: UOp) -> bool:
        """Whether the kernel of a value has the form of attention, with statistics computed there or stored."""
        for stored in ((), self.part.statistics):
            form = find_attention([self.lower(top, self.inline, [*self.aside, *stored])])
            if form is not None and is_computed(form, self.target):
                if form.statistics:
                    self.with_statistics.add(top)
                return form.is_worth_blocks() and bool(form.columns.size <= MOST_COLUMNS)
        return False


def _tops(part: _Part, users: dict[UOp, list[UOp]], ends: set[UOp], forms: _Forms) -> list[UOp] | None:
    """For each product, the value to keep: as much of what is computed of it as its kernel can do. None if one has no
    kernel of this form."""
    tops: list[UOp] = []
    for product in part.products:
        size = prod_of(product.shape)
        above = [product]
        while above[-1] not in ends and len(users.get(above[-1], ())) == 1:
            (user,) = users[above[-1]]
            others = [s for s in user.src if s is not above[-1]]
            if prod_of(user.shape) != size or not _is_plain(user):
                break
            if any(prod_of(narrowest(s).shape) >= size for s in others):
                break  # more to read: it may be computed of this kernel's statistics, and joins it later if not
            above.append(user)
        top = next((top for top in reversed(above) if forms.has(top)), None)
        if top is None:
            return None
        tops.append(top)
    has_statistics = forms.target.attention_dtypes is None or not forms.with_statistics.isdisjoint(tops)
    return tops if has_statistics else None


def _is_closed(part: _Part, tops: list[UOp], users: dict[UOp, list[UOp]]) -> bool:
    """Whether all statistics go into the matrices or what is made of them, and some into the matrices: as a softmax's,
    and not those that someone asks for beside two matrix products."""
    goals, reached = set(tops), False
    for statistic in part.statistics:
        stack, seen = [statistic], {statistic}
        is_used = False
        while stack:
            node = stack.pop()
            is_used |= node in goals or node in part.nodes
            reached |= node in part.nodes
            if node in part.nodes or node in goals:
                continue
            fresh = [u for u in users.get(node, ()) if u not in seen and _is_plain(u)]
            seen.update(fresh)
            stack.extend(fresh)
        if not is_used:
            return False
    return reached


def is_computed(form: AttentionForm, target: Target) -> bool:
    """Whether the target has code for attention of this form: CPUs for any, tensor cores not for all."""
    if target.attention_dtypes is None:
        return True
    online = as_online_softmax(form)
    return online is not None and online.dtype in target.attention_dtypes
