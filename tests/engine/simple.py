"""A scheduler that anyone can check: each root is one kernel, whose body is the tensor expression itself."""

from whit.ir import ops
from whit.ir.uop import UOp


def schedule(graph: UOp) -> UOp:
    """GROUP of STOREs over params -> LINEAR of one call each."""
    calls = []
    for store in graph.src:
        target = next(node for node in store.src[0].topological() if node.op is ops.PARAM)
        read = [node for node in store.topological() if node.op is ops.PARAM and node is not target]
        places = [target, *read]
        params = {place: UOp.param(slot, place.dtype, place.shape) for slot, place in enumerate(places)}
        body = UOp.group(store.substitute(params))
        calls.append(body.function(f"kernel_{len(calls)}").call(*places))
    return UOp.linear(*calls)
