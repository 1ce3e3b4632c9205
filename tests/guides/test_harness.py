"""The harness of the guides notices what does not work as printed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from guides.harness import differs, follow, read_blocks
from kits.venvs import uv_cache, venv_environment

_PAGE = """\
# A guide

```python title="pkg/hello.py"
print("hello", 0.25)
```

```bash
export GREETED=world
cd pkg
python hello.py
```

```text
hello   0...
```

The shell stays where it is:

```bash
echo "$GREETED in $(basename "$PWD")"
```

```text
world in pkg
```

<!-- exit code: 2 -->
```bash
prune-engine profiles show no-such-device
```

```text
error: ...
```
"""


@pytest.fixture(scope="module")
def venv(fresh_venv: Callable[[], Path]) -> Path:
    return fresh_venv()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "guide.md"
    path.write_text(_PAGE, encoding="utf-8")
    return path


def test_guide_is_followed_to_its_end(page: Path, tmp_path: Path, venv: Path) -> None:
    follow(page, tmp_path / "folder", venv)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("world in pkg", "world in home", "printed otherwise: no line 'world in home'"),
        ("<!-- exit code: 2 -->", "", "exit code 2, not 0"),
        ("cd pkg", "cd nowhere", "exit code 1, not 0"),
        ("pkg/hello.py", "../hello.py", "outside the reader's folder"),
        ("```python title", "  ```python title", "a block that is indented"),
        ("\n\nThe shell", "", "what to do with `yaml`"),
        ("error: ...\n```", "error: ...", "does not end"),
    ],
)
def test_what_does_not_work_is_noticed(
    page: Path, tmp_path: Path, venv: Path, old: str, new: str, complaint: str
) -> None:
    new = new or ("\n\n```yaml\na: 1\n```\n\nThe shell" if "shell" in old else "")
    page.write_text(_PAGE.replace(old, new), encoding="utf-8")
    with pytest.raises(AssertionError, match=complaint.replace("`", ".")):
        follow(page, tmp_path / "folder", venv)


def test_a_page_without_commands_is_no_guide(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="no commands"):
        follow(tmp_path / "page.md", tmp_path / "folder", tmp_path)


@pytest.mark.parametrize(
    ("expected", "printed", "is_same"),
    [
        ("a 1.5 b", "a  1.5   b\n\n", True),
        ("a ... b", "a 17.25 b\n", True),
        ("a ... b", "a 17.25 c\n", False),
        ("a ... b", "a 1\n2 b\n", False),
        ("first\n...\nlast", "first\nmore\nand more\nlast\n", True),
        ("first\n...\nlast", "first\nlast\n", True),
        ("first\nlast", "first\nmore\nlast\n", False),
        ("first", "first\nlast\n", False),
        ("a.b", "axb\n", False),
    ],
)
def test_loose_comparison(expected: str, printed: str, is_same: bool) -> None:
    assert (differs(expected, printed) == "") is is_same


def test_blocks_of_longer_fences_hold_shorter_ones(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("````text\n```bash\nls\n```\n````\n", encoding="utf-8")
    (block,) = read_blocks(tmp_path / "page.md")
    assert (block.language, block.text) == ("text", "```bash\nls\n```\n")


def test_fresh_environment_has_the_wheel_and_not_this_tree(venv: Path) -> None:
    environment = venv_environment(venv)
    code = "import prune_engine, shutil; print(prune_engine.__file__); print(shutil.which('prune-engine'))"
    done = subprocess.run(
        ["python", "-c", code], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    for path in done.stdout.splitlines():
        assert Path(path).is_relative_to(venv), done.stdout


def test_copies_of_an_environment_do_not_change_each_other(
    guide_venv: Path, fresh_venv: Callable[[], Path]
) -> None:
    other = fresh_venv()
    (package,) = guide_venv.glob("lib/*/site-packages/typer/__init__.py")
    environment = venv_environment(guide_venv)
    subprocess.run(["pip", "uninstall", "--quiet", "typer"], env=environment, check=True)
    assert not package.exists()
    assert (other / package.relative_to(guide_venv)).exists()


def test_a_cache_that_cannot_be_written_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(uv_cache()).is_relative_to(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert not Path(uv_cache()).is_relative_to(tmp_path / "file")
