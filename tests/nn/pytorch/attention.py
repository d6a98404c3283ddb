"""Attention, and layers of transformers."""

from nn.pytorch.compare import case

CAUSAL = "m.generate_square_subsequent_mask(3)"
PAD = "=[[False, False, True], [False, False, False]]"

CASES = [
    case("nn.MultiheadAttention(8, 2)", "m(q, k, v)", q="4,2,8", k="3,2,8", v="3,2,8"),
    case("nn.MultiheadAttention(8, 2, batch_first=True)", "m(x, x, x)", x="2,3,8"),
    case("nn.MultiheadAttention(8, 2, bias=False)", "m(x, x, x, need_weights=False)[0]", x="3,8"),
    case("nn.MultiheadAttention(8, 4)", "m(q, k, k, average_attn_weights=False)", q="4,8", k="3,8"),
    case("nn.MultiheadAttention(8, 2, kdim=5, vdim=6)", "m(q, k, v)", q="4,2,8", k="3,2,5", v="3,2,6"),
    case("nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)", "m(x, x, x)", x="3,2,8"),
    case(
        "nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True)",
        "m(x, x, x, key_padding_mask=_p, attn_mask=_a)",
        x="2,3,8",
        _p=PAD,
        _a="=[[False, True, True], [False, False, True], [False, False, False]]",
    ),
    case("nn.MultiheadAttention(8, 2, batch_first=True)", "m(x, x, x, attn_mask=_a)", x="2,3,8", _a="4,3,3"),
    case("nn.MultiheadAttention(8, 2, batch_first=True)", "m(x, x, x, attn_mask=_a)[0]", x="2,3,8", _a="3,3"),
    case(
        "nn.MultiheadAttention(8, 2, batch_first=True)",
        "m(x, x, x, key_padding_mask=_p, need_weights=False)[0]",
        x="2,3,8",
        _p=PAD,
    ),
    case("nn.TransformerEncoderLayer(8, 2, 12)", "m(x)", x="3,2,8"),
    case("nn.TransformerEncoderLayer(8, 2, 12, 0.0, 'gelu', 1e-3, True, True)", "m(x)", x="2,3,8", train=True),
    case("nn.TransformerEncoderLayer(8, 2, 12, bias=False, activation=F.silu)", "m(x)", x="3,2,8"),
    case(
        "nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True)",
        "m(x, src_mask=_a, src_key_padding_mask=_p)",
        x="2,3,8",
        _a="3,3",
        _p="2,3",
        train=True,
    ),
    case("nn.TransformerDecoderLayer(8, 2, 12)", "m(x, y)", x="3,2,8", y="5,2,8"),
    case(
        "nn.TransformerDecoderLayer(8, 2, 12, norm_first=True, batch_first=True)",
        "m(x, y, tgt_mask=_a, memory_key_padding_mask=_p)",
        x="2,3,8",
        y="2,3,8",
        _a="=[[False, True, True], [False, False, True], [False, False, False]]",
        _p=PAD,
    ),
    case(
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2, nn.LayerNorm(8), enable_nested_tensor=False)",
        "m(x)",
        x="3,2,8",
        tolerance=5e-5,
    ),
    case(
        "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12), 2)",
        "m(x, y)",
        x="3,2,8",
        y="2,2,8",
        tolerance=5e-5,
    ),
    case(
        "nn.Transformer(8, 2, 1, 1, 12, batch_first=True)",
        f"m(x, y, tgt_mask={CAUSAL})",
        x="2,4,8",
        y="2,3,8",
        tolerance=5e-5,
    ),
    case("", "F.scaled_dot_product_attention(q, k, v)", q="2,4,8", k="2,3,8", v="2,3,8"),
    case("", "F.scaled_dot_product_attention(q, k, v, _a)", q="2,4,8", k="2,3,8", v="2,3,8", _a="4,3"),
    case("", "F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)", q="2,3,8", k="2,3,8", v="2,3,8"),
]
