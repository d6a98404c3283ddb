"""Runs the examples of the pages that are written by hand, and puts what they print back into the pages."""

from pages import ROOT, publish, refreshed

PAGES = (
    "adding-a-backend.md",
    "adding-a-pass.md",
    "adding-an-op.md",
    "arrays.md",
    "complex.md",
    "devices.md",
    "dtypes.md",
    "index.md",
    "linalg.md",
    "migration.md",
    "random.md",
    "rules.md",
    "tutorial.md",
)

if __name__ == "__main__":
    for name in PAGES:
        publish(name, refreshed((ROOT / "docs" / name).read_text(), name))
