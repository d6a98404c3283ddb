"""The examples give what NumPy or a formula gives, and need nothing but whit and what it depends on."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx_models import write

from whit import Tensor
from whit.png import png_of

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
# Those that train take longer; test_training.py runs them with small sizes.
TRAIN = {"demo", "mnist_convnet", "gpt", "resnet", "diffusion", "lstm", "policy_gradient", "lora"}

Array = np.ndarray[Any, np.dtype[Any]]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pgm(path: Path) -> Array:
    """The points of a PGM file."""
    header, _, points = path.read_bytes().partition(b"\n")
    kind, width, height, white = header.split()
    assert (kind, white) == (b"P5", b"255")
    return np.frombuffer(points, np.uint8).reshape(int(height), int(width))


@pytest.mark.slow
def test_describe_data(capsys: pytest.CaptureFixture[str]) -> None:
    found = {name: value.numpy() for name, value in load("describe_data").main(2000).items()}
    height, weight = found["height"].astype(float), found["weight"].astype(float)
    np.testing.assert_allclose(found["correlation"], np.corrcoef(height, weight)[0, 1], rtol=1e-4)
    np.testing.assert_allclose(found["slope"], np.polyfit(height, weight, 1)[0], rtol=1e-4)
    np.testing.assert_array_equal(found["counts"], np.histogram(height, 13, (140, 205))[0])
    np.testing.assert_allclose(found["edges"], np.linspace(140, 205, 14))
    low, middle, high = np.quantile(height, [0.25, 0.5, 0.75])
    mean, std = height.mean(), height.std(ddof=1)
    expected = f"height: mean {mean:.1f}, std {std:.1f}, quartiles {low:.1f} {middle:.1f} {high:.1f}\n"
    assert capsys.readouterr().out.startswith(expected)
    assert abs(mean - 172) < 1 and abs(std - 9) < 1


def test_image_blur(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sharp, blurred = (image.numpy().astype(float) for image in load("image_blur").main(48, 3, str(tmp_path)))
    y, x = np.mgrid[:48, :48]
    board = np.where((x // 8 + y // 8) % 2, 0.5, 0.0)
    np.testing.assert_array_equal(sharp, np.where((x - 24) ** 2 + (y - 24) ** 2 < 256, 1.0, board))
    bell = np.exp(-((2 * np.arange(-3, 4) / 3) ** 2) / 2)
    window = np.outer(bell, bell) / bell.sum() ** 2
    padded = np.pad(sharp, 3, mode="edge")
    expected = sum(window[i, j] * padded[i : i + 48, j : j + 48] for i in range(7) for j in range(7))
    np.testing.assert_allclose(blurred, expected, atol=1e-6)
    np.testing.assert_array_equal(pgm(tmp_path / "sharp.pgm"), np.rint(sharp * 255))
    assert np.abs(pgm(tmp_path / "blurred.pgm") - expected * 255).max() <= 0.501
    assert f"blurred.pgm: brightness {blurred.mean():.3f}" in capsys.readouterr().out


def test_game_of_life(capsys: pytest.CaptureFixture[str]) -> None:
    life = load("game_of_life")
    board = np.zeros((7, 7), int)
    board[:3, :3] = life.GLIDER
    # 20 generations are 5 cells down and right: around the edge.
    np.testing.assert_array_equal(life.main(size=7, steps=20).numpy(), np.roll(board, (5, 5), (0, 1)))
    first = "generation 0: 5 cells\n.#.....\n..#....\n###....\n.......\n"
    assert capsys.readouterr().out.startswith(first)


def test_mandelbrot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = load("mandelbrot").main(100, 30, str(tmp_path)).numpy()
    c = np.linspace(-2.2, 0.8, 100) + 1j * np.linspace(-1.2, 1.2, 80)[:, None]
    z, expected = np.zeros_like(c), np.zeros(c.shape, int)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(30):
            z = z * z + c
            expected += np.abs(z) <= 2
    assert np.mean(count == expected) > 0.995  # at its edge the set is not for float32 to decide
    assert (count[40, 73], count[0, 0]) == (30, 0)
    picture = pgm(tmp_path / "mandelbrot.pgm")
    assert picture.shape == (80, 100)
    assert (picture[40, 73], picture[0, 0]) == (0, 255)
    area = np.mean(count == 30) * 7.2
    assert 1.4 < area < 1.8  # 1.5066 after infinitely many steps
    assert capsys.readouterr().out.endswith(f"mandelbrot.pgm: the set covers {area:.3f} of the plane\n")


def test_k_means(capsys: pytest.CaptureFixture[str]) -> None:
    module = load("k_means")
    centres, groups = (x.numpy() for x in module.main(100))
    clouds = module.CLOUDS.numpy()
    nearest = ((clouds[:, None] - centres) ** 2).sum(-1).argmin(1)
    assert sorted(nearest) == list(range(5))
    np.testing.assert_allclose(centres[nearest], clouds, atol=0.4)  # four standard errors
    # Points come in the order of the clouds, over and over. Few lie nearer to another one.
    assert np.mean(groups.reshape(100, 5) == nearest) > 0.98
    assert capsys.readouterr().out.count(" points around ") == 5


def test_k_means_is_done_when_the_centres_are_the_middles() -> None:
    module = load("k_means")
    points = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    centres, groups = (x.numpy() for x in module.k_means(module.Tensor(points), 3, 100))
    np.testing.assert_array_equal(groups, ((points[:, None] - centres) ** 2).sum(-1).argmin(1))
    middles = np.stack([points[groups == i].mean(0) for i in range(3)])
    np.testing.assert_allclose(centres, middles, atol=1e-3)


@pytest.mark.slow
def test_spectrogram(capsys: pytest.CaptureFixture[str]) -> None:
    module = load("spectrogram")
    times, loudest = (x.numpy() for x in module.main(1.0, 256))
    assert times.shape == loudest.shape == ((8000 - 256) // 128 + 1,)
    np.testing.assert_allclose(loudest, 200 + 1600 * times, atol=8000 / 256)
    assert "%%" in capsys.readouterr().out
    sound = np.random.default_rng(1).normal(size=600)
    fade = np.hanning(65)[:-1]
    pieces = np.stack([sound[i : i + 64] for i in range(0, 600 - 63, 32)])
    power = module.spectrogram(module.Tensor(sound.astype(np.float32)), 64, 32).numpy()
    np.testing.assert_allclose(power, np.abs(np.fft.rfft(pieces * fade)) ** 2, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_page_rank(capsys: pytest.CaptureFixture[str]) -> None:
    source, target, rank = (x.numpy() for x in load("page_rank").main(60, 240))
    links = np.zeros((60, 60))
    np.add.at(links, (source, target), 1)
    outgoing = links.sum(1, keepdims=True)
    assert outgoing.min() == 0  # a page that leads nowhere is part of the test
    follow = np.where(outgoing > 0, links / np.maximum(outgoing, 1), 1 / 60)
    # Ranks are what does not change: r = 0.85 follow' r + 0.15 / 60.
    expected = np.linalg.solve(np.eye(60) - 0.85 * follow.T, np.full(60, 0.15 / 60))
    np.testing.assert_allclose(rank, expected, atol=2e-6)
    assert capsys.readouterr().out.startswith(f"page {expected.argmax():3}: rank {expected.max():.4f}, ")


@pytest.mark.slow
def test_monte_carlo(capsys: pytest.CaptureFixture[str]) -> None:
    found = load("monte_carlo").main(40_000)
    d = (math.log(100 / 105) + 0.03 + 0.02) / 0.2

    def below(x: float) -> float:
        return (1 + math.erf(x / math.sqrt(2))) / 2

    black_scholes = 100 * below(d) - 105 * math.exp(-0.03) * below(d - 0.2)
    for name, truth in (("pi", math.pi), ("option", black_scholes)):
        value, error = found[name]
        assert abs(value - truth) < 4 * error
    # A coin with p = pi/4, tossed 40,000 times, for 4.
    assert found["pi"][1] == pytest.approx(math.sqrt(math.pi * (4 - math.pi) / 40_000), rel=0.02)
    assert capsys.readouterr().out.startswith(f"pi     = {found['pi'][0]:.4f} ± ")


@pytest.mark.slow
def test_n_body(capsys: pytest.CaptureFixture[str]) -> None:
    module = load("n_body")
    position, velocity, mass = (x.numpy() for x in module.solar_system(3))
    end, drift = module.main(planets=3, steps=100)

    def pull(position: Array) -> Array:
        between = position[None] - position[:, None]
        distance = np.sqrt((between**2).sum(-1))
        np.fill_diagonal(distance, np.inf)
        return np.einsum("ijd,ij->id", between, mass / distance**3)

    for _ in range(100):
        velocity = velocity + pull(position) * (math.pi / 200)
        position = position + velocity * (math.pi / 100)
        velocity = velocity + pull(position) * (math.pi / 200)
    np.testing.assert_allclose(end.numpy(), position, atol=1e-9)
    assert abs(drift) < 1e-6
    assert capsys.readouterr().out.count("energy off by") == 4


@pytest.mark.slow
def test_text_histogram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text"
    text = "Sphinx of black quartz, judge my vow! " * 3 + "ÄÖ\0\n zzz ZZ"
    path.write_text(text)
    counts = load("text_histogram").main(str(path)).tolist()
    expected = Counter(text.lower())
    assert counts == [expected[chr(letter)] for letter in range(ord("a"), ord("z") + 1)]
    assert capsys.readouterr().out.startswith("z      8   8.7% ####")


def test_a_text_without_letters_has_no_histogram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_bytes(b"123")
    assert load("text_histogram").main(str(tmp_path / "text")).tolist() == [0] * 26
    assert capsys.readouterr().out == ""


COLOURS = {"red": (250, 20, 10), "green": (20, 240, 30), "blue": (0, 40, 255)}


def model_and_picture(folder: Path, colour: str, shape: list[int | str]) -> list[str]:
    """Files: a model that says which colour there is most of, for images of this shape, and a picture of a colour."""
    nodes = [write.node("ReduceMean", ["x"], ["y"], axes=[1, 2] if shape[-1] == 3 else [2, 3], keepdims=0)]
    data = write.model(nodes, [write.value("x", 1, shape)], [write.value("y")], version=13)
    (folder / "m.onnx").write_bytes(data)
    (folder / "p.png").write_bytes(png_of(bytes(COLOURS[colour]) * (40 * 30), 30, 40, 3))
    return [str(folder / "m.onnx"), str(folder / "p.png")]


# Runs the examples as programs, in one process, and prints which packages that loaded.
RUNNER = """
import contextlib, io, json, runpy, sys
before = {name.partition(".")[0] for name in sys.modules}
with contextlib.redirect_stdout(io.StringIO()) as printed:
    for path, *arguments in json.loads(sys.argv[1]):
        sys.argv = [path, *arguments]
        printed.truncate(0)
        runpy.run_path(path, run_name="__main__")
        assert printed.getvalue().strip(), f"{path} printed nothing"
