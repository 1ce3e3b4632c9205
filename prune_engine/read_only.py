"""What strategies and hooks are shown but must not change."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K")
V = TypeVar("V")
Scalar = TypeVar("Scalar", bound=np.generic)


class ReadOnlyDict(dict[K, V]):
    """A dict whose items stay as they are: writing raises TypeError. It is JSON and pickles, as no proxy does."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is shared and read-only; change a copy: dict(...)")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnlyDict, (dict(self),)

    def __copy__(self) -> ReadOnlyDict[K, V]:
        return self

    def __deepcopy__(self, _memo: object) -> ReadOnlyDict[K, V]:
        return self  # its values are numbers and frozen records


def own_copy(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only copy: whoever made the array may write into it again, as those do that reuse a buffer."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy
