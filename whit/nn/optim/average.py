"""EMA: parameters averaged over the steps, which are often better than the last ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from whit.nn.optim.base import number, wide_dtype
from whit.nn.optim.flat import Flat, by_kind
from whit.tensor import Tensor


class EMA:
    """average = decay * average + (1 - decay) * parameter, once a step: two kernels, whatever the number of parameters.

    ema = EMA(opt.params, decay=0.999)
    opt.step(), ema.update()            # or: realise *opt.schedule_step(), *ema.schedule_update()
    with ema.applied():                 # the parameters are the averages in here
        evaluate(model)
    """

    def __init__(self, params: Iterable[Tensor], decay: float = 0.999) -> None:
        self.decay = number("EMA", "decay", decay, below=1.0)
        self.params = list(params)
        self.average = [tensor.detach().cast(wide_dtype(tensor.dtype)).clone() for tensor in self.params]
        self._members = list(by_kind(self.params).values())
        self._flat = [Flat([self.average[i] for i in members]) for members in self._members]
        for tensor in self.average:
            tensor.requires_grad = False

    def schedule_update(self) -> list[Tensor]:
        """The averages with the parameters of now in them, to be realised."""
        for flat, members in zip(self._flat, self._members, strict=True):
            average = flat.tensor
            values = flat.take([self.params[i].detach() for i in members]).cast(average.dtype)
            average.assign((average * self.decay + values * (1 - self.decay)).detach())
        return [flat.tensor for flat in self._flat]

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
