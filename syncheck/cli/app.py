"""Entry point of the command line: its commands, and the handling of errors."""

import errno
import io
import os
import re
import sys
import traceback
from typing import Annotated, Any

import typer

from syncheck.cli import inspecting, linting, running
from syncheck.cli.help import Group
from syncheck.cli.terminal import error_text
from syncheck.errors import ConfigError, ScriptError, SyncheckError, TraceError, nearest
from syncheck.version import __version__


class _Commands(Group):
    """The command group; suggests a command if the given one does not exist."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command named by the first argument.

        Raises:
            ConfigError: no such command exists.
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            if name.endswith(".py") or os.path.exists(name):
                usage = (
                    f"a notebook: syncheck lint {name}"
                    if name.endswith(".ipynb")
                    else f"a program: syncheck run {name}"
                )
                raise ConfigError(f"no such command: {name!r}", f"to check {usage}")
            hint = nearest(name, self.list_commands(ctx)) or "`syncheck --help` lists the commands"
            raise ConfigError(f"no such command: {name!r}", hint)
        return super().resolve_command(ctx, args)


cli = typer.Typer(
    name="syncheck",
    cls=_Commands,
    help="Check the GPU synchronization of PyTorch programs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
running.add_to(cli)
linting.add_to(cli)
inspecting.add_to(cli)


def _version(value: bool) -> None:  # noqa: FBT001  typer calls it with one argument
    if value:
        from syncheck.commands.doctor import torch_summary

        typer.echo(f"syncheck {__version__}")
        typer.echo(torch_summary())
        raise typer.Exit


@cli.callback()
def common(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = None,
) -> None:
    """Check the GPU synchronization of PyTorch programs."""
    del version


def main() -> None:
    """Run the command line; the README documents the exit statuses."""
    if not sys.argv[1:] or {"-h", "--help"} & set(sys.argv[1:3]):
        _allow_any_sign()
    try:
        sys.exit(cli(standalone_mode=False))
    except SyncheckError as error:
        _fail(str(error), error.hint, _status_of(error))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help was printed
            sys.exit(2)
        _fail(*_message_and_hint(error), 2)
    except Exception as error:  # noqa: BLE001  the outermost handler: anything else is a bug in syncheck
        if isinstance(error, OSError) and error.errno in _NO_OUTPUT and not error.filename:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python's final flush cannot fail again
            _fail(f"cannot write to standard output: {error.strerror}", "", 3)
        traceback.print_exc()
        _fail("this is a bug in syncheck", "please report it with the traceback above", 3)


_NO_OUTPUT = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF})
_UsageError: Any = typer.BadParameter.__mro__[1]
"""The exception that typer raises for an invalid command line; typer does not export it."""


def _allow_any_sign() -> None:
    """Let the help text, which contains special characters ("…"), be written in any encoding; no program runs later."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _fail(message: str, hint: str, status: int) -> None:
    if sys.stderr is not None:  # None if it was closed: `2>&-`
        sys.stderr.write(error_text(message, hint))
    sys.exit(status)


def _message_and_hint(error: Any) -> tuple[str, str]:
    """Return the message and the hint for an invalid command line."""
    context, kind = error.ctx, type(error).__name__
    where = context.command_path if context is not None else " ".join(("syncheck", *_command_named()))
    hint = f"`{where} --help` lists the options"
    if kind == "NoSuchOption":
        known = [name for parameter in context.command.params for name in parameter.opts] if context is not None else []
        return f"no such option: {error.option_name}", nearest(error.option_name, known) or hint
    if kind == "BadOptionUsage":
        return f"missing value for {error.option_name}", hint
    parameter = getattr(error, "param", None)
    if parameter is None:
        return str(error.format_message()).rstrip("."), hint
    is_option = parameter.param_type_name == "option"
    name = parameter.opts[0] if is_option else (parameter.metavar or parameter.human_readable_name)
    if kind == "MissingParameter":
        return f"missing {'option' if is_option else 'argument'} {name}", hint
    message = _without_error_name(error.message)
    given = re.fullmatch(r"'(.*)' is not one of (.*)", message)
    hint = (nearest(given[1], re.findall(r"'([^']*)'", given[2])) if given else "") or hint
    return f"invalid value for {name}: {message}", hint


def _command_named() -> tuple[str, ...]:
    """Return the command that the command line names, if it is one."""
    names = {info.callback.__name__ for info in cli.registered_commands if info.callback is not None}
    return tuple(name for name in sys.argv[1:2] if name in names)


def _without_error_name(message: str) -> str:
    """Return typer's message for an invalid value, without the error name that pydantic prepends."""
    return message.removeprefix("Value error, ").rstrip(".")


def _status_of(error: SyncheckError) -> int:
    """Return 2 for an invalid command line, 3 if nothing could be checked."""
    if isinstance(error, ScriptError):
        return 3 if isinstance(error.__cause__, SyntaxError) else 2
    if isinstance(error, TraceError) and isinstance(error.__cause__, FileNotFoundError):
        return 2
    return 2 if isinstance(error, ConfigError) else 3


if __name__ == "__main__":
    main()
