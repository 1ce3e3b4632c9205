"""Workload names: ``gemm:512x512x512+bias+relu`` becomes a checked Workload with one canonical spelling."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from prune_engine.errors import ConfigError
from prune_engine.metaschedule.workloads.operators import (
    DEFAULT_TYPE,
    OPERATORS,
    OPTIONS,
    Arguments,
    Operator,
    Shapes,
    WorkloadShapeError,
    n_elements,
)
from prune_engine.metaschedule.workloads.steps import STEPS, Step
from prune_engine.metaschedule.workloads.syntax import (
    MAX_SIZE,
    Sizes,
    WorkloadSyntaxError,
    Written,
    operator_of,
    take_apart,
    written_sizes,
)

#: All tensors of a workload together. More does not fit into the machines that kernels are measured on.
MAX_BYTES = 2**35

#: Steps of one epilogue. Generated code grows with each.
MAX_STEPS = 16


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of a workload, or its output; ``dtype`` is numpy's."""

    name: str
    shape: Sizes
    dtype: str

    @property
    def n_bytes(self) -> int:
        """Memory it takes."""
        return n_elements(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload name that makes sense. Two names that mean the same are equal.

    ``inputs`` are the operator's own, ``operands`` those of the steps, in order. ``output`` is the type that
    the steps compute in, too.
    """

    operator: Operator = field(repr=False)
    arguments: Arguments
    dtype: str
    steps: tuple[Step, ...]
    inputs: tuple[Tensor, ...]
    operands: tuple[Tensor, ...]
    output: Tensor

    @property
    def text(self) -> str:
        """The canonical spelling: what is the default is left out, options are in one order."""
        operator, arguments = self.operator, self.arguments
        parts = [written_sizes(sizes) for sizes in arguments.sizes]
        defaults = _defaults(operator, arguments.sizes)
        for name in (name for name in OPTIONS if name in operator.options):
            values = arguments.options[name]
            if values != defaults[name]:
                parts.append(name + written_sizes(values if len(set(values)) > 1 else values[:1]))
        words = [self.dtype] if self.dtype != DEFAULT_TYPE else []
        words += [arguments.layout] if arguments.layout else []
        head = ":".join([operator.name, ",".join(parts), *words])
        return "+".join([head, *(step.name for step in self.steps)])


def looks_like_name(text: str) -> bool:
    """Whether the text can only be meant as a workload name: it has the form, right or wrong in what it says."""
    return _operator_name(text) is not None and "/" not in text


def _operator_name(text: str) -> str | None:
    """What stands where the operator stands; a bare operator is a name that lacks the rest."""
    bare = text.strip().lower()
    return bare if bare in OPERATORS else operator_of(text)


def parse_workload(text: str) -> Workload:
    """Read a workload name. Raises ConfigError, which shows the grammar of the operator and an example."""
    name = _operator_name(text)
    if name is None or name not in OPERATORS:
        raise _unknown_operator(text, name)
    operator = OPERATORS[name]
    try:
        written = take_apart(text)
        return _checked(operator, written)
    except (WorkloadSyntaxError, WorkloadShapeError) as problem:
        raise _error(operator, text, problem.problem, problem.got) from problem
    except _UnknownWordError as unknown:
        raise _error(operator, text, f"unknown {unknown.what}", unknown.got, unknown.known) from unknown


class _UnknownWordError(ValueError):
    def __init__(self, what: str, got: str, known: Iterable[str]) -> None:
        super().__init__(what)
        self.what, self.got, self.known = what, got, list(known)


def _checked(operator: Operator, written: Written) -> Workload:
    sizes = _sizes(operator, written)
    dtype, layout = _words(operator, written.words)
    options = {**_defaults(operator, sizes), **_options(operator, written, sizes)}
    arguments = Arguments(sizes, options, layout)
    if layout == "packed" and dtype not in ("u8", "i8"):
        raise WorkloadShapeError("packed weights are 8-bit numbers", f"{dtype}; add :u8 or :i8 before :packed")
    shapes = operator.shapes(arguments)
    first, second, result = operator.types[dtype]
    if operator.name.startswith("arg"):
        result = "int64"
    steps = _steps(operator, written.steps, result)
    inputs = tuple(
        Tensor(name, shape, first if position == 0 else second)
        for position, (name, shape) in enumerate(shapes.inputs.items())
    )
    output = Tensor("Y", shapes.output, result)
    operands = _operands(operator, shapes, steps, result)
    _check_memory([*inputs, *operands, output], _padded(operator, arguments, first))
    return Workload(operator, arguments, dtype, steps, inputs, operands, output)


def _sizes(operator: Operator, written: Written) -> tuple[Sizes, ...]:
    if len(written.sizes) != len(operator.ranks):
        raise WorkloadSyntaxError(
            f"{len(operator.ranks)} groups of sizes are needed"
            if len(operator.ranks) > 1
            else "one group of sizes is needed",
            ",".join(map(written_sizes, written.sizes)) or "none",
        )
    for sizes, (least, most) in zip(written.sizes, operator.ranks, strict=True):
        if not least <= len(sizes) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise WorkloadSyntaxError(f"{count} sizes are needed here", written_sizes(sizes))
    return written.sizes


def _words(operator: Operator, words: Sequence[str]) -> tuple[str, str | None]:
    dtypes = [word for word in words if word in operator.types]
    layouts = [word for word in words if word in operator.layouts]
    for word in words:
        if word not in dtypes and word not in layouts:
            raise _UnknownWordError(
                "type or layout" if operator.layouts else "type", word, [*operator.types, *operator.layouts]
            )
    if len(dtypes) > 1 or len(layouts) > 1:
        raise WorkloadSyntaxError("more than one type or layout", ":".join(words))
    return dtypes[0] if dtypes else DEFAULT_TYPE, layouts[0] if layouts else None


def _defaults(operator: Operator, sizes: tuple[Sizes, ...]) -> dict[str, Sizes]:
    n_axes = operator.n_axes(sizes)
    values = {"s": (1,) * n_axes, "p": (0,) * n_axes, "op": (0,) * n_axes, "d": (1,) * n_axes, "g": (1,)}
    # Normalisation and reduction are along the last axis.
    values["axis"] = (len(sizes[0]) - 1,)
    return {name: values[name] for name in operator.options}


def _options(operator: Operator, written: Written, sizes: tuple[Sizes, ...]) -> dict[str, Sizes]:
    found: dict[str, Sizes] = {}
    for name, values in written.options:
        shown = name + written_sizes(values)
        if name not in operator.options:
            raise _UnknownWordError("option", shown, [f"{option}N" for option in operator.options])
        if name in found:
            raise WorkloadSyntaxError(f"option {name} is given twice", shown)
        n_values = 1 if name in ("g", "axis") else operator.n_axes(sizes)
        if len(values) not in (1, n_values):
            raise WorkloadSyntaxError(
                f"option {name} takes 1 number" + (f" or {n_values}" if n_values > 1 else ""), shown
            )
        if name in ("s", "d", "g") and min(values) < 1:
            raise WorkloadSyntaxError(f"option {name} is at least 1", shown)
        if name == "axis" and values[0] >= len(sizes[0]):
            raise WorkloadSyntaxError(f"there are the axes 0 to {len(sizes[0]) - 1}", shown)
        found[name] = values * n_values if len(values) == 1 else values
    return found


def _steps(operator: Operator, names: Sequence[str], result: str) -> tuple[Step, ...]:
    for name in names:
        if name not in STEPS:
            raise _UnknownWordError("step", name, STEPS)
        if STEPS[name].floats_only and result.startswith("int"):
            raise WorkloadShapeError(f"step {name} takes numbers with a fraction", f"a result of type {result}")
    if len(names) > MAX_STEPS:
        raise WorkloadSyntaxError(f"more than {MAX_STEPS} steps", str(len(names)))
    if operator.family == "elementwise" and not names:
        raise WorkloadSyntaxError("at least one +STEP is needed", "none")
    return tuple(STEPS[name] for name in names)


def _operands(operator: Operator, shapes: Shapes, steps: Sequence[Step], dtype: str) -> tuple[Tensor, ...]:
    """What the steps take besides the running result, named by the steps."""
    n_axes = len(shapes.output)
    axis = operator.channel_axis % n_axes
    # One value per channel, in the form that broadcasts over what comes after the channel.
    per_channel = tuple(size if i == axis else 1 for i, size in enumerate(shapes.output))
    channel = per_channel if axis < n_axes - 1 else per_channel[-1:]
    found: list[Tensor] = []
    for step in steps:
        if step.operand != "none":
            n_same = sum(tensor.name.rstrip("0123456789") == step.name for tensor in found)
            name = f"{step.name}{n_same + 1}" if n_same else step.name
            found.append(Tensor(name, channel if step.operand == "channel" else shapes.output, dtype))
    return tuple(found)


def _padded(operator: Operator, arguments: Arguments, dtype: str) -> list[Tensor]:
    """The copies with padding, and with zeros between, that convolutions make of their input."""
    if operator.family not in ("conv", "conv_transpose", "pool"):
        return []
    n, c, *image = arguments.sizes[0]
    if operator.family == "conv_transpose":
        kernel = arguments.sizes[1][1:]
        grown = [(x - 1) * s + 2 * k for x, s, k in zip(image, arguments.options["s"], kernel, strict=True)]
    else:
        grown = [x + 2 * p for x, p in zip(image, arguments.options["p"], strict=True)]
    return [Tensor("padded input", (n, c, *grown), dtype)]


def _check_memory(tensors: Sequence[Tensor], temporaries: Sequence[Tensor]) -> None:
    for tensor in (*tensors, *temporaries):
        if n_elements(tensor.shape) > MAX_SIZE:
            raise WorkloadShapeError(
                f"a tensor has more than {MAX_SIZE} elements, more than kernels count",
                f"{tensor.name} of {written_sizes(tensor.shape)}",
            )
    n_bytes = sum(tensor.n_bytes for tensor in (*tensors, *temporaries))
    if n_bytes > MAX_BYTES:
        raise WorkloadShapeError(f"the tensors need more than {MAX_BYTES >> 30} GiB", f"{n_bytes / 2**30:.1f} GiB")


def _error(operator: Operator, text: str, problem: str, got: object, known: Sequence[str] = ()) -> ConfigError:
    close = difflib.get_close_matches(str(got), known, n=1)
    remedies = [f"Did you mean {close[0]}?"] if close else []
    remedies += [f"Known here: {', '.join(known)}."] if known else []
    return ConfigError(
        problem,
        who=f"workload {_quoted(text)}",
        got=got,
        expected=f"{operator.grammar}, as in {operator.example}",
        remedy=" ".join(remedies) or None,
    )


def _unknown_operator(text: str, name: str | None) -> ConfigError:
    close = difflib.get_close_matches(name or text.strip().lower(), OPERATORS, n=1)
    example = OPERATORS[close[0] if close else "gemm"]
    return ConfigError(
        "there is no such operator" if name else "this is no workload name",
        who=f"workload {_quoted(text)}",
        got=name,
        expected=f"OPERATOR:SIZES with one of {', '.join(OPERATORS)}",
        remedy=(f"Did you mean {example.grammar}?" if close else f"For example {example.example}."),
    )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
