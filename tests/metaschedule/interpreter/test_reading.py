"""What a statement is read as."""

from __future__ import annotations

from kits.oracle import case, random_batch


def test_calls_of_functions_are_counted_and_follow_what_is_inlined() -> None:
    space, _ = case("softmax", "llvm")
    counts: set[tuple[int, int]] = set()
    for sketch in space.sketches:
        assert sketch.nests is not None
        for group in sketch.nests.groups(random_batch(space, sketch, 32).indices):
            counts |= {(s.flop_count, s.call_count) for s in group.nest.statements}
    # The exponential alone (less the maximum), and inlined into the sum and into the quotient; no others call.
    assert {found for found in counts if found[1]} == {(2, 1), (3, 1)}
    assert (1, 0) in counts
