"""`torch.backends`: switches of other libraries, that programs set. They change nothing here."""

from __future__ import annotations

from types import SimpleNamespace

cudnn = SimpleNamespace(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
mkldnn = SimpleNamespace(enabled=False, is_available=lambda: False)
