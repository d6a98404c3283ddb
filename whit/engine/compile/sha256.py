"""SHA-256 of texts and of files in the cache, without OpenSSL as long as there is little to read.

    sha256(b"a text").hex()

`hashlib` loads OpenSSL, which takes 2 ms of the 50 that a first kernel does; Python has the same function besides,
which reads a fifth as many bytes in a second.
"""

from __future__ import annotations

try:
    from _sha2 import sha256 as _of_python  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256 as _of_python  # type: ignore[import-not-found]  # in Python 3.11
    except ImportError:  # a Python that is built to have none but OpenSSL's
        _of_python = None

MOST_BYTES = 1 << 18  # from here on OpenSSL is faster even if it has to be loaded


def sha256(data: bytes) -> bytes:
    """The digest of bytes, 32 of them."""
    if _of_python is not None and len(data) < MOST_BYTES:
        digest: bytes = _of_python(data).digest()
        return digest
    import hashlib  # lazy: see above

    return hashlib.sha256(data).digest()
