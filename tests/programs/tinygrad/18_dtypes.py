"""Types: casts, promotion, bitcasts, integer arithmetic."""

from whit import Tensor, dtypes


def main():
    i = Tensor([7, -7, 3], dtype=dtypes.int32)
    f = Tensor([1.9, -1.9], dtype=dtypes.float32)
    return {
        "divided": (i / 2).tolist(),
        "floor": (i // 2).tolist(),
        "mod": (i % 3).tolist(),
        "cast": f.cast(dtypes.int32).tolist(),
        "bits": Tensor([1.0]).bitcast(dtypes.uint32).tolist(),
        "bools": (i > 0).tolist(),
        "xor": (i ^ 1).tolist(),
        "shift": (Tensor([1, 2, 3]) << 2).tolist(),
        "promoted": (Tensor([1], dtype=dtypes.int8) + Tensor([1], dtype=dtypes.uint8)).dtype == dtypes.int16,
        "half": Tensor([65504.0, 0.1]).half().float().tolist(),
        "sum": Tensor([100] * 10, dtype=dtypes.uint8).sum().item(),
        "default": Tensor([1]).dtype == dtypes.int32 and Tensor([1.5]).dtype == dtypes.float32,
        "nan": Tensor([float("nan"), 1.0]).isnan().tolist(),
    }
