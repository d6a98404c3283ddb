"""Wrong calls are caught by the except clauses of programs for PyTorch, NumPy and tinygrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from whit import Context, Device, Tensor, TinyJit, Variable, dtypes, nn
from whit.errors import WhitError
from whit.nn import functional as F

ones, linear = Tensor.ones, nn.Linear
state = {"weight": Tensor.ones(2, 2), "bias": Tensor.ones(2)}

# What a program does, and what it catches: for PyTorch, for NumPy or tinygrad.
CALLS: dict[str, tuple[Callable[[], Any], tuple[type[Exception], ...]]] = {
    "shapes that do not broadcast": (lambda: ones(4, 3) + ones(4, 2), (RuntimeError, ValueError)),
    "a product of shapes that do not fit": (lambda: ones(4, 3) @ ones(4, 2), (RuntimeError, ValueError)),
    "a view of another number of elements": (lambda: ones(4, 3).view(5, 3), (RuntimeError, ValueError)),
    "two sizes left open": (lambda: ones(4, 3).reshape(-1, -1), (RuntimeError, ValueError)),
    "an axis that is not there": (lambda: ones(4, 3).sum(5), (IndexError, ValueError)),
    "a position that is not there": (lambda: ones(4, 3)[7], (IndexError,)),
    "too many positions": (lambda: ones(4, 3)[0, 0, 0], (IndexError,)),
    "one number of many": (lambda: ones(4, 3).item(), (RuntimeError, ValueError)),
    "the truth of many": (lambda: bool(ones(4, 3)), (RuntimeError, ValueError)),
    "a float of many": (lambda: float(ones(2)), (RuntimeError, ValueError)),
    "cat of shapes that differ": (lambda: Tensor.cat([ones(2, 3), ones(2, 4)], 0), (RuntimeError, ValueError)),
    "cat of nothing": (lambda: Tensor.cat([]), (RuntimeError, ValueError)),
    "stack of shapes that differ": (lambda: Tensor.stack([ones(2), ones(3)]), (RuntimeError, ValueError)),
    "an axis twice": (lambda: ones(2, 3).permute(0, 0), (RuntimeError, ValueError)),
    "expand of an axis that is not 1": (lambda: ones(2, 3).expand(4, 3), (RuntimeError, ValueError)),
    "pieces that are not all": (lambda: ones(4).split([1, 2]), (RuntimeError, ValueError)),
    "positions that are floats": (lambda: ones(4).gather(0, ones(4)), (RuntimeError, TypeError)),
    "a table at floats": (lambda: nn.Embedding(3, 4)(ones(2)), (RuntimeError, TypeError)),
    "an argument that is not there": (lambda: ones(4).sum(foo=1), (TypeError,)),  # type: ignore[call-arg]
    "a string beside a tensor": (lambda: ones(4) + "a", (TypeError,)),
    "an attribute that is not there": (lambda: ones(4).foo, (AttributeError,)),  # type: ignore[attr-defined]
    "a dtype that is not there": (lambda: ones(4).cast("foo"), (TypeError, RuntimeError)),
    "a device that is not there": (lambda: ones(4).to("foo"), (RuntimeError, ValueError)),
    "a setting of the wrong kind": (lambda: Context(DEBUG="many"), (ValueError, TypeError)),
    "the wrong number of features": (lambda: linear(3, 4)(ones(2, 5)), (RuntimeError,)),
    "the wrong number of channels": (lambda: nn.Conv2d(3, 4, 3)(ones(1, 2, 8, 8)), (RuntimeError,)),
    "a window that is too large": (lambda: nn.Conv2d(3, 4, 9)(ones(1, 3, 4, 4)), (RuntimeError,)),
    "a loss of batches that differ": (lambda: F.cross_entropy(ones(4, 3), ones(5).int()), (ValueError, RuntimeError)),
    "a reduction that is not there": (lambda: F.mse_loss(ones(4), ones(4), reduction="all"), (ValueError,)),
    "a probability above 1": (lambda: nn.Dropout(2.0), (ValueError,)),
    "groups that do not divide": (lambda: nn.GroupNorm(3, 4), (ValueError,)),
    "states of other shapes": (lambda: linear(3, 3).load_state_dict(state), (RuntimeError,)),
    "states of other names": (lambda: linear(2, 2).load_state_dict({"w": ones(2)}), (RuntimeError, KeyError)),
    "a layer that is not there": (lambda: linear(2, 2).get_submodule("foo"), (AttributeError,)),
    "gradients of many": (lambda: (ones(3) * 2).backward(), (RuntimeError,)),
    "gradients of integers": (lambda: ones(3).int().sum().backward(), (RuntimeError,)),
    "an optimiser of nothing": (lambda: nn.optim.SGD([], lr=0.1), (ValueError,)),
    "an optimiser of no tensors": (lambda: nn.optim.SGD([3], lr=0.1), (TypeError,)),
    "a negative rate": (lambda: nn.optim.Adam([ones(2)], lr=-1), (ValueError,)),
    "a file that is not there": (lambda: nn.state.torch_load("/nowhere.pt"), (FileNotFoundError, OSError)),
    "an inverse of no square": (lambda: ones(2, 3).inverse(), (RuntimeError, ValueError)),
    "terms that do not fit": (lambda: Tensor.einsum("ij,jk", ones(2, 3), ones(4, 5)), (RuntimeError, ValueError)),
    "terms that are none": (lambda: Tensor.einsum("i!", ones(2)), (RuntimeError, ValueError)),
    "more of the largest than there are": (lambda: ones(3).topk(5), (RuntimeError, IndexError)),
    "the largest of nothing": (lambda: ones(0).max(), (RuntimeError, ValueError)),
    "a size below 0": (lambda: ones(-1), (RuntimeError, ValueError)),
    "a size that is no number": (lambda: ones("a"), (TypeError,)),
    "a range of no step": (lambda: Tensor.arange(0, 3, 0), (RuntimeError, ValueError)),
    "rows of different lengths": (lambda: Tensor([[1], [1, 2]]), (ValueError,)),
    "a value of another shape": (lambda: ones(3).contiguous().__setitem__(slice(None), ones(2)), (ValueError,)),
    "the length of a number": (lambda: len(ones()), (TypeError,)),
    "floats into integers": (lambda: ones(3).int().contiguous().__iadd__(ones(3)), (RuntimeError, TypeError)),
    "bits of floats": (lambda: ones(3) << 1, (RuntimeError, TypeError)),
    "a mode that is not there": (lambda: ones(3).pad((1, 1), mode="foo"), (RuntimeError, ValueError)),
    "values outside of an option": (lambda: ones(3).quantile(2.0), (RuntimeError, ValueError)),
    "a file of another kind": (lambda: nn.state.safe_load(Tensor(b"no file")), (ValueError, RuntimeError)),
    "a variable outside of its bounds": (lambda: Variable("n", 1, 3).bind(9), (ValueError, IndexError)),
    "a value inside of a capture": (lambda: TinyJit(lambda x: x.item())(ones(1).realize()), (RuntimeError,)),
    "a device that cannot be opened": (lambda: Device["FOO"], (RuntimeError,)),
    "an integer dtype for weights": (lambda: linear(2, 2, dtype=dtypes.int32), (TypeError, RuntimeError)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_caught_by_what_users_of_other_libraries_write(name: str) -> None:
    call, caught = CALLS[name]
    with pytest.raises(caught[0]) as error:
        call()
    assert all(isinstance(error.value, kind) for kind in caught), error.value
    assert isinstance(error.value, WhitError) or caught in ((TypeError,), (AttributeError,))
