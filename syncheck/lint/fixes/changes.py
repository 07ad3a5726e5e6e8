"""Changes files: repairs them, or adds comments that silence findings."""

import difflib
import os
import tempfile
from collections.abc import Callable, Iterable

from syncheck.config.options import Options
from syncheck.lint import files
from syncheck.lint.fixes.repair import repair, with_ignores
from syncheck.lint.prefilter import can_matter
from syncheck.paths import shown as shown_path


def change(paths: Iterable[str], kind: str, options_of: Callable[[str], Options], *, unsafe: bool) -> str:
    """Change files, each whole or not at all.

    Args:
        paths: the files; notebooks are left as they are.
        kind: "fix", "ignore", or "diff": return a unified diff of what "fix" would do, and change nothing.
        options_of: the settings for a file.
        unsafe: see `repair`.
    """
    shown: list[str] = []
    for path in paths:
        text = _text(path)
        if text is None:
            continue
        codes = options_of(path).codes_for(path)
        if kind == "ignore":
            changed = with_ignores(path, text, codes)
        else:
            changed = repair(path, text, unsafe=unsafe, codes=codes).source
        if changed == text:
            continue
        if kind == "diff":
            name = shown_path(path)
            shown += difflib.unified_diff(files.lines_of(text), files.lines_of(changed), name, name)
        else:
            _write(path, changed)
    return "".join(shown)


def _text(path: str) -> str | None:
    """Return the text of a file that can be changed, with its own line ends; None for any other."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if path.endswith(".ipynb") or not can_matter(data):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as file:
        file.write(text.encode())
    mode = os.stat(path).st_mode
    os.chmod(file.name, mode)
    os.replace(file.name, path)
