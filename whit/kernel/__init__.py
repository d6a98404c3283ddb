"""What schedule and codegen both must know about a kernel: its ranges, what it contracts, what it costs.

ranges              free ranges, sizes, strides
contraction         sums of products of two operands: which ranges are rows, columns, depth
attention_form      contractions of contractions; attention_bounds    which keys a block of rows may see
online_softmax      attention whose keys are seen once
cost                operations, bytes, launches and their seconds; estimate    those of a kernel, before it is tiled
rates               what machines do in a second, in one table

It lies below both, so that the answer to such a question stands in one place.
"""
