"""Operators of `ai.onnx.ml`: features, labels, linear models, support vectors, trees."""

from whit.onnx.operators.learning import features as features
from whit.onnx.operators.learning import labels as labels
from whit.onnx.operators.learning import linear_models as linear_models
from whit.onnx.operators.learning import trees as trees
from whit.onnx.operators.learning import vectors as vectors
