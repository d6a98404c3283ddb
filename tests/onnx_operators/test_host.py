"""Strings, pictures, trees, tables: what the host does, and models of features."""

import struct
import zlib

import numpy as np
import pytest

from onnx_operators.nodes import run
from whit import Tensor
from whit.errors import ArgumentError

LEARNING = "ai.onnx.ml"


def texts(*rows):
    return np.array(rows, dtype=object)


def test_strings_are_joined_split_and_matched():
    assert run("StringConcat", texts("a", "b"), texts("c")).tolist() == ["ac", "bc"]
    parts, counts = run("StringSplit", texts("a b", " c"), outputs=2)
    assert (parts.tolist(), counts.tolist()) == ([["a", "b"], ["c", ""]], [2, 1])
    assert run("RegexFullMatch", texts("ab", "abc"), pattern="a.").tolist() == [True, False]
    with pytest.raises(ArgumentError, match="pattern"):
        run("RegexFullMatch", texts("a"), pattern="(")
    assert run("Equal", texts("a", "b"), texts("a", "c")).tolist() == [True, False]
    assert run("StringNormalizer", texts("The", "Cat"), stopwords=["the"], case_change_action="UPPER").tolist() == [
        "CAT"
    ]


def test_n_grams_are_counted():
    about = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1}
    pool = {"ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [5, 6, 5, 6]}
    assert run("TfIdfVectorizer", np.array([5, 6, 5, 6]), **about, **pool).tolist() == [2, 2, 2]


def png(pixels):
    """As a file, each row with another filter."""
    height, width, channels = pixels.shape
    rows, above = [], np.zeros(width * channels, int)
    for number, line in enumerate(pixels.reshape(height, -1).astype(int)):
        left = np.concatenate([np.zeros(channels, int), line[:-channels]])
        corner = np.concatenate([np.zeros(channels, int), above[:-channels]])
        guess = left + above - corner
        near = np.stack([abs(guess - left), abs(guess - above), abs(guess - corner)]).argmin(0)
        paeth = np.choose(near, [left, above, corner])
        kind = number % 5
        before = [0 * left, left, above, (left + above) // 2, paeth][kind]
        rows.append(bytes([kind]) + ((line - before) % 256).astype(np.uint8).tobytes())
        above = line
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    chunks = [struct.pack(">I", len(body)) + kind + body + b"\0\0\0\0" for kind, body in parts]
    return np.frombuffer(b"\x89PNG\r\n\x1a\n" + b"".join(chunks), np.uint8)


def test_a_png_with_all_filters():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 3)).astype(np.uint8)
    assert (run("ImageDecoder", png(pixels)) == pixels).all()
    assert (run("ImageDecoder", png(pixels), pixel_format="BGR") == pixels[:, :, ::-1]).all()
    assert run("ImageDecoder", png(pixels), pixel_format="Grayscale").shape == (6, 4, 1)


def test_a_picture_that_is_cut_off_is_no_picture():
    pixels = np.zeros((6, 4, 3), np.uint8)
    assert run("ImageDecoder", png(pixels)[:50]).shape == (0, 0, 3)
    assert (
        run("ImageDecoder", np.frombuffer(b"P6 2 1 255 " + bytes(range(6)), np.uint8)) == np.arange(6).reshape(1, 2, 3)
    ).all()


TREE = {  # x[1] <= 0.5 ? 1 : (x[0] > 2 ? 10 : 100), and a tree that is a leaf
    "nodes_treeids": [0] * 5 + [1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0],
    "nodes_featureids": [1, 0, 0, 0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 2.0, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 3, 0, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0],
}


def test_rows_walk_down_trees():
    x = np.array([[0, 0], [3, 1], [0, 1], [0, np.nan]], np.float32)
    leaves = {"target_treeids": [0, 0, 0, 1], "target_nodeids": [1, 3, 4, 0], "target_ids": [0] * 4}
    weights = {"target_weights": [1.0, 10.0, 100.0, 0.5], "n_targets": 1}
    about = {"domain": LEARNING, "version": 3, **TREE, **leaves, **weights}
    assert run("TreeEnsembleRegressor", x, **about).tolist() == [[1.5], [10.5], [100.5], [1.5]]
    assert run("TreeEnsembleRegressor", x, aggregate_function="MIN", **about).tolist() == [[0.5]] * 4


def test_a_tree_that_leads_back_is_an_error():
    circle = {**TREE, "nodes_falsenodeids": [2, 0, 2, 0, 0, 0]}
    leaves = {"target_treeids": [0], "target_nodeids": [1], "target_ids": [0], "target_weights": [1.0]}
    with pytest.raises(ArgumentError, match="leads back to itself"):
        run("TreeEnsembleRegressor", np.zeros((1, 2), np.float32), domain=LEARNING, version=3, **circle, **leaves)


def test_classes_with_names():
    about = {"domain": LEARNING, "version": 1, "coefficients": [1.0, -1.0], "intercepts": [0.0], "outputs": 2}
    x = np.array([[2, 1], [1, 2]], np.float32)
    labels, scores = run("LinearClassifier", x, classlabels_strings=["no", "yes"], **about)
    assert labels.tolist() == ["yes", "no"]
    assert scores.tolist() == [[0, 1], [2, -1]]
    assert run("ZipMap", scores, domain=LEARNING, version=1, classlabels_strings=["no", "yes"])[0] == {
        "no": 0,
        "yes": 1,
    }


def test_tables_of_labels():
    about = {"domain": LEARNING, "version": 4}
    keys = {"keys_floats": [1.0, float("nan"), 1.0], "values_int64s": [3, 4, 5]}
    x = np.array([1, np.nan, 7], np.float32)
    assert run("LabelEncoder", x, **keys, **about).tolist() == [5, 4, -1]
    names = {"keys_strings": ["a"], "values_floats": [2.5], "default_float": 9.0}
    assert run("LabelEncoder", texts("a", "b"), **names, **about).tolist() == [2.5, 9.0]


def test_steps_of_optimisers_for_several_tensors():
    about = {"domain": "ai.onnx.preview.training", "version": 1, "outputs": 4}
    rate, count = np.array(0.5, np.float32), np.array(0)
    x, y = np.array([1.0], np.float32), np.array([2.0, 3.0], np.float32)
    results = run("Adagrad", rate, count, x, y, x, y, x * 0, y * 0, epsilon=0.0, **about)
    assert [part.tolist() for part in results] == [[0.5], [1.5, 2.5], [1.0], [4.0, 9.0]]


def test_random_numbers_with_a_seed_are_the_same_at_every_run():
    first, second = (run("RandomUniform", shape=[3], seed=7.0, low=1.0, high=2.0) for _ in range(2))
    assert first.tolist() == second.tolist()
    assert isinstance(first, np.ndarray)
    assert ((first >= 1) & (first < 2)).all()
    assert Tensor(run("Multinomial", np.array([[-50.0, 0.0]], np.float32), sample_size=5)).tolist() == [[1] * 5]
