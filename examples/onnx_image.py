"""Says what is in a picture, by a model in an ONNX file.

Run it with `python examples/onnx_image.py model.onnx picture.png --labels labels.txt`. The model is any classifier of
pictures: its input says which size they must have and where the colours stand. The file of labels has one a line,
or is a list or a dictionary as JSON. PNG, BMP and PNM are read here, others with Pillow. `--pixels` is for models
that want numbers from 0 to 255; most were trained on ImageNet, whose mean and deviation are taken out otherwise.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from whit import Tensor, dtypes, onnx
from whit.onnx.graph import Port
from whit.onnx.operators.pictures import decoded

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the pictures in ImageNet: red, green, blue
SIZE = 224  # where the model takes any
MARGIN = 8 / 7  # the picture is made so much larger than the model wants it, and its middle is taken


def picture(path: Path) -> Tensor:
    """The pixels of a file: (3, height, width), numbers from 0 to 255."""
    pixels = np.ascontiguousarray(decoded(path.read_bytes()))
    return Tensor(pixels).permute(2, 0, 1).expand(3, -1, -1).float()


def middle(image: Tensor, height: int, width: int) -> Tensor:
    """The middle of a picture in another size; what is wide is cut off left and right, what is high above and below."""
    _, rows, columns = image.shape
    scale = MARGIN * max(height / rows, width / columns)
    sizes = max(round(rows * scale), height), max(round(columns * scale), width)
    smooth = blurred(image, 1 / scale) if scale < 1 else image
    large = smooth.unsqueeze(0).interpolate(sizes, mode="linear")[0]
    top, left = (sizes[0] - height) // 2, (sizes[1] - width) // 2
    return large[:, top : top + height, left : left + width].clip(0, 255)


def blurred(image: Tensor, factor: float) -> Tensor:
    """Without details that are too fine for a picture so many times smaller: they would become patterns."""
    window = max(int(factor), 1)
    if window == 1:
        return image
    padded = image.unsqueeze(0).pad((window // 2, (window - 1) // 2) * 2, mode="replicate")
    return padded.avg_pool2d(window, 1)[0]


def prepared(image: Tensor, port: Port, as_pixels: bool) -> Tensor:
    """What the model wants: a batch of one picture, the colours first or last."""
    shape = port.type.shape or ("batch", 3, SIZE, SIZE)
    if len(shape) != 4:
        raise SystemExit(f"{port.name}: {port.type} is no batch of pictures")
    colours_last = shape[-1] == 3 and shape[1] != 3
    sizes = shape[1:3] if colours_last else shape[2:]
    height, width = (size if isinstance(size, int) else SIZE for size in sizes)
    x = middle(image, height, width)
    if port.type.dtype is dtypes.uint8:
        return (x.round().permute(1, 2, 0) if colours_last else x.round()).cast(dtypes.uint8).unsqueeze(0)
    if not as_pixels:
        x = (x / 255 - Tensor(MEAN).reshape(3, 1, 1)) / Tensor(DEVIATION).reshape(3, 1, 1)
    x = x.cast(port.type.dtype or dtypes.float32)
    return (x.permute(1, 2, 0) if colours_last else x).unsqueeze(0)


def probabilities(scores: Tensor) -> Tensor:
    """Scores of any range as numbers that add up to 1; what does so already stays."""
    total, least = scores.sum().item(), scores.min().item()
    return scores if least >= 0 and abs(total - 1) < 1e-2 else scores.softmax()


def read_labels(path: str | None, count: int) -> list[str]:
    """The names of the classes."""
    if path is None:
        return [f"class {number}" for number in range(count)]
    text = Path(path).read_text("utf-8")
    if path.endswith(".json"):
        found = json.loads(text)
        names = list(found.values()) if isinstance(found, dict) else found
        return [name if isinstance(name, str) else ", ".join(map(str, name)) for name in names]
    return text.splitlines()


def main(model: str, image: str, labels: str | None = None, pixels: bool = False) -> list[tuple[str, float]]:
    network = onnx.load(model)
    (port,) = network.inputs
    x = prepared(picture(Path(image)), port, pixels)
    (scores, *_) = network({port.name: x}).values()
    shares = probabilities(scores.flatten().float())
    names = read_labels(labels, shares.numel())
    best, places = shares.topk(min(5, shares.numel()))
    offset = shares.numel() - len(names)  # some models have a first class "background"
    offset = offset if offset == 1 else 0
    found = []
    for share, place in zip(best.tolist(), places.tolist(), strict=True):
        name = names[place - offset] if 0 <= place - offset < len(names) else f"class {place}"
        found.append((name, share))
        print(f"{share:6.1%}  {name}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("image")
    parser.add_argument("--labels", help="the names of the classes: one in each line, or JSON")
    parser.add_argument("--pixels", action="store_true", help="the model wants numbers from 0 to 255")
    options = parser.parse_args()
    main(options.model, options.image, options.labels, options.pixels)
