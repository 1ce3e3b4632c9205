"""Kernels from files: TVMScript programs, and the workloads of a MetaSchedule database."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prune_engine.bounded_files import json_of, read_bounded
from prune_engine.errors import ModelImportError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.forked import crash_of
from prune_engine.metaschedule.onnx_files import check_readable
from prune_engine.metaschedule.workloads.kernel_model import Kernel

#: Under which a TVMScript file runs; inspect finds its source by it.
_MODULE_NAME = "prune_engine_tvmscript"


def kernels_of_script(path: Path) -> list[Kernel]:
    """The PrimFuncs of a TVMScript file: those of its IRModules, and those that stand by themselves.

    The file is a Python program, and this RUNS it: TVMScript has no form that is data only (its parser
    evaluates the expressions it meets). Its usual names (``T``, ``I``, ``R``, ``tvm``) need no import, as in
    what TVM prints.

    Raises:
        ModelImportError: the file cannot be read or run, or holds no kernel.
    """
    check_readable(path)
    tvm = import_tvm()
    names = _run(path)
    kernels: list[Kernel] = []
    for name, value in names.items():
        if isinstance(value, tvm.tirx.PrimFunc):
            kernels.append(Kernel(name, value))
        elif isinstance(value, tvm.IRModule):
            kernels += _of_module(value)
    return _unique(kernels, path)


def kernels_of_json(path: Path) -> list[Kernel]:
    """The kernels of a ``database_workload.json``, one line each, or of one IRModule as ``save_json`` writes it.

    Raises:
        ModelImportError: the file cannot be read, is neither, or holds no kernel.
    """
    check_readable(path)
    import_tvm()
    try:
        text = read_bounded(path).decode("utf-8")
        if crash := crash_of(lambda: list(_of_json(text))):
            raise ValueError(crash)
        kernels = list(_of_json(text))
    except UnicodeDecodeError as error:
        raise _no_workloads(path, "bytes that are no text") from error
    except Exception as error:  # TVM's reader raises every kind
        raise _no_workloads(path, _first_line(error)) from error
    return _unique(kernels, path)


def _run(path: Path) -> dict[str, Any]:
    """Run a file as a module, with TVMScript's usual names in reach and modules beside it importable."""
    import tvm
    from tvm.script import ir, relax, tirx

    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ModelImportError("this is no Python file", who=str(path), expected="a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    given = {"tvm": tvm, "I": ir, "R": relax, "T": tirx}
    vars(module).update(given)
    sys.modules[_MODULE_NAME] = module  # inspect looks for the source of a class there
    sys.path.insert(0, str(path.parent.resolve()))
    # Nothing is to be written into the user's folder.
    wrote_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's program raises what it likes; the parser ends it
        raise ModelImportError(
            "the TVMScript program failed",
            who=_place(path, error),
            got=f"{type(error).__name__}: {_first_line(error)}",
            remedy="Run it with Python to see all of its output.",
        ) from error
    finally:
        sys.dont_write_bytecode = wrote_bytecode
        sys.modules.pop(_MODULE_NAME, None)
        sys.path.remove(str(path.parent.resolve()))
    return {name: value for name, value in vars(module).items() if value is not given.get(name)}


def _of_module(mod: Any) -> list[Kernel]:
    tvm = import_tvm()
    return [
        Kernel(str(var.name_hint), func)
        for var, func in mod.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc)
    ]


def _of_json(text: str) -> Iterator[Kernel]:
    tvm = import_tvm()
    from tvm.ir import load_json
    from tvm.s_tir.meta_schedule.database import Workload

    try:
        whole = json_of(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        mod = load_json(text)
        if not isinstance(mod, tvm.IRModule):
            raise TypeError(f"a saved {type(mod).__name__}, not an IRModule")
        yield from _of_module(mod)
        return
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        try:
            mod = Workload.from_json(json_of(line)).mod
        except Exception as error:
            raise ValueError(f"line {number}: {_first_line(error)}") from error
        yield from (Kernel(f"workload_{number}", kernel.func) for kernel in _of_module(mod))


def _unique(kernels: list[Kernel], path: Path) -> list[Kernel]:
    """Raise if there is none; give those of one name different names."""
    if not kernels:
        raise ModelImportError(
            "the file holds no kernel",
            who=str(path),
            expected="at least one tirx PrimFunc, alone or in an IRModule",
        )
    taken: set[str] = {"main"}  # the model's own
    unique = []
    for kernel in kernels:
        name, number = kernel.name if kernel.name != "main" else _identifier(path), 2
        stem = name
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        taken.add(name)
        unique.append(Kernel(name, kernel.func))
    return unique


def _identifier(path: Path) -> str:
    """The file's name as a name of a function."""
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in path.name.split(".")[0])
    return letters if letters[:1].isalpha() else f"kernel_{letters}"


def _no_workloads(path: Path, got: str) -> ModelImportError:
    return ModelImportError(
        "the workloads cannot be read",
        who=str(path),
        got=got,
        expected="a MetaSchedule database_workload.json, or an IRModule saved as JSON by this version of TVM",
    )


def _place(path: Path, error: BaseException) -> str:
    """The file and, where the error came from it, the line."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno is not None:
        lines.append(error.lineno)
    return f"{path}, line {lines[-1]}" if lines else str(path)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
