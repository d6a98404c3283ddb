"""Losses and activations at given numbers."""

from whit import Tensor


def main():
    logits = Tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 3.0]])
    classes = Tensor([0, 2])
    x = Tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
    return {
        "sparse": logits.sparse_categorical_crossentropy(classes).item(),
        "smooth": logits.sparse_categorical_crossentropy(classes, label_smoothing=0.1).item(),
        "cross": logits.cross_entropy(classes).item(),
        "nll": logits.log_softmax().nll_loss(classes).item(),
        "gelu": x.gelu().tolist(),
        "silu": x.silu().tolist(),
        "elu": x.elu().tolist(),
        "softplus": x.softplus().tolist(),
        "hardswish": x.hardswish().tolist(),
        "leaky": x.leaky_relu(0.1).tolist(),
        "mish": x.mish().tolist(),
        "quick": x.quick_gelu().tolist(),
        "erf": x.erf().tolist(),
        "logsumexp": logits.logsumexp(axis=1).tolist(),
        "layernorm": logits.layernorm()[0].tolist(),
        "normalize": logits.normalize(dim=1)[0].tolist(),
        "std": logits.std(axis=1).tolist(),
    }
