"""Contexts, devices, counters, embeddings, dropout."""

from whit import Context, Device, GlobalCounters, Tensor, nn


def main():
    GlobalCounters.reset()
    (Tensor.arange(10) + 1).realize()
    kernels = GlobalCounters.kernel_count
    with Context(DEBUG=0):
        value = Tensor([1.0, 2.0]).to(Device.DEFAULT).sum().item()
    table = nn.Embedding(5, 2)
    table.weight.assign(Tensor.arange(10).float().reshape(5, 2)).realize()
    x = Tensor.ones(1000)
    with Context(TRAINING=1):
        dropped = x.dropout(0.5)
        share = (dropped == 0).float().mean().item()
    kept = x.dropout(0.5).sum().item()
    norm = nn.RMSNorm(4)
    return {
        "kernels": kernels <= 1,
        "value": value,
        "rows": table(Tensor([[4, 0]])).tolist(),
        "share": 0.4 < share < 0.6,
        "kept": kept,
        "norm": norm(Tensor([[1.0, 2.0, 3.0, 4.0]])).tolist(),
        "group": nn.GroupNorm(2, 4)(Tensor.arange(8).float().reshape(1, 4, 2)).flatten()[0].item(),
    }
