"""Operators, a file for each topic: functions of tensors, next to the versions of the standard that they implement."""

from whit.onnx.operators import activations as activations
from whit.onnx.operators import arithmetic as arithmetic
from whit.onnx.operators import casts as casts
from whit.onnx.operators import convolution as convolution
from whit.onnx.operators import creation as creation
from whit.onnx.operators import indexing as indexing
from whit.onnx.operators import linear_algebra as linear_algebra
from whit.onnx.operators import movement as movement
from whit.onnx.operators import normalisation as normalisation
from whit.onnx.operators import pooling as pooling
from whit.onnx.operators import reductions as reductions
