"""The memory of a recurrent layer is stored in every step, not computed again from the first one on."""

import pytest

from whit import Tensor, nn
from whit.engine.normalise import below, normalise
from whit.schedule.choose_stages import choose_stages

pytestmark = pytest.mark.slow


def largest_kernel(steps: int) -> int:
    """Nodes of the largest kernel of an LSTM's last output and memory. Nothing is compiled."""
    cell = nn.LSTMCell(3, 32)
    for tensor in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh):
        tensor.replace(Tensor.empty(*tensor.shape))
    x, state = Tensor.empty(steps, 64, 3), None
    for t in range(steps):
        state = cell(x[t], state)
    assert state is not None
    roots = [part.uop for part in state]
    stores = normalise(roots, below(roots)[0]).graph.src
    kernels = choose_stages([store.src[1] for store in stores])
    return max(len(kernel.value.topological()) for kernel in kernels.values())


def test_kernels_do_not_grow_with_time() -> None:
    assert largest_kernel(4) == largest_kernel(8) < 250
