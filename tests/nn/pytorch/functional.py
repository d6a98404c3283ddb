"""Functions without weights: activations, windows, pools, distances."""

from typing import Any

from nn.pytorch.compare import case

X: dict[str, Any] = {"x": "2,6,4"}
IMAGE: dict[str, Any] = {"x": "1,4,6,5"}

CASES = [
    *[case("", f"F.{call}", **X) for call in (
        "relu(x)", "relu6(x * 4)", "leaky_relu(x, 0.2)", "elu(x, 0.5)", "celu(x, 0.7)", "selu(x)", "gelu(x)",
        "gelu(x, approximate='tanh')", "silu(x)", "mish(x)", "logsigmoid(x)", "hardsigmoid(x * 3)", "hardswish(x * 3)",
        "hardtanh(x, -0.5, 0.7)", "hardshrink(x)", "softshrink(x, 0.3)", "tanhshrink(x)", "softplus(x, 2)",
        "softsign(x)", "threshold(x, 0.1, 20)", "glu(x, 1)", "softmax(x, 1)", "log_softmax(x, -1)", "softmin(x, 0)",
        "rrelu(x)", "normalize(x, 3.0, 2)", "dropout(x, 0.3, False)", "local_response_norm(x, 3, 0.5, 0.6, 2.0)",
        "local_response_norm(x, 2)", "instance_norm(x)", "layer_norm(x, (6, 4))", "rms_norm(x, (4,))",
        "group_norm(x, 3)", "channel_shuffle(x, 3)",
    )],
    case("", "F.prelu(x, w)", **X, w="6"),
    case("", "F.prelu(x, w)", x="5", w="1"),
    case("", "F.one_hot(_i, 4)", _i="i2,3<4"),
    case("", "F.one_hot(_i)", _i="=[0, 2, 1]"),
    *[case("", f"F.{call}", **IMAGE) for call in (
        "max_pool2d(x, 2)", "max_pool2d(x, (3, 2), 2, 1, 1, True)", "max_pool2d(x, 2, return_indices=True)",
        "avg_pool2d(x, 3, 2, 1, count_include_pad=False)", "avg_pool2d(x, 2, divisor_override=3)",
        "avg_pool2d(x, 3, 2, ceil_mode=True, divisor_override=2)",
        "lp_pool2d(x, 2, 2)", "lp_pool2d(x.abs() + 0.1, 3, (2, 3), 2)", "adaptive_avg_pool2d(x, (3, 7))",
        "adaptive_avg_pool2d(x, 4)", "adaptive_avg_pool2d(x, (None, 2))", "adaptive_max_pool2d(x, (4, 3))",
        "adaptive_max_pool2d(x, (3, 5), return_indices=True)", "adaptive_max_pool2d(x, 1)",
        "unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=2)", "unfold(x, 2)",
        "pixel_shuffle(x, 2)", "interpolate(x, scale_factor=2)", "interpolate(x, (3, 4), mode='bilinear')",
        "interpolate(x, 4, mode='area')", "interpolate(x, (9, 5), mode='bicubic', align_corners=True)",
        "pad(x, (1, 2))", "pad(x, (1, 2, 0, 1), 'constant', 0.5)", "pad(x, (1, 2, 2, 1), mode='reflect')",
        "pad(x, (1, -1, 2, 1), mode='replicate')", "pad(x, (1, 2, 2, 1), mode='circular')",
    )],
    case("", "F.pixel_unshuffle(x, 2)", x="2,3,4,6"),
    case("", "F.fold(x, (5, 6), (2, 3), dilation=(2, 1), padding=1, stride=2)", x="2,12,9"),
    case("", "F.fold(x, 4, 2)", x="8,9"),
    case("", "F.max_pool1d(x, 2, 1)", **X),
    case("", "F.avg_pool1d(x, 3, 2, 1)", **X),
    case("", "F.lp_pool1d(x, 2, 3)", **X),
    case("", "F.adaptive_avg_pool1d(x, 3)", **X),
    case("", "F.adaptive_max_pool1d(x, 2, return_indices=True)", **X),
    case("", "F.max_pool3d(x, 2)", x="1,2,4,5,4"),
    case("", "F.avg_pool3d(x, (1, 2, 2), 1)", x="1,2,4,3,4"),
    case("", "F.adaptive_avg_pool3d(x, (2, 3, 2))", x="1,2,4,4,3"),
    case("", "F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)", x="1,2,4,6"),
    case("", "F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2, output_size=(7,))", x="1,2,7"),
    case("", "F.linear(x, w, b)", x="2,3,4", w="5,4", b="5"),
    case("", "F.bilinear(x, y, w, b)", x="2,3", y="2,4", w="5,3,4", b="5"),
    case("", "F.conv1d(x, w, b, 2, 1)", x="2,4,7", w="3,4,3", b="3"),
    case("", "F.conv2d(x, w, stride=(1, 2), padding='valid', groups=2)", x="4,5,6", w="6,2,2,3"),
    case("", "F.conv3d(x, w, padding='same')", x="1,2,3,4,3", w="3,2,2,3,1"),
    case("", "F.conv_transpose1d(x, w, None, 2, 1, 1)", x="2,4,5", w="4,3,3"),
    case("", "F.conv_transpose2d(x, w, b, stride=2, groups=2, dilation=2)", x="1,4,3,3", w="4,2,2,3", b="4"),
    case("", "F.conv_transpose3d(x, w)", x="1,2,2,3,2", w="2,3,2,1,2"),
    case("", "F.embedding(_i, w, padding_idx=-1)", _i="i2,3<4", w="4,3"),
    case("", "F.embedding(_i, w, scale_grad_by_freq=True)", _i="=[[0, 1], [1, 3]]", w="4,3"),
    *[case("", f"F.embedding_bag(_i, w, mode='{mode}')", _i="i2,3<4", w="4,3") for mode in ("sum", "mean", "max")],
    *[case("", f"F.embedding_bag(_i, w, _o, mode='{mode}')", _i="=[0, 3, 3, 1, 2]", w="4,3", _o="=[0, 2, 2]")
      for mode in ("sum", "mean", "max")],
    case("", "F.embedding_bag(_i, w, _o, mode='sum', per_sample_weights=p, include_last_offset=True)",
         _i="=[0, 3, 3, 1, 2]", w="4,3", _o="=[0, 2, 5]", p="5"),
    case("", "F.embedding_bag(_i, w, padding_idx=2)", _i="=[[0, 2, 1], [2, 2, 2]]", w="4,3"),
    case("", "F.affine_grid(t, (2, 3, 4, 5), align_corners=False)", t="2,2,3"),
    case("", "F.affine_grid(t, (1, 3, 4, 5), align_corners=True)", t="1,2,3"),
    *[case("", f"F.grid_sample(x, g, '{mode}', '{padding}', align_corners={aligned})", x="2,3,4,5", g="2,3,3,2")
      for mode in ("bilinear", "nearest") for padding in ("zeros", "border", "reflection")
      for aligned in (True, False)],
    case("", "F.cosine_similarity(x, y)", x="3,4", y="3,4"),
    case("", "F.cosine_similarity(x, y, dim=-1, eps=5.0)", x="3,4", y="1,4"),
    case("", "F.pairwise_distance(x, y, p=3, keepdim=True)", x="3,4", y="3,4"),
    case("", "F.pdist(x)", x="4,3"),
    case("", "F.batch_norm(x, _m, _v, w, b)", **X, _m="6", _v="p6", w="6", b="6"),
    case("", "F.batch_norm(x, None, None, w, training=True)", **X, w="6", tolerance=5e-5),
    case("", "nn.utils.parameters_to_vector([x, y])", x="2,3", y="4"),
]  # fmt: skip
