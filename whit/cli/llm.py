"""`python -m whit llm FILE`: writes what follows a prompt, answers a message, or chats in the terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from whit.cli.answer import Answer, UsageError, spell_bytes, spell_count
from whit.llm import LanguageModel, Sampling, load


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
Loads a language model from a GGUF file or a folder of Hugging Face. -p writes what follows a text, --chat answers a
message;
without either, each line of standard input is a message."""
    parser.add_argument("file", help="model.gguf, or a folder with config.json and safetensors")
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="write what follows this")
    parser.add_argument("--chat", metavar="TEXT", help="answer this message")
    parser.add_argument("--system", metavar="TEXT", help="the first message of a chat")
    parser.add_argument("-n", "--most", type=int, metavar="N", help="words to write at most")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this; again for more")
    parser.add_argument("--temperature", type=float, default=0.0, help="0, the most likely word, is the default")
    parser.add_argument("--top-k", type=int, default=0, help="draw from so many words")
    parser.add_argument("--top-p", type=float, default=1.0, help="draw from those that sum to this")
    parser.add_argument("--min-p", type=float, default=0.0, help="draw from those this likely, beside the likeliest")
    parser.add_argument("--repetition", type=float, default=1.0, help="divide logits of recent words by this")
    parser.add_argument("--seed", type=int, help="the same seed, the same words")
    parser.add_argument("--context", type=int, help="positions that there is room for; the model's, at most 4096")
    parser.add_argument("--cache", default="f16", help="how keys and values are kept: f16, bf16, f32")
    parser.add_argument("--device", help="where to run it")
    parser.add_argument("--info", action="store_true", help="say what the model is, and write nothing")


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    if options.prompt is not None and options.chat is not None:
        raise UsageError("-p and --chat are two things: give one of them")
    if options.most is not None and options.most < 1:
        raise UsageError(f"-n {options.most} is no number of words")
    start = time.perf_counter()
    model = load(options.file, context=options.context, cache=options.cache, device=options.device)
    if options.info:
        return _info(model)
    sampling = Sampling(
        options.temperature,
        options.top_k,
        options.top_p,
        options.min_p,
        repetition=options.repetition,
        seed=options.seed,
    )
    settings: dict[str, Any] = {"most": options.most, "stop": options.stop}
    system = [{"role": "system", "content": options.system}] if options.system else []
    if options.prompt is not None:
        pieces = model.generate(options.prompt, sampling, **settings)
    elif options.chat is not None:
        pieces = model.chat([*system, {"role": "user", "content": options.chat}], sampling, **settings)
    else:
        return _chat(model, sampling, settings, system, sys.stdin, options.json)
    text = _shown(pieces, options.json)
    return Answer({"text": text, "seconds": round(time.perf_counter() - start, 3)}, "")


def _shown(pieces: Iterable[str], is_quiet: bool) -> str:
    """Prints pieces as they come; all of them."""
    found = []
    for piece in pieces:
        found.append(piece)
        if not is_quiet:
            print(piece, end="", flush=True)
    if not is_quiet:
        print()
    return "".join(found)


def _chat(
    model: LanguageModel,
    sampling: Sampling,
    settings: dict[str, Any],
    system: list[dict[str, str]],
    lines: Iterable[str],
    is_quiet: bool,
) -> Answer:
    """A message a line, until there are none."""
    messages: list[dict[str, str]] = list(system)
    for line in _asked(lines):
        messages.append({"role": "user", "content": line})
        answer = _shown(model.chat(messages, sampling, **settings), is_quiet)
        messages.append({"role": "assistant", "content": answer})
    return Answer({"messages": messages}, "")


def _asked(lines: Iterable[str]) -> Iterator[str]:
    """Lines that have something, with a mark before each where a person types them."""
    is_person = sys.stdin is not None and sys.stdin.isatty()
    if is_person:
        print("> ", end="", file=sys.stderr, flush=True)
    for line in lines:
        if text := line.strip():
            yield text
        if is_person:
            print("> ", end="", file=sys.stderr, flush=True)


def _info(model: LanguageModel) -> Answer:
    c = model.config
    kinds: dict[str, int] = {}
    nbytes = parameters = 0
    for entry in model.entries.values():
        count = 1
        for size in entry.shape:
            count *= size
        kinds[entry.kind.name] = kinds.get(entry.kind.name, 0) + 1
        parameters += count
        nbytes += count // entry.kind.elements * entry.kind.nbytes
    data = {
        "family": c.family.name, "layers": c.layers, "width": c.width, "heads": c.heads, "shared": c.shared,
        "words": c.words, "context": c.context, "parameters": parameters, "nbytes": nbytes, "kinds": kinds,
    }  # fmt: skip
    text = [
        f"{c.family.name}: {spell_count(parameters, 'parameter')} in {spell_bytes(nbytes)}, "
        + ", ".join(f"{count} {name}" for name, count in sorted(kinds.items())),
        f"{c.layers} layers, {c.width} wide, {c.heads} heads, {c.shared} of keys and values",
        f"{c.words} words, made for {c.context} positions",
    ]
    return Answer(data, "\n".join(text))
