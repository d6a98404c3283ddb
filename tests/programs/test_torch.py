"""What whit.torch does by itself: modes, defaults, files, autograd functions, layers, wrong calls."""

import io
from typing import Any

import numpy as np
import pytest

from whit import dtypes, torch
from whit.errors import ArgumentError, DTypeError
from whit.torch import nn


def test_whole_numbers_are_int64_and_floats_the_default() -> None:
    assert torch.tensor([1, 2]).dtype is torch.int64 is dtypes.int64
    assert torch.tensor([1, 2.0]).dtype is torch.arange(0, 1, 0.5).dtype is torch.float32
    assert torch.arange(3).dtype is torch.full((2,), 7).dtype is torch.randint(5, (2,)).dtype is torch.long
    assert torch.tensor([True]).dtype is torch.bool


def test_what_is_made_takes_no_gradient_unless_asked() -> None:
    x, w = torch.randn(3), torch.zeros(3, requires_grad=True)
    ((x + w) ** 2).sum().backward()
    assert x.grad is None and w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * x.numpy(), rtol=1e-6)


def test_no_grad_cuts_what_is_computed_in_it() -> None:
    w = torch.tensor([2.0], requires_grad=True)
    with torch.no_grad():
        target = w * 3
        with torch.enable_grad():
            kept = w * 5
    ((w - target) * kept).sum().backward()
    # (w - 6) * 5 w: the gradient is 5 (w - 6) + 5 w
    assert w.grad.item() == 5 * (2 - 6) + 5 * 2
    assert torch.is_grad_enabled()


def test_no_grad_decorates_functions() -> None:
    w = torch.tensor([2.0], requires_grad=True)

    @torch.no_grad()
    def with_brackets() -> Any:
        return w * 2

    @torch.no_grad
    def without() -> Any:
        return w * 2

    (w * (with_brackets() + without())).sum().backward()
    assert w.grad.item() == 8
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)


def test_updates_under_no_grad_are_computed_at_its_end() -> None:
    from whit.ir import ops

    w = torch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        (w * w).sum().backward()
        with torch.no_grad():
            w -= 0.25 * w.grad
            w.grad = None
        assert w.uop.op is ops.BUFFER
    assert w.tolist() == [0.125, 0.25]


def test_layers_train_until_eval_and_their_weights_take_gradients() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    assert model.training and model[1].training and model[0].weight.requires_grad
    assert not model.eval()[1].training
    assert isinstance(model, nn.Module) and isinstance(nn.ReLU(), nn.Module)
    assert next(model.parameters()) is model[0].weight


def test_rows_of_a_lazy_tensor_are_gathered_by_the_loader() -> None:
    class Rows(torch.utils.data.Dataset):
        def __init__(self) -> None:
            self.data = torch.arange(12).reshape(6, 2) * 2

        def __len__(self) -> int:
            return 6

        def __getitem__(self, place: int) -> Any:
            return self.data[place], place

    batches = [(x.tolist(), y.tolist()) for x, y in torch.utils.data.DataLoader(Rows(), batch_size=4)]
    assert batches == [([[0, 2], [4, 6], [8, 10], [12, 14]], [0, 1, 2, 3]), ([[16, 18], [20, 22]], [4, 5])]


def test_a_checkpoint_is_what_was_saved() -> None:
    shared = torch.tensor([[1.5, -2.0]])
    saved = {
        "model": {"w": shared, "again": shared, "n": torch.tensor([3], dtype=torch.int8), "empty": torch.zeros(0, 2)},
        "lr": 0.5,
        "steps": [1, -7, 2**40, None, True],
        "name": "net",
        "pair": (1, "a"),
    }
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    found = torch.load(file)
    assert found["model"]["w"].tolist() == found["model"]["again"].tolist() == [[1.5, -2.0]]
    assert found["model"]["n"].dtype is torch.int8 and found["model"]["empty"].shape == (0, 2)
    assert [found[key] for key in ("lr", "steps", "name", "pair")] == [0.5, saved["steps"], "net", (1, "a")]
    with pytest.raises(ArgumentError, match=r"model\.state_dict"):
        torch.save(nn.Linear(1, 1), io.BytesIO())


def test_pytorch_reads_the_checkpoint() -> None:
    original = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save({"w": torch.tensor([[1.5], [2.5]]), "h": torch.ones(2).half(), "k": [1, "x"]}, file)
    file.seek(0)
    found = original.load(file, weights_only=True)
    assert found["w"].tolist() == [[1.5], [2.5]] and found["h"].dtype is original.float16 and found["k"] == [1, "x"]


def test_generators_draw_their_own_numbers() -> None:
    def draw() -> Any:
        return torch.rand(2, generator=torch.Generator().manual_seed(5)).tolist()

    torch.manual_seed(0)
    first = torch.rand(1).item()
    torch.manual_seed(0)
    assert draw() == draw()
    assert torch.rand(1).item() == first


def test_the_largest_along_an_axis_has_a_position() -> None:
    x = torch.tensor([[1.0, 5.0], [7.0, 2.0]])
    values, places = torch.max(x, 1)
    assert (values.tolist(), places.tolist(), torch.max(x).item()) == ([5, 7], [1, 0], 7)
    assert torch.max(x, torch.full((2, 2), 4.0)).tolist() == [[4, 5], [7, 4]]
    assert torch.min(x, dim=0).indices.tolist() == [0, 1]


def test_unused_inputs_of_grad_are_an_error_unless_allowed() -> None:
    x, y = torch.tensor([1.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    with pytest.raises(ArgumentError, match="do not depend on input 1"):
        torch.autograd.grad((x * x).sum(), [x, y])
    found = torch.autograd.grad((x * x).sum(), [x, y], allow_unused=True)
    assert found[0].item() == 2 and found[1] is None


def test_wrong_calls_say_what_to_do() -> None:
    for wrong in (lambda: torch.sin(1.0), lambda: torch.cat([1, 2]), lambda: torch.max([1.0])):
        with pytest.raises(ArgumentError, match=r"is no tensor[^$]*torch\.tensor"):
            wrong()
    with pytest.raises(ArgumentError, match="it takes \\(high, size\\)"):
        torch.randint(3, 4)
    with pytest.raises(DTypeError, match="is no float"):
        torch.set_default_dtype(torch.int32)
    half: Any = type("Half", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x)})
    with pytest.raises(ArgumentError, match="no backward"):
        half.apply(torch.ones(1))


@pytest.mark.cpu
def test_devices_compare_by_name() -> None:
    device = torch.device("cpu")
    assert device == "CPU" and torch.zeros(1).device == device and str(device) == "cpu" and device.type == "cpu"
    assert torch.zeros(1, device=device).to(device).device == "CPU"
    assert torch.device("cuda", 1) == "CUDA:1" and torch.device("cuda:1").index == 1
