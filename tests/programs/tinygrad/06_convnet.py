"""Convolutions, batch norm, pooling in a list of layers."""

from whit import Context, Tensor, nn
from whit.nn.state import get_state_dict


class Model:
    def __init__(self):
        self.layers = [
            nn.Conv2d(1, 4, 3),
            Tensor.relu,
            nn.BatchNorm(4),
            Tensor.max_pool2d,
            lambda x: x.flatten(1),
            nn.Linear(4 * 9, 3),
        ]

    def __call__(self, x):
        return x.sequential(self.layers)


def main():
    model = Model()
    state = get_state_dict(model)
    for number, name in enumerate(sorted(state)):
        tensor = state[name]
        if "running" not in name and "num_batches" not in name:
            count = tensor.numel()
            tensor.assign((Tensor.arange(count).float() + number).sin().reshape(tensor.shape) * 0.3).realize()
    x = (Tensor.arange(128).float() * 0.37).cos().reshape(2, 1, 8, 8)
    out = model(x)
    with Context(TRAINING=1):
        trained = model(x)
        loss = trained.sparse_categorical_crossentropy(Tensor([0, 2]))
    return {
        "keys": sorted(state),
        "out": out.tolist(),
        "loss": loss.item(),
        "log": out.log_softmax().tolist(),
    }
