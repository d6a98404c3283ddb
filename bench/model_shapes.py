"""Matrix products of real models: 64 of them, as (model, batch, m, k, n, layout).

Layout "nn" is x @ w with w of (k, n), "nt" is a linear layer with w of (n, k), "tn" the gradient of a weight. A
convolution is its im2col product: weights (channels, window) times columns (window, pixels). Batch 0 is no batch.
"""

from __future__ import annotations

Shape = tuple[str, int, int, int, int, str]

BERT: list[Shape] = [
    *(("BERT-base t128", 0, 128, k, n, "nt") for k, n in ((768, 768), (768, 3072), (3072, 768))),
    *(("BERT-base 8 x t64", 0, 512, k, n, "nt") for k, n in ((768, 768), (768, 3072), (3072, 768))),
    *(("BERT-large t64", 0, 64, k, n, "nt") for k, n in ((1024, 1024), (1024, 4096), (4096, 1024))),
    ("BERT-base scores", 12, 128, 64, 128, "nt"),
    ("BERT-base values", 12, 128, 128, 64, "nn"),
    ("BERT-base pooler", 0, 8, 768, 768, "nt"),
    ("MiniLM t40", 0, 40, 384, 1536, "nt"),
    ("MiniLM t40", 0, 40, 1536, 384, "nt"),
]
GPT2: list[Shape] = [
    *(("GPT-2 t64", 0, 64, k, n, "nn") for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768))),
    *(("GPT-2 t256", 0, 256, k, n, "nn") for k, n in ((768, 2304), (3072, 768))),
    *(("GPT-2 decode", 0, 1, k, n, "nn") for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768))),
    ("GPT-2 logits", 0, 1, 768, 50257, "nt"),
    ("GPT-2 logits t16", 0, 16, 768, 50257, "nt"),
    ("GPT-2 scores", 12, 64, 64, 64, "nt"),
    ("GPT-2 values", 12, 64, 64, 64, "nn"),
    ("GPT-2 decode scores", 12, 1, 64, 256, "nt"),
    ("GPT-2 decode values", 12, 1, 256, 64, "nn"),
    ("GPT-2 train dw", 0, 768, 256, 768, "tn"),
]
LLAMA: list[Shape] = [
    *(("Llama-7B decode", 0, 1, k, n, "nt") for k, n in ((4096, 4096), (4096, 11008), (11008, 4096))),
    *(("Llama-7B t4", 0, 4, k, n, "nt") for k, n in ((4096, 4096), (4096, 11008))),
    ("Llama-7B t32", 0, 32, 4096, 4096, "nt"),
    *(("TinyLlama decode", 0, 1, k, n, "nt") for k, n in ((2048, 256), (2048, 2048), (2048, 5632), (5632, 2048))),
    *(("TinyLlama t32", 0, 32, k, n, "nt") for k, n in ((2048, 256), (2048, 5632), (5632, 2048))),
    *(("SmolLM-135M t20", 0, 20, k, n, "nt") for k, n in ((576, 192), (576, 576), (576, 1536), (1536, 576))),
]
RESNET: list[Shape] = [
    ("ResNet stem", 0, 64, 147, 12544, "nn"),
    *(("ResNet 3x3", 0, m, k, n, "nn") for m, k, n in ((64, 576, 3136), (128, 1152, 784), (256, 2304, 196))),
    ("ResNet 3x3", 0, 512, 4608, 49, "nn"),
    *(("ResNet 1x1", 0, m, k, n, "nn") for m, k, n in ((256, 64, 3136), (64, 256, 3136), (512, 2048, 49))),
    ("ResNet-18 head", 0, 1, 512, 1000, "nt"),
    ("ResNet-50 head", 0, 8, 2048, 1000, "nt"),
]
MLPS: list[Shape] = [
    ("MNIST MLP", 0, 128, 784, 512, "nt"),
    ("MNIST MLP", 0, 128, 512, 10, "nt"),
    ("MNIST MLP dw", 0, 512, 128, 784, "tn"),
    ("tabular MLP", 0, 1024, 13, 512, "nt"),
    ("recommender MLP", 0, 256, 479, 1024, "nt"),
    ("mixer tokens", 8, 196, 196, 384, "nn"),
]
SHAPES: list[Shape] = [*BERT, *GPT2, *LLAMA, *RESNET, *MLPS]
