"""The public names of Tensor: each exists, and each is mentioned by a test, here or in tests/grad."""

import re
from pathlib import Path

import pytest

from whit import Tensor

# The list of API.md, in its order.
NAMES = {
    "Creation": """
        empty full zeros ones empty_like full_like zeros_like ones_like arange linspace eye from_blob
        from_url one_hot meshgrid
    """,
    "Random": """
        manual_seed rand rand_like randn randn_like randint normal uniform scaled_uniform glorot_uniform
        kaiming_uniform kaiming_normal randperm multinomial dropout
    """,
    "Data and realisation": """
        realize data item tolist numpy clone replace assign contiguous contiguous_backward detach
        custom_kernel uop
    """,
    "Gradients": """
        backward gradient grad
    """,
    "Shape and dtype queries": """
        shape ndim dtype device size numel nbytes element_size is_floating_point T
    """,
    "Devices": """
        to to_ shard shard_ shard_like
    """,
    "Movement": """
        reshape view expand permute transpose flip shrink pad flatten unflatten squeeze unsqueeze rearrange
        split chunk stack cat repeat repeat_interleave roll unfold diag diagonal
    """,
    "Indexing": """
        gather scatter scatter_reduce masked_fill masked_select nonzero where tril triu sort argsort topk
    """,
    "Elementwise, one input": """
        neg abs sign square sqrt rsqrt reciprocal exp exp2 log log2 log10 sin cos tan asin acos atan sinh
        cosh tanh asinh acosh atanh erf floor ceil trunc round logical_not bitwise_not isnan isinf isfinite
    """,
    "Elementwise, more inputs": """
        add sub mul div mod fmod pow maximum minimum eq ne bitwise_and bitwise_or bitwise_xor lshift rshift
        copysign logaddexp lerp clamp clip isclose
    """,
    "Activations": """
        relu relu6 leaky_relu elu celu selu gelu quick_gelu sigmoid logsigmoid hardsigmoid hardswish
        hardtanh silu swish mish softplus softsign
    """,
    "Reductions": """
        sum prod max min mean var var_mean std std_mean all any argmax argmin allclose logsumexp normalize
        cumsum cumprod cummax cummin logcumsumexp
    """,
    "Linear algebra": """
        dot matmul einsum linear qr svd newton_schulz
    """,
    "Functional nn": """
        sequential conv2d conv_transpose2d avg_pool2d max_pool2d max_unpool2d interpolate batchnorm
        layernorm softmax log_softmax softmin scaled_dot_product_attention
    """,
    "Losses": """
        cross_entropy sparse_categorical_crossentropy nll_loss binary_crossentropy
        binary_crossentropy_logits
    """,
    "Casts": """
        cast bitcast bool int short long half float double bfloat16
    """,
}

# Not there, or without a test, yet: the list only shrinks.
PENDING = "shard shard_ shard_like"  # they come with several devices

ALL = [name for names in NAMES.values() for name in names.split()]
PLACES = [path for folder in ("tensor", "grad") for path in Path(__file__).parents[1].glob(f"{folder}/test_*.py")]
TESTS = "".join(path.read_text() for path in PLACES if path != Path(__file__))


def mentions(name: str) -> bool:
    """As an attribute, or as a string in a table."""
    return re.search(rf"""\.{name}\b|["']{name}["']""", TESTS) is not None


@pytest.mark.parametrize("name", ALL)
def test_every_name_is_there_and_tested(name: str) -> None:
    if name in PENDING.split():
        pytest.skip("pending")
    assert hasattr(Tensor, name), f"Tensor.{name} is missing"
    assert mentions(name), f"no test mentions {name}"


def test_what_is_pending_is_public() -> None:
    assert set(PENDING.split()) <= set(ALL)
    assert not [name for name in PENDING.split() if hasattr(Tensor, name)]
    assert len(set(ALL)) == len(ALL)
