"""A symbolic size: one program for several lengths."""

from whit import Tensor, TinyJit, Variable


def main():
    n = Variable("n", 1, 8)
    data = Tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).realize()

    @TinyJit
    def total(x):
        return (x * 2 + 1).sum().realize()

    sums = []
    for size in (3, 5, 8, 2):
        bound = n.bind(size)
        sums.append(total(data[:bound]).item())
    return {"sums": sums}
