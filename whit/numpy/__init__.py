"""`whit.numpy`: the Python Array API standard 2024.12 on tensors, and the functions that people know from NumPy.

    import whit.numpy as np
    x = np.linspace(0, 1, 5)
    np.sum(np.sin(x) ** 2, axis=0)

Arrays are `whit.Tensor`: lazy, on any device, with gradients. A function is the method of its name where that means the
same; docs/arrays.md has how to use it, and what differs. `x.__array_namespace__()` gives this module, by which SciPy,
scikit-learn and einops find it.
"""

import math

from whit.dtype import to_dtype as dtype
from whit.numpy import (
    creation,
    data_types,
    elementwise,
    fft,
    functions,
    linalg,
    manipulation,
    random,
    searching,
    slopes,
    statistics,
)
from whit.numpy.creation import *  # noqa: F403  # each says in `__all__` what it has
from whit.numpy.data_types import *  # noqa: F403
from whit.numpy.elementwise import *  # noqa: F403
from whit.numpy.functions import *  # noqa: F403
from whit.numpy.information import namespace_info as __array_namespace_info__
from whit.numpy.linalg import cross, matmul, matrix_transpose, outer, tensordot, vecdot
from whit.numpy.manipulation import *  # noqa: F403
from whit.numpy.searching import *  # noqa: F403
from whit.numpy.slopes import *  # noqa: F403
from whit.numpy.statistics import *  # noqa: F403
from whit.numpy.ufuncs import add_methods as _add_methods
from whit.tensor import Tensor as ndarray  # noqa: N813  # its name in NumPy

__array_api_version__ = "2024.12"

e = math.e
euler_gamma = 0.5772156649015329
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi

__all__ = ["cross", "dtype", "e", "euler_gamma", "fft", "inf", "linalg", "matmul", "matrix_transpose", "nan", "ndarray"]
__all__ += ["__array_namespace_info__", "newaxis", "outer", "pi", "random", "tensordot", "vecdot"]
__all__ += creation.__all__
__all__ += data_types.__all__
__all__ += elementwise.__all__
__all__ += functions.__all__
__all__ += manipulation.__all__
__all__ += searching.__all__
__all__ += statistics.__all__
__all__ += slopes.__all__

_add_methods(globals())
