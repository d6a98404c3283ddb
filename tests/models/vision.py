"""Models of images: each is a function of a framework (`ours` or `theirs`) that makes its layers and its loss.

    parts, step = resnet18(ours)
    output, loss = step(images, classes)

`parts` is a dictionary of layers, in which the parameters are found by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Framework = Any
Model = tuple[dict[str, Any], Callable[..., tuple[Any, Any]]]


def convnet(f: Framework) -> Model:
    """Three convolutions with batch norm, two of them pooled: that of bench/ and of the MNIST examples."""
    parts = {
        "convs": [f.Conv2d(a, b, 3, padding=1, bias=False) for a, b in ((1, 4), (4, 8), (8, 8))],
        "norms": [f.BatchNorm(n) for n in (4, 8, 8)],
        "out": f.Linear(8 * 2 * 3, 5),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        for i, (conv, norm) in enumerate(zip(parts["convs"], parts["norms"], strict=True)):
            x = norm(conv(x)).relu()
            x = f.max_pool(x, 2, 2) if i else x
        out = parts["out"](x.flatten(1))
        return out, f.cross_entropy(out, y)

    return parts, step


def _basic(f: Framework, inputs: int, outputs: int, stride: int) -> dict[str, Any]:
    block = {
        "conv1": f.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        "norm1": f.BatchNorm(outputs),
        "conv2": f.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        "norm2": f.BatchNorm(outputs),
    }
    if stride > 1 or inputs != outputs:
        block["short"], block["short_norm"] = (
            f.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
            f.BatchNorm(outputs),
        )
    return block


def _bottleneck(f: Framework, inputs: int, outputs: int, stride: int) -> dict[str, Any]:
    width = outputs // 4
    block = {
        "conv1": f.Conv2d(inputs, width, 1, bias=False),
        "norm1": f.BatchNorm(width),
        "conv2": f.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
        "norm2": f.BatchNorm(width),
        "conv3": f.Conv2d(width, outputs, 1, bias=False),
        "norm3": f.BatchNorm(outputs),
    }
    if stride > 1 or inputs != outputs:
        block["short"], block["short_norm"] = (
            f.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
            f.BatchNorm(outputs),
        )
    return block


def _residual(block: dict[str, Any], x: Any) -> Any:
    y, count = x, sum(name.startswith("conv") for name in block)
    for i in range(1, count + 1):
        y = block[f"norm{i}"](block[f"conv{i}"](y))
        y = y.relu() if i < count else y
    short = block["short_norm"](block["short"](x)) if "short" in block else x
    return (y * 0.25 + short).relu()  # a step of training changes deep ones little


def _resnet(f: Framework, make: Any, widths: tuple[int, ...], depths: tuple[int, ...]) -> Model:
    blocks, inputs = [], 4
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        for i in range(depth):
            blocks.append(make(f, inputs, width, 2 if stage and not i else 1))
            inputs = width
    parts = {
        "stem": f.Conv2d(3, 4, 7, stride=2, padding=3, bias=False),
        "norm": f.BatchNorm(4),
        "blocks": blocks,
        "out": f.Linear(inputs, 5),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        x = f.max_pool(parts["norm"](parts["stem"](x)).relu(), 3, 2, 1)
        for block in parts["blocks"]:
            x = _residual(block, x)
        out = parts["out"](x.mean((2, 3)))
        return out, f.cross_entropy(out, y)

    return parts, step


def resnet18(f: Framework) -> Model:
    """Two basic blocks in each of four stages, with strides of 2 beside batch norm."""
    return _resnet(f, _basic, (4, 8, 8, 12), (2, 2, 2, 2))


def resnet_bottleneck(f: Framework) -> Model:
    """One bottleneck in each of four stages."""
    return _resnet(f, _bottleneck, (8, 16, 16, 24), (1, 1, 1, 1))


def resnet50(f: Framework) -> Model:
    """As many bottlenecks as ResNet-50 has."""
    return _resnet(f, _bottleneck, (8, 16, 16, 24), (3, 4, 6, 3))


def efficientnet(f: Framework) -> Model:
    """Inverted bottlenecks: a depthwise convolution, and channels that are scaled by what is in all places."""
    blocks, inputs = [], 4
    for outputs, size, stride in ((6, 3, 1), (8, 5, 2), (8, 3, 1), (10, 3, 2)):
        wide = 2 * inputs
        blocks.append(
            {
                "expand": f.Conv2d(inputs, wide, 1, bias=False),
                "norm1": f.BatchNorm(wide),
                "depth": f.Conv2d(wide, wide, size, stride=stride, padding=size // 2, groups=wide, bias=False),
                "norm2": f.BatchNorm(wide),
                "squeeze": f.Conv2d(wide, 3, 1),
                "excite": f.Conv2d(3, wide, 1),
                "project": f.Conv2d(wide, outputs, 1, bias=False),
                "norm3": f.BatchNorm(outputs),
            }
        )
        inputs = outputs
    parts = {"stem": f.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), "norm": f.BatchNorm(4), "blocks": blocks}
    parts["out"] = f.Linear(inputs, 5)

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        x = f.silu(parts["norm"](parts["stem"](x)))
        for block in parts["blocks"]:
            z = f.silu(block["norm1"](block["expand"](x)))
            z = f.silu(block["norm2"](block["depth"](z)))
            z = z * block["excite"](f.silu(block["squeeze"](z.mean((2, 3), keepdim=True)))).sigmoid()
            z = block["norm3"](block["project"](z))
            x = x + z if x.shape == z.shape else z
        out = parts["out"](x.mean((2, 3)))
        return out, f.cross_entropy(out, y)

    return parts, step


def convnext(f: Framework) -> Model:
    """Depthwise 7 x 7, layer norm over channels, gelu, a scale for each channel; strides between the stages."""
    stages = []
    for inputs, width in ((3, 6), (6, 8)):
        block = {
            "depth": f.Conv2d(width, width, 7, padding=3, groups=width),
            "norm": f.LayerNorm(width),
            "up": f.Linear(width, 2 * width),
            "down": f.Linear(2 * width, width),
            "scale": f.Weight(width),
        }
        stages.append({"shrink": f.Conv2d(inputs, width, 2, stride=2), "norm": f.LayerNorm(width), "block": block})
    parts = {"stages": stages, "norm": f.LayerNorm(8), "out": f.Linear(8, 5)}

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        for stage in parts["stages"]:
            x = stage["norm"](stage["shrink"](x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            block = stage["block"]
            z = block["norm"](block["depth"](x).permute(0, 2, 3, 1))
            z = block["down"](f.gelu(block["up"](z))) * block["scale"]()
            x = x + z.permute(0, 3, 1, 2)
        out = parts["out"](parts["norm"](x.mean((2, 3))))
        return out, f.cross_entropy(out, y)

    return parts, step


def unet(f: Framework) -> Model:
    """Down by strides and pools, up by transposed convolutions, joined with what was there on the way down."""
    parts = {
        "in": f.Conv2d(1, 4, 3, padding=1),
        "norm1": f.BatchNorm(4),
        "down": f.Conv2d(4, 6, 3, stride=2, padding=1),
        "norm2": f.BatchNorm(6),
        "middle": f.Conv2d(6, 6, 3, padding=1),
        "up1": f.ConvTranspose2d(6, 6, 2, stride=2),
        "join1": f.Conv2d(12, 6, 3, padding=1),
        "norm3": f.BatchNorm(6),
        "up2": f.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1),
        "join2": f.Conv2d(8, 4, 3, padding=1),
        "out": f.Conv2d(4, 3, 1),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        a = parts["norm1"](parts["in"](x)).relu()
        b = parts["norm2"](parts["down"](a)).relu()
        c = parts["middle"](f.max_pool(b, 2, 2)).relu()
        b = parts["norm3"](parts["join1"](f.cat([parts["up1"](c), b], 1))).relu()
        a = parts["join2"](f.cat([parts["up2"](b), a], 1)).relu()
        out = parts["out"](a)
        return out, f.cross_entropy(out.permute(0, 2, 3, 1).reshape(-1, 3), y.reshape(-1))

    return parts, step


def unet3d(f: Framework) -> Model:
    """The same of volumes, up by repeating neighbours."""
    parts = {
        "in": f.Conv3d(1, 3, 3, padding=1),
        "norm1": f.BatchNorm(3, 3),
        "down": f.Conv3d(3, 4, 3, stride=2, padding=1),
        "norm2": f.BatchNorm(4, 3),
        "join": f.Conv3d(7, 3, 3, padding=1),
        "norm3": f.BatchNorm(3, 3),
        "out": f.Conv3d(3, 2, 1),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        a = parts["norm1"](parts["in"](x)).relu()
        b = parts["norm2"](parts["down"](a)).relu()
        for axis in (2, 3, 4):
            b = f.repeat(b, 2, axis)
        out = parts["out"](parts["norm3"](parts["join"](f.cat([a, b], 1))).relu())
        return out, f.cross_entropy(out.permute(0, 2, 3, 4, 1).reshape(-1, 2), y.reshape(-1))

    return parts, step


def densenet(f: Framework) -> Model:
    """Each layer sees all before it, joined; then a transition of half as many channels and pixels."""
    layers, transitions, channels = [], [], 4
    for _ in range(2):
        for _ in range(2):
            layers.append({"norm": f.BatchNorm(channels), "conv": f.Conv2d(channels, 3, 3, padding=1, bias=False)})
            channels += 3
        transitions.append({"norm": f.BatchNorm(channels), "conv": f.Conv2d(channels, channels // 2, 1, bias=False)})
        channels //= 2
    parts = {"stem": f.Conv2d(3, 4, 3, padding=1, bias=False), "layers": layers, "transitions": transitions}
    parts["out"] = f.Linear(channels, 5)

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        x = parts["stem"](x)
        for stage, transition in enumerate(parts["transitions"]):
            for layer in parts["layers"][2 * stage : 2 * stage + 2]:
                x = f.cat([x, layer["conv"](layer["norm"](x).relu())], 1)
            x = f.avg_pool(transition["conv"](transition["norm"](x).relu()), 2, 2)
        out = parts["out"](x.mean((2, 3)))
        return out, f.cross_entropy(out, y)

    return parts, step


def inception(f: Framework) -> Model:
    """Branches of several widths side by side, one of them pooled."""
    parts = {
        "one": f.Conv2d(3, 2, 1),
        "three": [f.Conv2d(3, 3, 1), f.Conv2d(3, 4, 3, padding=1)],
        "wide": [f.Conv2d(3, 2, (1, 5), padding=(0, 2)), f.Conv2d(2, 3, (5, 1), padding=(2, 0))],
        "pooled": f.Conv2d(3, 2, 1),
        "norm": f.BatchNorm(11),
        "out": f.Linear(11, 5),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        branches = [parts["one"](x), parts["three"][1](parts["three"][0](x).relu())]
        branches += [parts["wide"][1](parts["wide"][0](x).relu()), parts["pooled"](f.max_pool(x, 3, 1, 1))]
        x = f.max_pool(parts["norm"](f.cat(branches, 1)).relu(), 2, 2)
        out = parts["out"](x.mean((2, 3)))
        return out, f.cross_entropy(out, y)

    return parts, step


def shufflenet(f: Framework) -> Model:
    """Grouped convolutions, and channels dealt out between them; the stride has a branch of its own."""
    parts = {
        "stem": f.Conv2d(3, 6, 3, stride=2, padding=1, bias=False),
        "norm0": f.BatchNorm(6),
        "group1": f.Conv2d(6, 6, 1, groups=3, bias=False),
        "norm1": f.BatchNorm(6),
        "depth": f.Conv2d(6, 6, 3, stride=2, padding=1, groups=6, bias=False),
        "norm2": f.BatchNorm(6),
        "group2": f.Conv2d(6, 6, 1, groups=3, bias=False),
        "norm3": f.BatchNorm(6),
        "out": f.Linear(12, 5),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        x = parts["norm0"](parts["stem"](x)).relu()
        z = parts["norm1"](parts["group1"](x)).relu()
        z = z.reshape(z.shape[0], 3, 2, *z.shape[2:]).transpose(1, 2).reshape(*z.shape)
        z = parts["norm3"](parts["group2"](parts["norm2"](parts["depth"](z))))
        x = f.cat([f.avg_pool(x, 3, 2, 1), z], 1).relu()
        out = parts["out"](x.mean((2, 3)))
        return out, f.cross_entropy(out, y)

    return parts, step


def gan(f: Framework) -> Model:
    """A generator of transposed convolutions and a discriminator of strided ones, with both their losses."""
    parts = {
        "start": f.Linear(5, 8 * 2 * 2),
        "norm0": f.BatchNorm(8),
        "up1": f.ConvTranspose2d(8, 6, 4, stride=2, padding=1, bias=False),
        "norm1": f.BatchNorm(6),
        "up2": f.ConvTranspose2d(6, 1, 4, stride=2, padding=1),
        "down1": f.Conv2d(1, 4, 4, stride=2, padding=1),
        "down2": f.Conv2d(4, 6, 4, stride=2, padding=1, bias=False),
        "norm2": f.BatchNorm(6),
        "out": f.Linear(6 * 2 * 2, 1),
    }

    def judged(x: Any) -> Any:
        x = f.leaky_relu(parts["down1"](x))
        x = f.leaky_relu(parts["norm2"](parts["down2"](x)))
        return parts["out"](x.flatten(1))

    def step(noise: Any, real: Any) -> tuple[Any, Any]:
        x = parts["norm0"](parts["start"](noise).reshape(-1, 8, 2, 2)).relu()
        x = parts["norm1"](parts["up1"](x)).relu()
        made = parts["up2"](x).tanh()
        seen, false, fooled = judged(real), judged(made.detach()), judged(made)
        return made, f.softplus(-seen).mean() + f.softplus(false).mean() + f.softplus(-fooled).mean()

    return parts, step


def retinanet(f: Framework) -> Model:
    """A pyramid of three levels, and heads that all levels share; a focal loss of classes and a smooth one of boxes."""
    parts = {
        "backbone": [f.Conv2d(3, 4, 3, stride=2, padding=1), f.Conv2d(4, 6, 3, stride=2, padding=1)],
        "norms": [f.BatchNorm(4), f.BatchNorm(6)],
        "sides": [f.Conv2d(4, 5, 1), f.Conv2d(6, 5, 1)],
        "extra": f.Conv2d(6, 5, 3, stride=2, padding=1),
        "smooth": [f.Conv2d(5, 5, 3, padding=1), f.Conv2d(5, 5, 3, padding=1)],
        "head": f.Conv2d(5, 5, 3, padding=1),
        "classes": f.Conv2d(5, 2 * 3, 3, padding=1),
        "boxes": f.Conv2d(5, 2 * 4, 3, padding=1),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        levels = []
        for conv, norm in zip(parts["backbone"], parts["norms"], strict=True):
            x = norm(conv(x)).relu()
            levels.append(x)
        top = parts["extra"](levels[1])
        high = parts["sides"][1](levels[1])
        low = parts["sides"][0](levels[0]) + f.nearest(high, tuple(levels[0].shape[2:]))
        found, places = [], []
        for level in (parts["smooth"][0](low), parts["smooth"][1](high), top):
            z = parts["head"](level).relu()
            found.append(parts["classes"](z).permute(0, 2, 3, 1).reshape(z.shape[0], -1, 3))
            places.append(parts["boxes"](z).permute(0, 2, 3, 1).reshape(z.shape[0], -1, 4))
        scores, boxes = f.cat(found, 1), f.cat(places, 1)
        wanted = y[:, : scores.shape[1]]
        p = scores.sigmoid()
        fits = p * wanted + (1 - p) * (1 - wanted)
        focal = ((1 - fits).square() * (f.softplus(scores) - scores * wanted)).sum()
        offset = boxes - wanted[:, :, :1]
        smooth = f.where(offset.abs() < 1, offset.square() * 0.5, offset.abs() - 0.5).mean()
        return scores, focal / scores.shape[1] + smooth

    return parts, step


def super_resolution(f: Framework) -> Model:
    """Residual blocks, and channels that become pixels; a smooth resize beside it."""
    parts = {
        "in": f.Conv2d(2, 4, 3, padding=1),
        "block": [f.Conv2d(4, 4, 3, padding=1), f.Conv2d(4, 4, 3, padding=1)],
        "up": f.Conv2d(4, 8, 3, padding=1),
    }

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        z = parts["in"](x)
        z = z + parts["block"][1](parts["block"][0](z).relu())
        out = f.pixel_shuffle(parts["up"](z), 2) + f.linear_resize(x, tuple(y.shape[2:]))
        return out, ((out - y).square() + 1e-3).sqrt().mean()

    return parts, step
