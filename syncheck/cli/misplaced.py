"""Detection of syncheck options after the script, where they are passed to the program."""

from collections.abc import Sequence

from syncheck.config.options import settings_of
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


def _text(path: str) -> str:
    try:
        return files.read(path).decode(errors="replace")
    except OSError:
        return ""
