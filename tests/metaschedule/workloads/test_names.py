"""Workload names: one spelling per meaning, and errors that teach the grammar."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_engine.errors import ConfigError
from prune_engine.metaschedule.workloads.names import MAX_BYTES, looks_like_name, parse_workload
from prune_engine.metaschedule.workloads.operators import OPERATORS


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("GEMM:512x512x512", "gemm:512x512x512"),
        ("  gemm:064x512x512:f32 ", "gemm:64x512x512"),
        ("Gemm:64x64x64:NT:F16+RELU", "gemm:64x64x64:f16:nt+relu"),
        ("conv2d:1x64x56x56,64x3x3,s1,p1", "conv2d:1x64x56x56,64x3x3,p1"),
        ("conv2d:1x64x56x56,64x3x3,p1x1,d1,s2,g1", "conv2d:1x64x56x56,64x3x3,s2,p1"),
        ("conv2d:1x64x56x56,64x3x3,p1x0,g64+bias+relu", "conv2d:1x64x56x56,64x3x3,p1x0,g64+bias+relu"),
        ("conv2d_transpose:1x8x9x9,4x3x3,op1,p1,s2", "conv2d_transpose:1x8x9x9,4x3x3,s2,p1,op1"),
        ("softmax:12x128x128,axis2", "softmax:12x128x128"),
        ("softmax:12x128x128,axis1", "softmax:12x128x128,axis1"),
        ("elementwise:4+relu+relu", "elementwise:4+relu+relu"),
    ],
)
def test_canonical_spelling(written: str, canonical: str) -> None:
    workload = parse_workload(written)
    assert workload.text == canonical
    assert parse_workload(canonical) == workload


@pytest.mark.parametrize("name", OPERATORS)
def test_example_of_every_operator(name: str) -> None:
    operator = OPERATORS[name]
    workload = parse_workload(operator.example)
    assert workload.operator.name == name
    assert workload.text == operator.example
    assert operator.grammar.startswith(f"{name}:")


def shapes_of(text: str) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    workload = parse_workload(text)
    return {t.name: t.shape for t in (*workload.inputs, *workload.operands)}, workload.output.shape


@pytest.mark.parametrize(
    ("text", "inputs", "output"),
    [
        ("gemm:2x3x5", {"A": (2, 5), "B": (5, 3)}, (2, 3)),
        ("gemm:2x3x5:nt+bias", {"A": (2, 5), "B": (3, 5), "bias": (3,)}, (2, 3)),
        ("gemm:2x32x8:u8:packed", {"A": (2, 8), "B": (2, 2, 16, 4)}, (2, 32)),
        ("bmm:7x2x3x5", {"A": (7, 2, 5), "B": (7, 5, 3)}, (7, 2, 3)),
        ("conv2d:1x6x9x8,4x3x2,s2x1,p1x0,d2x1,g2", {"X": (1, 6, 9, 8), "W": (4, 3, 3, 2)}, (1, 4, 4, 7)),
        ("conv2d:1x6x9x9,4x3x3+scale", {"X": (1, 6, 9, 9), "W": (4, 6, 3, 3), "scale": (1, 4, 1, 1)}, (1, 4, 7, 7)),
        ("conv1d_transpose:1x6x9,4x3,s2,p1,op1,g2", {"X": (1, 6, 9), "W": (6, 2, 3)}, (1, 4, 18)),
        ("max_pool3d:1x2x4x4x4,2x2x2,s2", {"X": (1, 2, 4, 4, 4)}, (1, 2, 2, 2, 2)),
        ("global_avg_pool:1x5x7x7", {"X": (1, 5, 7, 7)}, (1, 5, 1, 1)),
        ("layer_norm:2x3x4,axis1", {"X": (2, 3, 4), "gamma": (3, 4), "beta": (3, 4)}, (2, 3, 4)),
        ("reduce_sum:2x3x4,axis1", {"X": (2, 3, 4)}, (2, 1, 4)),
        ("elementwise:2x3+add+add+bias", {"X": (2, 3), "add": (2, 3), "add2": (2, 3), "bias": (3,)}, (2, 3)),
    ],
)
def test_shapes(text: str, inputs: dict[str, tuple[int, ...]], output: tuple[int, ...]) -> None:
    assert shapes_of(text) == (inputs, output)


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ("gemm:4x4x4", ["float32", "float32", "float32"]),
        ("gemm:4x4x4:f16", ["float16", "float16", "float16"]),
        ("gemm:4x4x4:f16-f32+bias", ["float16", "float16", "float32", "float32"]),
        ("gemm:4x4x4:i8+bias", ["int8", "int8", "int32", "int32"]),
        ("gemm:4x4x4:u8", ["uint8", "int8", "int32"]),
        ("argmax:4x4", ["float32", "int64"]),
        ("softmax:4x4:f64", ["float64", "float64"]),
    ],
)
def test_dtypes(text: str, dtypes: list[str]) -> None:
    workload = parse_workload(text)
    assert [t.dtype for t in (*workload.inputs, *workload.operands, workload.output)] == dtypes


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gemm", ["a part is empty", "gemm:MxNxK", "as in gemm:512x512x512"]),
        ("gemm:", ["a part is empty"]),
        ("gemm:4x4", ["3 sizes are needed", "4x4"]),
        ("gemm:4x4x4x4", ["3 sizes are needed"]),
        ("gemm:4x4x", ["neither sizes nor an option", "'4x4x'"]),
        ("gemm:4,4,4", ["one group of sizes is needed", "4,4,4"]),
        ("gemm:4x-4x4", ["neither sizes nor an option"]),
        ("gemm:4x4x4.5", ["neither sizes nor an option"]),
        ("gemm:4x٤x4", ["neither sizes nor an option"]),
        ("gemm:4x0x4", ["out of the range from 1 to 2147483647"]),
        ("gemm:4x2147483648x4", ["out of the range"]),
        (f"gemm:4x{'9' * 300}x4", ["out of the range", "99..."]),
        (f"gemm:4x4x4{'+relu' * 100}", ["the name is too long"]),
        (f"gemm:4x4x4{'+relu' * 17}", ["more than 16 steps"]),
        ("gemm:65536x65536x1", ["more than 2147483647 elements", "Y of 65536x65536"]),
        ("elementwise:1073741824+add+add+add+add+add+add+add+relu", ["more than 32 GiB"]),
        ("gemm:4x4x4:f17", ["unknown type or layout", "Did you mean f16?", "Known here: f32"]),
        ("gemm:4x4x4:f16:f32", ["more than one type or layout"]),
        ("gemm:4x4x4:", ["a part is empty"]),
        ("gemm:4x4x4+", ["a part is empty"]),
        ("gemm:4x4x4+rellu", ["unknown step", "Did you mean relu?"]),
        ("gemm:4x4x4:i8+gelu", ["step gelu takes numbers with a fraction", "int32"]),
        ("gemm:4x4x4,s2", ["unknown option", "s2"]),
        ("gemm:4x24x4:u8:packed", ["divisible by 16", "N=24"]),
        ("gemm:4x16x6:u8:packed", ["K by 4"]),
        ("gemm:4x16x4:packed", ["packed weights are 8-bit numbers", "f32"]),
        ("bmm:2x4x16x4:u8:packed", ["unknown type or layout", "packed"]),
        ("conv2d:1x3x8x8", ["2 groups of sizes are needed"]),
        ("conv2d:1x3x8x8,4x3", ["3 sizes are needed", "4x3"]),
        ("conv2d:1x3x8x8,p1,4x3x3", ["sizes come before options"]),
        ("conv2d:1x3x8x8,4x3x3,p1,p2", ["option p is given twice"]),
        ("conv2d:1x3x8x8,4x3x3,s0", ["option s is at least 1"]),
        ("conv2d:1x3x8x8,4x3x3,g0", ["option g is at least 1"]),
        ("conv2d:1x3x8x8,4x3x3,d0", ["option d is at least 1"]),
        ("conv2d:1x3x8x8,4x3x3,s1x1x1", ["option s takes 1 number or 2"]),
        ("conv2d:1x3x8x8,4x3x3,g1x3", ["option g takes 1 number"]),
        ("conv2d:1x4x8x8,6x3x3,g4", ["groups must divide", "g4 for 4 and 6 channels"]),
        ("conv2d:1x3x8x8,4x9x9", ["kernel is larger than the padded input", "9 on 8"]),
        ("conv2d:1x3x8x8,4x5x5,d2", ["kernel is larger than the padded input", "9 on 8"]),
        ("conv2d:1x3x8x8,4x3x3,p3", ["padding must be smaller than the (dilated) kernel"]),
        ("conv2d_transpose:1x3x8x8,4x3x3,p3", ["padding must be smaller than the kernel"]),
        ("conv2d_transpose:1x3x8x8,4x3x3,s2,op2", ["output padding must be smaller than the stride"]),
        ("conv2d_transpose:1x3x1x1,4x2x2,p1", ["nothing is left of the output"]),
        ("conv2d_transpose:1x1x4x4,1x3x3,s2147483647", ["a tensor has more than"]),
        ("conv2d_transpose:1x4096x64x64,1x2x2,s32", ["a tensor has more than", "padded input of 1x4096x2020x2020"]),
        ("max_pool2d:1x3x8x8,2x2,p2", ["padding must be smaller"]),
        ("softmax:4x4,axis2", ["there are the axes 0 to 1"]),
        ("softmax:1x1x1x1x1x1x1x1x1", ["1 to 8 sizes are needed"]),
        ("softmax:4x4:i8", ["unknown type", "Known here: f32, f64, f16"]),
        ("layer_norm:4x4:f64", ["unknown type"]),
        ("elementwise:4x4", ["at least one +STEP is needed"]),
        ("gem:4x4x4", ["there is no such operator", "Did you mean gemm:MxNxK"]),
        ("conv4d:4x4x4", ["Did you mean conv", "OPERATOR:SIZES"]),
        ("zzzzzz:4x4x4", ["there is no such operator", "For example gemm:512x512x512"]),
    ],
)  # fmt: skip
def test_error_says_what_is_wrong_and_shows_the_grammar(text: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_workload(text)
    message = str(caught.value)
    for part in [*parts, "expected", "as in" if text[:3] != "gem:" and "no such operator" not in message else ":"]:
        assert part in message
    assert len(message) < 1200


def test_memory_limit_counts_what_is_needed() -> None:
    n_rows = MAX_BYTES // 4 // 16 // 2**20 - 1
    assert parse_workload(f"elementwise:{n_rows}x{2**20}{'+add' * 14}").text
    with pytest.raises(ConfigError, match="more than 32 GiB"):
        parse_workload(f"elementwise:{n_rows}x{2**20}{'+add' * 16}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gemm:4x4x4", True),
        ("gemm", True),
        ("gem:4x4x4", True),
        ("model.onnx", False),
        ("model", False),
        ("models/gemm:4x4x4", False),
        ("a:b/kernels.py", False),
        ("", False),
        (":", False),
    ],
)
def test_what_looks_like_a_name(text: str, expected: bool) -> None:
    assert looks_like_name(text) is expected


@given(st.text(string.ascii_lowercase + string.digits + "x:,+-_. ", max_size=60))
def test_any_text_is_a_workload_or_a_config_error(text: str) -> None:
    for prefix in ("", "gemm:", "conv2d:1x4x8x8,"):
        try:
            workload = parse_workload(prefix + text)
        except ConfigError:
            continue
        assert parse_workload(workload.text) == workload
