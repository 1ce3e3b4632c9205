"""The outer form that all workload names share: what is written, before an operator gives it meaning.

``OPERATOR:SIZES[,SIZES][,OPTION...][:WORD...][+STEP...]``
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Larger extents overflow the 32 bits that kernels count in.
MAX_SIZE = 2**31 - 1

#: The longest name that means something is far shorter; error messages and task names stay readable.
MAX_LENGTH = 400

_SIZES = re.compile(r"[0-9]+(?:x[0-9]+)*")
_OPTION = re.compile(r"([a-z]+)([0-9]+(?:x[0-9]+)*)")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")

Sizes = tuple[int, ...]


class WorkloadSyntaxError(ValueError):
    """A part that cannot be read; the caller knows whose it is. ``got`` is the part."""

    def __init__(self, problem: str, got: str) -> None:
        super().__init__(problem)
        self.problem, self.got = problem, got


@dataclass(frozen=True, slots=True)
class Written:
    """A workload name taken apart. ``words`` follow a colon, ``steps`` a plus sign."""

    operator: str
    sizes: tuple[Sizes, ...]
    options: tuple[tuple[str, Sizes], ...]
    words: tuple[str, ...]
    steps: tuple[str, ...]


def operator_of(text: str) -> str | None:
    """What stands before the first colon, or None where no name of an operator can stand."""
    name, colon, _ = text.strip().lower().partition(":")
    return name if colon and _NAME.fullmatch(name) else None


def take_apart(text: str) -> Written:
    """Read the outer form; case does not matter. Raises WorkloadSyntaxError."""
    if len(text) > MAX_LENGTH:
        raise WorkloadSyntaxError("the name is too long", f"{len(text)} characters")
    operator, _, rest = text.strip().lower().partition(":")
    head, *steps = rest.split("+")
    arguments, *words = head.split(":")
    sizes: list[Sizes] = []
    options: list[tuple[str, Sizes]] = []
    for part in arguments.split(","):
        if _SIZES.fullmatch(part) and not options:
            sizes.append(_numbers(part, smallest=1))
        elif match := _OPTION.fullmatch(part):
            options.append((match[1], _numbers(match[2], smallest=0)))
        else:
            raise WorkloadSyntaxError(_complaint(part, bool(options)), repr(part))
    for name in (*words, *steps):
        if not _NAME.fullmatch(name):
            raise WorkloadSyntaxError("a part is empty" if not name else "a part cannot be read", repr(name))
    return Written(operator, tuple(sizes), tuple(options), tuple(words), tuple(steps))


def written_sizes(sizes: Sizes) -> str:
    """Sizes as they are written: ``1x64x56x56``."""
    return "x".join(map(str, sizes))


def _complaint(part: str, is_after_options: bool) -> str:
    if not part:
        return "a part is empty"
    if is_after_options and _SIZES.fullmatch(part):
        return "sizes come before options"
    return "neither sizes nor an option"


def _numbers(part: str, *, smallest: int) -> Sizes:
    texts = part.split("x")
    numbers = tuple(map(int, texts))  # MAX_LENGTH is below the number of digits that Python refuses
    for text, number in zip(texts, numbers, strict=True):
        if not smallest <= number <= MAX_SIZE:
            shown = text if len(text) < 24 else text[:20] + "..."
            raise WorkloadSyntaxError(f"a number is out of the range from {smallest} to {MAX_SIZE}", shown)
    return numbers
