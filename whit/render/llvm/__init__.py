"""Programs as LLVM IR text: `text` writes them, `ops` spells elementwise ops, `values` types, numbers and names."""
