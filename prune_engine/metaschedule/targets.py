"""From what a user writes for a target to the canonical text that is part of every task's identity."""

from __future__ import annotations

import difflib
import json
import warnings
from collections.abc import Mapping
from typing import Any, cast

from prune_engine.errors import TargetError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.device_targets import DEVICE_PREFIX, device_target
from prune_engine.metaschedule.interpreter.gpu_limits import GpuLimits
from prune_engine.metaschedule.quiet import captured_stderr

#: Texts that mean "this machine".
_HOST = ("auto", "native", "host", "llvm")

#: Prefix of an LLVM triple -> the name load_intrinsics knows.
_ARCHITECTURE_OF_TRIPLE = {
    "x86": "x86",
    "i386": "x86",
    "i486": "x86",
    "i586": "x86",
    "i686": "x86",
    "aarch64": "arm",
    "arm": "arm",
    "thumb": "arm",
    "riscv": "riscv",
    "hexagon": "hexagon",
}


def resolve_target(text: str, n_threads: int) -> str:
    """Return the canonical JSON of a target: stable key order, idempotent.

    ``text`` is "llvm", "auto" or "native" (this machine's processor), a JSON object, options in the old
    form ("llvm -mcpu=skylake -num-cores=4"), a tag known to TVM ("nvidia/nvidia-a100") or a GPU by name
    ("cuda/a100", see device_targets). ``n_threads`` becomes ``num-cores`` of a processor target that does not
    state it; if it states another number, that stays and a warning is given, because schedules are then shaped
    for other parallelism than they run with.

    Raises:
        TargetError: the kind, an option, the triple or the processor is unknown to TVM or to its LLVM.
    """
    if n_threads < 1:
        raise TargetError("the number of threads is too small", who="--threads", got=n_threads, expected=">= 1")
    config = _parse(text.strip())
    with captured_stderr():  # TVM tells of devices that are not there; what matters here it raises
        config = _as_config(make_target(config, who=text))
    if config["kind"] == "llvm":
        _check_processor(config, text)
        stated = config.setdefault("num-cores", n_threads)
        if stated != n_threads:
            warnings.warn(
                f"target {text!r} says num-cores {stated} but kernels run on {n_threads} threads; "
                "make them equal for the best schedules",
                stacklevel=2,
            )
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def make_target(target: str | Mapping[str, object], *, who: str | None = None) -> Any:
    """Make TVM's Target of a canonical text or a configuration. Raises TargetError."""
    tvm = import_tvm()
    config = json.loads(target) if isinstance(target, str) and target.startswith("{") else target
    try:
        return tvm.target.Target(config)
    except Exception as error:  # TVM raises ValueError, InternalError, TypeError alike
        kinds = ", ".join(sorted(tvm.target.Target.list_kinds()))
        raise TargetError(
            "TVM does not know this target",
            who=f"target {who or target}",
            got=_first_line(error),
            expected=f"a kind out of {kinds}, as a name or as JSON such as "
            '{"kind": "llvm", "mcpu": "skylake-avx512"}',
        ) from error


def architecture_of(target: str) -> str:
    """Name the architecture whose tensor intrinsics a target's design spaces use.

    One of x86, arm, riscv, hexagon, cuda, rocm; for other kinds the kind itself.
    """
    made = make_target(target)
    kind = str(made.kind.name)
    if kind != "llvm":
        return kind
    triple = str(dict(made.export()).get("mtriple") or _codegen().llvm_get_system_triple())
    names = (name for prefix, name in _ARCHITECTURE_OF_TRIPLE.items() if triple.startswith(prefix))
    return next(names, triple.split("-")[0])


def gpu_limits(target: str) -> GpuLimits | None:
    """What TVM's verifier of GPU code allows on a target; None for one that is no GPU or does not say."""
    made = make_target(target)
    attributes = dict(made.export())
    names = ("max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size")
    values = [attributes.get(name) for name in names]
    return None if any(value is None for value in values) else GpuLimits(*(int(value) for value in values if value))


