"""Each family computes what a NumPy reference, written from the papers, computes of the same weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llm import reference
from llm.small import ENCODERS, MAKERS, small
from llm.write import gguf
from whit.llm import LanguageModel, Sampling, load

pytestmark = pytest.mark.slow  # each compiles its own kernels

TOKENS = [3, 17, 5, 5, 29, 11, 0, 38, 21, 2, 13]
DECODERS = [name for name in MAKERS if name not in ENCODERS]


def loaded(name: str, folder: Path) -> LanguageModel:
    made = small(name)
    path = folder / "model.gguf"
    path.write_bytes(gguf(made.metadata, made.weights))
    return load(path, cache="f32")


@pytest.mark.parametrize("name", DECODERS)
def test_logits_of_prompts_and_of_steps_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    made, model = small(name), loaded(name, tmp_path)
    want = reference.logits(made.spec, made.weights, TOKENS)
    np.testing.assert_allclose(model.logits(TOKENS).numpy(), want, rtol=0, atol=1e-3)
    made_tokens = list(model.tokens(TOKENS[:6], Sampling(), most=4))  # one position at a time, with the cache
    given = list(TOKENS[:6])
    for token in made_tokens:
        assert token == reference.logits(made.spec, made.weights, given)[-1].argmax()
        given.append(token)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_give_the_hidden_rows_of_the_reference(name: str, tmp_path: Path) -> None:
    made, model = small(name), loaded(name, tmp_path)
    want = reference.hidden(made.spec, made.weights, TOKENS).mean(0)
    np.testing.assert_allclose(model._embedded(TOKENS), want, rtol=0, atol=1e-4)
