"""Notes on options of `run` that are probably not what the user meant: after the script, or missing."""

from collections.abc import Sequence

from syncheck.config.options import BY_NAME, Options, settings_of
from syncheck.findings import Report
from syncheck.system import files


def misplaced(script: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a note on program arguments that look like options of syncheck.

    An option that the script's own text mentions belongs to the program.
    """
    known_options = {name for setting in settings_of("run") for option in setting.options for name in option.split("/")}
    options = dict.fromkeys(argument.partition("=")[0] for argument in arguments)
    suspects = [name for name in options if name in known_options and name.startswith("--")]
    if suspects:
        text = _text(script)
        suspects = [name for name in suspects if name.lstrip("-") not in text]
    if not suspects:
        return ()
    verb = "was" if len(suspects) == 1 else "were"
    return (f"{' and '.join(suspects)} {verb} passed to the program: options of syncheck go before the script",)


def missing(script: str, options: Options, report: Report) -> tuple[str, ...]:
    """Return a note on a program for GPUs of another kind than those that were simulated, if it launched no work."""
    kinds = BY_NAME["device_type"].kind.choices
    if report.summary.operators or "simulated" not in report.summary.backend:
        return ()
    text = _text(script)
    other = next((kind for kind in kinds if kind != options.device_type and f"torch.{kind}" in text), "")
    if not other or f"torch.{options.device_type}" in text:
        return ()
    return (f"the program uses torch.{other}: simulate its GPUs with --device-type {other}",)


def _text(path: str) -> str:
    try:
        return files.read(path).decode(errors="replace")
    except OSError:
        return ""
