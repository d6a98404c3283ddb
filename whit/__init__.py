"""whit is a complete deep-learning stack in Python that can be read: one graph, rewritten until it runs.

What exists so far is the language of its compiler: the nodes (`UOp`), their dtypes, rules, a simplifier and an
interpreter. Importing whit loads no backend and no numpy.
"""

from whit.cache import clear_caches
from whit.config import Context, getenv
from whit.dtype import dtypes
from whit.errors import JitError
from whit.ir import UOp

__version__ = "0.0.1"

__all__ = ["Context", "JitError", "UOp", "clear_caches", "dtypes", "getenv"]
