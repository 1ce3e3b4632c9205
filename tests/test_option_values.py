"""Values of options that commands and functions share: sizes in bytes, numbers of threads."""

from __future__ import annotations

import pytest

from prune_engine.errors import ConfigError
from prune_engine.hardware.host import usable_cpus
from prune_engine.option_values import parse_bytes, threads_or_default


def test_sizes_are_binary_and_end_at_the_limit() -> None:
    assert [parse_bytes(text, "--memory") for text in ("1", "512KiB", "1.5g", "1024T")] == [
        1,
        2**19,
        3 * 2**29,
        2**50,
    ]


@pytest.mark.parametrize("size", ["0", "0.5", "9" * 30, "9" * 400 + "T", "-1"])
def test_memory_out_of_range(size: str) -> None:
    with pytest.raises(ConfigError, match="--memory"):
        parse_bytes(size, "--memory")


def test_all_cores_unless_fewer_are_asked_for() -> None:
    n_cores = len(usable_cpus())
    assert (threads_or_default(None), threads_or_default(1)) == (n_cores, 1)
    with pytest.raises(ConfigError, match=f"--threads: more threads.*got {n_cores + 1}"):
        threads_or_default(n_cores + 1)
