"""Programs as C text: `text` writes them, `ops` spells elementwise ops."""
