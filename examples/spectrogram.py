"""A spectrogram: which frequencies a sound has, and when. The sound is a chirp, which rises from 200 to 1800 Hz.

Run it with `python examples/spectrogram.py`. Time goes to the right, frequency up.
"""

import math

from whit import Tensor

RATE = 8000  # samples a second
LOW, HIGH = 200.0, 1800.0


def chirp(seconds: float) -> Tensor:
    """A tone whose frequency goes from LOW to HIGH, with some noise. Its phase is the integral of its frequency."""
    t = Tensor.arange(int(seconds * RATE)) / RATE
    phase = 2 * math.pi * (LOW * t + (HIGH - LOW) / (2 * seconds) * t * t)
    return phase.sin() + 0.1 * Tensor.randn(*t.shape)


def spectrogram(sound: Tensor, window: int, step: int) -> Tensor:
    """The power of each frequency (columns) in each window (rows); windows overlap and fade in and out."""
    pieces = sound.unfold(0, window, step)
    fade = 0.5 - 0.5 * (2 * math.pi * Tensor.arange(window) / window).cos()
    return (pieces * fade).rfft().abs().square()


def main(seconds: float = 2.0, window: int = 256) -> tuple[Tensor, Tensor]:
    step = window // 2
    power = spectrogram(chirp(seconds), window, step)
    times = (Tensor.arange(len(power)) * step + window / 2) / RATE
    loudest = power.argmax(axis=1) * (RATE / window)

    level = (power / power.max()).log10().clip(-3, 0)  # a thousandth of the largest power is black
    shades = ((level + 3) * 3).int()
    picture = shades[:: max(len(power) // 60, 1), :64].T.flip(0)
    for row in picture[::3].tolist():
        print("".join(" .:-=+*#%@"[shade] for shade in row))
    for i in range(0, len(power), len(power) // 4):
        print(f"at {times[i]:.2f} s: {loudest[i]:.0f} Hz")
    return times, loudest


if __name__ == "__main__":
    main()
