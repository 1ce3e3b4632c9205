"""What stops a candidate that nobody looked at, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prune_engine.explain.chains import duration_text
from prune_engine.explain.counterfactual import Change, Objection, WhyNot
from prune_engine.hardware.basis import basis_of
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.verdicts import RuleKind, Stage


def explain_why_not(found: WhyNot, profile: HardwareProfile) -> list[str]:
    """What stops a candidate, and what would have had to be different."""
    told: list[str] = []
    for place, objection in enumerate(found.objections):
        told.append(_objection_text(objection, profile, is_first=place == 0))
        told += _profile_texts(objection)
    standing = found.standing
    if not found.objections:
        told.append("No rule drops it.")
    if standing is not None:
        latency = "" if standing.latency_secs is None else f" expects {duration_text(standing.latency_secs)} and"
        told.append(
            f"The draft {standing.strategy}{latency} puts it at place {standing.rank:,} of {standing.n_ranked:,}, "
            f"of which the best {standing.n_listed:,} are looked at closely."
        )
        if standing.factor > 1:
            told.append(
                f"To be among them it would have to be {standing.factor:.3g} times as fast by the draft as it is."
            )
        else:
            told.append(
                "It would be looked at closely. Whether it is measured then depends on the verifier, which judges "
                "by what was measured until then, and on the selector."
            )
    needs_way = bool(found.objections) or (standing is not None and standing.factor > 1)
    if needs_way and found.ways:
        told.append("The nearest decisions that pass:")
        told += [f"  {way_text(way)}" for way in found.ways]
    elif needs_way:
        told.append("No change of one decision, or of two to choices near by, would let it pass.")
    return told


def way_text(way: Sequence[Change]) -> str:
    """Changes in words."""
    return ", and ".join(
        f"{change.variable} = {_numbers(change.to)} instead of {_numbers(change.was)}" for change in way
    )


def why_not_record(found: WhyNot, profile: HardwareProfile) -> dict[str, object]:
    """The same for machines."""
    standing = found.standing
    stopped = found.objections[0] if found.objections else None
    is_listed = standing is None or standing.factor <= 1
    stage = stopped.stage.value if stopped else None if is_listed else Stage.DRAFT.value
    return {
        "stage": stage,
        "objections": [
            {
                "stage": one.stage.value,
                "strategy": one.rule.name,
                "kind": one.rule.kind.value,
                "reason": one.reason,
                "variables": list(one.variables),
                "evidence": dict(one.evidence),
                "hardware_basis": _basis(one, profile),
                "profile_changes": [{"field": c.field, "was": c.was, "to": c.to} for c in one.changes],
            }
            for one in found.objections
        ],
        "draft": None
        if standing is None
        else {
            "strategy": standing.strategy,
            "rank": standing.rank,
            "n_ranked": standing.n_ranked,
            "n_listed": standing.n_listed,
            "latency_secs": standing.latency_secs,
            "factor": standing.factor if standing.score > 0 else None,
        },
        "ways": [
            [{"variable": c.variable, "was": list(c.was), "to": list(c.to)} for c in way] for way in found.ways
        ],
    }


def _objection_text(objection: Objection, profile: HardwareProfile, *, is_first: bool) -> str:
    rule = objection.rule
    kind = "it cannot run" if rule.kind is RuleKind.LEGALITY else "a guess"
    begin = "It is stopped by" if is_first else "It would also be stopped by"
    text = f"{begin} {rule.name} ({rule.kind.value}: {kind})"
    if objection.variables:
        text += f", which cuts the choice of {' and of '.join(objection.variables)} out of the space"
    read = [
        f"{item['field']} {'unknown' if item['value'] is None else item['value']}"
        for item in _basis(objection, profile)
    ]
    inside = f" (profile: {', '.join(read)})" if read else ""
    return f"{text}: {objection.reason}{inside}."


def _profile_texts(objection: Objection) -> list[str]:
    return [
        f"  {objection.rule.name} would keep it if {c.field} were {c.to:.10g} instead of {c.was:.10g}."
        for c in objection.changes
    ]


def _basis(objection: Objection, profile: HardwareProfile) -> list[Mapping[str, object]]:
    return [{"field": path, "value": value} for path, value in basis_of(profile, objection.rule.hardware_basis)]


def _numbers(decision: Sequence[int]) -> str:
    return ",".join(map(str, decision))