files = {n.partition(".")[0]: getattr(m, "__file__", None) or "" for n, m in list(sys.modules.items())}
print(json.dumps(sorted(name for name, file in files.items() if name not in before and "site-packages" in file)))
"""


@pytest.mark.slow
def test_examples_run_and_load_only_what_whit_depends_on(tmp_path: Path) -> None:
    given = {"onnx_image": model_and_picture(tmp_path, "red", ["n", 3, 8, 12])}
    calls = [[str(ROOT / "examples" / f"{name}.py"), *given.get(name, [])] for name in NAMES if name not in TRAIN]
    assert len(calls) == 12
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUNNER, json.dumps(calls)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) <= {"whit", "numpy", "ml_dtypes", "llvmlite"}


@pytest.mark.parametrize("colours_last", [False, True])
@pytest.mark.parametrize("name", COLOURS)
def test_onnx_image(name: str, colours_last: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that says which colour there is most of, in any layout."""
    files = model_and_picture(tmp_path, name, ["n", 8, 12, 3] if colours_last else ["n", 3, 8, 12])
    (tmp_path / "labels.txt").write_text("\n".join(COLOURS))
    found = load("onnx_image").main(*files, str(tmp_path / "labels.txt"))
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    scores = (np.array(COLOURS[name]) / 255 - mean) / deviation
    shares = dict(zip(COLOURS, np.exp(scores) / np.exp(scores).sum(), strict=True))
    assert found[0][0] == name
    np.testing.assert_allclose([share for _, share in found], [shares[label] for label, _ in found], rtol=1e-4)
    assert capsys.readouterr().out.splitlines()[0] == f"{shares[name]:6.1%}  {name}"


def test_onnx_image_takes_the_middle_of_a_picture() -> None:
    example = load("onnx_image")
    stripes = np.zeros((3, 40, 100), np.float32)
    stripes[:, :, 50:] = 200
    middle = example.middle(Tensor(stripes), 20, 20).numpy()
    assert middle.shape == (3, 20, 20)
    assert middle[:, :, :8].max() < 1 and middle[:, :, 12:].min() > 199
    assert example.read_labels(None, 2) == ["class 0", "class 1"]


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_names_the_example(name: str) -> None:
    assert f"examples/{name}.py" in (ROOT / "README.md").read_text()
