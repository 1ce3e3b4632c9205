"""From a checked workload to its kernel, written as TVM's model importers write theirs.

The same operators give the same kernel, block names included, as a layer of an imported model, so their tasks
have one identity and share measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.workloads.names import Workload
from prune_engine.metaschedule.workloads.operators import PACKED_COLUMNS, PACKED_DEPTH

_EPSILON = 1e-5
_LEAK = 0.01

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def workload_kernel(workload: Workload) -> object:
    """The workload as a PrimFunc; its parameters are the inputs, the operands of the steps, and the output."""
    tvm = import_tvm()
    from tvm import relax

    # As FuseOps would mark it, but whatever is asked for stays one kernel.
    is_fused = len(workload.steps) + (workload.operator.family in _BUILDERS) > 1
    builder = relax.BlockBuilder()
    variables = _variables(workload)
    with builder.function("fused" if is_fused else "main", variables, {"Primitive": True} if is_fused else {}):
        with builder.dataflow():
            result = builder.emit_output(_emit_stages(builder, workload, variables))
        fused = builder.emit_func_output(result)
    if is_fused:
        variables = _variables(workload)
        with builder.function("main", variables):
            with builder.dataflow():
                result = builder.emit_output(builder.emit(relax.Call(fused, variables)))
            builder.emit_func_output(result)
    transform = relax.transform
    passes = [transform.AnnotateTIROpPattern(), transform.FuseTIR(), transform.DeadCodeElimination()]
    made = tvm.transform.Sequential(passes)(builder.finalize())
    (kernel,) = (func for func in made.functions.values() if isinstance(func, tvm.tirx.PrimFunc))
    only: object = kernel
    return only


def _emit_stages(builder: Any, workload: Workload, variables: Sequence[Any]) -> Any:
    """Emit the operator, then its steps; returns what the last yields."""
    inputs, operands = variables[: len(workload.inputs)], iter(variables[len(workload.inputs) :])
    build = _BUILDERS.get(workload.operator.family)  # a mere chain of steps has none
    result = inputs[0]
    if build is not None:
        result = builder.emit_te(lambda *tensors: build(workload, tensors), *inputs)
    for step in workload.steps:
        operand = [next(operands)] if step.operand != "none" else []
        result = builder.emit_te(_STEPS[step.name], result, *operand)
    return result


def _variables(workload: Workload) -> list[Any]:
    from tvm import relax

    tensors = (*workload.inputs, *workload.operands)
    return [relax.Var(t.name, relax.TensorType(t.shape, t.dtype)) for t in tensors]


def _matmul(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import te

    a, b = inputs
    dtype, layout = workload.output.dtype, workload.arguments.layout
    k = te.reduce_axis((0, int(a.shape[-1])), name="k")

    def weight(batch: Sequence[Any], column: Any) -> Any:
        if layout == "packed":
            return b[column // PACKED_COLUMNS, k // PACKED_DEPTH, column % PACKED_COLUMNS, k % PACKED_DEPTH]
        return b(*batch, column, k) if layout == "nt" else b(*batch, k, column)

    def element(*indices: Any) -> Any:
        *batch, row, column = indices
        left, right = a(*batch, row, k), weight(batch, column)
        if dtype != a.dtype:
            left, right = left.astype(dtype), right.astype(dtype)
        return te.sum(left * right, axis=k)

    return te.compute(workload.output.shape, element, name="matmul")


def _conv(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import topi

    options = workload.arguments.options
    return topi.nn.conv(
        *inputs,
        list(options["s"]),
        [*options["p"], *options["p"]],
        list(options["d"]),
        workload.arguments.scalar("g"),
        f"NC{_SPATIAL[len(options['s'])]}",
        f"OI{_SPATIAL[len(options['s'])]}",
        workload.output.dtype,
    )


def _conv_transpose(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import topi

    options = workload.arguments.options
    build = {
        1: topi.nn.group_conv1d_transpose_ncw,
        2: topi.nn.group_conv2d_transpose_nchw,
        3: topi.nn.group_conv3d_transpose_ncdhw,
    }[len(options["s"])]
    padding = [*options["p"], *options["p"]]
    groups = workload.arguments.scalar("g")
    return build(*inputs, list(options["s"]), padding, workload.output.dtype, list(options["op"]), groups)


def _pool(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import topi

    options = workload.arguments.options
    n_axes = len(options["s"])
    build = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}[n_axes]
    return build(
        inputs[0],
        kernel=list(workload.arguments.sizes[1]),
        stride=list(options["s"]),
        dilation=list(options["d"]),
        padding=[*options["p"], *options["p"]],
        pool_type=workload.operator.name.partition("_")[0],
        ceil_mode=False,
        layout=f"NC{_SPATIAL[n_axes]}",
        count_include_pad=False,
    )


def _softmax(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import topi

    build = topi.nn.softmax if workload.operator.name == "softmax" else topi.nn.log_softmax
    return build(inputs[0], workload.arguments.scalar("axis"))


def _norm(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import topi

    build = topi.nn.layer_norm if workload.operator.name == "layer_norm" else topi.nn.rms_norm
    axes = list(range(workload.arguments.scalar("axis"), len(workload.output.shape)))
    return build(*inputs, axis=axes, epsilon=_EPSILON)


def _reduce(workload: Workload, inputs: Sequence[Any]) -> Any:
    from tvm import topi

    name = workload.operator.name
    if name.startswith("global_"):
        axes = list(range(2, len(workload.output.shape)))
        return topi.max(inputs[0], axes, keepdims=True) if "max" in name else _mean(inputs[0], axes)
    axis = workload.arguments.scalar("axis")
    if name == "reduce_mean":
        return _mean(inputs[0], [axis])
    build = getattr(topi, name.removeprefix("reduce_"))
    return build(inputs[0], axis if name.startswith("arg") else [axis], keepdims=True)


def _mean(x: Any, axes: list[int]) -> Any:
    from tvm import tirx, topi

    count = tirx.const(1, "int32")
    for axis in axes:
        count = count * x.shape[axis]
    return topi.divide(topi.sum(x, axes, keepdims=True), count)


def _gelu(x: Any) -> Any:
    from tvm import tirx, topi

    inner = x * tirx.const(0.5**0.5, x.dtype)
    wide = topi.cast(inner, "float32") if x.dtype == "float16" else inner
    erf = topi.erf(wide)
    narrow = topi.cast(erf, "float16") if x.dtype == "float16" else erf
    half = tirx.const(0.5, x.dtype)
    return x * (half + narrow * half)


def _topi(name: str) -> Callable[..., Any]:
    """A function of topi by its name, on one tensor or two."""

    def apply(*tensors: Any) -> Any:
        from tvm import topi

        return getattr(topi, name)(*tensors)

    return apply


def _relu(x: Any) -> Any:
    from tvm import topi

    return topi.nn.relu(x)


def _leaky_relu(x: Any) -> Any:
    from tvm import topi

    return topi.nn.leaky_relu(x, _LEAK)


def _silu(x: Any) -> Any:
    from tvm import topi

    return topi.multiply(x, topi.sigmoid(x))


_BUILDERS: dict[str, Callable[[Workload, Sequence[Any]], Any]] = {
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "pool": _pool,
    "softmax": _softmax,
    "norm": _norm,
    "reduce": _reduce,
}

_STEPS: dict[str, Callable[..., Any]] = {
    "bias": _topi("add"),
    "scale": _topi("multiply"),
    "add": _topi("add"),
    "sub": _topi("subtract"),
    "mul": _topi("multiply"),
    "max": _topi("maximum"),
    "min": _topi("minimum"),
    "abs": _topi("abs"),
    "neg": _topi("negative"),
    "sigmoid": _topi("sigmoid"),
    "tanh": _topi("tanh"),
    "exp": _topi("exp"),
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "gelu": _gelu,
    "silu": _silu,
}
