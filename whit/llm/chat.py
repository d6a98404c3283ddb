"""Chats as text: the model's own template by jinja2, sandboxed, or a built-in one of the common families.

    render([{"role": "user", "content": "Hello"}], template, vocabulary)
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"

Templates are programs out of a file: they run in jinja2's sandbox, without loaders, with a limit on what they may
print.
Without jinja2 (`pip install whit[llm]`) a template is recognised by the marks that it writes.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whit.errors import ArgumentError, NotSupportedError, ParseError
from whit.llm.tokenisers.vocabulary import Vocabulary
from whit.records import dataclass

Message = Mapping[str, Any]
MOST_TEMPLATE = 1 << 18  # letters
MOST_TEXT = 1 << 24  # letters that a template may make
MOST_STEPS = 100_000  # of range()


@dataclass(frozen=True)
class Format:
    """A built-in template: what stands around each message. `{role}` and `{text}` are replaced."""

    name: str
    mark: str  # which the family's templates contain
    message: str
    answer: str  # what an answer begins with
    first: str = ""
    roles: Mapping[str, str] | None = None  # under other names
    system: str | None = None  # a system message, if it is another; "": it is put before the first message
    assistant: str | None = None


FORMATS: tuple[Format, ...] = (
    Format("chatml", "<|im_start|>", "<|im_start|>{role}\n{text}<|im_end|>\n", "<|im_start|>assistant\n"),
    Format(
        "llama3", "<|start_header_id|>", "<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n", first="{bos}",
    ),
    Format(
        "gemma", "<start_of_turn>", "<start_of_turn>{role}\n{text}<end_of_turn>\n", "<start_of_turn>model\n",
        first="{bos}", roles={"assistant": "model"}, system="",
    ),
    Format(
        "command-r", "<|START_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|><|{role}|>{text}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", first="{bos}",
        roles={"user": "USER_TOKEN", "assistant": "CHATBOT_TOKEN", "system": "SYSTEM_TOKEN"},
    ),
    Format("phi3", "<|assistant|>", "<|{role}|>\n{text}<|end|>\n", "<|assistant|>\n"),
    Format("mistral", "[INST]", "[INST] {text} [/INST]", "", first="{bos}", system="", assistant="{text}{eos}"),
    Format(
        "deepseek", "<｜User｜>", "<｜User｜>{text}", "<｜Assistant｜>", first="{bos}", system="{text}",
        assistant="<｜Assistant｜>{text}<｜end▁of▁sentence｜>",
    ),
)  # fmt: skip


def checked(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages with a role and a text."""
    found = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ArgumentError(f"chat: {message!r:.80} is no message", fix='Give {"role": "user", "content": "..."}.')
        if not isinstance(message.get("content", ""), str):
            raise ArgumentError("chat: the content of a message is no text", fix="Give a str.")
        found.append(dict(message))
    if not found:
        raise ArgumentError("chat: there are no messages", fix='Give [{"role": "user", "content": "..."}].')
    return found


def render(
    messages: Iterable[Message], template: str | None, vocabulary: Vocabulary, *, adds_answer: bool = True
) -> str:
    """The text of a chat up to where the answer begins."""
    given = checked(messages)
    marks = {"bos": vocabulary.piece(vocabulary.first), "eos": vocabulary.piece(vocabulary.last)}
    if template is not None and importlib.util.find_spec("jinja2") is not None:
        return _by_jinja(given, template, marks, adds_answer)
    return built_in(given, format_of(template, vocabulary.words), marks, adds_answer)


def format_of(template: str | None, words: Sequence[str]) -> Format:
    """The built-in format whose mark a template, or without one the vocabulary, has."""
    for each in FORMATS:
        if each.mark in template if template is not None else each.mark in words:
            return each
    known = ", ".join(each.name for each in FORMATS)
    what = "the model has no chat template" if template is None else "the chat template is of no known kind"
    raise NotSupportedError(f"chat: {what}", f"built in: {known}", "Install jinja2 (whit[llm]), or use generate().")


