"""The Mandelbrot set: the points c from which z -> z² + c, begun at 0, does not run away.

Run it with `python examples/mandelbrot.py`. It writes mandelbrot.pgm here, and draws a small one as text.
"""

from pathlib import Path

from whit import Tensor, dtypes


def mandelbrot(width: int, height: int, steps: int) -> Tensor:
    """How many steps each point of the plane takes to leave the circle of radius 2; at most `steps`."""
    y, x = Tensor.linspace(-1.2, 1.2, height).meshgrid(Tensor.linspace(-2.2, 0.8, width))
    real, imaginary, count = x.zeros_like(), y.zeros_like(), x.zeros_like(dtype=dtypes.int32)
    for _ in range(steps):
        # A point that has left runs to infinity, then to NaN; neither is inside.
        real, imaginary = real * real - imaginary * imaginary + x, 2 * real * imaginary + y
        count += real * real + imaginary * imaginary <= 4
        Tensor.realize(real, imaginary, count)
    return count


def main(width: int = 480, steps: int = 50, folder: str = ".") -> Tensor:
    height = width * 4 // 5
    count = mandelbrot(width, height, steps)
    grey = (255 - 255 * (count / steps).sqrt()).cast(dtypes.uint8)
    path = Path(folder) / "mandelbrot.pgm"
    path.write_bytes(b"P5 %d %d 255\n" % (width, height) + grey.data())

    for row in mandelbrot(72, 30, steps).tolist():
        print("".join(" .:-=+*#%@"[9 * n // steps] for n in row))
    inside = (count == steps).mean()
    print(f"\n{path}: the set covers {inside * 3.0 * 2.4:.3f} of the plane")
    return count


if __name__ == "__main__":
    main()
