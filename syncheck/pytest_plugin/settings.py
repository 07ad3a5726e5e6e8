"""Settings of the pytest plugin: markers, options, pytest's configuration file, `[tool.syncheck]`.

This module is imported in every test session, so modules that only checked sessions need are imported lazily.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from syncheck.config.options import BY_NAME, Setting, settings_of

if TYPE_CHECKING:
    from syncheck.api import BlockReport
    from syncheck.config.options import Options

_MARKED = ("ignore", "select", "devices", "disable")


def add_settings(group: pytest.OptionGroup, parser: pytest.Parser) -> None:
    """Add a command-line option and an ini option of pytest for every setting of the plugin."""
    for setting in in_command_line():
        action = "store_true" if setting.kind.annotation is bool else "append" if setting.kind.is_list else "store"
        group.addoption(f"--syncheck-{setting.key}", action=action, default=None, help=help_of(setting))
    for setting in _in_ini():
        kind: Any = "args" if setting.kind.is_list else "string"
        parser.addini(f"syncheck_{setting.name}", help_of(setting), type=kind, default=[] if kind == "args" else "")


_OWN_HELP = {
    "fail_on": "Lowest level that fails a test.",
    "html": "Write an HTML page with the timeline of each failing test to this folder.",
    "output": "Write a report on all tests to this file.",
}


def help_of(setting: Setting) -> str:
    """Return the help of a setting as one of the plugin."""
    text = _OWN_HELP.get(setting.name, setting.help)
    return f"{text} [{setting.values}]" if setting.values else text


def in_command_line() -> tuple[Setting, ...]:
    """Return the settings that are options of the plugin."""
    return tuple(s for s in settings_of("pytest") if s.kind.is_text)


def _in_ini() -> tuple[Setting, ...]:
    return tuple(s for s in in_command_line() if s.is_in_file)


class Settings:
    """Combined settings from options, configuration files and the markers of a test, its class and its module.

    A closer marker takes precedence, and the rules that they ignore are combined.
    """

    def __init__(
        self, config: pytest.Config, item: pytest.Item | None = None, *, options: "Options | None" = None
    ) -> None:
        if options is not None:
            self.options = options
        self._config = config
        markers = list(item.iter_markers("syncheck")) if item is not None else []  # the closest one first
        self._given: dict[str, Any] = {}
        for marker in reversed(markers):
            self._given |= marker.kwargs
        self._ignored = [marker.kwargs["ignore"] for marker in markers if "ignore" in marker.kwargs]
        self._unnamed = tuple(value for marker in markers for value in marker.args)
        self.is_marked = bool(markers)
        self.is_disabled = bool(self._given.get("disable"))

    @cached_property
    def options(self) -> "Options":
        """The options; precedence: marker, command line, pytest's configuration file, `[tool.syncheck]`."""
        from syncheck.api import names
        from syncheck.config.settings import layer_of, options_in, value_of

        marked = self._given
        wrong = sorted(marked.keys() - set(_MARKED))
        with as_usage():
            if self._unnamed:
                example = f"select={self._unnamed!r}"
                raise pytest.UsageError(f"the arguments of the marker syncheck need names, such as {example}")
            if wrong:
                message = f"the marker syncheck has no argument {wrong[0]!r}; it has {', '.join(_MARKED)}"
                raise pytest.UsageError(message)
            values = {**self._of_ini(), **self._of_command_line()}
            values["ignore"] = (*self._of_ini().get("ignore", ()), *self._of_command_line().get("ignore", ()))
            values["ignore"] += tuple(rule for given in self._ignored for rule in names(given))
            values["select"] = names(marked["select"]) if "select" in marked else values.get("select", ())
            if "devices" in marked:
                values["devices"] = value_of(BY_NAME["devices"], marked["devices"])
            options = options_in(str(self._config.rootpath), layer_of(**values), command="pytest")
            options.selected()
        return options

    def _of_command_line(self) -> dict[str, Any]:
        """Return the settings given on pytest's command line."""
        from syncheck.config.settings import value_of

        texts = {s.name: self._config.getoption(f"--syncheck-{s.key}") for s in in_command_line()}
        return {
            name: value_of(BY_NAME[name], text, f"--syncheck-{BY_NAME[name].key}")
            for name, text in texts.items()
            if text
        }

    def _of_ini(self) -> dict[str, Any]:
        """Return the settings given in pytest's configuration file."""
        from syncheck.config.settings import value_of

        texts = {s.name: self._config.getini(f"syncheck_{s.name}") for s in _in_ini()}
        return {name: value_of(BY_NAME[name], text, f"syncheck_{name}") for name, text in texts.items() if text}

    @contextmanager
    def check(self) -> "Iterator[BlockReport]":
        """Check a block with these settings."""
        from syncheck.api import checking

        with ExitStack() as stack:
            with as_usage():
                report = stack.enter_context(checking(self.options))
            yield report


def check_settings(config: pytest.Config) -> None:
    """Refuse a report that cannot be written, and warn of each misspelled setting; in a worker, its controller does.

    Raises:
        pytest.UsageError: the report cannot be written.
    """
    if hasattr(config, "workerinput"):
        return
    from syncheck.config import unread
    from syncheck.system.files import reason_not_writable

    output = config.getoption("--syncheck-output")
    reason = reason_not_writable(output) if output else ""
    if reason:
        raise pytest.UsageError(f"cannot write the report to {output}: {reason}")

    with as_usage():
        notices = (*unread.tables(str(config.rootpath)), *unread.variables())
    for notice in notices:
        config.issue_config_time_warning(pytest.PytestConfigWarning("syncheck: " + "; ".join(notice)), stacklevel=2)


@contextmanager
def as_usage() -> Iterator[None]:
    """Convert errors that the user can fix to pytest's usage error."""
    from syncheck.errors import SyncheckError

    try:
        yield
    except SyncheckError as error:
        text = "; ".join(filter(None, (str(error), error.hint)))
        keys = "|".join(setting.key for setting in in_command_line())
        raise pytest.UsageError(re.sub(rf"(?<![\w-])--(?={keys})\b", "--syncheck-", text)) from error
