"""The two checkouts of a comparison: the working tree as it is, and commits, whose sources are unpacked into a folder.

What was made with a checkout is kept under a digest of the sources of its package, so that a commit and a clean working
tree are the same, whatever else has changed.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKING_TREE = "the working tree"
PACKAGE = "whit"


class NoCommitError(Exception):
    """A commit that the repository does not have."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Sources of the package."""

    name: str
    folder: Path
    digest: str


def working_tree() -> Checkout:
    """What is in the folder now, committed or not."""
    return Checkout(WORKING_TREE, ROOT, digest_of(ROOT / PACKAGE))


def unpack(commit: str, folder: Path) -> Checkout:
    """The package of a commit, in a folder of its own."""
    found = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if not found:
        raise NoCommitError(f'there is no commit "{commit}" here: name another, or fetch it if this clone is shallow')
    name = found.decode().strip()
    target = folder / name[:12]
    archive = _git("archive", "--format=tar", name, PACKAGE)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")
    called = commit if name.startswith(commit) else f"{commit} ({name[:8]})"
    return Checkout(called, target, digest_of(target / PACKAGE))


def digest_of(package: Path) -> str:
    """Names and contents of all modules of a package."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\0".encode())
        found.update(path.read_bytes())
        found.update(b"\0")
    return found.hexdigest()[:32]


def _git(*arguments: str) -> bytes:
    """What git says; nothing if it fails."""
    result = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    return result.stdout if result.returncode == 0 else b""
