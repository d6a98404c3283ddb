"""A second identical step of training rewrites nothing: no rule is even tried, whatever the step consists of."""

from collections.abc import Callable

import pytest

from whit import Tensor, TinyJit, clear_caches, nn
from whit.ir.rewrite import counting

pytestmark = pytest.mark.slow


class Net:
    def __init__(self) -> None:
        self.conv, self.norm = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm(4)
        self.out = nn.Linear(4 * 6 * 6, 5)

    def __call__(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.conv(x)).relu().dropout(0.5).flatten(1))


def plain(step: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return step


@pytest.mark.parametrize("wrap", [plain, TinyJit])
def test_the_second_step_rewrites_nothing(wrap: Callable[..., Callable[[Tensor, Tensor], Tensor]]) -> None:
    clear_caches()
    net = Net()
    opt = nn.optim.AdamW(nn.state.get_parameters(net), lr=0.01)

    @wrap
    def step(x: Tensor, y: Tensor) -> Tensor:
        opt.zero_grad()
        loss = net(x).cross_entropy(y).backward()
        opt.step()
        return loss

    attempts = []
    for i in range(4):
        x, y = Tensor.rand(3, 1, 8, 8).realize(), Tensor([i % 5, 1, 2])
        with counting() as counts, Tensor.train():
            step(x, y).item()
        attempts.append(sum(count.attempts for count in counts.by_rule.values()))
    assert attempts[0] > 0
    assert attempts[1:] == [0, 0, 0]
