"""The commands and options that the command line accepts."""

import shlex

from typer.main import get_command

from syncheck.cli.app import cli


def unknown_argument(command):
    """Return the first unknown word in a command that begins with `syncheck`, or None if the command is accepted."""
    name, *words = shlex.split(command)[1:]
    known = get_command(cli).commands.get(name)
    if known is None:
        return name
    options = {option for parameter in known.params for option in parameter.opts + parameter.secondary_opts}
    return next((w for w in words if w.startswith("-") and w.partition("=")[0] not in options), None)
