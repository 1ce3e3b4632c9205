"""Kernels that no compiler of ours reads: spaces of named parameters, and the engine without its loop for them."""
