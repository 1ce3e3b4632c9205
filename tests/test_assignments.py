"""Candidates named by their decisions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from prune_engine.assignments import Assignment, completions, parse_assignment
from prune_engine.errors import ConfigError
from prune_engine.testing import make_space

SPACE = make_space()
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i=4,4,4 unroll=16", Assignment({"i": (4, 4, 4), "unroll": (16,)})),
        ("i=[4,4,4]; unroll=(16)", Assignment({"i": (4, 4, 4), "unroll": (16,)})),
        ("sketch=1 cache_write=-2", Assignment({"cache_write": (-2,)}, 1)),
        ('{"i": [4, 4, 4], "unroll": 16}', Assignment({"i": (4, 4, 4), "unroll": (16,)})),
        ('{"sketch": 1, "trace": [], "decisions": {"unroll": 16}}', Assignment({"unroll": (16,)}, 1)),
        ("a=b=3", Assignment({"a=b": (3,)})),
    ],
)
def test_forms(text: str, expected: Assignment) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "i",
            "=3",
            "i=",
            "i=a",
            "i=1,,2",
            "{",
            "[1]",
            '{"i": "x"}',
            '{"i": []}',
            '{"i": true}',
            "i=99999999999",
            "i=1 i=2",
        ),
        pytest.param('{"i": ' + "[" * 100_000, id="deep"),
        *('{"decisions": 3}', '{"sketch": "a", "decisions": {"i": 1}}', '{"i": [[1]]}'),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="--why-not"):
        parse_assignment(text)


def test_a_whole_assignment_is_one_candidate() -> None:
    text = "i=4,4,4 j=3,4,4 k=8,4 unroll=16"
    plain = completions(parse_assignment(text + " sketch=0"), SPACE, 10, RNG)
    assert [len(batch) for batch in plain] == [1]
    assert plain[0].candidate(0).decisions == ((4, 4, 4), (3, 4, 4), (8, 4), (16,))
    both = completions(parse_assignment(text), SPACE, 10, RNG)
    assert [batch.sketch.index for batch in both] == [0, 1], "the other sketch has one more to choose"
    assert [len(batch) for batch in both] == [1, 5]


def test_a_part_is_completed_by_draws() -> None:
    batches = completions(Assignment({"unroll": (512,)}), SPACE, 50, RNG)
    assert len(batches) == 2
    for batch in batches:
        assert 10 < len(batch) <= 50
        assert (batch.column(3) == 512).all()
        assert len(np.unique(batch.indices, axis=0)) == len(batch)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("unrol=16", "no such variable; got 'unrol'; expected one such as unroll"),
        ("unroll=17", "variable unroll has no such choice; got 17; expected one such as 16"),
        ("i=4,4,5", "variable i has no such choice; got 4,4,5; expected one such as 4,4,4"),
        ("i=64", "variable i has no such choice"),
        ("sketch=7 i=4,4,4", "no such sketch; got 7; expected a number from 0 to 1"),
    ],
)
def test_what_is_near_is_named(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        completions(parse_assignment(text), SPACE, 10, RNG)
    assert told in str(caught.value)


def test_the_complaint_is_of_the_sketch_that_fits_best() -> None:
    with pytest.raises(ConfigError, match="cache_write has no such choice"):
        completions(parse_assignment(json.dumps({"unroll": 16, "cache_write": 9})), SPACE, 10, RNG)
