"""A magic for notebooks: `%load_ext syncheck`, then `%%syncheck` above a cell checks what it does on the GPUs.

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
from syncheck.paths import name_files


class _Line(argparse.ArgumentParser):
    """The options behind `%%syncheck`; a wrong one is an error and no exit."""

    def error(self, message: str) -> NoReturn:
        """Refuse the line.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"%%syncheck: {message}", "the options are those of `syncheck.check`: --backend sim --devices 4"
        )


def load_ipython_extension(shell: Any) -> None:
    """Add the magic; `%load_ext syncheck` calls this with IPython's shell."""
    shell.register_magic_function(partial(_check_cell, shell), "cell", "syncheck")
    name_files(partial(_cell_name, shell))


def _cell_name(shell: Any, path: str) -> str:
    """Return what IPython calls the cell that a file stands for: "cell In[3]"; "" for a file that is none."""
    label_and_name = getattr(shell.compile, "format_code_name", lambda _: None)(path)
    if label_and_name is None:
        return ""
    label, name = label_and_name
    return f"{label.lower()} {name}"


def _check_cell(shell: Any, line: str, cell: str) -> BlockReport | None:
    """Run a cell and return what was found, for IPython to show; an error of the cell is shown by IPython itself."""
    try:
        with check(**_options(line)) as report:
            shell.run_cell(cell)
    except SyncheckError as error:  # in short: IPython would show every frame of syncheck
        sys.stderr.write(f"syncheck: error: {error}\n" + (f"  hint: {error.hint}\n" if error.hint else ""))
        return None
    return report


def _options(line: str) -> dict[str, Any]:
    """Return the arguments of `syncheck.check` that the line of the magic gives.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"%%syncheck: {error}", "close the quotation mark") from error
    return vars(_parser().parse_args(words))


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
