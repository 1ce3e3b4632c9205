"""Read a profile from YAML. Every complaint names file, line and key, and says what to write instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from prune_engine.errors import ProfileError
from prune_engine.hardware.complaints import explain, meant_keys
from prune_engine.hardware.consistency import inconsistencies
from prune_engine.hardware.schema import SCHEMA_VERSION, HardwareProfile

if TYPE_CHECKING:
    import yaml

#: Line, problem and remedy.
_Problem = tuple[int, str, str]
#: A profile has a few kilobytes and a few hundred values; a file beyond this is something else.
MAX_BYTES, _MAX_VALUES = 1 << 20, 20_000
#: YAML 1.1 reads 010 as 8 and 1:30 as 90; nobody who writes a profile means that.
_PLAIN_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")


def load_profile(path: Path) -> HardwareProfile:
    """Read one profile. Raises ProfileError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # not all of /dev/zero, nor of a data file named by mistake
    except OSError as error:
        raise ProfileError(
            f"cannot be read: {error.strerror}", who=str(path), expected="a YAML file", remedy="Correct the path."
        ) from error
    return profile_from_bytes(content, str(path))


def profile_from_bytes(content: bytes, origin: str) -> HardwareProfile:
    """Read one profile from the bytes of a file, at most ``MAX_BYTES`` and one more. Raises ProfileError."""
    try:
        text = content[:MAX_BYTES].decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProfileError(
            f"cannot be read: {error}",
            who=f"{origin}:{line}",
            expected="a YAML file in UTF-8",
            remedy="Save it as UTF-8 text.",
        ) from error
    if len(content) > MAX_BYTES:
        raise ProfileError(
            "too large for a profile",
            who=origin,
            got=f"more than {MAX_BYTES} bytes",
            expected="one device, a few kilobytes",
            remedy="Name the profile, not a data file.",
        )
    return parse_profile(text, origin)


def parse_profile(text: str, origin: str) -> HardwareProfile:
    """Read one profile from YAML text; ``origin`` names it in errors. Raises ProfileError."""
    root, data, problems = _read_yaml(text, origin)
    if not isinstance(data, dict):
        got = "nothing: the file is empty" if data is None else type(data).__name__
        remedy = "Write `key: value` lines; any shipped profile is an example."
        raise ProfileError("not a profile", who=f"{origin}:1", got=got, expected="a YAML mapping", remedy=remedy)
    _check_version(data, root, origin)
    try:
        # Through JSON, whose strict mode takes lists for tuples and names for enums, and nothing else.
        as_json = json.dumps(_with_text_keys(data), default=str)
    except (ValueError, RecursionError) as error:
        raise ProfileError("nested too deeply", who=origin, remedy="Write it out flat.") from error
    try:
        profile = HardwareProfile.model_validate_json(as_json)
    except ValidationError as error:
        problems += _schema_problems(error, json.loads(as_json), root)
        raise _profile_error(problems, origin) from error
    if problems:
        raise _profile_error(problems, origin)
    return profile


def _read_yaml(text: str, origin: str) -> tuple[yaml.Node | None, object, list[_Problem]]:
    """The text as nodes and as data, and what PyYAML would let pass. Raises ProfileError."""
    import yaml  # only those who load a profile pay for it

    # libyaml's parser where PyYAML was built with it: ten times faster, and listings read every file.
    parser: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = None
    problems: list[_Problem] = []
    try:
        loader = parser(text)
        root = loader.get_single_node()
        if root is not None:
            _check_aliases(root, origin)
        problems = [] if root is None else list(_node_problems(root, set()))
        return root, None if root is None else loader.construct_document(root), problems
    except yaml.YAMLError as error:
        if problems:  # the reason why nothing could be made of it
            raise _profile_error(problems, origin) from error
        mark, position = getattr(error, "problem_mark", None), getattr(error, "position", 0)
        # A character that YAML does not allow comes with its position instead of a mark.
        line = mark.line + 1 if mark else text.count("\n", 0, position) + 1
        place = f"{origin}:{min(line, max(1, len(text.splitlines())))}"  # the end of the text is behind it
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ProfileError(f"not YAML: {problem}", who=place, remedy="Correct the syntax there.") from error
    except (ValueError, RecursionError) as error:  # an impossible date, or nesting without end
        raise ProfileError(f"not YAML that can be read: {error}", who=origin) from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_aliases(root: yaml.Node, origin: str) -> None:
    """Refuse aliases that contain themselves, and a few lines of aliases that stand for millions of values."""
    import yaml

    sizes: dict[int, int | None] = {}  # by node; None while its content is being counted

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise refused("an alias contains itself", node)
            return known
        sizes[id(node)] = None
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        total = 1 + sum(map(size, children))
        if total > _MAX_VALUES:
            raise refused(f"stands for more than {_MAX_VALUES} values", node)
        sizes[id(node)] = total
        return total

    def refused(problem: str, node: yaml.Node) -> ProfileError:
        return ProfileError(problem, who=f"{origin}:{node.start_mark.line + 1}", remedy="Write it out.")

    size(root)


