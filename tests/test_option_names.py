"""Messages call options as whoever reads them does."""

from __future__ import annotations

import inspect

import pytest
import typer.main

import prune_engine as pe
from prune_engine.cli.app import make_app
from prune_engine.config import EngineConfig
from prune_engine.errors import ConfigError
from prune_engine.option_names import FIELD_OPTIONS, as_options, as_python, python_names


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("--threads: more threads than usable cores", "threads: more threads than usable cores"),
        ("Leave out --profile, or name one.", "Leave out profile, or name one."),
        ("Or do without: --draft none.", "Or do without: draft none."),
        ("see --build-timeout", "see build_timeout"),
        ("Runs with --no-decisions have none", "Runs with decisions=False have none"),
        ("--from: no such file", "source: no such file"),
        ("--disable-rule: unknown rule", "disabled_rules: unknown rule"),
        ("--block: no plugin; --plugin a.py", "blocked_plugins: no plugin; plugin_files a.py"),
        ("disabled_rules: unknown rule", "disabled_rules: unknown rule"),
        ("a model's --- and a--b", "a model's --- and a--b"),
        ("invalid: n_trials: too small", "invalid: trials: too small"),
        ("draft_scorer: unknown; seed: too big", "draft: unknown; seed: too big"),
    ],
)
def test_options_become_arguments(told: str, expected: str) -> None:
    assert as_python(told) == expected


def test_an_error_keeps_its_kind_and_its_parts() -> None:
    with pytest.raises(ConfigError) as caught, python_names():
        raise ConfigError("wrong", who="--shape", got=3, remedy="Leave out --shape.")
    assert str(caught.value) == "shape: wrong; got 3. Leave out shape."
    assert (caught.value.who, caught.value.got, caught.value.exit_code) == ("shape", 3, 2)


#: What the command has for a terminal, and what the result does instead.
TERMINAL = {"quiet", "as_json", "report", "report_path", "replay"}
RENAMED = {
    "workload": "what",
    "model": "model",
    "number": "n",
    "disable_rule": "disabled_rules",
    "block": "blocked_plugins",
    "plugin": "plugin_files",
}


@pytest.mark.parametrize(
    ("verb", "function", "absent"),
    [
        ("tune", pe.tune, TERMINAL),
        ("transfer", pe.transfer, TERMINAL),
        ("prune", pe.prune, TERMINAL),
        ("candidates", pe.list_candidates, TERMINAL | {"out", "modules"}),
    ],
)
def test_functions_take_what_the_commands_take(verb: str, function: object, absent: set[str]) -> None:
    """The same names, and the same value where none is given."""
    command = typer.main.get_command(make_app()).commands[verb]  # type: ignore[attr-defined]
    arguments = inspect.signature(function).parameters  # type: ignore[arg-type]
    options = {RENAMED.get(p.name, p.name): p for p in command.params if p.name not in absent}
    assert set(options) == set(arguments) - {"progress"}
    for name, option in options.items():
        here = arguments[name].default
        if here is not inspect.Parameter.empty and option.default is not None:
            assert (here == option.default) or (here == () and not option.default), name


class TestNamesOnTheCommandLine:
    def test_fields_are_options(self) -> None:
        assert as_options("disabled_rules: unknown rule; got a.seed: b") == (
            "--disable-rule: unknown rule; got a.seed: b"
        )
        wrong = "engine configuration: invalid options: seed: too big (got 9); n_trials: bad. Correct them."
        assert as_options(wrong) == "--seed: too big (got 9); --trials: bad. Correct them."
        assert as_options("plugins/seed.py: no such file") == "plugins/seed.py: no such file"

    def test_every_option_of_a_field_is_one(self) -> None:
        commands = typer.main.get_command(make_app()).commands  # type: ignore[attr-defined]
        verbs = commands["tune"], commands["transfer"]
        known = {name for verb in verbs for parameter in verb.params for name in parameter.opts}
        assert set(FIELD_OPTIONS.values()) <= known
        assert set(FIELD_OPTIONS) <= set(EngineConfig.model_fields)
