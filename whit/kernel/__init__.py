"""What schedule and codegen both must know about a kernel: its ranges, what it contracts, what it costs.

ranges              free ranges, sizes, strides
contraction         sums of products of two operands: which ranges are rows, columns, depth
attention_form      contractions of contractions; attention_bounds    which keys a block of rows may see
online_softmax      attention whose keys are seen once
estimate            element operations and bytes moved, before a kernel is tiled

It lies below both, so that the answer to such a question stands in one place.
"""