def _node_problems(node: yaml.Node, seen: set[int]) -> Iterator[tuple[int, str, str]]:
    """Line, problem and remedy of what PyYAML lets pass silently."""
    import yaml

    if id(node) in seen:  # an alias; its anchor was looked at
        return
    seen.add(id(node))
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            here = key.start_mark.line + 1
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                yield here, f"key {key.value!r} is not text to YAML", "Put the key in quotes."
            elif key.value in lines:
                problem = f"duplicate key {key.value!r}, first on line {lines[key.value]}"
                yield here, problem, "Keep one of them."
            else:
                lines[key.value] = here
            yield from _node_problems(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _node_problems(item, seen)
    elif node.tag == "tag:yaml.org,2002:int" and not _PLAIN_INT.fullmatch(node.value):
        yield (
            line,
            f"{node.value} is not a decimal number to YAML",
            "Write decimal digits without a leading 0.",
        )


def _check_version(data: dict[object, object], root: yaml.Node | None, origin: str) -> None:
    version = data.get("schema_version")
    line = _line(root, ("schema_version",))
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise ProfileError(
            "schema_version: written for a newer prune_engine",
            who=f"{origin}:{line}",
            got=version,
            expected=f"at most {SCHEMA_VERSION}",
            remedy="Upgrade prune-engine.",
        )


def _with_text_keys(node: object) -> object:
    """The data without keys that are no text to YAML: they have been told, and what they hold is not looked at."""
    if isinstance(node, dict):
        return {key: _with_text_keys(value) for key, value in node.items() if isinstance(key, str)}
    return [_with_text_keys(item) for item in node] if isinstance(node, list) else node


def _schema_problems(
    error: ValidationError, data: Mapping[str, object], root: yaml.Node | None
) -> Iterator[_Problem]:
    """What is wrong with single fields, then with what they say together."""
    details = [detail for detail in error.errors() if detail["loc"]]  # without a place: told by inconsistencies
    # A misspelt key is one mistake, not also a missing one.
    meant = {
        (*detail["loc"][:-1], key)
        for detail in details
        if detail["type"] == "extra_forbidden"
        for key in meant_keys(str(detail["loc"][-1]))
    }
    for detail in details:
        if detail["type"] != "missing" or detail["loc"] not in meant:
            problem, remedy = explain(detail)
            yield _line(root, detail["loc"]), f"{_dotted(detail['loc'])}: {problem}", remedy
    told = {detail["loc"] for detail in details} | meant
    for found in inconsistencies(data):
        if found.path not in told:
            yield _line(root, found.path), f"{_dotted(found.path)}: {found.text}", found.remedy


def _profile_error(found: list[_Problem], origin: str) -> ProfileError:
    """One error that tells each mistake on a line of its own, in the order of the file's lines."""
    mistakes = tuple(sorted(found, key=lambda item: item[0]))
    first, *others = mistakes
    line, problem, remedy = first
    if not others:
        error = ProfileError(problem, who=f"{origin}:{line}", remedy=remedy or None)
    else:
        rest = (f"{origin}:{line}: {problem}. {remedy}".rstrip() for line, problem, remedy in others)
        error = ProfileError("\n".join([f"{problem}. {remedy}".rstrip(), *rest]), who=f"{origin}:{line}")
    error.mistakes = mistakes
    return error


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path))


def _line(root: yaml.Node | None, path: Sequence[str | int]) -> int:
    """Line of the deepest node on a path that exists, counted from 1."""
    import yaml

    line, node = 1, root
    for part in path:
        if isinstance(node, yaml.MappingNode):
            hit = next(((k, v) for k, v in node.value if k.value == part), None)
            if hit is None:
                break
            line, node = hit[0].start_mark.line + 1, hit[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
