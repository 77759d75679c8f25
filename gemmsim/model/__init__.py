"""What a GEMM demands of a GPU, and the time that follows."""
