"""Finds the operators of a model that TVM cannot import, before it tries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.errors import ModelImportError
from prune_engine.metaschedule._compat import import_tvm

#: What the importer handles itself, without an entry in its converter table.
_BUILT_IN = frozenset({"If", "Constant"})

_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "Loop", "Scan"),
        "TVM has no recurrent operators or loops; export the model unrolled, or another variant of it.",
    ),
    (
        ("ConvInteger", "QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearGlobalAveragePool"),
        "TVM does not import this quantised form; use the float model or quantise to QDQ form.",
    ),
)


@dataclass(frozen=True, slots=True)
class UnsupportedNode:
    """A node whose operator, or operator version, TVM does not import."""

    node: str
    operator: str


def unsupported_nodes(model: Any, opset: int) -> list[UnsupportedNode]:
    """All nodes, subgraphs included, that TVM's importer has no converter for at this opset."""
    import_tvm()
    from tvm.relax.frontend.onnx import onnx_frontend

    converters: Mapping[str, Any] = onnx_frontend._get_convert_map()
    return [
        UnsupportedNode(node_name(node), _full_name(node))
        for node in nodes_of(model.graph)
        if node.op_type not in _BUILT_IN and not _is_supported(converters.get(node.op_type), opset)
    ]


def unsupported_error(nodes: list[UnsupportedNode], opset: int, path: Path) -> ModelImportError:
    """The error that names every unsupported operator with its nodes and says what to do."""
    by_operator: dict[str, list[str]] = {}
    for node in nodes:
        by_operator.setdefault(node.operator, []).append(node.node)
    listing = "; ".join(f"{operator}: {_abridge(names)}" for operator, names in sorted(by_operator.items()))
    return ModelImportError(
        f"TVM does not import {len(by_operator)} of this model's operators",
        who=str(path),
        node=nodes[0].node,
        operator=", ".join(sorted(by_operator)),
        opset=opset,
        got=listing,
        remedy=_remedy(by_operator),
    )


def nodes_of(graph: Any) -> Iterator[Any]:
    """Every node of a graph and its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)
            for subgraph in attribute.graphs:
                yield from nodes_of(subgraph)


def node_name(node: Any) -> str:
    """A node's name, or its first output where exporters left the name out."""
    return str(node.name or next(iter(node.output), "") or node.op_type)


def _is_supported(converter: Any, opset: int) -> bool:
    if converter is None:
        return False
    try:
        converter.get_converter(opset)
    except NotImplementedError:
        return False
    return True


def _full_name(node: Any) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else str(node.op_type)


def _abridge(names: list[str], limit: int = 3) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _remedy(operators: Iterable[str]) -> str:
    names = set(operators)
    advice = [text for known, text in _REMEDIES if names & set(known)]
    return " ".join(advice) or "Export the model with other operators, or with another opset_version."
