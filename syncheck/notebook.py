"""Notebook magic: after `%load_ext syncheck`, `%%syncheck` above a cell checks its GPU work.

Source:
    IPython, "Writing IPython extensions" and "Defining custom magics".
"""

import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from syncheck.api import BlockReport, block_options, checking, new_run
from syncheck.config.kinds import FLAG
from syncheck.config.options import BY_NAME, Options, Setting
from syncheck.config.settings import value_of
from syncheck.errors import ConfigError, SyncheckError, nearest
from syncheck.filters.policy import Policy
from syncheck.paths import set_name_lookup

if TYPE_CHECKING:
    from syncheck.run.kept import KeptRun
    from syncheck.run.run import Run

_SETTINGS = tuple(BY_NAME[name] for name in ("backend", "devices", "select", "ignore", "max_findings", "stacks"))
_OPTIONS = {name: setting for setting in _SETTINGS for option in setting.options for name in option.split("/")}
_HELP = ("-h", "--help")
_SAME_DEVICE = "Expected all tensors to be on the same device"
_LISTED = "`%syncheck --help` lists the options"


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; `%load_ext syncheck` calls this function with IPython's shell."""
    cells = _Cells(shell)

    def check_cell(line: str, cell: str) -> BlockReport | None:
        return cells.check(line, cell)

    check_cell.__doc__ = _show_help.__doc__ = help_text()  # shown by `%%syncheck?`
    shell.register_magic_function(check_cell, "cell", "syncheck")
    shell.register_magic_function(_show_help, "line", "syncheck")
    set_name_lookup(partial(_cell_name, shell))


def _cell_name(shell: Any, path: str) -> str:
    """Return IPython's name for the cell that a file represents: "cell In[3]"; "" if the file is not a cell."""
    label_and_name = getattr(shell.compile, "format_code_name", lambda _: None)(path)
    if label_and_name is None:
        return ""
    label, name = label_and_name
    return f"{label.lower()} {name}"


class _Cells:
    """Checks the cells of a notebook. Its simulated GPUs, once there are any, are the same for all cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._simulated: KeptRun | None = None

    def check(self, line: str, cell: str) -> BlockReport | None:
        """Run a cell and return its report for IPython to display; IPython itself shows exceptions from the cell."""
        try:
            words = _words(line)
            if not set(_HELP).isdisjoint(words):
                sys.stdout.write(help_text())
                return None
            values = _values(words)
            if self._simulated is not None:
                values.setdefault("devices", self._simulated.n_devices)
            with checking(block_options(**values), self._make_run) as report, _numbered(self._shell):
                self._explain(self._shell.run_cell(cell))
        except SyncheckError as error:
            _show_error(error)
            return None
        return report

    def _explain(self, result: Any) -> None:
        """Explain an error that comes from a tensor of a cell without simulated GPUs."""
        error = getattr(result, "error_in_exec", None)
        if self._simulated is not None and isinstance(error, RuntimeError) and _SAME_DEVICE in str(error):
            sys.stderr.write(
                "syncheck: cells without %%syncheck make and leave their tensors on the CPU\n"
                "  hint: begin each cell that computes on simulated GPUs with %%syncheck\n"
            )

    def _make_run(self, options: Options, policy: Policy) -> "Run":
        """Return the run for a cell.

        Raises:
            ConfigError: a rule name does not exist, or the cell asks for another number of simulated GPUs.
            BackendError: the requested GPUs cannot be used.
        """
        from syncheck.run import backends  # noqa: PLC0415  the first use of torch
        from syncheck.run.kept import KeptRun  # noqa: PLC0415

        if not backends.simulates(options):
            return new_run(options, policy)
        if self._simulated is None:
            self._simulated = KeptRun(options, policy, *backends.choose(options))
        n_devices = self._simulated.n_devices
        if options.devices != n_devices:
            raise ConfigError(
                f"the simulated GPUs of this notebook were made with --devices {n_devices}",
                "leave out --devices, or make new GPUs with %reload_ext syncheck and run all cells again",
            )
        self._simulated.begin(options, policy)
        return self._simulated


@contextmanager
def _numbered(shell: Any) -> Iterator[None]:
    """Let IPython name the code in a block after the cell that runs: since version 9 it would use the next number.

    Source:
        IPython/core/interactiveshell.py, `run_cell_async`; IPython/core/history.py, `store_inputs`.
    """
    history = getattr(shell, "history_manager", None)
    next_number = getattr(shell, "execution_count", None)
    if history is not None:
        shell.execution_count = len(history.input_hist_parsed) - 1
    try:
        yield
    finally:
        if history is not None:
            shell.execution_count = next_number


def _show_help(line: str) -> None:
    words = line.split()
    if set(words) <= set(_HELP):
        sys.stdout.write(help_text())
    else:
        _show_error(ConfigError("%syncheck checks nothing", "write %%syncheck, as the first line of the cell to check"))


def _show_error(error: SyncheckError) -> None:
    """Print an error as the command line does: IPython would show every frame of syncheck."""
    sys.stderr.write(f"syncheck: error: {error}\n" + (f"  hint: {error.hint}\n" if error.hint else ""))


# -- the line


def help_text() -> str:
    """Return the help of the magic."""
    spelled = {setting: _spelled(setting) for setting in _SETTINGS}
    width = max(map(len, spelled.values()))
    lines = (
        textwrap.fill(
            f"{spelled[setting]:{width}}  {setting.help}" + (f" [{setting.values}]" if setting.values else ""),
            100,
            initial_indent="  ",
            subsequent_indent=" " * (width + 4),
        )
        for setting in _SETTINGS
    )
    return "\n".join(
        (
            "Check the GPU synchronization of a cell.",
            "",
            "%%syncheck [OPTIONS] is the first line of the cell. Its report is shown below the cell.",
            "",
            "Options:",
            *lines,
            "",
            "Example: %%syncheck --backend sim --devices 4",
            "",
        )
    )


def _spelled(setting: Setting) -> str:
    option = setting.options[0].partition("/")[0]
    return option if setting.kind is FLAG else f"{option} {setting.kind.metavar}"


def _words(line: str) -> list[str]:
    """Split the line of the magic.

    Raises:
        ConfigError: a quotation mark is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"cannot read the options {line!r}: {error}", "close the quotation mark") from error


def _values(words: list[str]) -> dict[str, Any]:
    """Return the arguments of `syncheck.check` that the options stand for.

    Raises:
        ConfigError: an option does not exist, or its value is missing or invalid.
    """
    values: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name, has_value, text = word.partition("=")
        setting = _OPTIONS.get(name)
        if setting is None:
            what = "no such option" if word.startswith("-") else "unexpected argument"
            raise ConfigError(f"{what}: {name}", (nearest(name, _OPTIONS) if word.startswith("-") else "") or _LISTED)
        value = _value(setting, name, text if has_value else None, rest)
        values[setting.name] = (*values.get(setting.name, ()), *value) if setting.kind.is_list else value
    return values


def _value(setting: Setting, name: str, text: str | None, rest: Iterator[str]) -> Any:
    """Return the value of an option: that after its equals sign, or else the next word.

    Raises:
        ConfigError: it is missing or invalid.
    """
    if setting.kind is FLAG:
        if text is not None:
            raise ConfigError(f"{name} takes no value", _LISTED)
        return not name.startswith("--no-")
    text = next(rest, None) if text is None else text
    if text is None:
        raise ConfigError(f"missing value for {name}", _LISTED)
    return value_of(setting, (text,) if setting.kind.is_list else text)
