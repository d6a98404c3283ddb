"""What can be asked of a tensor without computing it: its kind, its device, whether another is like it."""

from __future__ import annotations

from math import prod
from typing import Any, Self

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.sizes import reach
from whit.ir.uop import UOp
from whit.tensor.core import Core, check_gradient
from whit.tensor.engine import linear_of
from whit.tensor.topic import Topic

_DIGESTS = {"sha3_224": 0, "sha3_256": 0, "sha3_384": 0, "sha3_512": 0, "shake_128": 16, "shake_256": 32}  # bytes
_BY_RATE = {
    (144, 6): "sha3_224",
    (136, 6): "sha3_256",
    (168, 31): "shake_128",
}  # (bytes a block, the end of the message)


def digest(kind: str | tuple[int, int], data: bytes) -> bytes:
    """The digest of bytes by one of these functions."""
    name = _BY_RATE.get(kind, "") if isinstance(kind, tuple) else kind
    if name not in _DIGESTS:
        raise ArgumentError(f"keccak: there is no {kind!r}", fix=f"Use one of {', '.join(_DIGESTS)}.")
    import hashlib  # lazy: few programs need it

    made: Any = hashlib.new(name, data)
    found: bytes = made.digest(_DIGESTS[name]) if _DIGESTS[name] else made.digest()
    return found


class Questions(Topic):
    """Names of PyTorch and NumPy for what shape, dtype and device say."""

    __slots__ = ()

    @property
    def itemsize(self) -> int:
        """Bytes of one element (NumPy, PyTorch)."""
        return self.dtype.itemsize

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU (PyTorch)."""
        return self.device.partition(":")[0] == "CUDA"

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are in the machine's own memory (PyTorch)."""
        return self.device.partition(":")[0] in ("CPU", "PYTHON")

    def get_device(self) -> int:
        """The number of the GPU; -1 of what is on none (PyTorch)."""
        number = self.device.partition(":")[2]
        return -1 if not self.is_cuda else int(number) if number.isdecimal() else 0

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers (PyTorch)."""
        return not (self.dtype.is_unsigned or self.dtype.is_bool)

    def is_conj(self) -> bool:
        """Whether a conjugate is still to be taken: never (PyTorch)."""
        return False

    def is_neg(self) -> bool:
        """Whether a sign is still to be changed: never (PyTorch)."""
        return False

    def is_inference(self) -> bool:
        """Whether gradients are ruled out: never (PyTorch)."""
        return False

    def is_same_size(self, other: Core) -> bool:
        """Whether the shapes are equal (PyTorch)."""
        return self.shape == other.shape

    def is_set_to(self, tensor: Core) -> bool:
        """Whether it shows the same elements in the same way: a write to one is one to the other (PyTorch)."""
        shared = tensor is self or (self._family is not None and self._family is tensor._family)
        return shared and self.uop is tensor.uop

    def is_nonzero(self) -> bool:
        """Whether the one element is not zero (PyTorch)."""
        if self.numel() != 1:
            raise ArgumentError(
                f"is_nonzero: shape {spell_shape(self.shape)} is not one element",
                self._made(),
                "Use any() or all().",
            )
        return bool(self)

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The shape, sizes that depend on variables being as large as they can be (tinygrad)."""
        return tuple(size if isinstance(size, int) else int(reach(size)[1] or 0) for size in self.shape)

    @property
    def is_param(self) -> bool:
        """Whether it was said to be a parameter: `requires_grad` is True (tinygrad)."""
        return self.requires_grad is True

    def is_param_(self, is_param: bool = True) -> Self:
        """Says whether it is a parameter (tinygrad)."""
        check_gradient(is_param, self.dtype)
        self.requires_grad = is_param
        return self

    def keccak(self, cfg: str | tuple[int, int] = "sha3_256") -> Self:
        """The digest of the bytes along the last axis, by SHA-3 or SHAKE: uint8. Computed at once (tinygrad)."""
        data = self.to("CPU").bitcast("uint8") if self.dtype.itemsize == 1 else self.to("CPU")
        if not data.shape:
            raise ShapeError("keccak: a tensor of shape () has no axis", self._made(), "Use one axis or more.")
        row = data.shape[-1] * data.dtype.itemsize
        raw = data.tobytes()
        rows = prod(data.shape[:-1])
        found = b"".join(digest(cfg, raw[i * row : (i + 1) * row]) for i in range(rows))
        size = len(digest(cfg, b""))
        result = type(self)(found, dtype="uint8", device=self._in_memory())
        return result.reshape((*self.shape[:-1], size))

    def hash(self) -> Self:
        """16 bytes that depend on all bytes of the tensor: SHAKE128. Computed at once (tinygrad)."""
        return type(self)(digest("shake_128", self.tobytes()), dtype="uint8", device=self._in_memory())

    def schedule_linear(self, *lst: Core) -> UOp:
        """The ordered list of calls of kernels that `realize` would run for this tensor and others (tinygrad)."""
        return linear_of([self.uop, *(tensor.uop for tensor in lst)], self._wanted)

    def tobytes(self) -> bytes:
        """The bytes of the elements, in row-major order (NumPy)."""
        return self.data().tobytes()

    def tofile(self, path: Any) -> None:
        """Writes the bytes of the elements to a file (NumPy)."""
        with open(path, "wb") as file:
            file.write(self.tobytes())
