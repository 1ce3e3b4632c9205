"""Write a profile as the YAML that `load_profile` reads."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from prune_engine.errors import OutputError
from prune_engine.hardware.schema import HardwareProfile


def profile_text(profile: HardwareProfile, comment: str = "") -> str:
    """A profile as YAML text that reads back as the same profile; ``comment`` goes on top."""
    content = _without_default_origin(profile.model_dump(mode="json", exclude_unset=True))
    sources = {"sources": content.pop("sources")}
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    return lines + _dump(content, is_flow=None) + _dump(sources, is_flow=False)


def check_place(path: Path) -> None:
    """Raise OutputError if `write_profile` could not write there; for those with work to do before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
    except OSError as error:
        raise _output_error(error, path) from error


def write_profile(profile: HardwareProfile, path: Path, comment: str = "") -> None:
    """Write a profile, whole or not at all. Raises OutputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            staged = Path(file.name)
            try:
                file.write(profile_text(profile, comment))
                file.flush()
                staged.chmod(0o644)  # profiles are shared; temporary files are private
                staged.replace(path)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _output_error(error, path) from error


def scalar_text(value: Any) -> str:
    """A plain value, or a number with its source, as YAML on one line."""
    return _dump({"x": _without_default_origin(value)}, is_flow=True, width=10_000).strip()[len("{x: ") : -1]


def _output_error(error: OSError, path: Path) -> OutputError:
    return OutputError(
        f"the profile cannot be written: {error.strerror or error}",
        who=str(path),
        remedy="Name another file with --out.",
    )


def _dump(content: dict[str, Any], *, is_flow: bool | None, width: int = 110) -> str:
    import yaml  # only those who write a profile pay for it

    class Dumper(yaml.SafeDumper):
        pass

    def float_node(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
        # 3.514e+11 instead of 351400000000.0; YAML wants the point and the sign to see a number.
        mantissa, _, exponent = format(Decimal(repr(value)).normalize(), "E").partition("E")
        point = "" if "." in mantissa else ".0"
        return dumper.represent_scalar("tag:yaml.org,2002:float", f"{mantissa}{point}e{exponent}")

    Dumper.add_representer(float, float_node)
    return yaml.dump(
        content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=width, default_flow_style=is_flow
    )


def _without_default_origin(node: Any) -> Any:
    if isinstance(node, dict):
        is_default = node.get("origin") == "declared" and "source" in node
        return {
            key: _without_default_origin(value)
            for key, value in node.items()
            if not (is_default and key == "origin")
        }
    if isinstance(node, list):
        return [_without_default_origin(item) for item in node]
    return node
