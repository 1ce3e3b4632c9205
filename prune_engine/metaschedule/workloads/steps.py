"""What can follow an operator, element by element: ``+bias+relu``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an epilogue.

    ``operand`` is what it takes besides the running result: nothing, one value per channel, or a tensor of the
    result's shape. ``floats_only`` excludes it where the result is of integers.
    """

    name: str
    meaning: str
    operand: Literal["none", "channel", "tensor"] = "none"
    floats_only: bool = False


_LIST = [
    Step("bias", "add one value per channel (the last axis; of images the second)", "channel"),
    Step("scale", "multiply by one value per channel", "channel"),
    Step("add", "add a tensor of the same shape", "tensor"),
    Step("sub", "subtract a tensor of the same shape", "tensor"),
    Step("mul", "multiply by a tensor of the same shape", "tensor"),
    Step("max", "the larger of this and a tensor of the same shape", "tensor"),
    Step("min", "the smaller of this and a tensor of the same shape", "tensor"),
    Step("relu", "max(x, 0)"),
    Step("abs", "absolute value"),
    Step("neg", "-x"),
    Step("leaky_relu", "x, or 0.01 x below 0", floats_only=True),
    Step("gelu", "x (1 + erf(x / sqrt 2)) / 2", floats_only=True),
    Step("silu", "x sigmoid(x)", floats_only=True),
    Step("sigmoid", "1 / (1 + exp(-x))", floats_only=True),
    Step("tanh", "hyperbolic tangent", floats_only=True),
    Step("exp", "exponential", floats_only=True),
]

STEPS: Mapping[str, Step] = {step.name: step for step in _LIST}
