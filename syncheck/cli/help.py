"""Help texts of commands, identical across versions of typer."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _WithoutTypes:
    """Mixin that hides types: flags take no value, and the help of an argument describes it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, without types."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = _no_type
            elif param.is_flag:
                param.metavar = ""
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with one long spelling of each option: rich cuts off two that are wider than their column."""
        spellings = [(param, param.opts) for param in self.get_params(ctx)]
        for param, options in spellings:
            long = [option for option in options if option.startswith("--")]
            param.opts = [option for option in options if option not in long[1:]]
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]  # of the command
        finally:
            for param, options in spellings:
                param.opts = options

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, with arguments as declared."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return ["[OPTIONS]", *(argument.metavar or argument.name.upper() for argument in arguments)]


def _no_type(ctx: object) -> str:
    del ctx
    return ""


class Command(_WithoutTypes, TyperCommand):
    """A single command."""


class Group(_WithoutTypes, TyperGroup):
    """A command with subcommands."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "COMMAND [ARGS]..."]
