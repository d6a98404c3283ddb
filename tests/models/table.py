"""The models that are trained for two steps, with their inputs. Sizes are small, and mostly odd.

One row here is a model in all tests: float32 and float64, under the JIT and without, optimised and not, on the device
and by the interpreter, against what PyTorch computed (`expected.json`) and PyTorch itself where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models import others, sequence, vision
from models.vision import Framework, Model

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """An array: below `high` if that is given, else numbers around 0."""

    shape: Shape
    high: int = 0

    def array(self, random: np.random.Generator, dtype: str) -> np.ndarray:
        if self.high:
            return random.integers(0, self.high, self.shape, dtype=np.int64)
        return random.standard_normal(self.shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A model, its inputs, and how it is trained.

    Adam divides gradients by their size, so that one which is 0 but for rounding becomes a step of either sign: models
    with biases before batch norms have such, and are trained by SGD.
    """

    name: str
    build: Callable[[Framework], Model]
    inputs: tuple[Input, ...]
    optimizer: str = "sgd"
    is_large: bool = False  # not in `make test`


def images(*shape: int) -> Input:
    return Input(shape)


def classes(*shape: int, high: int = 5) -> Input:
    return Input(shape, high)


CASES = (
    Case("mlp", others.mlp, (images(6, 13), classes(6)), "adam"),
    Case("convnet", vision.convnet, (images(3, 1, 9, 13), classes(3))),
    Case("resnet18", vision.resnet18, (images(3, 3, 32, 64), classes(3))),
    Case("resnet_bottleneck", vision.resnet_bottleneck, (images(3, 3, 35, 33), classes(3))),
    Case("resnet50", vision.resnet50, (images(4, 3, 64, 64), classes(4)), is_large=True),
    Case("efficientnet", vision.efficientnet, (images(3, 3, 17, 15), classes(3))),
    Case("convnext", vision.convnext, (images(2, 3, 12, 16), classes(2))),
    Case("unet", vision.unet, (images(2, 1, 8, 12), classes(2, 8, 12, high=3))),
    Case("unet3d", vision.unet3d, (images(2, 1, 4, 6, 6), classes(2, 4, 6, 6, high=2))),
    Case("densenet", vision.densenet, (images(2, 3, 8, 12), classes(2))),
    Case("inception", vision.inception, (images(2, 3, 7, 9), classes(2))),
    Case("shufflenet", vision.shufflenet, (images(3, 3, 13, 11), classes(3))),
    Case("gan", vision.gan, (images(5, 5), images(5, 1, 8, 8))),
    Case("retinanet", vision.retinanet, (images(2, 3, 16, 12), classes(2, 154, 3, high=2))),
    Case("super_resolution", vision.super_resolution, (images(2, 2, 5, 7), images(2, 2, 10, 14))),
    Case("autoencoder", others.autoencoder, (images(3, 1, 8, 12), images(3, 4))),
    Case("siamese", others.siamese, (images(5, 7), images(5, 7))),
    Case("diffusion", others.diffusion, (images(2, 2, 6, 8), images(2), images(4), images(2, 2, 6, 8))),
    Case("lora", others.lora, (images(6, 9), classes(6, high=4)), "adam"),
    Case("policy", others.policy, (images(7, 4), classes(7, high=3), images(7)), "adam"),
    Case("graph", others.graph, (images(6, 5), classes(11, high=6), classes(11, high=6), classes(6, high=3)), "adam"),
    Case("points", others.points, (images(3, 3, 11), classes(3, high=4))),
    Case("skipgram", others.skipgram, (classes(9, high=7), classes(9, high=7), classes(9, 3, high=7)), "adam"),
    Case("gpt", sequence.gpt, (classes(2, 9, high=11), classes(2, 9, high=11))),
    Case(
        "bert",
        sequence.bert,
        (classes(3, 7, high=13), classes(3, 7, high=2), classes(3, 7, high=4), classes(3, high=3)),
    ),
    Case("vit", sequence.vit, (images(2, 3, 8, 12), classes(2))),
    Case("seq2seq", sequence.seq2seq, (classes(2, 5, high=11), classes(2, 7, high=11))),
    Case("llama", sequence.llama, (classes(2, 5, high=11), classes(2, 5, high=11), images(5, 2)), "adamw"),
    Case("moe", sequence.moe, (images(7, 6), classes(7, high=3)), "adamw"),
    Case("mixer", sequence.mixer, (images(2, 3, 8, 12), classes(2)), "adamw"),
    Case("lstm", sequence.lstm, (classes(4, 3, high=9), classes(4, 3, high=9)), "adam"),
    Case("gru", sequence.gru, (images(5, 3, 3), images(3, 2)), "adam"),
    Case("wavenet", sequence.wavenet, (images(2, 1, 13), classes(2, 13, high=6)), "adam"),
)


def arrays_of(case: Case, dtype: str) -> list[np.ndarray]:
    """The inputs; the same numbers in both dtypes but for rounding."""
    random = np.random.default_rng(len(case.name))
    return [given.array(random, dtype) for given in case.inputs]


def weight_of(name: str, shape: Shape, dtype: str) -> np.ndarray:
    """The first value of a parameter, by its name: about as large as is usual, and nowhere 0 or 1."""
    random = np.random.default_rng(sum(map(ord, name)) + 1000 * len(name))
    numbers = random.standard_normal(shape)
    if name.endswith("weight") and len(shape) > 1:
        return (numbers / np.sqrt(np.prod(shape[1:]))).astype(dtype)
    return (numbers / 8 + name.endswith("weight")).astype(dtype)
