"""One step of a generator and a discriminator."""

from whit import Context, Tensor, nn


class Small:
    def __init__(self, sizes):
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).leaky_relu(0.2)
        return self.layers[-1](x)


def main():
    Tensor.manual_seed(0)
    generator, critic = Small([4, 8, 2]), Small([2, 8, 1])
    opt_g = nn.optim.Adam(nn.state.get_parameters(generator), lr=0.01)
    opt_d = nn.optim.Adam(nn.state.get_parameters(critic), lr=0.01)
    with Context(TRAINING=1):
        for _ in range(5):
            real, noise = Tensor.randn(16, 2) + 2, Tensor.randn(16, 4)
            fake = generator(noise).detach()
            opt_d.zero_grad()
            loss_d = (
                critic(real).binary_crossentropy_logits(Tensor.ones(16, 1))
                + critic(fake).binary_crossentropy_logits(Tensor.zeros(16, 1))
            ).backward()
            opt_d.step()
            opt_g.zero_grad()
            loss_g = critic(generator(noise)).binary_crossentropy_logits(Tensor.ones(16, 1)).backward()
            opt_g.step()
    return {"finite": abs(loss_d.item()) < 10 and abs(loss_g.item()) < 10, "shape": list(fake.shape)}
