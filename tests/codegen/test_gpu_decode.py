"""A step of a language model on a GPU: which kernels it has, and what they read."""

from whit import Tensor
from whit.codegen import generate
from whit.dtype import dtypes
from whit.engine.realize.parametrise import below, parametrise
from whit.schedule import schedule
from whit.target import parse_target

TARGET = parse_target("CUDA:PTX:sm_90a")
WIDTH, HIDDEN, WORDS = 512, 1024, 768


def weights(*shape: int) -> Tensor:
    return Tensor.empty(*shape, dtype=dtypes.bfloat16, device="NULL").realize()


def norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.cast(dtypes.float32)
    return (wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()).cast(x.dtype) * weight


def test_norms_activations_and_residuals_are_in_the_kernels_of_products() -> None:
    x, scale = weights(1, WIDTH), weights(WIDTH)
    gate, up, down, head = (weights(*s) for s in ((HIDDEN, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN), (WORDS, WIDTH)))
    y = norm(x, scale)
    x = x + (y.linear(gate.T).silu() * y.linear(up.T)).linear(down.T)
    result = norm(x, scale).linear(head.T).uop
    calls = schedule(parametrise([result], below([result])[0]).graph, TARGET).src
    programs = [generate(call.src[0].src[0], TARGET) for call in calls]
    assert [program.explanation.splitlines()[0] for program in programs] == [
        "1024 groups of 32 threads, 1 x 2 products in each",  # norm, two products, silu
        "512 groups of 32 threads, 1 x 1 products in each",  # a product, and x
        "768 groups of 32 threads, 1 x 1 products in each",  # norm and the last product
    ]
    numbers = [2 * HIDDEN * WIDTH + 2 * WIDTH, WIDTH * HIDDEN + HIDDEN + WIDTH, WORDS * WIDTH + 2 * WIDTH]
    spare = [program.bytes_read - 2 * count for program, count in zip(programs, numbers, strict=True)]
    assert spare == [0, 0, 0], spare
