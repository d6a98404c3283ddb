"""Operators of `com.microsoft` that exporters and optimisers of graphs write."""

from whit.onnx.operators.microsoft import attention as attention
from whit.onnx.operators.microsoft import fused as fused
from whit.onnx.operators.microsoft import group_attention as group_attention
from whit.onnx.operators.microsoft import others as others
from whit.onnx.operators.microsoft import quantised as quantised
