"""Kernels of the tuned model and nodes of onnxruntime, brought together by what they compute.

The two fuse in different ways, so they are compared by their anchor: the convolution, product or normalisation that
the rest hangs on. Pure: records in, records out.

The sizes of a kind are those that its cost depends on:

- convolutions: output channels, output pixels (batch included), products per output;
- gemm, batched gemm: batch, rows, columns, products per output;
- softmax, layer norm: rows, columns;
- gelu: elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gap_records import Experiment, Kernel, Profile

#: In which order groups are shown.
KINDS = (
    "conv 1x1",
    "conv 3x3",
    "conv, other filters",
    "depthwise conv",
    "gemm",
    "batched gemm",
    "softmax",
    "layer norm",
    "gelu",
    "other",
    "reorder",
)
REORDER, OTHER = "reorder", "other"
#: Those whose FLOP are counted in the same way on both sides.
COUNTED = ("conv 1x1", "conv 3x3", "conv, other filters", "depthwise conv", "gemm", "batched gemm")
#: What must agree of the FLOP of a group for its figures to be of the same work.
FLOP_TOLERANCE = 0.01

Sizes = tuple[int, ...]
Shape = Sequence[int]


@dataclass(frozen=True)
class Anchor:
    """What a kernel or node is compared by."""

    kind: str
    sizes: Sizes
    flop_count: int | None


def anchor_of_node(operator: str, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Anchor:
    """The anchor of a node of onnxruntime, by the shapes in its profile, which leaves out prepacked weights."""
    if operator in ("Conv", "FusedConv") and len(inputs) > 1:
        _, channels, *pixels = outputs[0]
        n_pixels = outputs[0][0] * math.prod(pixels)
        return _convolution(channels, n_pixels, inputs[1][1], inputs[1][2:], is_depthwise=_is_depthwise(inputs))
    if operator in ("MatMul", "FusedMatMul", "Gemm", "FusedGemm"):
        *batch, rows, columns = outputs[0] if len(outputs[0]) > 1 else (1, *outputs[0])
        is_batched = len(inputs) > 1 and len(inputs[1]) > 2
        return _product(math.prod(batch), rows, columns, inputs[0][-1], is_batched=is_batched)
    if operator == "Softmax":
        return Anchor("softmax", _rows(outputs[0]), None)
    if operator in ("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization"):
        return Anchor("layer norm", _rows(outputs[0]), None)
    if operator in ("Gelu", "BiasGelu", "FastGelu", "QuickGelu"):
        return Anchor("gelu", (math.prod(outputs[0]),), None)
    return Anchor(REORDER if operator.startswith("Reorder") else OTHER, (), None)


def anchor_of_kernel(
    axes: Sequence[tuple[str, int]], label: str, arg_shapes: Sequence[Shape], flop_count: int
) -> Anchor:
    """The anchor of a kernel, by its blocks' iterators (``block.iterator``, extent), label and arguments."""
    blocks: dict[str, list[int]] = {}
    for name, extent in axes:
        blocks.setdefault(name.rpartition(".")[0], []).append(extent)
    for block, extents in blocks.items():
        if block in ("conv2d_nchw", "group_conv2d_nchw") and len(extents) == 7:
            n, channels, height, width, depth, *window = extents
            is_depthwise = block.startswith("group") and depth == 1
            return _convolution(channels, n * height * width, depth, window, is_depthwise=is_depthwise)
        if block in ("matmul", "NT_matmul", "batch_matmul", "dense"):
            *batch, rows, columns, depth = extents
            return _product(math.prod(batch), rows, columns, depth, is_batched=min(map(len, arg_shapes[:2])) > 2)
    words = label.split(" + ")
    if "erf" in words:
        return Anchor("gelu", (math.prod(arg_shapes[-1]),), flop_count)
    kind = next((kind for kind in ("softmax", "layer norm") if _has_word(words, kind)), OTHER)
    return Anchor(kind, () if kind == OTHER else _rows(arg_shapes[-1]), flop_count)


def _has_word(words: Sequence[str], kind: str) -> bool:
    return any(word.startswith(kind.replace(" ", "_")) for word in words)


def _is_depthwise(inputs: Sequence[Shape]) -> bool:
    weights = inputs[1]
    return weights[1] == 1 and inputs[0][1] > 1


def _convolution(channels: int, n_pixels: int, depth: int, window: Shape, *, is_depthwise: bool) -> Anchor:
    n_products = depth * math.prod(window)
    if is_depthwise:
        kind = "depthwise conv"
    else:
        filters = "x".join(map(str, window))
        kind = f"conv {filters}" if f"conv {filters}" in KINDS else "conv, other filters"
    return Anchor(kind, (channels, n_pixels, n_products), 2 * channels * n_pixels * n_products)


def _product(batch: int, rows: int, columns: int, depth: int, *, is_batched: bool) -> Anchor:
    if not is_batched:  # the batch of a constant matrix is only more rows
        batch, rows = 1, batch * rows
    sizes = (batch, rows, columns, depth)
    return Anchor("batched gemm" if is_batched else "gemm", sizes, 2 * math.prod(sizes))


def _rows(shape: Shape) -> Sizes:
    return (math.prod(shape[:-1]), shape[-1])


