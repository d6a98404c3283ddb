"""Algebra and bounds on UOps; knows no tensors and no devices.

simplify(graph)              the same value in fewer and cheaper nodes
bounds(node)                 the interval an integer lies in
simplify_valid(index, gate)  an index that only has to be right where the gate holds
index_dtype(node)            int32 or int64, whichever holds every intermediate value
"""

from whit.simplify.bounds import bounds
from whit.simplify.rules import SIMPLIFY, simplify
from whit.simplify.valid import simplify_valid
from whit.simplify.width import index_dtype

__all__ = ["SIMPLIFY", "bounds", "index_dtype", "simplify", "simplify_valid"]
