"""`import whit` is light: it loads no array library and no backend."""

import subprocess
import sys

HEAVY = ("numpy", "ml_dtypes", "llvmlite", "whit.codegen", "whit.render", "whit.runtime", "whit.cli", "argparse")


def test_import_loads_no_backend_and_no_array_library() -> None:
    program = "import sys, whit; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "whit.config" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []
