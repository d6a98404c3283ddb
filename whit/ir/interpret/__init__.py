"""The oracle: runs any graph of any stage on NumPy arrays, slowly, with the meanings of docs/semantics.md.

    x = UOp.buffer(0, dtypes.float32, (2, 3))
    evaluate(x.reduce(ops.ADD, (1,)), {x: np.ones((2, 3), np.float32)})     # array([3., 3.])

`values` is arithmetic on arrays, `graph` the tensor and kernel stages (every range an axis, effects as new contents of
buffers) together with calls and schedules, `program` the linear programs that renderers print.
"""

from whit.ir.interpret.graph import evaluate, run
from whit.ir.interpret.values import numpy_dtype

__all__ = ["evaluate", "numpy_dtype", "run"]
