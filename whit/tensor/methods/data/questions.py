"""What can be asked of a tensor without computing it: its kind, its device, whether another is like it."""

from __future__ import annotations

from typing import Any

from whit.errors import ArgumentError
from whit.ir.op import spell_shape
from whit.tensor.core import Core
from whit.tensor.topic import Topic


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

    def is_complex(self) -> bool:
        """Whether the elements are complex (PyTorch)."""
        return False

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

    def tobytes(self) -> bytes:
        """The bytes of the elements, in row-major order (NumPy)."""
        return self.data().tobytes()

    def tofile(self, path: Any) -> None:
        """Writes the bytes of the elements to a file (NumPy)."""
        with open(path, "wb") as file:
            file.write(self.tobytes())
