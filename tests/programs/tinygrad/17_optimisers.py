"""Steps of SGD with momentum, Adam, AdamW, LAMB on one problem."""

from whit import Context, Tensor, nn


def descend(make):
    w = Tensor([1.0, -2.0, 3.0])
    opt = make([w])
    target = Tensor([0.5, 0.5, 0.5])
    with Context(TRAINING=1):
        for _ in range(5):
            opt.zero_grad()
            (w - target).square().sum().backward()
            opt.step()
    return w.tolist()


def main():
    return {
        "sgd": descend(lambda p: nn.optim.SGD(p, lr=0.1)),
        "momentum": descend(lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9)),
        "nesterov": descend(lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)),
        "adam": descend(lambda p: nn.optim.Adam(p, lr=0.1)),
        "adamw": descend(lambda p: nn.optim.AdamW(p, lr=0.1, weight_decay=0.1)),
        "lamb": descend(lambda p: nn.optim.LAMB(p, lr=0.01)),
    }