def built_in(messages: list[dict[str, Any]], style: Format, marks: Mapping[str, str], adds_answer: bool) -> str:
    """By one of the rows above."""
    text, before = _marked(style.first, marks), ""
    roles = style.roles or {}
    for message in messages:
        role, content = message["role"], before + message.get("content", "")
        before = ""
        shape = style.message
        if role == "system" and style.system is not None:
            if not style.system:
                before = content + "\n\n"
                continue
            shape = style.system
        if role == "assistant" and style.assistant is not None:
            shape = style.assistant
        parts = _marked(shape, marks).partition("{text}")
        text += (
            (parts[0] + "\0" * bool(parts[1]) + parts[2])
            .replace("{role}", roles.get(role, role))
            .replace("\0", content)
        )
    return text + (_marked(style.answer, marks) if adds_answer else "")


def _marked(text: str, marks: Mapping[str, str]) -> str:
    return text.replace("{bos}", marks["bos"]).replace("{eos}", marks["eos"])


def _by_jinja(messages: list[dict[str, Any]], template: str, marks: Mapping[str, str], adds_answer: bool) -> str:
    if len(template) > MOST_TEMPLATE:
        raise ParseError(f"chat: the template has {len(template)} letters", f"at most {MOST_TEMPLATE}", "")
    jinja2 = importlib.import_module("jinja2")  # lazy: an extra
    sandbox = importlib.import_module("jinja2.sandbox")  # lazy: an extra

    def fail(text: object = "") -> None:
        raise ArgumentError(f"chat: the model's template refuses: {text!s:.200}", fix="Give other messages.")

    class Bounded(sandbox.ImmutableSandboxedEnvironment):  # type: ignore[name-defined,misc]  # loaded where it is needed
        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_growth(operator, left, right)
            return super().call_binop(context, operator, left, right)

    environment = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.globals |= {"raise_exception": fail, "strftime_now": lambda form: "", "range": _Counter().range}
    try:
        compiled = environment.from_string(template)
        pieces: list[str] = []
        size = 0
        values = {"messages": messages, "bos_token": marks["bos"], "eos_token": marks["eos"]}
        for piece in compiled.generate(**values, add_generation_prompt=adds_answer, tools=None):
            size += len(piece)
            if size > MOST_TEXT:
                raise ParseError("chat: the template writes without an end", f"more than {MOST_TEXT} letters", "")
            pieces.append(piece)
    except (
        jinja2.TemplateError,
        TypeError,
        ValueError,
        KeyError,
        OverflowError,
        RecursionError,
        ZeroDivisionError,
    ) as error:
        if isinstance(error, ArgumentError | ParseError):
            raise
        raise ParseError(
            "chat: the model's template fails", f"{type(error).__name__}: {error!s:.200}", "Give other messages."
        ) from error
    return "".join(pieces)


class _Counter:
    """How far all loops of a template have counted."""

    def __init__(self) -> None:
        self.steps = 0

    def range(self, *limits: int) -> range:
        """Python's, as long as there are not too many."""
        found = range(*limits)
        self.steps += len(found) + 1
        if self.steps > MOST_STEPS:
            raise ParseError(f"chat: the template counts to {self.steps}", f"at most {MOST_STEPS}", "")
        return found


def _check_growth(operator: str, left: Any, right: Any) -> None:
    """Products of texts and powers of numbers stay small."""
    if operator == "**":
        is_large = isinstance(right, int) and isinstance(left, int) and abs(right) * max(left.bit_length(), 1) > 4096
    else:
        sizes = [len(x) if isinstance(x, str | list | tuple) else 1 for x in (left, right)]
        times = [x for x in (left, right) if isinstance(x, int)]
        is_large = max(sizes) * max(times, default=1) > MOST_TEXT and max(sizes) > 1
    if is_large:
        raise ParseError(f"chat: the template computes something too large by {operator}", "", "Give other messages.")
