"""EMA: parameters averaged over the steps, which are often better than the last ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from whit.nn.optim.base import number, wide_dtype
from whit.tensor import Tensor


class EMA:
    """average = decay * average + (1 - decay) * parameter, once a step.

    ema = EMA(opt.params, decay=0.999)
    opt.step(), ema.update()            # or: realise *opt.schedule_step(), *ema.schedule_update()
    with ema.applied():                 # the parameters are the averages in here
        evaluate(model)
    """

    def __init__(self, params: Iterable[Tensor], decay: float = 0.999) -> None:
        self.decay = number("EMA", "decay", decay, below=1.0)
        self.params = list(params)
        self.average = [tensor.detach().cast(wide_dtype(tensor.dtype)).clone() for tensor in self.params]
        for tensor in self.average:
            tensor.requires_grad = False
        if self.average:
            Tensor.realize(*self.average)

    def schedule_update(self) -> list[Tensor]:
        """The averages with the parameters of now in them, to be realised."""
        for average, tensor in zip(self.average, self.params, strict=True):
            value = tensor.detach().cast(average.dtype)
            average.assign((average * self.decay + value * (1 - self.decay)).detach())
        return self.average

    def update(self) -> None:
        """The same, at once."""
        if self.average:
            Tensor.realize(*self.schedule_update())

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The parameters have the values of the averages inside, and their own again afterwards."""
        own = [tensor.detach().clone().realize() for tensor in self.params]
        try:
            self._write(self.average)
            yield
        finally:
            self._write(own)

    def _write(self, values: list[Tensor]) -> None:
        for tensor, value in zip(self.params, values, strict=True):
            tensor.assign(value.detach().cast(tensor.dtype)).realize()
