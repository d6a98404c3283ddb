"""SciPy on tensors: functions that ask the array for its namespace give NumPy's numbers, as tensors."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import numpy as np
import pytest

from arrays.library import arguments, assert_same, calls
from whit import Tensor

if not os.environ.get("SCIPY_ARRAY_API"):  # SciPy reads it when it is imported
    pytest.skip("`make arrays` runs it", allow_module_level=True)
scipy = pytest.importorskip("scipy")

CALLS = """
special.gammaln: pos
special.expit: x
special.logit: p
special.erf: x
special.erfc: x
special.i0: x
special.i1e: x
special.ndtr: x
special.ndtri: p
special.log_ndtr: x
special.entr: p
special.xlogy: pos, p
special.rel_entr: pos, p
special.chdtr: pos, p
special.betainc: pos, pos, p
special.gammainc: pos, p
special.stdtrit: pos, p
special.logsumexp: X, axis=1
special.softmax: X, axis=1
special.log_softmax: X, axis=1
stats.zscore: X
stats.skew: X
stats.kurtosis: X
stats.moment: X, 3
stats.describe: X
stats.variation: X
stats.gmean: pos
stats.pmean: pos, 2
stats.ttest_1samp: x, 0.0
stats.ttest_ind: x, p
stats.pearsonr: x, p
stats.entropy: p
stats.chisquare: pos
stats.normaltest: X
stats.jarque_bera: x
stats.bartlett: x, p
stats.circmean: x
stats.directional_stats: X
stats.tmean: x
stats.rankdata: x
stats.boxcox_llf: 0.5, pos
signal.convolve: x, p
signal.fftconvolve: x, p
signal.oaconvolve: x, p
signal.correlate: x, p
signal.convolve2d: X, X
signal.detrend: x
signal.lfilter: p, pos, x
signal.hilbert: x
signal.medfilt: x, 3
signal.resample: x, 10
signal.resample_poly: x, 2, 1
signal.savgol_filter: x, 5, 2
signal.upfirdn: p, x
signal.freqz: p, pos
signal.deconvolve: x, p[:2]
fft.fft: z
fft.ifft: z
fft.rfft: x
fft.irfft: z
fft.hfft: z
fft.fftn: X
fft.irfftn: X
fft.dct: x
fft.idst: x
fft.fftshift: x
ndimage.gaussian_filter: X, 1.0
ndimage.uniform_filter: X, 3
ndimage.median_filter: X, 3
ndimage.sobel: X
ndimage.rotate: X, 30.0
ndimage.zoom: X, 2.0
ndimage.center_of_mass: pos
ndimage.label: X > 0
integrate.trapezoid: x
integrate.cumulative_trapezoid: x
integrate.cumulative_simpson: x, dx=0.5
cluster.vq.whiten: X
cluster.vq.vq: X, X[:3]
cluster.vq.kmeans: X, X[:3]
cluster.hierarchy.linkage: X
optimize.rosen: x
optimize.rosen_der: x
optimize.rosen_hess: x
"""


@pytest.mark.parametrize(("name", "given"), calls(CALLS))
def test_function(name: str, given: str) -> None:
    module, _, last = name.rpartition(".")
    function = getattr(importlib.import_module(f"scipy.{module}"), last)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, keywords = arguments(given, is_ours=False)
        theirs = function(*args, **keywords)
        args, keywords = arguments(given, is_ours=True)
        mine = function(*args, **keywords)
    assert_same(mine, theirs)


def away(x: Any, c: Any) -> Any:
    return x * x - c


def test_a_solver_of_many_equations_at_once() -> None:
    elementwise = pytest.importorskip("scipy.optimize.elementwise")
    squares = np.array([2.0, 3.0, 5.0])
    found = elementwise.find_root(away, (Tensor(np.zeros(3)), Tensor(squares)), args=(Tensor(squares),))
    assert isinstance(found.x, Tensor)
    np.testing.assert_allclose(found.x.numpy(), np.sqrt(squares))
    derived = importlib.import_module("scipy.differentiate").derivative(away, Tensor(squares), args=(Tensor(squares),))
    np.testing.assert_allclose(derived.df.numpy(), 2 * squares, rtol=1e-6)


def test_rotations() -> None:
    transform = importlib.import_module("scipy.spatial.transform")
    rotation = transform.Rotation.from_rotvec(Tensor(np.array([0.0, 0.0, np.pi / 2])))
    np.testing.assert_allclose(np.asarray(rotation.apply(Tensor(np.array([1.0, 0.0, 0.0])))), [0, 1, 0], atol=1e-12)


def test_arrays_of_two_libraries_are_refused() -> None:
    with pytest.raises(TypeError, match="ultiple namespaces"):
        scipy.stats.ttest_ind(Tensor(np.ones(3)), np.ones(3))
