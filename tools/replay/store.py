"""What is known already: the kernels of each piece of work by each checkout, and the texts, each once.

One SQLite file in whit's cache folder. Records are found under a digest of the checkout's sources, the work and the
target; texts under their own digest, so that checkouts with the same kernels share them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from pathlib import Path
from typing import Any

KEPT = 12  # checkouts; those that were used longest ago are forgotten


def default_folder() -> Path:
    """The folder of whit's caches."""
    chosen = os.environ.get("CACHE_DIR")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "whit") / "replay"


class Store:
    """Records and texts on disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(folder / "kernels.db", timeout=60)
        self.db.executescript(
            """
            create table if not exists sides (side text primary key, used real);
            create table if not exists records (side text, work text, target text, record text,
                                                primary key (side, work, target)) without rowid;
            create table if not exists texts (digest text primary key, text blob) without rowid;
            """
        )

    def begin(self, side: str) -> None:
        """Notes that a side is used, and forgets others."""
        with self.db:
            self.db.execute("insert or replace into sides values (?, julianday('now'))", (side,))
            old = self.db.execute("select side from sides order by used desc limit -1 offset ?", (KEPT,)).fetchall()
            for row in old:
                self.db.execute("delete from records where side = ?", row)
                self.db.execute("delete from sides where side = ?", row)
            if old:
                self._forget_texts()

    def _forget_texts(self) -> None:
        """Texts of no record."""
        used = {
            kernel[0]
            for (record,) in self.db.execute("select record from records")
            for kernel in json.loads(record)["kernels"]
        }
        gone = [row for row in self.db.execute("select digest from texts") if row[0] not in used]
        self.db.executemany("delete from texts where digest = ?", gone)

    def records(self, side: str) -> dict[tuple[str, str], dict[str, Any]]:
        """All that is known of a side, by work and target."""
        rows = self.db.execute("select work, target, record from records where side = ?", (side,))
        return {(work, target): json.loads(record) for work, target, record in rows}

    def keep(self, side: str, work: str, records: dict[str, dict[str, Any]], texts: dict[str, bytes]) -> None:
        """Adds the kernels of a piece of work, and texts, which are compressed."""
        with self.db:
            rows = [(side, work, target, json.dumps(record)) for target, record in records.items()]
            self.db.executemany("insert or replace into records values (?, ?, ?, ?)", rows)
            self.db.executemany("insert or ignore into texts values (?, ?)", list(texts.items()))

    def text(self, digest: str) -> str:
        """A text; empty if there is none, as of a kernel that raised an error."""
        row = self.db.execute("select text from texts where digest = ?", (digest,)).fetchone()
        return "" if row is None else zlib.decompress(row[0]).decode()