def threads_of(target: str) -> int | None:
    """``num-cores`` of a canonical target, or None if it states none."""
    cores = json.loads(target).get("num-cores")
    return int(cores) if cores is not None else None


def _parse(text: str) -> str | dict[str, object]:
    """Read the ways to write a target."""
    if text.startswith(DEVICE_PREFIX):
        return device_target(text)
    if text in _HOST:
        return {"kind": "llvm", "mcpu": str(_codegen().llvm_get_system_cpu())}
    if text.startswith("{"):
        try:
            return cast("dict[str, object]", json.loads(text))
        except json.JSONDecodeError as error:
            raise TargetError(
                f"the JSON cannot be read ({error})", who=f"target {text}", expected='{"kind": "llvm", ...}'
            ) from error
    kind, *options = text.split() or [""]
    return _parse_options(kind, options, text) if options else text


def _parse_options(kind: str, options: list[str], text: str) -> dict[str, object]:
    """Read the old command-line form, which TVM itself no longer reads."""
    config: dict[str, object] = {"kind": kind}
    for option in options:
        name, equals, value = option.lstrip("-").partition("=")
        if not option.startswith("-") or not equals or not value:
            raise TargetError("an option cannot be read", who=f"target {text}", got=option, expected="-name=value")
        is_list = name in ("mattr", "keys", "libs")
        config[name] = value.split(",") if is_list else int(value) if value.isdigit() else value
    return config


def _as_config(target: Any) -> dict[str, Any]:
    """A target as plain JSON values, without what says nothing."""
    config = cast("dict[str, Any]", json.loads(str(target)))
    config.pop("tag", None)
    # TVM fills in its own build's triple where no processor is named; it is the default anyway.
    if config.get("mtriple") == str(_codegen().llvm_get_system_triple()) and "mcpu" not in config:
        del config["mtriple"]
    return config


def _check_processor(config: Mapping[str, Any], text: str) -> None:
    """Refuse a triple or processor that LLVM would silently replace by a generic one."""
    codegen = _codegen()
    triple = str(config.get("mtriple") or codegen.llvm_get_system_triple())
    architectures = [str(name) for name in codegen.llvm_get_targets()]
    if _is_unknown_architecture(triple, architectures):
        raise TargetError(
            "the LLVM of this TVM has no such architecture",
            who=f"target {text}",
            got=triple,
            expected=f"a triple that begins with one of {', '.join(architectures)}",
        )
    mcpu = config.get("mcpu")
    if mcpu is None or codegen.llvm_is_valid_cpu(mcpu, triple):
        return
    # Asked without the processor: LLVM would print that it does not know it.
    bare = make_target({"kind": "llvm", "mtriple": triple})
    known = sorted(str(name) for name in codegen.llvm_get_cpu_archlist(bare))
    close = difflib.get_close_matches(str(mcpu), known, n=5, cutoff=0.5) or known[-12:]
    raise TargetError(
        f"LLVM {codegen.llvm_version_major()} has no such processor",
        who=f"target {text}",
        got=f"mcpu {mcpu!r}",
        expected=f"one of {len(known)} names for {triple}, such as {', '.join(close)}",
        remedy=f"This machine is {codegen.llvm_get_system_cpu()!r}; the target 'native' means it.",
    )


def _is_unknown_architecture(triple: str, architectures: list[str]) -> bool:
    """Whether no LLVM back end bears the first part of the triple (with its usual short forms)."""
    first = triple.split("-")[0]
    aliases = {"arm64": "aarch64", "i486": "i386", "i586": "i386", "i686": "i386", "amd64": "x86_64"}
    first = aliases.get(first, first)
    return not any(first == name or first.startswith(f"{name}v") for name in architectures)


def _codegen() -> Any:
    return import_tvm().target.codegen


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300]
