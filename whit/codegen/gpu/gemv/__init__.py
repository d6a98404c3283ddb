"""Products of few rows on a GPU (GEMV, skinny GEMM): matrices that are read once, at the speed of memory."""
