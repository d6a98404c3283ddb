"""A class with __call__ and Linear layers, Adam, sparse cross entropy."""

from whit import Context, Tensor, nn
from whit.nn.optim import Adam
from whit.nn.state import get_parameters


class Net:
    def __init__(self):
        self.l1 = nn.Linear(2, 16)
        self.l2 = nn.Linear(16, 2)

    def __call__(self, x):
        return self.l2(self.l1(x).tanh())


def main():
    Tensor.manual_seed(3)
    x = Tensor.rand(64, 2) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).cast("int32").realize()
    net = Net()
    opt = Adam(get_parameters(net), lr=0.05)
    losses = []
    with Context(TRAINING=1):
        for _ in range(40):
            opt.zero_grad()
            loss = net(x).sparse_categorical_crossentropy(y).backward()
            opt.step()
            losses.append(loss.item())
    accuracy = (net(x).argmax(axis=1) == y).mean().item()
    return {"falls": losses[-1] < 0.6 * losses[0], "accurate": accuracy > 0.8, "parameters": len(get_parameters(net))}
