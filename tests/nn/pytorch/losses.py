"""Losses, as layers and as functions."""

from typing import Any

from nn.pytorch.compare import case

XY: dict[str, Any] = {"x": "3,4", "_y": "3,4"}
CLASSES: dict[str, Any] = {"x": "4,5", "_y": "=[0, 4, -100, 2]", "_w": "p5"}
LABELS: dict[str, Any] = {"x": "3,4", "_y": "s3,4"}
PAIRS: dict[str, Any] = {"x": "3,4", "y": "3,4", "_z": "=[1, -1, 1]"}
TRIPLETS: dict[str, Any] = {"x": "3,4", "y": "3,4", "z": "3,4"}

CASES = [
    *[case(f"nn.{name}(reduction='{kind}')", "m(x, _y)", **XY) for name in ("L1Loss", "MSELoss", "SmoothL1Loss")
      for kind in ("mean", "sum", "none")],
    case("nn.SmoothL1Loss(beta=0.3)", "m(x, _y)", **XY),
    case("nn.HuberLoss(delta=0.5)", "m(x, _y)", **XY),
    case("", "F.mse_loss(x, _y, weight=_w)", **XY, _w="p3,4"),
    case("", "F.l1_loss(x, _y, weight=_w, reduction='sum')", **XY, _w="p3,4"),
    case("", "F.huber_loss(x, _y, 'mean', 0.7)", **XY),
    *[case("", f"F.cross_entropy(x, _y, _w, reduction='{kind}', label_smoothing={smooth})", **CLASSES)
      for kind in ("mean", "sum", "none") for smooth in (0.0, 0.2)],
    case("", "F.cross_entropy(x, _y, label_smoothing=0.1)", **CLASSES),
    case("", "F.cross_entropy(x, _y, _w, ignore_index=3)", x="2,5,3", _y="i2,3<5", _w="p5"),
    case("", "F.cross_entropy(x, _y, _w, label_smoothing=0.1)", x="2,5,3", _y="p2,5,3", _w="p5"),
    case("", "F.cross_entropy(x, _y)", x="5", _y="i<5"),
    case("nn.CrossEntropyLoss(reduction='sum', ignore_index=2)", "m(x, _y)", x="4,5", _y="i4<5"),
    case("nn.NLLLoss()", "m(x, _y)", x="4,5", _y="i4<5"),
    case("", "F.nll_loss(x, _y, _w, ignore_index=1)", x="2,5,3", _y="i2,3<5", _w="p5"),
    case("nn.BCELoss()", "m(x, _y)", x="p3,4", _y="p3,4"),
    case("", "F.binary_cross_entropy(x, _y, _w, reduction='sum')", x="p3,4", _y="p3,4", _w="p4"),
    case("nn.BCEWithLogitsLoss()", "m(x, _y)", x="3,4", _y="p3,4"),
    case(
        "",
        "F.binary_cross_entropy_with_logits(x, _y, _w, pos_weight=_p)",
        x="3,4",
        _y="p3,4",
        _w="p3,1",
        _p="p4",
    ),
    *[case(f"nn.KLDivLoss(reduction='{kind}')", "m(x, _y)", x="3,4", _y="p3,4")
      for kind in ("batchmean", "sum", "none")],
    case("", "F.kl_div(x, _y, reduction='batchmean', log_target=True)", **XY),
    case("nn.PoissonNLLLoss()", "m(x, _y)", **XY),
    case("nn.PoissonNLLLoss(log_input=False, full=True)", "m(x, _y)", x="p3,4", _y="=[[0.5, 1, 2, 7]] * 3"),
    case("nn.GaussianNLLLoss()", "m(x, _y, v)", **XY, v="p3,4"),
    case("nn.GaussianNLLLoss(full=True, reduction='sum')", "m(x, _y, v)", **XY, v="p3,1"),
    case("", "F.gaussian_nll_loss(x, _y, v, eps=0.4)", **XY, v="p3"),
    case("nn.SoftMarginLoss()", "m(x, _y)", **LABELS),
    case("nn.HingeEmbeddingLoss()", "m(x, _y)", **LABELS),
    case("nn.HingeEmbeddingLoss(2.0, reduction='sum')", "m(x, _y)", **LABELS),
    case("nn.MultiLabelSoftMarginLoss()", "m(x, _y)", x="3,4", _y="p3,4"),
    case("", "F.multilabel_soft_margin_loss(x, _y, _w, reduction='none')", x="3,4", _y="p3,4", _w="p4"),
    case("nn.MultiMarginLoss()", "m(x, _y)", x="3,4", _y="i3<4"),
    case("", "F.multi_margin_loss(x, _y, 2, 0.5, _w, reduction='none')", x="3,4", _y="i3<4", _w="p4"),
    case("", "F.multi_margin_loss(x, _y)", x="4", _y="=2"),
    case(
        "nn.MultiLabelMarginLoss()",
        "m(x, _y)",
        x="3,4",
        _y="=[[3, 0, -1, 1], [-1, 0, 1, 2], [1, 0, 3, 2]]",
    ),
    case("", "F.multilabel_margin_loss(x, _y, reduction='sum')", x="4", _y="=[1, 2, -1, 0]"),
    case("nn.CosineEmbeddingLoss()", "m(x, y, _z)", **PAIRS),
    case("nn.CosineEmbeddingLoss(0.3, reduction='none')", "m(x, y, _z)", **PAIRS),
    case("nn.MarginRankingLoss(0.5)", "m(x, y, _z)", x="3", y="3", _z="=[1, -1, 1]"),
    case("nn.TripletMarginLoss()", "m(x, y, z)", **TRIPLETS),
    case("nn.TripletMarginLoss(0.7, p=1, swap=True, reduction='none')", "m(x, y, z)", **TRIPLETS),
    case("nn.TripletMarginWithDistanceLoss(distance_function=F.cosine_similarity)", "m(x, y, z)", **TRIPLETS),
    case("nn.CTCLoss()", "m(F.log_softmax(x, 2), _y, _n, _k)", x="6,3,5", _y="=[[1, 2, 2], [4, 3, 0], [1, 1, 0]]",
         _n="=[6, 5, 6]", _k="=[3, 2, 2]"),
    case("", "F.ctc_loss(F.log_softmax(x, 2), _y, (6, 5), (3, 1), blank=4, reduction='none')", x="6,2,5",
         _y="=[1, 1, 2, 3]"),
    case("nn.CTCLoss(reduction='sum', zero_infinity=True)", "m(F.log_softmax(x, 2), _y, (3, 3), (3, 2))", x="3,2,5",
         _y="=[[1, 1, 2], [3, 2, 0]]"),
    case("", "F.ctc_loss(F.log_softmax(x, 1), _y, _n, _k)", x="4,5", _y="=[1, 2]", _n="=4", _k="=2"),
]  # fmt: skip
