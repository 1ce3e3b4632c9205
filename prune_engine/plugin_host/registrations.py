"""Check what a plugin implements and what its hooks hand over."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping

import pluggy

from prune_engine import hookspecs
from prune_engine.hardware.schema import HardwareProfile
from prune_engine.store.base import Store
from prune_engine.strategies import (
    DraftScorer,
    Explorer,
    Library,
    Rule,
    ScheduleTransfer,
    Selector,
    Strategy,
    Verifier,
)
from prune_engine.symbols.table import SymbolDef

#: What each hook that returns something returns; collected hooks return an iterable of it.
RETURNS: Mapping[str, type] = {
    "register_rules": Rule,
    "register_explorers": Explorer,
    "register_draft_scorers": DraftScorer,
    "register_verifiers": Verifier,
    "register_selectors": Selector,
    "register_transfers": ScheduleTransfer,
    "register_libraries": Library,
    "register_symbols": SymbolDef,
    "register_hardware_profiles": HardwareProfile,
    "explain_candidate": str,
    "resolve_hardware_profile": HardwareProfile,
    "open_store": Store,
}

_STRATEGY_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")


class RegistrationError(Exception):
    """What is wrong with a plugin, in one clause; the host turns it into a record."""


def implemented_hooks(manager: pluggy.PluginManager, plugin: object) -> tuple[str, ...]:
    """Names of the hooks a plugin implements. Raises RegistrationError for what pluggy lets pass.

    pluggy takes a hook it does not know for one whose specification comes later, and a plugin without any
    hook for a plugin; both are mistakes here. Wrappers have nothing to wrap: plugins are called one by one.
    """
    known = hook_names(manager)
    found = []
    for attribute in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        if options is None:
            continue
        hook = options.get("specname") or attribute
        if hook not in known:
            if options.get("optionalhook"):
                continue
            raise RegistrationError(f"there is no hook {hook!r}{_suggest(hook, known)}")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise RegistrationError(f"{hook} is a wrapper; hooks are implemented by plain functions")
        found.append(hook)
    if not found:
        unmarked = [a for a in dir(plugin) if a in known]
        hint = f"; mark {', '.join(unmarked)} with @hookimpl" if unmarked else ""
        raise RegistrationError(f"implements no hook{hint}")
    return tuple(sorted(set(found)))


def hook_names(manager: pluggy.PluginManager) -> tuple[str, ...]:
    """Names of all specified hooks."""
    return tuple(
        sorted(
            name
            for name in dir(hookspecs)
            if not name.startswith("_") and manager.parse_hookspec_opts(hookspecs, name) is not None
        )
    )


def spec_arguments(hook: str) -> tuple[str, ...]:
    """Names of a hook's arguments."""
    return tuple(inspect.signature(getattr(hookspecs, hook)).parameters)


def check_items(hook: str, returned: object) -> list[object]:
    """What a collected hook returned, as a list. Raises RegistrationError unless every item fits the hook.

    Consuming the iterable may raise whatever the plugin raises.
    """
    if returned is None:
        return []
    kind = RETURNS[hook]
    if isinstance(returned, str | bytes | kind) or not isinstance(returned, Iterable):
        raise RegistrationError(f"{hook} returned {_shown(returned)}; expected an iterable of {kind.__name__}")
    items = list(returned)
    for item in items:
        check_item(hook, item)
    return items


def check_item(hook: str, item: object) -> None:
    """Raise RegistrationError unless an object is of the kind a hook returns and has a usable name."""
    kind = RETURNS[hook]
    if inspect.isclass(item) and issubclass(item, kind):
        raise RegistrationError(f"{hook} returned the class {item.__name__}; return an instance: {item.__name__}()")
    if not isinstance(item, kind):
        raise RegistrationError(f"{hook} returned {_shown(item)}; expected {kind.__name__}")
    if isinstance(item, Strategy):
        name = getattr(item, "name", None)
        if not isinstance(name, str) or not _STRATEGY_NAME.fullmatch(name):
            raise RegistrationError(
                f"{hook} returned {type(item).__name__} with name {name!r}; "
                "expected a dotted name such as 'plugin.strategy'"
            )


def offered_arguments(hook: str) -> str:
    """The arguments an implementation of a hook may name."""
    return f"{hook} offers: {', '.join(spec_arguments(hook)) or 'no arguments'}"


def explain_validation(error: pluggy.PluginValidationError) -> str:
    """What pluggy found wrong with an implementation, in one clause."""
    hook = re.search(r"hook '(\w+)'", str(error))
    problem = str(error).splitlines()[-1]
    return f"{hook.group(1)}: {problem}; {offered_arguments(hook.group(1))}" if hook else problem


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
