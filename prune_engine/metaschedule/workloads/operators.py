"""The operators that workload names can name: their grammar, and the shapes that come of their sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prune_engine.metaschedule.workloads.syntax import Sizes

#: What a name says -> type of the first input, of the weights, and in which the sum is kept and returned.
SUM_TYPES = {
    "f32": ("float32", "float32", "float32"),
    "f64": ("float64", "float64", "float64"),
    "f16": ("float16", "float16", "float16"),
    "f16-f32": ("float16", "float16", "float32"),
    "i8": ("int8", "int8", "int32"),
    "u8": ("uint8", "int8", "int32"),
}
FLOAT_TYPES = {name: (name.replace("f", "float"),) * 3 for name in ("f32", "f64", "f16")}
#: TVM's layer norm knows no others.
_LAYER_NORM_TYPES = {name: FLOAT_TYPES[name] for name in ("f32", "f16")}
DEFAULT_TYPE = "f32"

#: Options in the order they are written in.
OPTIONS = ("s", "p", "op", "d", "g", "axis")

#: Block of output columns and of the reduction that 8-bit dot products take at once.
PACKED_COLUMNS, PACKED_DEPTH = 16, 4


class WorkloadShapeError(ValueError):
    """Sizes that do not fit each other. ``got`` are the sizes concerned."""

    def __init__(self, problem: str, got: object) -> None:
        super().__init__(problem)
        self.problem, self.got = problem, got


@dataclass(frozen=True, slots=True)
class Arguments:
    """What an operator makes shapes of. ``options`` holds every option it has; s, p, op, d one per axis."""

    sizes: tuple[Sizes, ...]
    options: Mapping[str, Sizes]
    layout: str | None

    def scalar(self, option: str) -> int:
        """The value of an option that is one number."""
        return self.options[option][0]


@dataclass(frozen=True, slots=True)
class Shapes:
    """Inputs by name, in order, and the output."""

    inputs: Mapping[str, Sizes]
    output: Sizes


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the grammar.

    ``ranks`` has, for each of its sizes, the least and the greatest number of extents. ``channel_axis`` is the
    axis of the output along which ``+bias`` and ``+scale`` have their values. ``family`` names the builder.
    """

    name: str
    family: str
    grammar: str
    example: str
    meaning: str
    ranks: tuple[tuple[int, int], ...]
    options: tuple[str, ...]
    types: Mapping[str, tuple[str, str, str]]
    layouts: tuple[str, ...]
    channel_axis: int
    shapes: Callable[[Arguments], Shapes]

    def n_axes(self, sizes: tuple[Sizes, ...]) -> int:
        """Spatial axes, each of which may have its own stride and padding."""
        return len(sizes[0]) - 2


