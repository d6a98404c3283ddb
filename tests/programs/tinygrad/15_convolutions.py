"""conv2d, dilated, grouped; pools. Its numbers are those of PyTorch."""

from whit import Tensor


def main():
    image = (Tensor.arange(50).float() * 0.3).sin().reshape(1, 2, 5, 5)
    weight = (Tensor.arange(36).float() * 0.2).cos().reshape(2, 2, 3, 3)
    bias = Tensor([0.5, -0.5])
    return {
        "plain": image.conv2d(weight, bias)[0, 1].tolist(),
        "padded": list(image.conv2d(weight, padding=1).shape),
        "strided": image.conv2d(weight, stride=2)[0, 0].tolist(),
        "dilated": image.conv2d(weight, dilation=2)[0, 0].tolist(),
        "grouped": image.conv2d(weight[:, :1], groups=2)[0, 0, 0].tolist(),
        "average": image.avg_pool2d(kernel_size=(2, 2))[0, 0].tolist(),
        "largest": image.max_pool2d(kernel_size=(3, 3), stride=1)[0, 0].tolist(),
    }
