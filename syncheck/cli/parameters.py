"""Command-line options derived from the settings."""

import inspect
from collections.abc import Callable
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from syncheck.cli.terminal import warn_of_unread_settings
from syncheck.config.kinds import Kind
from syncheck.config.options import Setting, settings_of
from syncheck.config.settings import layer_of, value_of

_PANELS = (
    "GPUs", "Run", "Ranks", "Proof", "Fixes", "Rules", "Extensions", "Files", "Exclusions", "Known findings", "Report",
    "Timeline", "Settings",
)  # fmt: skip
"""Headings of the help, in order: options that change what is checked come before those that change the report."""


def with_settings(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of a command's settings to a function.

    The function receives their values as `layer`, in the form that `syncheck.config.settings` takes. Options omitted on
    the command line are not in it, so that a settings file can provide them.
    """
    settings = tuple(setting for setting in settings_of(command) if setting.kind.is_text)
    settings = tuple(sorted(settings, key=lambda setting: _PANELS.index(setting.panel)))

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def call(**values: Any) -> None:
            layer = layer_of(**{s.name: value_of(s, _text_of(values.pop(s.name))) for s in settings})
            warn_of_unread_settings(layer=layer)
            function(**values, layer=layer)

        declared = [p for p in inspect.signature(function).parameters.values() if p.name != "layer"]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*declared, *map(_parameter, settings))]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate


def choices(name: str, values: tuple[str, ...]) -> Any:
    """Return the type of an option that takes one of a few values, which shells can complete."""
    return Enum(name, {value: value for value in values})


def _text_of(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _parameter(setting: Setting) -> inspect.Parameter:
    option = typer.Option(
        *setting.options,
        help=f"{setting.help} {in_brackets(setting.values)}" if setting.values else setting.help,
        metavar=setting.kind.metavar,
        rich_help_panel=setting.panel,
        show_default=False,
    )
    wanted = _type_of(setting.name, setting.kind)
    annotation: Any = Annotated[wanted | None, option]
    return inspect.Parameter(setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _type_of(name: str, kind: Kind) -> Any:
    if kind.choices:
        return choices(name, kind.choices)
    if kind.is_list:
        return list[str]
    return kind.annotation if kind.annotation in {bool, Path} else str


def as_default(value: object) -> str:
    """Return a default for a help text."""
    return in_brackets(f"default: {value}")


def in_brackets(text: str) -> str:
    """Return a text in brackets for a help text, escaped because rich would drop it as a style tag."""
    return f"\\[{text}]"
