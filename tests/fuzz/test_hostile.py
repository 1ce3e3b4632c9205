"""Files made to do harm: bombs, code in disguise, endless devices; and no reader in the product that runs code."""

from __future__ import annotations

import ast
import gzip
import io
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prune_engine_lightgbm.files import read_model

from prune_engine.bounded_files import inflated, json_of
from prune_engine.cli.run import _load
from prune_engine.errors import ConfigError, ModelImportError, ProfileError
from prune_engine.hardware.loader import load_profile
from prune_engine.library.files import read_library
from prune_engine.metaschedule.record_rows import numbered_lines
from prune_engine.provenance.policy_files import read_lock
from prune_engine.recorded.kernel_table_files import read_kernel_tables
from prune_engine.whitelist.files import read_whitelist

ROOT = Path(__file__).parent.parent.parent
PRODUCT = sorted((ROOT / "prune_engine").rglob("*.py")) + sorted((ROOT / "plugins").rglob("*.py"))


class Bad:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


READERS = [
    load_profile, read_library, read_kernel_tables, read_lock, read_whitelist, read_model, _load,
]  # fmt: skip


@pytest.mark.parametrize("read", READERS)
def test_pickles_are_not_opened(read: Callable[[Path], object], tmp_path: Path) -> None:
    touched, file = tmp_path / "touched", tmp_path / "file"
    whole = pickle.dumps(Bad(touched))
    objects = io.BytesIO()
    np.save(objects, np.array([Bad(touched)], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("header.npy", objects.getvalue())
    for content in (whole, gzip.compress(whole), objects.getvalue(), archive.getvalue()):
        file.write_bytes(content)
        with pytest.raises(ConfigError):
            read(file)
        assert not touched.exists()


@pytest.mark.parametrize(
    "tag", ["object/apply:os.abort []", "name:os.abort", "module:os", "object/new:os.abort {}"]
)
def test_yaml_tags_are_not_followed(tag: str, tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text(f"name: !!python/{tag}\n")
    with pytest.raises(ProfileError, match="could not determine a constructor"):
        load_profile(file)


@pytest.mark.parametrize("read", [*READERS, numbered_lines])
def test_devices_that_never_end_are_refused(
    read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prune_engine.bounded_files.MAX_BYTES", 1 << 22)
    with limited_memory(512 << 20), pytest.raises(ConfigError):
        read(Path("/dev/zero"))


@pytest.fixture
def bomb() -> bytes:
    """A kilobyte of each megabyte of spaces: 300 MB in 300 KB."""
    return gzip.compress(b" " * (1 << 20), 9) * 300


@pytest.mark.parametrize("read", [read_library, read_kernel_tables])
def test_gzip_bombs_are_refused(read: Callable[[Path], object], bomb: bytes, tmp_path: Path) -> None:
    file = tmp_path / "bomb.gz"
    file.write_bytes(bomb)
    with pytest.raises(ConfigError, match="inflates to more than 256 MiB"):
        read(file)


def test_inflating_stops_at_the_limit() -> None:
    small = gzip.compress(b"abc") + gzip.compress(b"def") + b"\0" * 8
    assert inflated(small) == b"abcdef"
    assert inflated(small, 6) == b"abcdef"
    with pytest.raises(ValueError, match="inflates to more than 5 bytes"):
        inflated(small, 5)
    with pytest.raises(ValueError, match="cut off"):
        inflated(small[:-30])
    with pytest.raises(ValueError, match="damaged"):
        inflated(b"\x1f\x8bxxxxxxxxxxxxxxxxxx")
    large = gzip.compress(bytes(64 << 20), 1)
    with limited_memory(16 << 20), pytest.raises(ValueError, match="inflates to more than 4 MiB"):
        inflated(large, 4 << 20)


def test_an_archive_that_inflates_to_gigabytes_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "model"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("header.npy", "w") as member:
        for _ in range(600):
            member.write(bytes(1 << 20))
    assert file.stat().st_size < 1 << 20
    with limited_memory(64 << 20), pytest.raises(ConfigError, match="inflates to 600 MiB, more than 512 MiB"):
        read_model(file)


def test_json_without_end_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        json_of("[" * 100_000)


@pytest.mark.parametrize("location", ["../../etc/passwd", "/etc/passwd", "sub/../../secret", "link"])
def test_external_data_stay_beside_the_model(location: str, tmp_path: Path) -> None:
    from fuzz.onnx_models import good_model

    from prune_engine.metaschedule.onnx_files import load_onnx

    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(4096))
    (tmp_path / "a" / "secret").write_bytes(bytes(4096))
    (folder / "link").symlink_to(tmp_path / "secret")
    model = good_model()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelImportError, match="is in another file that cannot be read"):
        load_onnx(folder / "model.onnx")


#: What runs code that is in a file; TVMScript is a Python program, and told as such.
_RUNS_CODE = {"eval", "exec", "compile"}
_MODULES = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


def runs_code(tree: ast.AST) -> Iterator[str]:
    """What of a module could run what a file holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in _MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in _RUNS_CODE or name in ("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"):
                yield name
            is_array = name.endswith(("np.load", "numpy.load", "format.read_array"))
            kept = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if is_array and kept.get("allow_pickle", "False") != "False":
                yield f"{name} with allow_pickle"


def test_no_reader_of_ours_runs_code() -> None:
    assert len(PRODUCT) > 200
    found = [f"{path.name}: {what}" for path in PRODUCT for what in runs_code(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "yaml.load(text, yaml.Loader)",
        "eval(text)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_search_for_such_readers_finds_them(line: str) -> None:
    assert list(runs_code(ast.parse(line)))


class limited_memory:  # noqa: N801  # used as a statement
    """Fails if Python allocates more than so much within."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes

    def __enter__(self) -> None:
        tracemalloc.start()

    def __exit__(self, *_: object) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < self._most, f"{peak >> 20} MiB"
