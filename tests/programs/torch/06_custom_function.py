"""autograd.Function: a gradient of one's own, and a straight-through estimator."""

import whit.torch as torch


class LegendreP3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return torch.round(x * scale) / scale

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def main():
    x = torch.linspace(-1, 1, 7, dtype=torch.float64, requires_grad=True)
    y = LegendreP3.apply(x)
    y.sum().backward()
    weights = torch.tensor([0.11, 0.52, -0.37], requires_grad=True)
    quantised = RoundThrough.apply(weights, 4)
    loss = (quantised * torch.tensor([1.0, 2.0, 3.0])).sum()
    loss.backward()
    checked = torch.autograd.gradcheck(LegendreP3.apply, (x,))
    return {
        "values": y.tolist(),
        "slopes": x.grad.tolist(),
        "quantised": quantised.tolist(),
        "through": weights.grad.tolist(),
        "checked": checked,
    }
