"""Notebook magic: after `%load_ext syncheck`, `%%syncheck` above a cell checks its GPU work.

Source:
    IPython, "Writing IPython extensions" and "Defining custom magics".
"""

import argparse
import shlex
import sys
from functools import partial
from typing import Any, NoReturn

from syncheck.api import BlockReport, check
from syncheck.errors import ConfigError, SyncheckError
from syncheck.paths import set_name_lookup


class _Line(argparse.ArgumentParser):
    """Parser for the options of `%%syncheck`; raises an error instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Reject the line.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"%%syncheck: {message}", "the options are those of `syncheck.check`: --backend sim --devices 4"
        )


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; `%load_ext syncheck` calls this function with IPython's shell."""
    shell.register_magic_function(partial(_check_cell, shell), "cell", "syncheck")
    set_name_lookup(partial(_cell_name, shell))


def _cell_name(shell: Any, path: str) -> str:
    """Return IPython's name for the cell that a file represents: "cell In[3]"; "" if the file is not a cell."""
    label_and_name = getattr(shell.compile, "format_code_name", lambda _: None)(path)
    if label_and_name is None:
        return ""
    label, name = label_and_name
    return f"{label.lower()} {name}"


def _check_cell(shell: Any, line: str, cell: str) -> BlockReport | None:
    """Run a cell and return its report for IPython to display; IPython itself shows exceptions from the cell."""
    try:
        with check(**_options(line)) as report:
            shell.run_cell(cell)
    except SyncheckError as error:  # keep it short: IPython would show every frame of syncheck
        sys.stderr.write(f"syncheck: error: {error}\n" + (f"  hint: {error.hint}\n" if error.hint else ""))
        return None
    return report


def _options(line: str) -> dict[str, Any]:
    """Parse the line of the magic into arguments of `syncheck.check`.

    Raises:
        ConfigError: the line cannot be parsed.
    """
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"%%syncheck: {error}", "close the quotation mark") from error
    return vars(_parser().parse_args(arguments))


def _parser() -> _Line:
    parser = _Line(prog="%%syncheck", add_help=False, argument_default=argparse.SUPPRESS, allow_abbrev=False)
    parser.add_argument("--backend", choices=("auto", "cuda", "sim"))
    parser.add_argument("--devices", type=int)
    parser.add_argument("--select", type=_names)
    parser.add_argument("--ignore", type=_names)
    parser.add_argument("--max-findings", type=int)
    parser.add_argument("--stacks", action="store_true")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
