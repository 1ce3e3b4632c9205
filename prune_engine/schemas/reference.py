"""The reference page of --json: ``python -m prune_engine.schemas.reference > docs/reference/json.md``."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_origin

from prune_engine.hardware.schema import HardwareProfile
from prune_engine.schemas.verbs import PRINTED, schema_name

_HEAD = """\
# Output for machines

Every verb takes `--json`. Then stdout holds one JSON value and nothing else; progress, warnings and errors are
on stderr. The [JSON Schemas](https://json-schema.org/draft/2020-12) of all of them are in the package, as
`prune_engine/schemas/NAME.schema.json`:

```python
from prune_engine.schemas import schema, schema_names

print(len(schema_names()), "schemas")
print(schema("prune")["title"])
```

Fields may be added to an object in any version, so a reader passes over what it does not know; none is removed
or gets another meaning before the next major version. `null` is unknown, or does not apply. Times are seconds
(`_secs`), sizes bytes (`_bytes`), shares from 0 to 1 (`_share`), counts begin with `n_`.

## Errors

The exit code is that without `--json`, and what was printed before is kept. An error that ends a verb is the
last line on stderr, one JSON object on one line in place of the text that people get, as the schema `event` says:

```json
{
  "event": "error",
  "error": "ProfileError",
  "message": "hardware profile: unknown hardware profile; got 'x1'; expected 'auto', ... Name one of those.",
  "problem": "unknown hardware profile",
  "who": "hardware profile",
  "got": "'x1'",
  "expected": "'auto', ...",
  "remedy": "Name one of those.",
  "exit_code": 2
}
```

`message` is all of it in words, `error` the class in `prune_engine.errors`. A command line that cannot be read
at all (an option that there is not) is told in words, with exit code 2.

`tune` and `transfer` write their progress as such lines, too, `{"event": "status", ...}` and `{"event":
"progress", ...}`; `--quiet` leaves them out. Other lines on stderr are notes for people.

## Verbs

| verb | schema | stdout |
|---|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    rows = "".join(
        f"| `{verb}` | `{schema_name(verb)}` | {_meaning(printed)} |\n" for verb, printed in PRINTED.items()
    )
    return f"{_HEAD}{rows}{_TAIL}"


_TAIL = """
## Files

| file | schema | |
|---|---|---|
| `result.json` of a result folder | `tune` | what `tune --json` prints |
| `decisions/*.jsonl` of a result folder | `decision` | a line for each [decision](../explain.md) |
| a profile | `profile` | the YAML file, read as data: [all fields](profile.md) |
"""


def _meaning(printed: Any) -> str:
    if printed is HardwareProfile:
        return "The profile, with its `digest` and where it was found (`found`) or written (`file`)."
    if get_origin(printed) is list:
        return f"A list. {_meaning(get_args(printed)[0])}"
    told = [_first_line(one) for one in get_args(printed) or (printed,)]
    return " Or: ".join(told)


def _first_line(record: Any) -> str:
    return (inspect.getdoc(record) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")


if __name__ == "__main__":
    print(page(), end="")
