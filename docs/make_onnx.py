"""Writes the second half of docs/onnx.md: the operators that there are, in which versions, and how they are tested."""

from __future__ import annotations

from pages import ROOT, publish

from whit.onnx.control import FUNCTIONS
from whit.onnx.operators.registry import known_operators

START = "<!-- generated from here on: docs/make_onnx.py -->"
DOMAINS = {"": "ai.onnx"}
RESULTS = ROOT / "tests/onnx_models/results.txt"
REAL = ROOT / "tests/onnx_models/real.txt"

# Why a test of the standard fails.
REASONS = {
    "test_bernoulli": "random numbers: the test compares with those of NumPy's generator",
    "test_dft_inverse": "what is 0 exactly is 0 here; the test wants the rounding error of its own transform, 1.9e-7",
}


def results() -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Tests that passed, and all of them, by operator; the names of those that failed."""
    found: dict[str, tuple[int, int]] = {}
    failed: list[str] = []
    for line in RESULTS.read_text().splitlines():
        if line.startswith("failed "):
            failed.append(line.removeprefix("failed "))
        else:
            name, passed, total = line.rsplit(" ", 2)
            found[name] = int(passed), int(total)
    return found, failed


def reason_of(name: str) -> str:
    """Why a test fails; an error if nobody has said so."""
    found = [reason for start, reason in REASONS.items() if name.startswith(start)]
    if not found:
        raise SystemExit(f"make_onnx: why does {name} fail? Say so in REASONS.")
    return found[0]


def versions() -> dict[tuple[str, str], set[int]]:
    """The versions of each operator, by domain and name."""
    found: dict[tuple[str, str], set[int]] = {}
    for record in known_operators():
        found.setdefault((DOMAINS.get(record.domain, record.domain), record.op_type), set()).update(record.since)
    for domain, name in FUNCTIONS:
        found.setdefault((DOMAINS.get(domain, domain), name), set())
    return found


def table() -> str:
    """The list of operators."""
    tested, failed = results()
    passed, total = tested["all"]
    parts = [
        f"Of {total} tests of onnx 1.22, {passed} pass ({100 * passed / total:.1f} %). The others:",
        "",
        *(f"- `{name}`: {reason_of(name)}" for name in sorted(failed)),
        "",
        "The version of an operator is that of the standard since which it is as it is; a model that asks for another",
        "one gets the newest that is not above it. The last column counts the standard's tests in which an operator",
        "is: those that pass, of all.",
        "",
    ]
    known = versions()
    for domain in sorted({domain for domain, _ in known}):
        parts += [f"### {domain}", "", "| operator | versions | tests |", "|---|---|---|"]
        for name in sorted(name for where, name in known if where == domain):
            count = tested.get(f"{domain} {name}")
            shown = "" if count is None else f"{count[0]} of {count[1]}"
            since = ", ".join(map(str, sorted(known[domain, name]))) or "all"
            parts.append(f"| `{name}` | {since} | {shown} |")
        parts.append("")
    return "\n".join([*parts, *real()])


def real() -> list[str]:
    """Models that people use, and how far they are from onnxruntime."""
    rows = [line.split("\t") for line in REAL.read_text().splitlines()]
    return [
        "## Models that people use",
        "",
        "By `make onnx-real`: the package and the file, and the worst difference of an output from onnxruntime's, as a",
        "part of its largest value (of models that round to 8 bits on the way, of each node alone, or the mean of all",
        "differences); then questions, and what the models answer.",
        "",
        "| model | difference |",
        "|---|---|",
        *(f"| {name} | {found} |" for name, found in rows),
        "",
    ]


def page() -> str:
    """The page: what is written by hand, then the table."""
    text = (ROOT / "docs/onnx.md").read_text()
    return f"{text.partition(START)[0]}{START}\n\n{table()}"


if __name__ == "__main__":
    publish("onnx.md", page())
