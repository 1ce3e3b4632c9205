"""A profile that says another number in one place."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from prune_engine.hardware.schema import Count, HardwareProfile, Rate


def with_value(profile: HardwareProfile, path: str, value: float) -> HardwareProfile | None:
    """The profile with another number at a dotted path; None where it has none there. It is not checked."""
    changed = _changed(profile, path.split("."), value)
    return changed if isinstance(changed, HardwareProfile) else None


def _changed(node: object, path: list[str], value: float) -> object | None:
    if not path:
        if isinstance(node, Count):
            return node.model_copy(update={"value": int(value)})
        return node.model_copy(update={"value": float(value)}) if isinstance(node, Rate) else None
    head, rest = path[0], path[1:]
    if isinstance(node, BaseModel):
        inner = _changed(getattr(node, head, None), rest, value)
        return None if inner is None else node.model_copy(update={head: inner})
    if isinstance(node, Mapping):
        inner = _changed(node.get(head), rest, value)
        return None if inner is None else {**node, head: inner}
    if isinstance(node, tuple):
        parts = [(_changed(item, rest, value) if getattr(item, "name", "") == head else item) for item in node]
        found = any(getattr(item, "name", "") == head for item in node)
        return tuple(parts) if found and None not in parts else None
    return None
