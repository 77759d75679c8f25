"""The workbench: compile, check, time and count kernels. The only room with CuPy and CUDA; it knows no prediction."""
