"""What the command line takes."""

import shlex

from typer.main import get_command

from syncheck.cli.app import cli


def refuses(command):
    """Return what the command line would not know in a command that begins with `syncheck`; None if it takes it."""
    name, *words = shlex.split(command)[1:]
    known = get_command(cli).commands.get(name)
    if known is None:
        return name
    options = {option for parameter in known.params for option in parameter.opts + parameter.secondary_opts}
    return next((w for w in words if w.startswith("-") and w.partition("=")[0] not in options), None)
