"""Programs as text: C, LLVM and PTX, which are run where that is possible."""
