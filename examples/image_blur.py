"""A picture, blurred by a convolution and saved as a file that image viewers open.

Run it with `python examples/image_blur.py`. It writes sharp.pgm and blurred.pgm here: a disc and a checkerboard.
"""

from pathlib import Path

from whit import Tensor, dtypes


def picture(size: int) -> Tensor:
    """A white disc on a grey checkerboard: a matrix of numbers from 0 (black) to 1 (white)."""
    y, x = Tensor.arange(size).meshgrid(Tensor.arange(size))
    board = (x // 8 + y // 8) % 2 * 0.5
    disc = (x - size / 2) ** 2 + (y - size / 2) ** 2 < (size / 3) ** 2
    return disc.where(1.0, board)


def gaussian(radius: int) -> Tensor:
    """The bell curve at whole numbers from -radius to radius, with the sum 1."""
    x = Tensor.arange(-radius, radius + 1)
    bell = (-((2 * x / radius) ** 2) / 2).exp()
    return bell / bell.sum()


def blur(image: Tensor, radius: int) -> Tensor:
    """Rows, then columns: two short convolutions are the same as one with a big window."""
    window = gaussian(radius)
    batch = image.reshape(1, 1, *image.shape).pad((radius,) * 4, mode="replicate")
    return batch.conv2d(window.reshape(1, 1, 1, -1)).conv2d(window.reshape(1, 1, -1, 1))[0, 0]


def save(image: Tensor, path: Path) -> None:
    """As a PGM file: a line that says how large it is, then a byte for each point."""
    height, width = image.shape
    points = (image * 255).round().clip(0, 255).cast(dtypes.uint8)
    path.write_bytes(b"P5 %d %d 255\n" % (width, height) + points.data())


def main(size: int = 256, radius: int = 6, folder: str = ".") -> tuple[Tensor, Tensor]:
    sharp = picture(size)
    blurred = blur(sharp, radius)
    for name, image in (("sharp", sharp), ("blurred", blurred)):
        path = Path(folder) / f"{name}.pgm"
        save(image, path)
        edges = (image[:, 1:] - image[:, :-1]).abs().mean()
        print(f"{path}: brightness {image.mean():.3f}, mean step between neighbours {edges:.4f}")
    return sharp, blurred


if __name__ == "__main__":
    main()
