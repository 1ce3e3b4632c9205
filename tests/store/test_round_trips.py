"""Whatever a measurement, comparison or verdict may hold comes back the same."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prune_engine.candidates import Candidate
from prune_engine.measurement import Comparison, MeasuredCandidate, MeasureError, MeasureErrorKind, Measurement
from prune_engine.store import open_store
from prune_engine.store.rows import clean_text
from prune_engine.testing.store_samples import SKETCHES, store_task
from prune_engine.verdicts import Outcome, Stage, Verdict

# Everything but what no database holds as text: surrogates and NUL. Messages may hold even those.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
MESSAGE = st.text(st.characters(), max_size=30)
NUMBER = st.floats(allow_nan=False)
SECS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
INT32 = st.integers(-(2**31), 2**31 - 1)
ERROR = st.builds(MeasureError, st.sampled_from(MeasureErrorKind), MESSAGE)
FAST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def measured_candidates(draw: st.DrawFn) -> MeasuredCandidate:
    error = draw(st.none() | ERROR)
    candidate_id = draw(TEXT)
    measurement = Measurement(
        candidate_id=candidate_id,
        run_secs=() if error else tuple(draw(st.lists(SECS, min_size=1, max_size=4))),
        error=error,
        build_secs=draw(SECS),
        device_name=draw(TEXT),
        n_threads=draw(st.integers(1, 2**31)),
        profile_digest=draw(TEXT),
        measured_at=draw(SECS),
        stage=draw(st.integers(0, 2)),
        is_censored=draw(st.booleans()),
        is_noisy=draw(st.booleans()),
        load_average=draw(SECS),
    )
    decisions = tuple(draw(st.lists(st.lists(INT32, max_size=4).map(tuple), max_size=4)))
    candidate = draw(st.none() | st.just(Candidate(candidate_id, draw(st.integers(0, 1)), decisions)))
    return MeasuredCandidate(candidate, measurement, draw(st.none() | TEXT))


def _cleaned(error: MeasureError | None) -> MeasureError | None:
    return error and MeasureError(error.kind, clean_text(error.message))


@FAST
@given(measured_candidates())
def test_measurements(measured: MeasuredCandidate) -> None:
    store = open_store("sqlite://")
    run_id = store.start_run({})
    store.add_tasks(run_id, [store_task("t")])
    store.add_measured(run_id, "t", SKETCHES, [measured])
    m = measured.measurement
    (found,) = store.candidates("t", m.device_name, m.n_threads)
    assert store.measured_ids("t", m.device_name, m.n_threads) == {m.candidate_id}
    store.close()
    for field in fields(Measurement):
        expected = getattr(m, field.name)
        assert getattr(found.measurement, field.name) == (_cleaned(m.error) if field.name == "error" else expected)
    assert found.trace_json == measured.trace_json
    if measured.candidate is None:
        assert (found.sketch_id, found.sketch_index, found.decisions) == (None, None, ())
    else:
        assert found.sketch_id == SKETCHES[measured.candidate.sketch_index]
        assert found.decisions == measured.candidate.decisions


@FAST
@given(
    st.lists(st.tuples(st.text(max_size=9), st.lists(SECS, max_size=4).map(tuple), st.none() | ERROR), max_size=4)
)
def test_comparisons(parts: list[tuple[str, tuple[float, ...], MeasureError | None]]) -> None:
    comparison = (
        Comparison(*(tuple(column) for column in zip(*parts, strict=True))) if parts else Comparison((), (), ())
    )
    store = open_store("sqlite://")
    run_id = store.start_run({})
    store.add_tasks(run_id, [store_task("t")])
    store.add_comparison(run_id, "t", "d", 1, comparison)
    assert store.last_comparison("t", "d", 1) == comparison
    store.close()


VERDICT = st.builds(
    Verdict,
    st.sampled_from(Stage),
    TEXT,
    st.sampled_from(Outcome),
    st.sampled_from(["", "too big", "é\t'"]),
    st.integers(1, 2**40),
    st.none() | st.sampled_from(["c1", "c2"]),
    st.dictionaries(st.text(max_size=5), NUMBER, max_size=3),
)


@FAST
@given(st.lists(st.lists(VERDICT, max_size=6), max_size=3))
def test_verdicts(runs: list[list[Verdict]]) -> None:
    """Against a dictionary: counts add up, the newest evidence stays."""
    store = open_store("sqlite://")
    expected: dict[object, Verdict] = {}
    for verdicts in runs:
        run_id = store.start_run({})
        store.add_tasks(run_id, [store_task("t")])
        store.add_verdicts(run_id, "t", verdicts)
        for v in verdicts:
            key = (v.stage, v.strategy, v.outcome, v.reason, v.candidate_id)
            count = v.count + (expected[key].count if key in expected else 0)
            expected[key] = Verdict(*key[:4], count, v.candidate_id, v.evidence)
    found = store.verdicts("t")
    on_candidate = store.verdicts("t", "c1")
    store.close()
    assert len(found) == len(expected)
    assert all(v in found for v in expected.values())
    assert list(on_candidate) == [v for v in found if v.candidate_id == "c1"]


@pytest.mark.parametrize("text", ["", "plain", "ü🙂"])
def test_plain_text_is_left_alone(text: str) -> None:
    assert clean_text(text) == text
