"""Kernels without a model: workload names such as ``gemm:512x512x512``, and files that hold kernels."""
