"""Gradients for each example by vmap of grad of a functional model."""

import whit.torch as torch
from whit.torch import nn
from whit.torch.func import functional_call, grad, vmap


def main():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.sin(torch.arange(parameter.numel()).float() + number).view(parameter.shape))
    params = {name: p.detach() for name, p in model.named_parameters()}
    x = torch.cos(torch.arange(15).float()).view(5, 3)
    y = torch.tensor([0, 1, 1, 0, 1])

    def loss_of_one(params, sample, target):
        prediction = functional_call(model, params, (sample.unsqueeze(0),))
        return nn.functional.cross_entropy(prediction, target.unsqueeze(0))

    per_sample = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(params, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    mean = per_sample["0.weight"].mean(0)
    return {
        "shapes": {name: list(g.shape) for name, g in per_sample.items()},
        "norms": norms.tolist(),
        "same": torch.allclose(mean, model[0].weight.grad, atol=1e-6),
    }
