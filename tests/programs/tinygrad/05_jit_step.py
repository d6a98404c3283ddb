"""A training step under TinyJit."""

from whit import Context, Tensor, TinyJit, nn


def main():
    Tensor.manual_seed(1)
    layer = nn.Linear(3, 1, bias=False)
    layer.weight.assign(Tensor([[0.1, 0.2, 0.3]])).realize()
    opt = nn.optim.SGD([layer.weight], lr=0.1)

    @TinyJit
    def step(x, y):
        with Context(TRAINING=1):
            opt.zero_grad()
            loss = (layer(x) - y).square().mean().backward()
            return loss.realize(*opt.schedule_step())

    losses = []
    for i in range(6):
        rows = [[0.1 * (3 * r + c) + 0.01 * i for c in range(3)] for r in range(4)]
        x = Tensor(rows).realize()
        y = Tensor([[sum(row)] for row in rows]).realize()
        losses.append(step(x, y).item())
    return {"losses": losses, "weight": layer.weight.tolist()}
