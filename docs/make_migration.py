"""Puts the tables of names into docs/migration.md: what PyTorch, NumPy and tinygrad have, is it here, and the same."""

from names_of_others import MISSING, NOT_HERE, SAME, UNTRIED, Name, coverage, read
from pages import ROOT, publish

BEGIN = "<!-- The rest is made of docs/names/ by docs/make_migration.py. -->"
TITLES = {
    "pytorch": "PyTorch: methods of tensors",
    "torch": "PyTorch: functions of torch",
    "jax": "JAX: jax, and its lax, nn, random and tree",
    "numpy": "NumPy: functions, and methods of arrays",
    "arrayapi": "The Python Array API standard 2024.12: `whit.numpy`, attributes and operators of arrays",
    "tinygrad": "tinygrad: public names",
}
HEAD = """\
## Every name

What each library has, by the files in `docs/names/`. A name that was tested was called with arguments of every dtype
that the original takes, and what it gave was compared: values, and the gradients of PyTorch. The tests are
`tests/tensor/test_pytorch_names.py`, `test_numpy_names.py`, `test_tinygrad_names.py`, and `tests/programs/`; for the
standard, and for NumPy's functions as functions of `whit.numpy`, those of `tests/arrays/` ([arrays](arrays.md)).
"""
COLUMNS = "| name | here | tested against the original | differs how, or why |\n|---|---|---|---|"


def summary(libraries: dict[str, list[Name]]) -> str:
    """How many names of each library are here."""
    rows = ["| library | names that make sense | here | tested against it |", "|---|---|---|---|"]
    for library, names in libraries.items():
        here, sensible = coverage(names)
        tested = sum(name.kind == SAME for name in names)
        rows.append(f"| {TITLES[library]} | {sensible} | {here} ({here / sensible:.1%}) | {tested or 'by meaning'} |")
    return "\n".join(rows) + "\n"


def table(names: list[Name]) -> str:
    """A row for names that have one thing to say about them."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        groups.setdefault((name.kind, name.words), []).append(name.name)
    order = {SAME: 0, UNTRIED: 1, MISSING: 2, NOT_HERE: 3}
    rows = [COLUMNS]
    for (kind, words), same in sorted(groups.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        here = {SAME: "yes", UNTRIED: "yes", MISSING: "not yet", NOT_HERE: "no"}[kind]
        listed = ", ".join(f"`{name}`" for name in same)
        rows.append(f"| {listed} | {here} | {'yes' if kind == SAME else ''} | {words} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with its tables."""
    written = (ROOT / "docs" / "migration.md").read_text().partition(BEGIN)[0].rstrip()
    libraries = {library: read(library) for library in TITLES}
    parts = [written + "\n", BEGIN + "\n", HEAD, summary(libraries)]
    for library, names in libraries.items():
        parts += [f"### {TITLES[library]}\n", table(names)]
    return "\n".join(parts)


if __name__ == "__main__":
    publish("migration.md", page())
