import errno
import os
import shutil
from pathlib import Path

import pytest

from prune_engine.artifact_files import publish, staging_folder
from prune_engine.errors import OutputError
from prune_engine.metaschedule.apply import compile_model
from prune_engine.metaschedule.artifact import load_artifact, save_artifact
from prune_engine.metaschedule.artifact_library import write_library


@pytest.fixture(scope="module")
def compiled(conv_model, target):
    return compile_model(conv_model, [], target)


def _save(compiled, model, folder, target):
    return save_artifact(compiled, model, folder, n_threads=2, target=target, manifest={})


def _tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_saving_again_replaces_the_artefact_and_nothing_else(compiled, conv_model, target, tmp_path):
    folder = _save(compiled, conv_model, tmp_path / "deep" / "out", target)
    (folder / "mine.txt").write_text("mine")
    before = (folder / "metadata.json").read_bytes()
    _save(compiled, conv_model, folder, target)
    assert (folder / "metadata.json").read_bytes() != before
    assert sorted(path.name for path in folder.iterdir()) == ["metadata.json", "mine.txt", "model.so"]
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("where", ["file/out", "file"])
def test_a_folder_that_cannot_be_is_refused(compiled, conv_model, target, tmp_path, where):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot write here.*--out"):
        _save(compiled, conv_model, tmp_path / where, target)
    assert _tree(tmp_path) == {"file": b"a file"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(compiled, conv_model, target, tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="Permission denied"):
            _save(compiled, conv_model, tmp_path / "out", target)
    finally:
        tmp_path.chmod(0o700)


@pytest.fixture
def full_disk_at(tmp_path_factory, monkeypatch):
    """Lets the linker write so many blocks of 512 bytes: its next write fails as on a full disk."""

    def limit(blocks):
        wrapper = tmp_path_factory.mktemp("cc") / "cc"
        wrapper.write_text(f'#!/bin/sh\nulimit -f {blocks}\ntrap "" XFSZ\nexec {shutil.which("cc")} "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("CXX", str(wrapper))

    return limit


@pytest.mark.parametrize("blocks", [0, 8, 24])
def test_a_disk_that_fills_up_leaves_the_old_artefact_and_nothing_half_written(
    compiled, conv_model, target, tmp_path, full_disk_at, blocks, capfd
):
    folder = _save(compiled, conv_model, tmp_path / "out", target)
    before = _tree(tmp_path)
    capfd.readouterr()
    full_disk_at(blocks)
    with pytest.raises(OutputError, match="disk is full while saving"):
        _save(compiled, conv_model, folder, target)
    assert capfd.readouterr() == ("", "")
    assert _tree(tmp_path) == before
    load_artifact(folder)


def test_a_disk_that_fills_up_at_the_metadata_leaves_the_old_artefact(
    compiled, conv_model, target, tmp_path, monkeypatch
):
    folder = _save(compiled, conv_model, tmp_path / "out", target)
    before = _tree(tmp_path)

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OutputError, match="disk is full while saving"):
        _save(compiled, conv_model, folder, target)
    assert _tree(tmp_path) == before


def test_object_files_do_not_touch_the_disk(tmp_path):
    """LLVM ends the process when a write fails, so it must not write where it can."""
    seen = []

    class Executable:
        def export_library(self, path, workspace_dir):
            for name in ("lib0.o", "devc.o"):
                file = Path(workspace_dir) / name
                file.write_bytes(b"code")
                seen.append((file.read_bytes(), "memfd" in str(file.readlink().readlink())))

    write_library(Executable(), tmp_path / "model.so", tmp_path)
    assert seen == [(b"code", True)] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_missing_linker_is_named(compiled, conv_model, target, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(OutputError, match=r"no-such-compiler.*C compiler"):
        _save(compiled, conv_model, tmp_path / "out", target)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_publication_is_noticed_by_the_reader(compiled, conv_model, target, tmp_path):
    """Killed between the two moves: the new library lies beside the old metadata."""
    folder = _save(compiled, conv_model, tmp_path / "out", target)
    with staging_folder(folder) as staging:
        (staging / "model.so").write_bytes(b"another library")
        publish(staging, folder, ["model.so"])
    from prune_engine.errors import ArtifactError

    with pytest.raises(ArtifactError, match="export was interrupted"):
        load_artifact(folder)
