"""The files that git ignores, according to its `.gitignore` files.

pathspec lets a pattern that matches a folder decide about the files in it, too. Git decides about one path after the
other, from the outside to the inside.

Source:
    gitignore(5): the last pattern that matches a path decides, and the patterns of a folder come after those of the
    folders above it. In an ignored folder, everything is ignored.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncheck.paths import relative_path
from syncheck.system import files

NAME = ".gitignore"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern.

    Attributes:
        expression: a regular expression for whole paths, relative to the top folder.
        is_negated: whether the paths that match are not ignored.
        is_for_folders: whether it applies to folders only.
        file: the file that contains it.
    """

    expression: re.Pattern[str]
    is_negated: bool
    is_for_folders: bool
    file: str

    def matches(self, path: str) -> bool:
        """Return whether it matches a path. That of a folder ends with a slash."""
        is_folder = path.endswith("/")
        return (is_folder or not self.is_for_folders) and self.expression.fullmatch(path.rstrip("/")) is not None


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns that apply to what is in a folder.

    Attributes:
        top: the folder that the patterns are relative to, with links resolved.
        place: the folder, relative to `top`, with a slash at the end; "" for `top` itself.
        patterns: the patterns; those of inner folders come last.
    """

    top: str
    place: str = ""
    patterns: tuple[Pattern, ...] = ()

    def inside(self, folder: str) -> "Patterns":
        """Return the patterns for a folder in this one, or for `top`: these, and those of its own file."""
        place = "" if folder == self.top else f"{relative_path(folder, self.top)}/"
        return Patterns(self.top, place, (*self.patterns, *_patterns_in(os.path.join(folder, NAME), place)))

    def file_ignoring(self, name: str) -> str:
        """Return the file that makes git ignore a name in the folder; "" if none does. That of a folder has a slash."""
        last = next((pattern for pattern in reversed(self.patterns) if pattern.matches(self.place + name)), None)
        return "" if last is None or last.is_negated else last.file


NONE = Patterns("")
"""No patterns at all."""


def around(folder: str) -> Patterns:
    """Return the patterns of the folders above a named one, except those that match the folder or one of them."""
    levels = _levels(folder)
    patterns = Patterns(levels[0])
    for level in levels[:-1]:
        patterns = patterns.inside(level)
    named = [f"{relative_path(level, patterns.top)}/" for level in levels[1:]]
    kept = (one for one in patterns.patterns if one.is_negated or not any(map(one.matches, named)))
    return replace(patterns, patterns=tuple(kept))


def file_ignoring(path: str) -> str:
    """Return the file that makes git ignore a file, or a folder that contains it; "" if none does."""
    folder, name = os.path.split(path)
    levels = _levels(folder)
    names = [*(f"{os.path.basename(level)}/" for level in levels[1:]), name]
    patterns = Patterns(levels[0])
    for level, inner in zip(levels, names, strict=True):
        patterns = patterns.inside(level)
        file = patterns.file_ignoring(inner)
        if file:
            return file
    return ""


def _levels(folder: str) -> list[str]:
    """Return the folders from the root of the repository to a folder; only the folder if it is in no repository."""
    levels = [os.path.realpath(folder)]
    while not os.path.exists(os.path.join(levels[0], ".git")):
        above = os.path.dirname(levels[0])
        if above == levels[0]:
            return levels[-1:]
        levels.insert(0, above)
    return levels


def _patterns_in(file: str, place: str) -> Iterator[Pattern]:
    """Yield the patterns in a file; `place`: see `Patterns`."""
    try:
        lines = files.read(file).decode("utf-8-sig", "replace").splitlines()
    except OSError:  # there is none, or git cannot read it, either
        return
    for line in lines:
        pattern = line.removeprefix("!")
        if not pattern.rstrip(" ").endswith("\\"):  # the last space is part of the pattern
            pattern = pattern.rstrip(" ")
        is_for_folders, pattern = pattern.endswith("/"), pattern.removesuffix("/")
        if pattern and not line.startswith("#"):
            with contextlib.suppress(re.error):  # git skips invalid patterns, too
                yield Pattern(_expression(pattern, place), line.startswith("!"), is_for_folders, file)


def _expression(pattern: str, place: str) -> re.Pattern[str]:
    """Return a regular expression for the paths that a pattern matches."""
    *folders, name = pattern.removeprefix("/").split("/")
    depth = "" if "/" in pattern else _FOLDERS
    text = "".join(_FOLDERS if folder == "**" else f"{_word(folder)}/" for folder in folders)
    return re.compile(re.escape(place) + depth + text + (".+" if name == "**" else _word(name)), re.DOTALL)


_FOLDERS = "(?:.+/)?"
_TOKEN = re.compile(r"\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)|\[(?P<not>[!^]?)(?P<set>\]?[^]]*)\]|.", re.DOTALL)
"""The parts of a pattern for one name."""


def _word(name: str) -> str:
    """Return the text of a regular expression for a name in a pattern."""

    def translated(token: re.Match[str]) -> str:
        if token["escaped"]:
            return re.escape(token["escaped"])
        if token["stars"]:
            return "[^/]*"
        if token["any"]:
            return "[^/]"
        if token["set"]:
            chosen = re.sub(r"(?<!\\)[\[&|~]", r"\\\g<0>", token["set"])  # Python reserves these
            return f"[^/{chosen}]" if token["not"] else f"[{chosen}]"
        return re.escape(token[0])

    return _TOKEN.sub(translated, name)
