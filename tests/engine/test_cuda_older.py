"""Code for GPUs that are older than the one that is here, which runs it, too: sm_75 has instructions of its own."""

from collections.abc import Iterator

import numpy as np
import pytest
from gpus import needs_gpu

from whit import Device, Tensor, TinyJit, clear_caches, nn
from whit.dtype import DType, dtypes
from whit.target import parse_target

pytestmark = needs_gpu
rng = np.random.default_rng(0)
F16, BF16, F32, I8, U8 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.int8, dtypes.uint8
ERRORS = {F16: 1e-3, BF16: 8e-3, F32: 1e-6, I8: 0.0, U8: 0.0}
TARGET = parse_target("CUDA:PTX:sm_75")


@pytest.fixture(autouse=True)
def turing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The device as if it were one of Turing."""
    clear_caches()
    device = Device["CUDA"]
    with monkeypatch.context() as patch:
        patch.setattr(device, "target", TARGET)
        patch.setattr(device.gpu, "starts_early", False)  # type: ignore[attr-defined]
        yield
        assert Device["CUDA"].target is TARGET
    clear_caches()


def numbers(*shape: int, dtype: DType) -> Tensor:
    low = 0 if dtype is U8 else -8
    array = rng.standard_normal(shape) if dtype.is_float else rng.integers(low, 8, shape)
    return Tensor(array.astype(np.float32), device="CUDA").cast(dtype).realize()


def is_close(found: Tensor, right: np.ndarray, dtype: DType) -> bool:
    array = found.cast(dtypes.float64).numpy()
    return bool(np.abs(array - right).max() <= ERRORS[dtype] * np.abs(right).max())


@pytest.mark.parametrize("dtype", ERRORS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("sizes", [(256, 256, 512), (333, 335, 337), (16, 1024, 512), (1, 512, 1024)], ids=str)
def test_products(dtype: DType, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    for a, b in (
        (numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)),
        (numbers(k, m, dtype=dtype).T, numbers(n, k, dtype=dtype).T),
    ):
        right = a.cast(dtypes.float64).numpy() @ b.cast(dtypes.float64).numpy()
        assert is_close(a @ b, right, dtype)


@pytest.mark.parametrize(("dtype", "depth"), [(F16, 64), (F16, 256), (BF16, 64)], ids=str)
def test_attention(dtype: DType, depth: int) -> None:
    given = [numbers(2, 150, depth, dtype=dtype) for _ in range(4)]
    results = []
    for q, k, v, g in (given, [Tensor(t.float().numpy(), device="CPU") for t in given]):
        out = q.scaled_dot_product_attention(k, v, is_causal=True)
        assert q.device == "CPU" or ("by tensor cores" in out.explain()) == (dtype is F16)
        results.append([out, *out.gradient(q, k, v, gradient=g)])
    for found, right in zip(*results, strict=True):
        assert is_close(found, right.numpy(), dtype)


def test_a_convolution_is_trained() -> None:
    rng = np.random.default_rng(1)
    x, labels = rng.standard_normal((4, 8, 16, 16)).astype(np.float32), rng.integers(0, 10, 4)
    weights = [rng.standard_normal(shape).astype(np.float32) * 0.1 for shape in ((32, 8, 3, 3), (2048, 10))]
    results = []
    for device in ("CUDA", "CPU"):
        image, label = Tensor(x, device=device).cast(F16), Tensor(labels.astype(np.int32), device=device)
        w, v = (Tensor(array, device=device, requires_grad=True).realize() for array in weights)
        optimizer = nn.optim.SGD([w, v], 0.01)

        @TinyJit
        def step() -> Tensor:
            with Tensor.train():
                optimizer.zero_grad()  # noqa: B023
                y = image.conv2d(w.cast(F16), padding=1, stride=2).relu().flatten(1) @ v.cast(F16)  # noqa: B023
                loss = y.float().cross_entropy(label).backward()  # noqa: B023
                optimizer.step()  # noqa: B023
            return loss.realize()

        results.append([step().item() for _ in range(4)])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-2, atol=1e-3)
    assert results[0][-1] < results[0][0] / 2
