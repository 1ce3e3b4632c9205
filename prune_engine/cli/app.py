"""The entry point: verbs, the plugins' own verbs, and how an error leaves the program.

Verbs import what they need when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from prune_engine import __version__
from prune_engine.cli import (
    candidates,
    completion,
    explain,
    library,
    plugins,
    policy,
    prior,
    profiles,
    prune,
    rank,
    report,
    run,
    spaces,
    transfer,
    tune,
    verify,
    whitelist,
)
from prune_engine.cli.error_lines import place_error, tell_error
from prune_engine.cli.report_option import ReportingCommand
from prune_engine.cli.value_words import WordedGroup
from prune_engine.display.streams import abandon_streams, open_closed_streams, telling_warnings
from prune_engine.display.style import Colour, set_style, take_style
from prune_engine.errors import ConfigError, PruneEngineError

_EPILOG = "Installed plugins may add verbs; `prune-engine plugins` lists them."

#: What shells give a program that Ctrl-C ended.
_INTERRUPTED = 130
#: And a program whose output nobody reads any more.
_READER_GONE = 141


def main() -> None:
    """Run the command line; a PruneEngineError becomes one message on stderr and its exit code."""
    open_closed_streams()
    arguments = sys.argv[1:]
    try:
        with telling_warnings():
            arguments = take_style(arguments)
            app = make_app()
            known = {str(c.name) for c in app.registered_commands} | {str(g.name) for g in app.registered_groups}
            words = completion.words_so_far() if completion.is_completing() else arguments
            if words and not words[0].startswith("-") and not _is_known(words[0], known):
                _add_plugin_commands(app)
            if completion.is_completing():
                completion.attach(app)
            app(args=arguments, prog_name="prune-engine")
    except PruneEngineError as error:
        tell_error(error, arguments)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        _reader_gone()
    except OSError as error:
        if error.filename is None:  # nothing that somebody named
            raise
        tell_error(place_error(error), arguments)
        sys.exit(ConfigError.exit_code)
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # click catches some itself, and ends with 1
            _reader_gone()
        raise


def _reader_gone() -> NoReturn:
    """End because the reader of our output went away, as `head` does: there is nobody left to tell."""
    abandon_streams()  # Python would try to write what is left once more
    sys.exit(_READER_GONE)


def make_app() -> typer.Typer:
    """The command line without plugins' verbs."""
    app = typer.Typer(
        name="prune-engine",
        cls=WordedGroup,
        help="Find fast kernels for a model without trying the hopeless ones.",
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: Annotated[
            bool,
            typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True),
        ] = False,
        plain: Annotated[
            bool, typer.Option("--plain", help="No colour, no bold type, nothing drawn twice; at any place.")
        ] = False,
        color: Annotated[
            Colour | None, typer.Option(help="When to colour; at any place.", show_default="auto")
        ] = None,
    ) -> None:
        del version  # its callback has acted
        set_style(color, is_plain=plain)

    app.command("tune", cls=ReportingCommand)(tune.tune)
    app.command("transfer", cls=ReportingCommand)(transfer.transfer)
    app.command("run")(run.run)
    app.command("spaces")(spaces.spaces)
    app.command("prune")(prune.prune)
    app.command("candidates")(candidates.candidates)
    app.command("rank")(rank.rank)
    app.command("prior")(prior.prior)
    app.command("report")(report.report)
    app.command("verify")(verify.verify)
    app.command("explain")(explain.explain)
    app.add_typer(whitelist.whitelist, name="whitelist", cls=WordedGroup)
    app.add_typer(policy.policy, name="policy", cls=WordedGroup)
    app.add_typer(profiles.profiles, name="profiles", cls=WordedGroup)
    app.add_typer(plugins.plugins, name="plugins", cls=WordedGroup)
    app.add_typer(library.library, name="library", cls=WordedGroup)
    return app


def _is_known(word: str, verbs: set[str]) -> bool:
    """Whether a word is one of our verbs, or, while it is being completed, the beginning of one."""
    return word in verbs or (completion.is_completing() and any(verb.startswith(word) for verb in verbs))


def _add_plugin_commands(app: typer.Typer) -> None:
    from prune_engine.config import EngineConfig
    from prune_engine.plugins import PluginHost

    host = PluginHost(EngineConfig())
    host.load()
    host.notify("register_commands", cli=app)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"prune-engine {__version__}")
        raise typer.Exit
