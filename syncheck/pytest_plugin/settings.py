"""The settings of the pytest plugin: markers, options, pytest's own file, `[tool.syncheck]`.

Like the plugin it is imported in every test session, so what it needs is imported when it is used.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from syncheck.api import BlockReport
    from syncheck.config.options import Options

_MARKED = ("ignore", "select", "devices", "disable")


class Settings:
    """What the options, the settings and a test's marker say together."""

    def __init__(
        self, config: pytest.Config, item: pytest.Item | None = None, *, options: "Options | None" = None
    ) -> None:
        if options is not None:
            self.options = options
        self._config = config
        marker = item.get_closest_marker("syncheck") if item is not None else None
        self._given: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
        self.is_marked = marker is not None
        self.is_disabled = bool(self._given.get("disable"))

    @cached_property
    def options(self) -> "Options":
        """The marker's before those of the command line, of pytest's own file, and of `[tool.syncheck]`."""
        from syncheck.api import names  # noqa: PLC0415  not for sessions that do not use it
        from syncheck.config.settings import given, options_in  # noqa: PLC0415

        config, marked = self._config, self._given
        baseline = config.getoption("--syncheck-baseline")
        layer = given(
            backend=config.getoption("--syncheck-backend") or config.getini("syncheck_backend") or None,
            devices=self._devices(marked.get("devices"), config.getoption("--syncheck-devices")),
            select=names(marked.get("select", ())),
            ignore=(*config.getini("syncheck_ignore"), *names(marked.get("ignore", ()))),
            fail_on=self._level(),
            baseline=baseline.absolute() if baseline is not None else None,
            write_baseline=config.getoption("--syncheck-write-baseline") or None,
            output_format=self._format(),
        )
        wrong = sorted(marked.keys() - _MARKED)
        with as_usage():
            if wrong:
                raise pytest.UsageError(
                    f"the marker syncheck has no argument {wrong[0]!r}; it has {', '.join(_MARKED)}"
                )
            options = options_in(str(config.rootpath), layer, command="pytest")
            options.selected()
        return options

    def _format(self) -> str | None:
        from syncheck.config.settings import FORMATS  # noqa: PLC0415  as above

        text = self._config.getoption("--syncheck-output-format")
        if text is not None and text not in FORMATS:
            raise pytest.UsageError(f"there is no output format {text!r}; choose one of {', '.join(FORMATS)}")
        return str(text) if text is not None else None

    def _devices(self, *more: int | None) -> int | None:
        """Return the first number that is given: of the marker, of the command line, of pytest's own file."""
        from syncheck.config.settings import BY_KEY, MOST_DEVICES  # noqa: PLC0415  as above

        text = self._config.getini("syncheck_devices")
        if text and not text.isdecimal():
            raise pytest.UsageError(f"syncheck_devices is {text!r}; write a number")
        chosen = next((number for number in (*more, int(text) if text else None) if number is not None), None)
        try:
            return None if chosen is None else cast("int", BY_KEY["devices"].read(chosen))
        except TypeError:
            raise pytest.UsageError(f"there cannot be {chosen!r} devices; 1 to {MOST_DEVICES}") from None

    def _level(self) -> Any:
        from syncheck.rules.model import Severity  # noqa: PLC0415  not for sessions that do not use it

        text = self._config.getini("syncheck_fail_on")
        if text and text not in set(Severity):
            raise pytest.UsageError(f"syncheck_fail_on is {text!r}; choose one of {', '.join(Severity)}")
        return Severity(text) if text else None

    @contextmanager
    def check(self) -> "Iterator[BlockReport]":
        """Check a block with these settings."""
        from syncheck.api import checking  # noqa: PLC0415  not for sessions that do not use it

        with ExitStack() as stack:
            with as_usage():
                report = stack.enter_context(checking(self.options))
            yield report


@contextmanager
def as_usage() -> Iterator[None]:
    """Tell what the user can put right as pytest tells such things."""
    from syncheck.errors import SyncheckError  # noqa: PLC0415  not for sessions that do not use it

    try:
        yield
    except SyncheckError as error:
        raise pytest.UsageError("; ".join(filter(None, (str(error), error.hint)))) from error
