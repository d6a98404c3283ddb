"""Writes `expected.json`: what PyTorch makes of each model, in float64. `python tests/models/record.py [NAME ...]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from models.table import CASES
from models.training import fingerprint, train_theirs

PATH = Path(__file__).with_name("expected.json")


def main() -> None:
    expected = json.loads(PATH.read_text()) if PATH.exists() else {}
    for case in CASES:
        if sys.argv[1:] and case.name not in sys.argv[1:]:
            continue
        found = train_theirs(case, "float64")
        expected[case.name] = {name: float(f"{fingerprint(name, x):.13e}") for name, x in found.items()}
    PATH.write_text(json.dumps(expected, indent=0) + "\n")


if __name__ == "__main__":
    main()
