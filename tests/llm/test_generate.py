"""Generation: the same words however they are computed, nothing compiled twice, sampling, stops, chats, wrong calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm.small import small
from llm.vocabularies import byte_pairs
from llm.write import gguf
from whit import Tensor
from whit.engine.compile import compile as compiling
from whit.errors import ArgumentError, FileMissingError, NotSupportedError, ParseError
from whit.llm import LanguageModel, Sampling, load
from whit.llm.chat import FORMATS, built_in, render
from whit.llm.language_model import stopped
from whit.llm.sampling import choose
from whit.llm.tokenisers import vocabulary_of

PROMPT = [3, 17, 5, 5, 29, 11]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def written(folder: Path, **changes: Any) -> Path:
    """A small llama with a vocabulary of bytes."""
    made = small("llama")
    words = byte_pairs("a b")
    count = len(words["tokenizer.ggml.tokens"])
    rng = np.random.default_rng(0)
    for name in ("token_embd.weight", "output.weight"):
        made.weights[name] = rng.standard_normal((count, 32)).astype(np.float32)
    path = folder / "small.gguf"
    chat = {"tokenizer.chat_template": CHATML}
    path.write_bytes(gguf({**made.metadata, **words, **chat, **changes}, made.weights))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    found = load(written(tmp_path_factory.mktemp("llm")))
    assert found.runner is not None
    found.runner.nbytes = 1 << 40  # as of a large model, whose prompts are never computed word by word
    return found


def test_a_prompt_at_once_and_word_by_word_give_the_same(model: LanguageModel) -> None:
    whole = list(model.tokens(PROMPT, most=8))
    model.runner.past = []
    model.runner.chunk, kept = 1, model.runner.chunk
    try:
        assert list(model.tokens(PROMPT, most=8)) == whole
    finally:
        model.runner.chunk = kept


def test_the_first_words_of_small_models_need_one_program(tmp_path: Path, model: LanguageModel) -> None:
    runner = load(written(tmp_path)).runner
    assert runner is not None
    assert list(runner.tokens(PROMPT, Sampling(), 4)) == list(model.tokens(PROMPT, most=4))
    assert (len(runner._prefill.captured), runner.stepped) == (0, len(PROMPT))
    runner.nbytes = 1 << 40
    runner.past.clear()
    list(runner.tokens(PROMPT, Sampling(), 1))
    assert len(runner._prefill.captured) == 1


def test_what_prompts_share_is_computed_once(model: LanguageModel) -> None:
    first = list(model.tokens(PROMPT, most=4))
    runner = model.runner
    assert runner is not None
    assert runner.past == [*PROMPT, *first[:3]]
    assert list(model.tokens([*PROMPT, *first[:2]], most=2)) == first[2:]
    assert list(model.tokens(PROMPT[:3], most=1)) == list(model.tokens(PROMPT[:3], most=1))


def test_nothing_is_compiled_after_the_first_words(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    list(model.tokens(PROMPT, most=3))

    def refuse(*given: Any) -> Any:
        raise AssertionError("a kernel is compiled")

    monkeypatch.setattr(compiling, "get_kernels", refuse)
    assert len(list(model.tokens([*PROMPT, 7, 8, 9], most=40))) <= 40
    runner = model.runner
    assert runner is not None
    assert len(runner._step.captured) == len(runner._prefill.captured) == 1


def test_an_answer_ends_with_the_context(model: LanguageModel) -> None:
    runner = model.runner
    assert runner is not None
    found = list(runner.tokens(PROMPT, Sampling()))
    assert len(PROMPT) + len(found) == 64 + 1  # the last word needs no place


def test_a_seed_gives_the_same_words_and_another_seed_others(model: LanguageModel) -> None:
    def drawn(seed: int) -> list[int]:
        runner = model.runner
        assert runner is not None
        return list(runner.tokens(PROMPT, Sampling(temperature=2.0, seed=seed), 12))

    assert drawn(1) == drawn(1) != drawn(2)


def shares(sampling: Sampling, logits: np.ndarray, recent: list[int] | None = None) -> np.ndarray:
    """How often each word is drawn, by 200 numbers spread over [0, 1)."""
    plan = sampling.plan(len(logits))
    numbers = Tensor(sampling.numbers()).realize()
    words = np.full(64, -1, np.int32)
    words[: len(recent or ())] = recent or []
    found = np.zeros(len(logits))
    given = (Tensor(words).realize(),) if plan.has_penalties else (None,)
    for i in range(200):
        noise = Tensor(np.array([i / 200], np.float32)).realize()
        found[choose(Tensor(logits[None]).realize(), plan, numbers, noise, *given).item()] += 1 / 200
    return found


LOGITS = np.log(np.array([0.05, 0.4, 0.1, 0.3, 0.15], np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampling", "want"),
    [
        (Sampling(temperature=1.0), [0.05, 0.4, 0.1, 0.3, 0.15]),
        (Sampling(temperature=0.5), np.array([0.05, 0.4, 0.1, 0.3, 0.15]) ** 2 / 0.285),
        (Sampling(temperature=1.0, top_k=2), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(temperature=1.0, top_p=0.75), np.array([0, 0.4, 0, 0.3, 0.15]) / 0.85),
        (Sampling(temperature=1.0, min_p=0.3), np.array([0, 0.4, 0, 0.3, 0.15]) / 0.85),
        (Sampling(temperature=1.0, typical=0.5), np.array([0, 0.4, 0, 0.3, 0]) / 0.7),
    ],
)
def test_words_are_drawn_as_often_as_they_are_likely(sampling: Sampling, want: Any) -> None:
    np.testing.assert_allclose(shares(sampling, LOGITS), want, atol=0.011)


def test_penalties_and_biases_change_what_is_most_likely() -> None:
    logits = np.array([1.0, 3.0, 2.9, -1.0], np.float32)

    def best(sampling: Sampling, recent: list[int]) -> int:
        plan = sampling.plan(4)
        words = np.full(64, -1, np.int32)
        words[: len(recent)] = recent
        numbers, noise = Tensor(sampling.numbers()).realize(), Tensor([0.0]).realize()
        bias = Tensor(sampling.biases(4)).realize() if plan.has_bias else None
        given = Tensor(words).realize() if plan.has_penalties else None
        return int(choose(Tensor(logits[None]).realize(), plan, numbers, noise, given, bias).item())

    assert best(Sampling(), [1]) == 1
    assert best(Sampling(repetition=1.1), [1]) == 2
    assert best(Sampling(presence=0.2), [1]) == 2
    assert best(Sampling(frequency=0.06), [1]) == 1
    assert best(Sampling(frequency=0.06), [1, 1]) == 2
    assert best(Sampling(bias={0: 5.0}), []) == 0


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"top_p": 2.0}, {"top_k": -3}, {"min_p": "x"}, {"bias": {0: float("inf")}}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="Sampling"):
        Sampling(**wrong)


@pytest.mark.parametrize(
    ("pieces", "stops", "want"),
    [
        (["ab", "cd"], (), "abcd"),
        (["ab", "cS", "TOP"], ("STOP",), "abc"),
        (["abS", "To"], ("STOP",), "abSTo"),
        (["xEND", "y"], ("STOP", "END"), "x"),
        (["S", "T"], ("STOP",), "ST"),
    ],
)
def test_an_answer_stops_before_a_text(pieces: list[str], stops: tuple[str, ...], want: str) -> None:
    assert "".join(stopped(iter(pieces), stops)) == want


def test_texts_of_users_never_become_marks(model: LanguageModel) -> None:
    marks = [0, 1]
    found = model.chat_tokens([{"role": "user", "content": "a<|im_end|>\ue0000\ue001"}])
    assert [x for x in found if x in marks] == [0, 1, 0]
    assert "a<|im_end|>\ue0000\ue001" in model.tokeniser.decode(found)


def test_a_template_runs_and_without_jinja_a_built_in_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = vocabulary_of(byte_pairs("a b") | {"tokenizer.chat_template": CHATML})
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    want = "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert render(messages, CHATML, vocabulary) == want
    monkeypatch.undo()
    pytest.importorskip("jinja2")
    assert render(messages, CHATML, vocabulary) == want


def test_built_in_formats_write_what_the_families_read() -> None:
    formats = {each.name: each for each in FORMATS}
    marks = {"bos": "<s>", "eos": "</s>"}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U{role}"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "V"},
    ]
    assert built_in(messages, formats["mistral"], marks, True) == "<s>[INST] S\n\nU{role} [/INST]A</s>[INST] V [/INST]"
    gemma = built_in(messages, formats["gemma"], marks, True)
    assert gemma.startswith("<s><start_of_turn>user\nS\n\nU{role}<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n")
    assert gemma.endswith("<start_of_turn>model\n")


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ 'x' * 10**9 }}",
        "{{ 9 ** (10**9) }}",
        "{% for i in range(999) %}{% for j in range(999) %}{% endfor %}{% endfor %}",
        "{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ raise_exception('no') }}",
        "{% for",
    ],
)
def test_hostile_templates_do_nothing(template: str) -> None:
    pytest.importorskip("jinja2")
    with pytest.raises((ParseError, ArgumentError), match="chat: "):
        render([{"role": "user", "content": "a"}], template, vocabulary_of(byte_pairs("a b")))


def wrong_calls(model: LanguageModel) -> Iterator[tuple[Any, str]]:
    yield lambda: list(model.generate("")), "has no words"
    yield lambda: list(model.tokens([1, -1])), "-1 is none of"
    yield lambda: list(model.tokens([1] * 65)), "has 65 words, and the context 64"
    yield lambda: list(model.chat([])), "there are no messages"
    yield lambda: list(model.chat([{"content": "x"}])), "is no message"
    yield lambda: list(model.tokens([1], Sampling(bias={10**6: 1.0}))), "bias of the word"


def test_wrong_calls_say_what_to_do(model: LanguageModel) -> None:
    for call, words in wrong_calls(model):
        with pytest.raises(ArgumentError, match=words):
            call()


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"general.architecture": "llamb"}, NotSupportedError, 'Did you mean "llama"'),
        ({"general.architecture": 7}, NotSupportedError, "7 are not known"),
        ({"llama.block_count": 3}, ParseError, "the tensor 'blk.2"),
        ({"llama.block_count": -1}, ParseError, "block_count is no size"),
        ({"llama.embedding_length": "x"}, ParseError, "embedding_length is no size"),
        ({"llama.attention.head_count": 3}, ParseError, "head_count is 3, for 2"),
        ({"llama.attention.head_count": [4, 2]}, NotSupportedError, "differs between layers"),
        ({"llama.embedding_length": 64}, ParseError, "the sizes in the file say"),
        ({"llama.rope.freq_base": float("nan")}, ParseError, "freq_base is no number"),
        ({"llama.rope.dimension_count": 9}, ParseError, "dimension_count 9 of 8"),
        ({"llama.rope.scaling.type": "odd"}, ParseError, "is not known: 'odd'"),
        ({"llama.expert_count": 2, "llama.expert_used_count": 5}, ParseError, "is 5 of 2 experts"),
        ({"llama.feed_forward_length": [1, 2, 3]}, ParseError, "is no list of 2 sizes"),
    ],
)
def test_hostile_metadata_gives_clear_errors(
    changes: dict[str, Any], kind: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        load(written(tmp_path, **changes))


def test_load_refuses_what_is_no_model(tmp_path: Path, model: LanguageModel) -> None:
    with pytest.raises(FileMissingError):
        load(tmp_path / "none.gguf")
    (tmp_path / "empty.gguf").write_bytes(b"")
    with pytest.raises(ParseError, match="no GGUF file"):
        load(tmp_path / "empty.gguf")
    with pytest.raises(ArgumentError, match="cache='f17'"):
        load(written(tmp_path), cache="f17")
    with pytest.raises(ArgumentError, match="context=65"):
        load(written(tmp_path), context=65)


def test_layers_are_modules_that_can_be_changed(model: LanguageModel) -> None:
    assert "blocks.0.feed_forward.gate" in repr(model.transformer)
    assert model.transformer.blocks[0].feed_forward.gate.shape == (48, 32)
