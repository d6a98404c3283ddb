"""An LSTM cell over a sequence, with fixed weights."""

from whit import Tensor, nn


def main():
    cell = nn.LSTMCell(3, 4)
    for number, name in enumerate(("weight_ih", "weight_hh", "bias_ih", "bias_hh")):
        tensor = getattr(cell, name)
        tensor.assign(
            (Tensor.arange(tensor.numel()).float() * 0.5 + number).sin().reshape(tensor.shape) * 0.4
        ).realize()
    xs = (Tensor.arange(24).float() * 0.2).cos().reshape(4, 2, 3)
    h, c = Tensor.zeros(2, 4), Tensor.zeros(2, 4)
    norms = []
    for t in range(4):
        h, c = cell(xs[t], (h, c))
        norms.append(h.square().sum().item())
    return {"h": h.tolist(), "c": c[1].tolist(), "norms": norms}
