"""The reference page of the built-in symbols, written from their table."""

from __future__ import annotations

from prune_engine.symbols.builtin import BUILTIN_GROUPS
from prune_engine.symbols.table import SYMBOLS_VERSION

_INTRODUCTION = f"""# Symbols

A symbol is a named column over a batch of candidates: `batch.symbol("threads_per_block")` is an int64 array with
one number per candidate. All symbols on this page are formulas over the loop nest that runs, so they need no
compiler; asking for one of a sketch that could not be read (`batch.is_opaque`) is an error. Version of their
meaning: {SYMBOLS_VERSION}.

The *main statement* is the reduction step with most operations, or, without one, the statement with most
instances. Its *innermost tile* runs from its last run of reduction loops inwards; the *tile with its whole
reduction* from the first reduction loop inwards; a *chunk* is one turn of its parallel loops, on a GPU one block.
A tile has rows (m), columns (n) and steps (k) as in a matrix product: n are the spatial iterators that index the
same operands as the one along the output's last dimension, m the other spatial ones but for those that index
every operand, k the reduction. A convolution in NHWC has output channels as n and pixels as m; in NCHW it is the
other way round. With fewer than two operands n is the output's last dimension alone.

Regions of buffers are boxes. They are exact for loops split into perfect tiles and upper bounds where a fused
loop is cut so that its digits do not come out even. Several symbols together are cheaper than one by one:
`prune_engine.symbols.structure.nest_columns`.
"""


def reference_page() -> str:
    """The page docs/reference/symbols.md, in Markdown."""
    lines = [_INTRODUCTION]
    for title, symbols in BUILTIN_GROUPS.items():
        lines += [f"## {title}", "", "| symbol | unit | meaning | bound | source |", "|---|---|---|---|---|"]
        lines += [f"| `{s.name}` | {s.unit} | {s.meaning} | {s.bound} | {s.source} |" for s in symbols]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(reference_page(), end="")