def _gemm(arguments: Arguments) -> Shapes:
    *batch, m, n, k = arguments.sizes[0]
    weights: Sizes = (k, n)
    if arguments.layout == "nt":
        weights = (n, k)
    elif arguments.layout == "packed":
        if n % PACKED_COLUMNS or k % PACKED_DEPTH:
            raise WorkloadShapeError(
                f"packed weights need N divisible by {PACKED_COLUMNS} and K by {PACKED_DEPTH}", f"N={n}, K={k}"
            )
        weights = (n // PACKED_COLUMNS, k // PACKED_DEPTH, PACKED_COLUMNS, PACKED_DEPTH)
    return Shapes({"A": (*batch, m, k), "B": (*batch, *weights)}, (*batch, m, n))


def _check_groups(channels: int, out_channels: int, groups: int) -> None:
    if groups < 1 or channels % groups or out_channels % groups:
        raise WorkloadShapeError(
            "groups must divide the input and the output channels",
            f"g{groups} for {channels} and {out_channels} channels",
        )


def _windows(image: Sizes, kernel: Sizes, arguments: Arguments) -> Sizes:
    """Extents of what a sliding window yields."""
    strides, pads = arguments.options["s"], arguments.options["p"]
    dilations = arguments.options.get("d", (1,) * len(image))
    reached = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    for size, reach, pad in zip(image, reached, pads, strict=True):
        if pad >= reach:
            raise WorkloadShapeError("the padding must be smaller than the (dilated) kernel", f"p{pad} for {reach}")
        if reach > size + 2 * pad:
            raise WorkloadShapeError(
                "the (dilated) kernel is larger than the padded input", f"{reach} on {size} + 2*{pad}"
            )
    return tuple((x + 2 * p - r) // s + 1 for x, p, r, s in zip(image, pads, reached, strides, strict=True))


def _conv(arguments: Arguments) -> Shapes:
    (n, c, *image), (o, *kernel) = arguments.sizes
    groups = arguments.scalar("g")
    _check_groups(c, o, groups)
    out = _windows(tuple(image), tuple(kernel), arguments)
    return Shapes({"X": arguments.sizes[0], "W": (o, c // groups, *kernel)}, (n, o, *out))


def _conv_transpose(arguments: Arguments) -> Shapes:
    (n, c, *image), (o, *kernel) = arguments.sizes
    groups = arguments.scalar("g")
    _check_groups(c, o, groups)
    out = []
    options = (arguments.options[name] for name in ("s", "p", "op"))
    for x, k, s, p, extra in zip(image, kernel, *options, strict=True):
        if p >= k:
            raise WorkloadShapeError("the padding must be smaller than the kernel", f"p{p} for {k}")
        if extra >= s:
            raise WorkloadShapeError("the output padding must be smaller than the stride", f"op{extra} for s{s}")
        out.append((x - 1) * s - 2 * p + k + extra)
    if min(out) < 1:
        raise WorkloadShapeError("nothing is left of the output", "x".join(map(str, out)))
    return Shapes({"X": arguments.sizes[0], "W": (c, o // groups, *kernel)}, (n, o, *out))


def _pool(arguments: Arguments) -> Shapes:
    (n, c, *image), kernel = arguments.sizes
    return Shapes({"X": arguments.sizes[0]}, (n, c, *_windows(tuple(image), kernel, arguments)))


def _global_pool(arguments: Arguments) -> Shapes:
    (n, c, *image) = arguments.sizes[0]
    return Shapes({"X": arguments.sizes[0]}, (n, c, *(1 for _ in image)))


def _unary(arguments: Arguments) -> Shapes:
    return Shapes({"X": arguments.sizes[0]}, arguments.sizes[0])


def _layer_norm(arguments: Arguments) -> Shapes:
    shape = arguments.sizes[0]
    normal = shape[arguments.scalar("axis") :]
    return Shapes({"X": shape, "gamma": normal, "beta": normal}, shape)


def _rms_norm(arguments: Arguments) -> Shapes:
    shape = arguments.sizes[0]
    return Shapes({"X": shape, "gamma": shape[arguments.scalar("axis") :]}, shape)


def _reduce(arguments: Arguments) -> Shapes:
    shape, axis = arguments.sizes[0], arguments.scalar("axis")
    return Shapes({"X": shape}, (*shape[:axis], 1, *shape[axis + 1 :]))


_IMAGE = {1: "W", 2: "HxW", 3: "DxHxW"}
_IMAGE_SIZES = {1: "100", 2: "56x56", 3: "8x28x28"}
_KERNEL = {1: "KW", 2: "KHxKW", 3: "KDxKHxKW"}
_KERNEL_SIZES = {1: "3", 2: "3x3", 3: "3x3x3"}
_MAX_RANK = 8


def _convolutions() -> list[Operator]:
    made = []
    for n, image in _IMAGE.items():
        shared = {"ranks": ((n + 2, n + 2), (n + 1, n + 1)), "types": SUM_TYPES, "layouts": (), "channel_axis": 1}
        made.append(
            Operator(
                name=f"conv{n}d",
                family="conv",
                grammar=f"conv{n}d:NxCx{image},Ox{_KERNEL[n]}[,sS][,pP][,dD][,gG][:TYPE][+STEP...]",
                example=f"conv{n}d:1x16x{_IMAGE_SIZES[n]},32x{_KERNEL_SIZES[n]},p1",
                meaning="convolution; X and W as ONNX has them, W is O x C/G x kernel; depthwise is G = C",
                options=("s", "p", "d", "g"),
                shapes=_conv,
                **shared,  # type: ignore[arg-type]
            )
        )
        made.append(
            Operator(
                name=f"conv{n}d_transpose",
                family="conv_transpose",
                grammar=f"conv{n}d_transpose:NxCx{image},Ox{_KERNEL[n]}[,sS][,pP][,opP][,gG][:TYPE][+STEP...]",
                example=f"conv{n}d_transpose:1x16x{_IMAGE_SIZES[n]},8x{_KERNEL_SIZES[n]},s2,p1,op1",
                meaning="transposed convolution; W is C x O/G x kernel; op is the output padding",
                options=("s", "p", "op", "g"),
                shapes=_conv_transpose,
                **shared,  # type: ignore[arg-type]
            )
        )
    return made


def _poolings() -> list[Operator]:
    made = []
    for kind, meaning in (("max", "largest of a window"), ("avg", "mean of a window, padding not counted")):
        for n, image in _IMAGE.items():
            made.append(
                Operator(
                    name=f"{kind}_pool{n}d",
                    family="pool",
                    grammar=f"{kind}_pool{n}d:NxCx{image},{_KERNEL[n]}[,sS][,pP][,dD][:TYPE][+STEP...]",
                    example=f"{kind}_pool{n}d:1x16x{_IMAGE_SIZES[n]},{_KERNEL_SIZES[n]},s2,p1",
                    meaning=meaning,
                    ranks=((n + 2, n + 2), (n, n)),
                    options=("s", "p", "d"),
                    types=FLOAT_TYPES,
                    layouts=(),
                    channel_axis=1,
                    shapes=_pool,
                )
            )
        made.append(
            Operator(
                name=f"global_{kind}_pool",
                family="reduce",
                grammar=f"global_{kind}_pool:NxCxHxW[:TYPE][+STEP...]",
                example=f"global_{kind}_pool:1x512x7x7",
                meaning=f"{'largest' if kind == 'max' else 'mean'} over all spatial axes (1 to 3)",
                ranks=((3, 5),),
                options=(),
                types=FLOAT_TYPES,
                layouts=(),
                channel_axis=1,
                shapes=_global_pool,
            )
        )
    return made


def _along_an_axis() -> list[Operator]:
    kinds: list[tuple[str, str, str, Callable[[Arguments], Shapes]]] = [
        ("softmax", "softmax", "softmax along one axis", _unary),
        ("log_softmax", "softmax", "logarithm of the softmax along one axis", _unary),
        ("layer_norm", "norm", "layer norm with gamma and beta, over the axes from axisN on", _layer_norm),
        ("rms_norm", "norm", "root-mean-square norm with gamma, over the axes from axisN on", _rms_norm),
        *((f"reduce_{kind}", "reduce", f"{kind} along one axis, which stays, with extent 1", _reduce)
          for kind in ("sum", "mean", "max", "min")),
        *((f"arg{kind}", "reduce", f"where the {kind} is along one axis, which stays, with extent 1", _reduce)
          for kind in ("max", "min")),
    ]  # fmt: skip
    return [
        Operator(
            name=name,
            family=family,
            grammar=f"{name}:AxBx...[,axisN][:TYPE][+STEP...]",
            example=f"{name}:128x768",
            meaning=f"{meaning}; the last unless axisN says another, counted from 0",
            ranks=((1, _MAX_RANK),),
            options=("axis",),
            types=_LAYER_NORM_TYPES if name == "layer_norm" else FLOAT_TYPES,
            layouts=(),
            channel_axis=-1,
            shapes=shapes,
        )
        for name, family, meaning, shapes in kinds
    ]


_LIST = [
    Operator(
        name="gemm",
        family="matmul",
        grammar="gemm:MxNxK[:TYPE][:nt|:packed][+STEP...]",
        example="gemm:512x512x512+bias+relu",
        meaning="matrix product: A is MxK, B is KxN (NxK with nt), the output is MxN",
        ranks=((3, 3),),
        options=(),
        types=SUM_TYPES,
        layouts=("nt", "packed"),
        channel_axis=-1,
        shapes=_gemm,
    ),
    Operator(
        name="bmm",
        family="matmul",
        grammar="bmm:BxMxNxK[:TYPE][:nt][+STEP...]",
        example="bmm:12x128x128x64",
        meaning="B matrix products: A is BxMxK, B is BxKxN (BxNxK with nt)",
        ranks=((4, 4),),
        options=(),
        types=SUM_TYPES,
        layouts=("nt",),
        channel_axis=-1,
        shapes=_gemm,
    ),
    *_convolutions(),
    *_poolings(),
    *_along_an_axis(),
    Operator(
        name="elementwise",
        family="elementwise",
        grammar="elementwise:AxBx...[:TYPE]+STEP[+STEP...]",
        example="elementwise:1024x1024+add+tanh+mul+relu",
        meaning="a chain of steps",
        ranks=((1, _MAX_RANK),),
        options=(),
        types=FLOAT_TYPES,
        layouts=(),
        channel_axis=-1,
        shapes=_unary,
    ),
]

OPERATORS: Mapping[str, Operator] = {operator.name: operator for operator in _LIST}


def n_elements(shape: Sizes) -> int:
    """Product of the extents."""
    return math.prod(shape)
