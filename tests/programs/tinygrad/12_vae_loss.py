"""The loss of a variational autoencoder, at fixed values."""

from whit import Tensor


def main():
    x = (Tensor.arange(12).float().sin().reshape(2, 6) + 1) / 2
    mean = Tensor([[0.1, -0.2], [0.3, 0.0]])
    log_variance = Tensor([[0.0, 0.1], [-0.3, 0.2]])
    noise = Tensor([[0.5, -1.0], [0.2, 0.7]])
    z = mean + (0.5 * log_variance).exp() * noise
    decoder = Tensor.arange(12).float().cos().reshape(2, 6)
    out = (z @ decoder).sigmoid()
    reconstruction = out.binary_crossentropy(x, reduction="none").sum()
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    (reconstruction + divergence).backward()
    return {
        "reconstruction": reconstruction.item(),
        "divergence": divergence.item(),
        "mean": mean.grad.tolist(),
        "log_variance": log_variance.grad.tolist(),
    }
