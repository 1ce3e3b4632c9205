"""The guide to profile packs works by copy and paste, and what it yields is the outside pack of the tests."""

from __future__ import annotations

from pathlib import Path

from guides.harness import follow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "pack.md"
PACK = ROOT / "tests" / "third_party" / "acme-npu-pack"
#: What building leaves behind, and the device that the guide adds in the end.
_LEFT_OUT = ("build", "dist", "__pycache__", ".pytest_cache")
_ADDED = "acme-npu1-lite.yaml"


def files_of(project: Path) -> dict[str, str]:
    """Texts of a project's own files by path."""
    return {
        path.relative_to(project).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(project.rglob("*"))
        if path.is_file()
        and path.name != _ADDED
        and not any(part in _LEFT_OUT or part.endswith(".egg-info") for part in path.relative_to(project).parts)
    }


def test_guide_works_as_printed_and_yields_the_pack(tmp_path: Path, guide_venv: Path) -> None:
    follow(PAGE, tmp_path, guide_venv)
    assert files_of(tmp_path / "work" / "acme-npu-pack") == files_of(PACK)
