"""The programs of a library, run under whit or under the library itself; their numbers, recorded and compared.

    python -m programs.run torch                 in tests/: the programs for PyTorch under whit
    python -m programs.run torch --record        under PyTorch itself: its numbers go to expected.json

A program imports its library by one line, which is all that is changed. `main()` gives names and values: numbers, text,
and lists of them. What is random it compares itself, and gives bools.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "expected.json"
# The path under whit -> the library itself.
IMPORTS = {"torch": "whit.torch", "jax": "whit.jax", "numpy": "whit.numpy", "tinygrad": "whit"}
LINE = re.compile(r"^(\s*)(import|from) (whit[\w.]*)", re.MULTILINE)


def programs(library: str) -> list[Path]:
    """The files of a library, in order."""
    return sorted((FOLDER / library).glob("[0-9]*.py"))


def run(path: Path, is_original: bool = False) -> Any:
    """What the program's `main` gives; under the library itself, if asked."""
    source = path.read_text("utf-8")
    if is_original:
        ours = IMPORTS[path.parent.name]
        source = LINE.sub(lambda found: found[0].replace(ours, path.parent.name, 1), source)
    space: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(source, str(path), "exec"), space)
    return space["main"]()


def differences(found: Any, wanted: Any, tolerance: float, place: str = "") -> list[str]:
    """Where two results differ."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        if list(found) != list(wanted):
            return [f"{place}: {list(found)} for {list(wanted)}"]
        return [line for key in wanted for line in differences(found[key], wanted[key], tolerance, f"{place}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list | tuple):
        if len(found) != len(wanted):
            return [f"{place}: {len(found)} values for {len(wanted)}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [line for i, pair in pairs for line in differences(*pair, tolerance, f"{place}[{i}]")]
    if isinstance(wanted, float) and isinstance(found, int | float) and not isinstance(found, bool):
        is_near = found == wanted or (found != found and wanted != wanted)
        is_near = is_near or abs(found - wanted) <= tolerance * (1 + abs(wanted))
        return [] if is_near else [f"{place}: {found} for {wanted}"]
    is_same = type(found) is type(wanted) and found == wanted
    return [] if is_same else [f"{place}: {found!r} for {wanted!r}"]


def main(library: str, options: list[str]) -> None:
    """Runs, and records or compares."""
    recorded = json.loads(EXPECTED.read_text("utf-8")) if EXPECTED.exists() else {}
    names = [option for option in options if not option.startswith("-")]
    for path in programs(library):
        if names and not any(name in path.stem for name in names):
            continue
        start = time.perf_counter()
        try:
            result = json.loads(json.dumps(run(path, "--record" in options)))
        except Exception as error:  # all programs are tried
            print(f"{path.stem}: {type(error).__name__}: {error}")
            if "--raise" in options:
                raise
            continue
        seconds = time.perf_counter() - start
        if "--record" in options:
            recorded.setdefault(library, {})[path.stem] = result
            print(f"{path.stem}: {seconds:.2f} s  {result}")
            continue
        problems = differences(result, recorded[library][path.stem], 1e-4)
        print(f"{path.stem}: {seconds:.2f} s  {problems or 'the same'}")
    if "--record" in options:
        EXPECTED.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
