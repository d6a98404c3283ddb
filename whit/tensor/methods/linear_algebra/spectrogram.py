"""Spectra of overlapping windows of a signal, and the signal of such spectra; windows to multiply them with.

(..., time) -> stft -> complex (..., frequencies, frames) -> istft -> (..., time)
"""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import DTypeLike, complex_dtype, dtypes, part_dtype
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar, check_number, storable, whole
from whit.tensor.graphs import chebyshev
from whit.tensor.graphs.complex_functions import as_parts, from_parts
from whit.tensor.graphs.positions import moved_axes, positions_along
from whit.tensor.methods.linear_algebra.fourier import Fourier


class Spectrogram(Fourier):
    """Short-time Fourier transforms."""

    __slots__ = ()

    def _stft_window(self, name: str, n_fft: int, win_length: int | None, window: Any) -> Self:
        """The window in the middle of n_fft samples; ones if there is none."""
        length = n_fft if win_length is None else whole(name, "win_length", win_length, self._made())
        dtype = dtypes.float64 if part_dtype(self.dtype) is dtypes.float64 else dtypes.float32
        if not 0 < length <= n_fft:
            raise ArgumentError(f"{name}: win_length={length} of n_fft={n_fft}", self._made(), "Use 1 up to n_fft.")
        if window is None:
            chosen = self.full((length,), 1.0, dtype, self._in_memory())
        else:
            chosen = self._operand(name, window).cast(dtype)
        if chosen.shape != (length,):
            raise ShapeError(
                f"{name}: a window of shape {spell_shape(chosen.shape)}", chosen._made(), f"Use {length} numbers."
            )
        left = (n_fft - length) // 2
        return chosen.pad(((left, n_fft - length - left),))

    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool = True,
        return_complex: bool | None = None,
    ) -> Self:
        """The transforms of windows of n_fft samples, hop_length apart, in columns; a batch of signals may come first.

        `center` pads the signal so that window t is around sample t * hop_length. `return_complex=False`: both parts
        on a last axis of two.
        """
        n_fft = whole("stft", "n_fft", n_fft, self._made())
        hop = n_fft // 4 if hop_length is None else whole("stft", "hop_length", hop_length, self._made())
        if self.ndim not in (1, 2) or n_fft < 1 or hop < 1:
            raise ShapeError(
                f"stft: n_fft={n_fft}, hop_length={hop} of {spell_shape(self.shape)}",
                self._made(),
                "Use a signal or a batch of them, and lengths of 1 or more.",
            )
        chosen = self._stft_window("stft", n_fft, win_length, window)
        self._require("stft", not self.dtype.is_complex or not onesided, "half is of real signals", "onesided=False")
        signal = self.cast(complex_dtype(chosen.dtype) if self.dtype.is_complex else chosen.dtype)
        if center:
            pads = [(0, 0)] * (self.ndim - 1) + [(n_fft // 2, n_fft // 2)]
            signal = signal.pad(pads, mode=pad_mode)
        if signal.shape[-1] < n_fft:
            raise ShapeError(
                f"stft: windows of {n_fft} in {signal.shape[-1]} samples", self._made(), "Use a shorter window."
            )
        frames = signal._windows(n_fft, hop) * chosen
        found = frames.rfft() if onesided else frames.fft()
        if normalized:
            found = found * n_fft**-0.5
        found = found.transpose(-2, -1)
        return found._wrap(as_parts(found.uop)) if return_complex is False else found

    def _windows(self, size: int, step: int) -> Self:
        """All windows of the last axis, in a new last axis, as a value of its own."""
        count = (self.shape[-1] - size) // step + 1
        places = UOp.arange(count, dtypes.int32).reshape((count, 1)).expand((count, size)) * step
        places = places + positions_along((count, size), 1, dtypes.int32)
        first = moved_axes(self.uop, [self.ndim - 1, *range(self.ndim - 1)])
        taken = first.index(places)
        return self._wrap(moved_axes(taken, [*range(2, self.ndim + 1), 0, 1]))

    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Self:
        """The signal of such transforms: windows added up where they overlap, divided by the squares of the window."""
        n_fft = whole("istft", "n_fft", n_fft, self._made())
        hop = n_fft // 4 if hop_length is None else whole("istft", "hop_length", hop_length, self._made())
        spectra = self._spectra()
        known = spectra.shape[-2] if spectra.ndim > 1 else 0
        is_half = known != n_fft if onesided is None else onesided
        if spectra.ndim not in (2, 3) or known != (n_fft // 2 + 1 if is_half else n_fft):
            raise ShapeError(
                f"istft: n_fft={n_fft} of {spell_shape(self.shape)}",
                self._made(),
                "It takes what stft() gives: (..., frequencies, frames).",
            )
        chosen = self._stft_window("istft", n_fft, win_length, window)
        columns = spectra.transpose(-2, -1) * (n_fft**0.5 if normalized else 1.0)
        frames = columns.irfft(n_fft) if is_half else columns.ifft()
        frames = frames if return_complex else frames.real
        count = frames.shape[-2]
        total = n_fft + hop * (count - 1)
        signal = self._added_up(frames * chosen, hop, total)
        squares = chosen * chosen
        weight = self._added_up(squares.expand((count, n_fft)), hop, total)
        start = n_fft // 2 if center else 0
        end = (total - start if center else total) if length is None else min(start + length, total)
        result = signal[..., start:end] / weight[start:end]
        missing = 0 if length is None else length - result.shape[-1]
        return result.pad([(0, 0)] * (result.ndim - 1) + [(0, missing)]) if missing > 0 else result

    def _spectra(self) -> Self:
        """Complex columns; also of what `stft` gives with return_complex=False."""
        are_parts = not self.dtype.is_complex and self.ndim in (3, 4) and self.shape[-1] == 2
        return self._wrap(from_parts(self._wide())) if are_parts else self

    def _added_up(self, frames: Self, hop: int, total: int) -> Self:
        """Frames added at places that are `hop` apart."""
        count, size = frames.shape[-2:]
        places = UOp.arange(count, dtypes.int32).reshape((count, 1)).expand((count, size)) * hop
        places = places + positions_along((count, size), 1, dtypes.int32)
        rank = frames.ndim
        values = moved_axes(frames.uop, [rank - 2, rank - 1, *range(rank - 2)])
        start = broadcast_scalar(const(frames.dtype, 0.0), (total, *frames.shape[:-2]))
        summed = start.after(start.store(values, places, combine=ops.ADD))
        return self._wrap(moved_axes(summed, [*range(1, rank - 1), 0]))

    # ---- windows

    @classmethod
    def _cosines(
        cls, name: str, size: int, periodic: bool, factors: tuple[float, ...], dtype: DTypeLike | None
    ) -> Self:
        """The sum of factors times cosines of 0, 1, 2 ... periods in the window."""
        wanted = dtypes.default_float if dtype is None else storable(name, dtype)
        count = whole(name, "window_length", size)
        if count < 0:
            raise ArgumentError(f"{name}: {count} samples", fix="Ask for zero or more.")
        if count < 2:
            return cls.full((count,), 1.0, wanted)
        angle = UOp.arange(count, dtypes.int32).cast(dtypes.float64) * (
            2 * math.pi / (count if periodic else count - 1)
        )
        total = angle.constant(factors[0])
        for k, factor in enumerate(factors[1:], 1):
            total = (angle * float(k)).cos() * factor + total
        return cls._fresh(total.cast(wanted), None)

    @classmethod
    def hann_window(cls, window_length: int, periodic: bool = True, dtype: DTypeLike | None = None) -> Self:
        """Hann's window; of a period of that length, or with both its ends."""
        return cls._cosines("hann_window", window_length, periodic, (0.5, -0.5), dtype)

    @classmethod
    def hamming_window(
        cls,
        window_length: int,
        periodic: bool = True,
        alpha: float = 0.54,
        beta: float = 0.46,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Hamming's window."""
        return cls._cosines("hamming_window", window_length, periodic, (alpha, -beta), dtype)

    @classmethod
    def blackman_window(cls, window_length: int, periodic: bool = True, dtype: DTypeLike | None = None) -> Self:
        """Blackman's window."""
        return cls._cosines("blackman_window", window_length, periodic, (0.42, -0.5, 0.08), dtype)

    @classmethod
    def bartlett_window(cls, window_length: int, periodic: bool = True, dtype: DTypeLike | None = None) -> Self:
        """A triangle."""
        place = cls._unit_places("bartlett_window", window_length, periodic)
        return cls._fresh((1.0 - abs(place)).cast(dtypes.default_float), None).cast(dtype or dtypes.default_float)

    @classmethod
    def kaiser_window(
        cls, window_length: int, periodic: bool = True, beta: float = 12.0, dtype: DTypeLike | None = None
    ) -> Self:
        """Kaiser's window of that beta."""
        check_number("kaiser_window", "beta", beta)
        place = cls._unit_places("kaiser_window", window_length, periodic)
        root = (1.0 - place * place).maximum(0.0).sqrt() * float(beta)
        scale = chebyshev.bessel_i0(const(dtypes.float64, float(beta)))
        found = chebyshev.bessel_i0(root) / scale
        return cls._fresh(found.cast(storable("kaiser_window", dtype or dtypes.default_float)), None)

    @classmethod
    def hanning(cls, n: int) -> Self:
        """Hann's window with both its ends (NumPy)."""
        return cls.hann_window(n, periodic=False)

    @classmethod
    def hamming(cls, n: int) -> Self:
        """Hamming's window with both its ends (NumPy)."""
        return cls.hamming_window(n, periodic=False)

    @classmethod
    def blackman(cls, n: int) -> Self:
        """Blackman's window with both its ends (NumPy)."""
        return cls.blackman_window(n, periodic=False)

    @classmethod
    def bartlett(cls, n: int) -> Self:
        """A triangle with both its ends (NumPy)."""
        return cls.bartlett_window(n, periodic=False)

    @classmethod
    def kaiser(cls, n: int, beta: float) -> Self:
        """Kaiser's window with both its ends (NumPy)."""
        return cls.kaiser_window(n, periodic=False, beta=beta)

    @classmethod
    def _unit_places(cls, name: str, size: int, periodic: bool) -> UOp:
        """From -1 to 1 in equal steps, the last one left out if it is periodic."""
        count = whole(name, "window_length", size)
        if count < 0:
            raise ArgumentError(f"{name}: {count} samples", fix="Ask for zero or more.")
        if count < 2:
            return broadcast_scalar(const(dtypes.float64, 0.0), (count,))
        step = 2.0 / (count if periodic else count - 1)
        return UOp.arange(count, dtypes.int32).cast(dtypes.float64) * step - 1.0
