"""Products of matrices on a GPU (GEMM), convolutions too: `atoms` chooses the tile, `matmul` builds the kernel."""
