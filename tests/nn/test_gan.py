"""A GAN with a gradient penalty beside PyTorch: two optimisers, detached values, gradients of gradients."""

from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, nn

STEPS, BATCH, NOISE, HIDDEN = 4, 8, 3, 16


def weights(seed: int, *sizes: int) -> list[np.ndarray]:
    draws = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for rows, columns in zip(sizes[1:], sizes, strict=False):
        found += [draws.normal(0, 0.5, (rows, columns)).astype(np.float32), np.zeros(rows, np.float32)]
    return found


def batches() -> list[tuple[np.ndarray, ...]]:
    draws = np.random.default_rng(7)
    sizes = ((BATCH, 2), (BATCH, NOISE), (BATCH, 1))
    return [tuple(draws.uniform(0.1, 0.9, size).astype(np.float32) for size in sizes) for _ in range(STEPS)]


def layers(x: Any, parameters: list[Any]) -> Any:
    first, bias, second, last = parameters
    return (x @ first.T + bias).tanh() @ second.T + last


GENERATOR, CRITIC = weights(1, NOISE, HIDDEN, 2), weights(2, 2, HIDDEN, 1)


def with_torch() -> tuple[list[tuple[float, float]], list[np.ndarray]]:
    torch = pytest.importorskip("torch")
    g, d = ([torch.tensor(p, requires_grad=True) for p in net] for net in (GENERATOR, CRITIC))
    for_g, for_d = torch.optim.Adam(g, lr=0.01, eps=1e-8), torch.optim.Adam(d, lr=0.01, eps=1e-8)
    losses = []
    for real, noise, share in ([torch.tensor(part) for part in batch] for batch in batches()):
        fake = layers(noise, g)
        mixed = (real * share + fake.detach() * (1 - share)).requires_grad_()
        (slope,) = torch.autograd.grad(layers(mixed, d).sum(), mixed, create_graph=True)
        penalty = ((slope.square().sum(1).sqrt() - 1) ** 2).mean()
        critic_loss = layers(fake.detach(), d).mean() - layers(real, d).mean() + 10 * penalty
        for_d.zero_grad()
        critic_loss.backward()
        for_d.step()
        generator_loss = -layers(fake, d).mean()  # the same fake, and the critic that has just learned
        for_g.zero_grad()
        generator_loss.backward()
        for_g.step()
        losses.append((critic_loss.item(), generator_loss.item()))
    return losses, [p.detach().numpy() for p in (*g, *d)]


def with_whit(jit: bool) -> tuple[list[tuple[float, float]], list[np.ndarray]]:
    g, d = ([Tensor(p) for p in net] for net in (GENERATOR, CRITIC))
    for_g, for_d = nn.optim.Adam(g, lr=0.01, eps=1e-8), nn.optim.Adam(d, lr=0.01, eps=1e-8)

    def step(real: Tensor, noise: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        fake = layers(noise, g)
        mixed = real * share + fake.detach() * (1 - share)
        (slope,) = layers(mixed, d).sum().gradient(mixed)
        penalty = ((slope.square().sum(1).sqrt() - 1) ** 2).mean()
        critic_loss = layers(fake.detach(), d).mean() - layers(real, d).mean() + 10 * penalty
        for_d.zero_grad()
        critic_loss.backward()
        for_d.step()
        generator_loss = -layers(fake, d).mean()
        for_g.zero_grad()
        generator_loss.backward()
        for_g.step()
        return critic_loss, generator_loss

    run = TinyJit(step) if jit else step
    losses = []
    for batch in batches():
        found = run(*map(Tensor, batch))
        losses.append((found[0].item(), found[1].item()))
    return losses, [p.numpy() for p in (*g, *d)]


@pytest.mark.slow
@pytest.mark.parametrize("jit", (False, True))
def test_a_gan_with_a_gradient_penalty_learns_as_with_pytorch(jit: bool) -> None:
    expected, found = with_torch(), with_whit(jit)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-4)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_a_detached_value_of_a_parameter_that_was_trained_meanwhile() -> None:
    w, v = Tensor([2.0]), Tensor([1.0])
    trainer = nn.optim.SGD([w], lr=0.5)
    h = w * 3
    (h * 1).sum().backward()
    trainer.step()
    (h.detach() * v).sum().backward()
    assert v.grad.tolist() == [6.0]
    assert (h.detach() * v).sum().gradient(v)[0].tolist() == [6.0]
    assert (h.detach() * v).sum().gradient(w)[0].tolist() == [0.0]
    with pytest.raises(ValueError, match="a target was written to after"):
        (h * v).sum().gradient(w)
