"""Changes files: repairs them, or adds comments that silence findings."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from syncheck.config.options import Options
from syncheck.lint import files
from syncheck.lint.fixes.repair import repair, with_ignores
from syncheck.lint.prefilter import can_matter
from syncheck.paths import shown as shown_path
from syncheck.system import files as disk


@dataclass(slots=True)
class Changes:
    """What was done to files.

    Attributes:
        diff: as a unified diff, where it was only to be shown.
        problems: the files that could not be written, and why.
    """

    diff: str = ""
    problems: list[str] = field(default_factory=list)


def change(paths: Iterable[str], kind: str, options_of: Callable[[str], Options], *, unsafe: bool) -> Changes:
    """Change files, each whole or not at all.

    Args:
        paths: the files; notebooks are left as they are.
        kind: "fix", "ignore", or "diff": return a unified diff of what "fix" would do, and change nothing.
        options_of: the settings for a file.
        unsafe: see `repair`.
    """
    done = Changes()
    for path in paths:
        given = _text(path)
        if given is None:
            continue
        text, encoding = given
        codes = options_of(path).codes_for(path)
        if kind == "ignore":
            changed = with_ignores(path, text, codes)
        else:
            changed = repair(path, text, unsafe=unsafe, codes=codes).source
        if changed == text:
            continue
        name = shown_path(path)
        if kind == "diff":
            done.diff += "".join(difflib.unified_diff(files.lines_of(text), files.lines_of(changed), name, name))
            continue
        try:
            disk.write(path, changed.encode(encoding))
        except OSError as error:
            done.problems.append(f"{name}: cannot be changed: {error.strerror or error}")
    return done


def _text(path: str) -> tuple[str, str] | None:
    """Return the text of a file that can be changed, with its own line ends, and its encoding; None for any other."""
    try:
        data = disk.read(path)
        if path.endswith(".ipynb") or not can_matter(data):
            return None
        encoding = files.encoding_of(data)  # of a file with a byte order mark, one that writes it
        return data.decode(encoding), encoding
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
