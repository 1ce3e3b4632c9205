"""Follow a guide as a reader would: write its files, type its commands, compare what is printed.

- A block with a title, such as ```` ```python title="src/hello.py" ````, is a file below the folder in which the
  guide begins. The same title again replaces the file.
- ```` ```bash ```` blocks are typed in order, in one shell: folders and variables stay. One after the comment
  ``<!-- exit code: 2 -->`` has to end so, others with 0.
- A ```` ```text ```` block right after it is all that is printed. ``...`` in it stands for anything, alone on a
  line for any lines; blank lines and the number of spaces do not count.
- ```` ```python ```` blocks without a title are run where the shell is. ``mermaid`` blocks, and ``text`` elsewhere,
  are for reading. Anything else could be neither written nor typed, and is an error.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kits.venvs import venv_environment

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_EXIT_CODE = re.compile(r"^<!-- exit code: (\d+) -->$")
#: A guide is to take ten minutes with reading; a command that takes longer than this hangs.
_LIMIT_SECS = 600


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, title and text, the line where it begins and what stands right before it."""

    language: str
    title: str
    text: str
    line: int
    before: str


def follow(page: Path, folder: Path, venv: Path) -> None:
    """Do what a page says, in an empty folder, with an environment active.

    Raises AssertionError with the page, the line and what was printed where it does not work as printed.
    """
    work, shell = folder / "work", _Shell(folder, venv)
    blocks = read_blocks(page)
    assert any(block.language == "bash" for block in blocks), f"{page.name} has no commands"
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        place = f"{page.name}:{block.line}"
        if block.title:
            path = (work / block.title).resolve()
            assert path.is_relative_to(work.resolve()), f"{place}: {block.title} is outside the reader's folder"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language in {"bash", "python"}:
            printed, code = shell.type(block)
            matched = _EXIT_CODE.match(block.before)
            due = int(matched[1]) if matched else 0
            assert code == due, f"{place}: exit code {code}, not {due}\n{block.text}\n{printed}"
            if following is not None and following.language == "text" and not following.before:
                complaint = differs(following.text, printed)
                assert not complaint, (
                    f"{place}: {complaint}\n--- expected\n{following.text}\n--- printed\n{printed}"
                )
        else:
            assert block.language in {"text", "mermaid"}, f"{place}: what to do with `{block.language}`?"


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page. A block inside a list or an admonition is refused."""
    blocks: list[Block] = []
    fence, start, info, before = "", 0, "", ""
    body: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        matched = _FENCE.match(line)
        if fence:
            if matched and matched[2] == fence and not matched[3].strip():
                language = info.split()[0] if info else ""
                title = _TITLE.search(info)
                blocks.append(Block(language, title[1] if title else "", "".join(body), start, before))
                fence, before, body = "", "", []
            else:
                body.append(line + "\n")
        elif matched:
            assert not matched[1], f"{page.name}:{number}: nobody follows a block that is indented"
            fence, start, info = matched[2], number, matched[3].strip()
        elif line.strip():
            before = line.strip()
    assert not fence, f"{page.name}:{start}: the block does not end"
    return blocks


def differs(expected: str, printed: str) -> str:
    """Say how what was printed differs from what a page shows; an empty string if it does not."""
    lines = [" ".join(line.split()) for line in expected.splitlines() if line.strip()]
    pattern = ""
    for line in lines:
        if line == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", line))
            pattern += r"\n"
    text = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines() if line.strip())
    if re.fullmatch(pattern, text):
        return ""
    shown = set(text.splitlines())
    missing = [line for line in lines if "..." not in line and line not in shown]
    return f"printed otherwise{': no line ' + repr(missing[0]) if missing else ''}"


class _Shell:
    """A shell whose folder and variables outlive each block, as a terminal's do."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self._work, self._home = folder / "work", folder / "home"
        self._work.mkdir(parents=True)
        self._home.mkdir()
        self._state = folder / "state.sh"
        self._state.write_text("", encoding="utf-8")
        self._environment = venv_environment(venv, self._home)

    def type(self, block: Block) -> tuple[str, int]:
        """Run a block and return what it printed, on both streams, and its exit code."""
        text = block.text if block.language == "bash" else f"python - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n"
        state = f"'{self._state}'"
        keep = f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > {state}"
        script = f"source {state}\nset -eo pipefail\ntrap {_quoted(keep)} EXIT\n{text}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", script],
            cwd=self._work,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_SECS,
            check=False,
        )
        return done.stdout, done.returncode


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
