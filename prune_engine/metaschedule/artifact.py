"""Compiled artefact: a shared library that plain TVM loads, and a JSON file that describes it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_engine.artifact_files import file_digest
from prune_engine.errors import ArtifactError
from prune_engine.metaschedule._compat import import_tvm
from prune_engine.metaschedule.artifact_metadata import ArtifactMetadata, TensorSpec, read_metadata
from prune_engine.metaschedule.artifact_writer import save_artifact
from prune_engine.metaschedule.threads import use_threads

__all__ = ["Artifact", "ArtifactMetadata", "TensorSpec", "load_artifact", "read_metadata", "save_artifact"]

AnyArray = NDArray[Any]


class Artifact:
    """A loaded compiled model. Runs on the thread count it was tuned for."""

    def __init__(self, folder: Path, metadata: ArtifactMetadata) -> None:
        """Load the library. Raises ArtifactError. Use ``load_artifact``."""
        self.folder = folder
        self.metadata = metadata
        use_threads(metadata.n_threads)
        self._tvm = import_tvm()
        try:
            #: The compiled library, as a ``tvm.runtime.Module``.
            self.library = _load_library(folder / metadata.library)
            self._machine = self._tvm.runtime.vm.VirtualMachine(self.library, self._tvm.cpu())
            self._main = self._machine["main"]
        except Exception as error:  # the loader raises OSError, RuntimeError, AttributeError, ...
            raise ArtifactError(
                "the compiled library cannot be loaded",
                who=str(folder / metadata.library),
                got=str(error).strip().split("\n")[-1][:300],
                remedy=f"It was built with TVM {metadata.versions.get('apache-tvm', '?')} for {metadata.target}; "
                "tune the model again on this machine.",
            ) from error

    def run(self, inputs: Mapping[str, AnyArray]) -> list[AnyArray]:
        """Run the model once; arrays by input name in, arrays in the order of ``metadata.outputs`` out.

        Raises:
            ArtifactError: an input is missing, unknown, or of another shape or dtype; or the run fails.
        """
        return self.fetch(self.call(self.bind(inputs)))

    def bind(self, inputs: Mapping[str, AnyArray]) -> list[object]:
        """Check inputs and copy them to the device, in the order ``call`` takes them. Raises ArtifactError."""
        names = [spec.name for spec in self.metadata.inputs]
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        if missing or unknown:
            raise ArtifactError(
                "the inputs are not this model's",
                who=str(self.folder),
                got=", ".join(inputs) or "none",
                expected=", ".join(names) or "none",
            )
        arrays = [self._checked(spec, inputs[spec.name]) for spec in self.metadata.inputs]
        return [self._tvm.runtime.tensor(array, self._tvm.cpu()) for array in arrays]

    def call(self, tensors: list[object]) -> object:
        """Run on bound inputs; the result stays on the device. Raises ArtifactError."""
        try:
            result: object = self._main(*tensors)
        except Exception as error:  # a kernel may raise any kind
            raise ArtifactError(
                "the model failed while it ran", who=str(self.folder), got=str(error).strip().split("\n")[-1][:300]
            ) from error
        return result

    def instrument(self, told: Callable[..., None]) -> None:
        """Have ``told(func, name, before_run, result, *args)`` called before and after each function of a call."""
        self._machine.set_instrument(told)

    def fetch(self, result: Any) -> list[AnyArray]:
        """Copy what ``call`` returned into arrays."""
        tensors = [result] if isinstance(result, self._tvm.runtime.Tensor) else list(result)
        return [tensor.numpy() for tensor in tensors]

    def _checked(self, spec: TensorSpec, value: AnyArray) -> AnyArray:
        array = np.asarray(value)
        if array.shape != spec.shape or str(array.dtype) != spec.dtype:
            raise ArtifactError(
                f"input {spec.name!r} does not fit",
                who=str(self.folder),
                got=f"{array.dtype} {array.shape}",
                expected=f"{spec.dtype} {spec.shape}",
                remedy="Convert it with numpy's astype and reshape; the compiled shapes are fixed.",
            )
        return np.ascontiguousarray(array).reshape(spec.shape)


def load_artifact(folder: Path) -> Artifact:
    """Load what ``save_artifact`` wrote.

    Raises:
        ArtifactError: nothing there, damaged, or written by a newer version.
    """
    folder = Path(folder)
    metadata = read_metadata(folder)
    library = folder / metadata.library
    if not library.is_file():
        raise ArtifactError(
            "the compiled library is missing", who=str(library), remedy="Copy the whole folder, or tune again."
        )
    if file_digest(library) != metadata.library_digest:
        raise ArtifactError(
            "the compiled library is not the one that the metadata describe",
            who=str(library),
            remedy="It is damaged, or an export was interrupted; tune again or copy the whole folder.",
        )
    return Artifact(folder, metadata)


def _load_library(path: Path) -> object:
    """Load under a name of its own: the dynamic linker keeps what it loaded from a path, even if replaced.

    Not ``tvm.runtime.load_module``, which looks through the link.
    """
    import tvm_ffi

    with tempfile.TemporaryDirectory(prefix="prune-engine-") as folder:
        link = Path(folder) / path.name
        link.symlink_to(path.resolve())
        library: object = tvm_ffi.load_module(str(link))
        return library
