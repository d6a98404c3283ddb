"""scikit-learn on tensors with `array_api_dispatch`: what is fitted, predicted and measured is what NumPy gives."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from arrays.library import SAMPLES, arguments, assert_same, calls
from whit import Tensor

if not os.environ.get("SCIPY_ARRAY_API"):  # SciPy reads it when it is imported, and scikit-learn asks for it
    pytest.skip("`make arrays` runs it", allow_module_level=True)
sklearn = pytest.importorskip("sklearn")
config_context = sklearn.config_context

from sklearn import metrics, model_selection, pipeline, preprocessing  # noqa: E402  # after the setting
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeCV  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402

# estimator, what it is fitted to, attributes, methods
ESTIMATORS: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    "PCA": (lambda: PCA(2, svd_solver="full"), "X", "components_ explained_variance_ mean_", "transform"),
    "PCA by eigenvalues": (lambda: PCA(2, svd_solver="covariance_eigh"), "X", "explained_variance_", "transform"),
    "PCA, random": (
        lambda: PCA(2, svd_solver="randomized", random_state=0, power_iteration_normalizer="QR"),
        "X",
        "singular_values_",
        "transform",
    ),
    "Ridge": (lambda: Ridge(solver="svd"), "X, Y", "coef_ intercept_", "predict"),
    "RidgeCV": (RidgeCV, "X, y", "coef_", "predict"),
    "RidgeClassifier": (lambda: RidgeClassifier(solver="svd"), "X, c", "coef_", "predict"),
    "LinearDiscriminantAnalysis": (LinearDiscriminantAnalysis, "X, c", "coef_", "predict predict_proba"),
    "GaussianNB": (GaussianNB, "X, c", "theta_ var_", "predict predict_proba"),
    "GaussianMixture": (
        lambda: GaussianMixture(2, random_state=0, init_params="random", max_iter=5, tol=0.0),
        "X",
        "means_ weights_",
        "predict predict_proba",
    ),
    "StandardScaler": (preprocessing.StandardScaler, "X", "mean_ scale_", "transform"),
    "MinMaxScaler": (preprocessing.MinMaxScaler, "X", "min_ scale_", "transform"),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler, "X", "scale_", "transform"),
    "Normalizer": (preprocessing.Normalizer, "X", "", "transform"),
    "Binarizer": (preprocessing.Binarizer, "X", "", "transform"),
    "PolynomialFeatures": (preprocessing.PolynomialFeatures, "X", "", "transform"),
    "LabelEncoder": (preprocessing.LabelEncoder, "c", "classes_", "transform inverse_transform"),
    "pipeline": (
        lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), PCA(3, svd_solver="full"), Ridge(solver="svd")),
        "X, y",
        "",
        "predict",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator(name: str) -> None:
    make, given, attributes, methods = ESTIMATORS[name]
    theirs = make().fit(*arguments(given, is_ours=False)[0])
    with config_context(array_api_dispatch=True):
        mine = make().fit(*arguments(given, is_ours=True)[0])
        for attribute in attributes.split():
            assert_same(getattr(mine, attribute), getattr(theirs, attribute))
        for method in methods.split():
            found = getattr(mine, method)(*arguments(given.partition(",")[0], is_ours=True)[0])
            with config_context(array_api_dispatch=False):
                expected = getattr(theirs, method)(*arguments(given.partition(",")[0], is_ours=False)[0])
            assert_same(found, expected)


METRICS = """
mean_squared_error: y, near
mean_absolute_error: y, near
r2_score: y, near
max_error: y, near
explained_variance_score: y, near
median_absolute_error: y, near
mean_pinball_loss: y, near
mean_gamma_deviance: q, q * 1.5
accuracy_score: c, d
zero_one_loss: c, d
f1_score: c, d
precision_score: c, d
recall_score: c, d
jaccard_score: c, d
balanced_accuracy_score: c, d
cohen_kappa_score: c, d
hamming_loss: c, d
confusion_matrix: c, d
precision_recall_fscore_support: c, d
log_loss: c, q
roc_auc_score: c, q
brier_score_loss: c, q
average_precision_score: c, q
roc_curve: c, q
det_curve: c, q
pairwise.cosine_similarity: P, Q
pairwise.euclidean_distances: P, Q
pairwise.linear_kernel: P, Q
pairwise.polynomial_kernel: P, Q
pairwise.rbf_kernel: P, Q
pairwise.sigmoid_kernel: P, Q
pairwise.laplacian_kernel: P, Q
pairwise.manhattan_distances: P, Q
pairwise.chi2_kernel: P, Q
pairwise.paired_cosine_distances: P, Q
"""


@pytest.mark.parametrize(("name", "given"), calls(METRICS))
def test_metric(name: str, given: str) -> None:
    function: Any = metrics
    for part in name.split("."):
        function = getattr(function, part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, keywords = arguments(given, is_ours=False)
        theirs = function(*args, **keywords)
        args, keywords = arguments(given, is_ours=True)
        with config_context(array_api_dispatch=True):
            mine = function(*args, **keywords)
    assert_same(mine, theirs)


def test_data_is_split_and_models_are_chosen() -> None:
    x, c, y = (SAMPLES[name] for name in ("X", "c", "y"))
    search = {"alpha": [0.1, 1.0]}
    with config_context(array_api_dispatch=True):
        first, _ = model_selection.train_test_split(Tensor(x), random_state=0)
        predicted = model_selection.cross_val_predict(LinearDiscriminantAnalysis(), Tensor(x), Tensor(c), cv=3)
        chosen = model_selection.GridSearchCV(Ridge(solver="svd"), search, cv=3, error_score="raise")
        chosen.fit(Tensor(x), Tensor(y))
    assert_same(first, model_selection.train_test_split(x, random_state=0)[0])
    np.testing.assert_array_equal(
        np.asarray(predicted), model_selection.cross_val_predict(LinearDiscriminantAnalysis(), x, c, cv=3)
    )
    expected = model_selection.GridSearchCV(Ridge(solver="svd"), search, cv=3).fit(x, y)
    assert chosen.best_params_ == expected.best_params_


def test_wrong_data_is_refused() -> None:
    with config_context(array_api_dispatch=True):
        with pytest.raises(ValueError, match="NaN"):
            PCA(1, svd_solver="full").fit(Tensor([[float("nan"), 1.0], [1.0, 2.0]]))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            Ridge(solver="svd").fit(Tensor(SAMPLES["X"]), Tensor(SAMPLES["y"][:3]))
