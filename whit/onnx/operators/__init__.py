"""Operators, a file for each topic: functions of tensors, next to the versions of the standard that they implement."""

from whit.onnx.operators import activations as activations
from whit.onnx.operators import arithmetic as arithmetic
from whit.onnx.operators import attention as attention
from whit.onnx.operators import casts as casts
from whit.onnx.operators import convolution as convolution
from whit.onnx.operators import creation as creation
from whit.onnx.operators import image as image
from whit.onnx.operators import indexing as indexing
from whit.onnx.operators import learning as learning
from whit.onnx.operators import linear_algebra as linear_algebra
from whit.onnx.operators import losses as losses
from whit.onnx.operators import microsoft as microsoft
from whit.onnx.operators import movement as movement
from whit.onnx.operators import normalisation as normalisation
from whit.onnx.operators import pictures as pictures
from whit.onnx.operators import pooling as pooling
from whit.onnx.operators import quantised as quantised
from whit.onnx.operators import random_numbers as random_numbers
from whit.onnx.operators import recurrent as recurrent
from whit.onnx.operators import reductions as reductions
from whit.onnx.operators import resize as resize
from whit.onnx.operators import signals as signals
from whit.onnx.operators import strings as strings
from whit.onnx.operators import training as training