@dataclass(frozen=True)
class Group:
    """All kernels and nodes of one kind: FLOP and seconds of one call of the model, ours and theirs."""

    kind: str
    n_kernels: int
    n_nodes: int
    our_flop: int
    their_flop: int | None
    our_secs: float
    their_secs: float

    @property
    def gap_secs(self) -> float:
        """What we lose; negative where we win."""
        return self.our_secs - self.their_secs

    @property
    def is_same_work(self) -> bool | None:
        """Whether the FLOP agree, None where they are not counted."""
        if self.their_flop is None or not self.n_kernels or not self.n_nodes:
            return None
        return abs(self.our_flop - self.their_flop) <= FLOP_TOLERANCE * max(self.our_flop, self.their_flop)


def groups_of(profile: Profile) -> list[Group]:
    """The kinds that occur on either side, in the order of `KINDS`."""
    found = []
    for kind in KINDS:
        kernels = [kernel for kernel in profile.kernels if kernel.kind == kind]
        nodes = [node for node in profile.nodes if node.kind == kind]
        if kernels or nodes:
            counted = [node.flop_count for node in nodes if node.flop_count is not None]
            found.append(
                Group(
                    kind,
                    sum(kernel.weight for kernel in kernels),
                    len(nodes),
                    sum(kernel.weight * kernel.flop_count for kernel in kernels),
                    sum(counted) if len(counted) == len(nodes) else None,
                    sum(kernel.secs for kernel in kernels),
                    sum(node.secs for node in nodes),
                )
            )
    return found


@dataclass(frozen=True)
class Pair:
    """A kernel and what onnxruntime takes for a node that does the same: seconds of one call of either."""

    kernel: Kernel
    their_secs: float

    @property
    def lost_secs(self) -> float:
        """What all calls of it lose in one call of the model."""
        return self.kernel.weight * (self.kernel.call_secs - self.their_secs)


def pairs_of(profile: Profile) -> list[Pair]:
    """Kernels that have nodes of the same kind and sizes, those that lose most first."""
    nodes: dict[tuple[str, Sizes], list[float]] = {}
    for node in profile.nodes:
        if node.sizes:
            nodes.setdefault((node.kind, node.sizes), []).append(node.secs)
    pairs = [
        Pair(kernel, sum(alike) / len(alike))
        for kernel in profile.kernels
        if (alike := nodes.get((kernel.kind, kernel.sizes)))
    ]
    return sorted(pairs, key=lambda pair: -pair.lost_secs)


def losers_of(profile: Profile, n: int) -> list[Pair]:
    """The kernels that lose most, at most so many; none that wins."""
    return [pair for pair in pairs_of(profile)[:n] if pair.lost_secs > 0]


@dataclass(frozen=True)
class Shares:
    """Where a kernel's gap comes from, in seconds; they add up to the whole gap.

    ``neighbours`` is what the kernel takes longer inside the model than by itself: caches. ``code`` is what is left
    when the search was long and the layout the other's.
    """

    neighbours: float
    schedule: float
    space: float
    code: float

    @property
    def gap_secs(self) -> float:
        """The sum of all."""
        return self.neighbours + self.schedule + self.space + self.code

    def __add__(self, other: Shares) -> Shares:
        return Shares(
            self.neighbours + other.neighbours,
            self.schedule + other.schedule,
            self.space + other.space,
            self.code + other.code,
        )

    def times(self, n: int) -> Shares:
        """Those of so many calls."""
        return Shares(n * self.neighbours, n * self.schedule, n * self.space, n * self.code)


#: The part of the largest cause's cost from which on another is as large, for all that timing can tell.
_RIVAL = 0.75
NO_SHARES = Shares(0.0, 0.0, 0.0, 0.0)
#: The verdicts, as they are written.
CAUSES: Mapping[str, str] = {"schedule": "schedule", "space": "space (layout)", "code": "code generation"}


def shares_of(pair: Pair, experiment: Experiment) -> Shares:
    """Of one call. A search that found nothing better loses nothing, nor does a layout that is not faster."""
    plain_secs = min(experiment.first_secs, experiment.long_secs)
    packed_secs = plain_secs if experiment.packed_secs is None else min(plain_secs, experiment.packed_secs)
    return Shares(
        neighbours=pair.kernel.call_secs - experiment.first_secs,
        schedule=experiment.first_secs - plain_secs,
        space=plain_secs - packed_secs,
        code=packed_secs - pair.their_secs,
    )


def verdict_of(shares: Shares) -> str | None:
    """The largest of the three causes, None where none of them costs anything."""
    cause = max(CAUSES, key=lambda name: getattr(shares, name))
    return CAUSES[cause] if getattr(shares, cause) > 0 else None


def rivals_of(shares: Shares) -> list[str]:
    """The causes that cost nearly as much as the largest: which of them is larger may be another by chance."""
    largest = verdict_of(shares)
    costs = {told: getattr(shares, name) for name, told in CAUSES.items()}
    return [told for told in costs if largest and told != largest and costs[told] >= _RIVAL * costs[largest]]


def total_of(parts: Iterable[Shares]) -> Shares:
    """All of them together."""
    return sum(parts, NO_SHARES)
