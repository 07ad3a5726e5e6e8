"""Discovery and decoding of the files to lint: Python files and notebooks, except those that git ignores."""

import io
import os
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.lint import cells, gitignore
from syncheck.lint.cells import Line
from syncheck.paths import display_path, relative_path

SUFFIXES = (".py", ".pyi", ".ipynb")
_ALWAYS_LEFT_OUT = frozenset(
    """.git .hg .svn .tox .nox .venv venv .mypy_cache .ruff_cache .pytest_cache .syncheck_cache __pycache__ node_modules
    .eggs build dist site-packages""".split()
)
_MAY_BE_PACKAGES = frozenset(("build", "dist", "venv"))


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text.

    Attributes:
        source: the Python source; for a notebook, its code cells in sequence.
        cells: for a notebook, (first line in `source`, number of the cell from 1) in order; otherwise empty.
        replaced: line in `source` -> the line of a cell that it stands for.
    """

    source: str
    cells: tuple[tuple[int, int], ...] = ()
    replaced: Mapping[int, Line] = field(default_factory=dict)


Skip = Callable[[str, str], None]
"""Called with each file or folder that is skipped, and the reason."""


def _ignore(path: str, why: str) -> None:
    del path, why


def discover(paths: tuple[str, ...], options_of: Callable[[str], Options], on_skip: Skip = _ignore) -> Iterator[str]:
    """Yield the files to lint in order, each once.

    Args:
        paths: files and folders.
        options_of: returns the settings for a file. For a folder, those of a file in it decide what is skipped.
        on_skip: called with what is skipped.

    Raises:
        ConfigError: a path does not exist, or a pattern of `exclude` is invalid.
    """
    seen: set[str] = set()
    folders: dict[str, str] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise ConfigError(f"no such file or folder: {path!r}", "check the path, or name a folder to search")
        for file in (
            _under(path, options_of(os.path.join(path, "x.py")), on_skip)
            if os.path.isdir(path)
            else _named(path, options_of(path), on_skip)
        ):
            real = _real(file, folders)
            if real not in seen:
                seen.add(real)
                yield file


def _real(file: str, folders: dict[str, str]) -> str:
    """Return a file's path with links resolved; `folders`: cache of resolved folders."""
    if os.path.islink(file):
        return os.path.realpath(file)
    folder, name = os.path.split(file)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _named(path: str, options: Options, on_skip: Skip) -> list[str]:
    """Return a file named on the command line, unless the settings exclude even such files."""
    if not options.force_exclude:
        return [path]
    root = options.root or "."
    parents = Path(relative_path(path, root)).parents
    by_name = any(_is_left_out_by_name(os.path.join(root, parent), parent.name) for parent in parents)
    reason = _BY_NAME if by_name else _reason_to_exclude(path, (".", root), _exclude_patterns(options))
    if not reason and options.respect_gitignore:
        reason = _reason_to_ignore(gitignore.file_ignoring(path))
    if reason:
        on_skip(path, reason)
    return [] if reason else [path]


def _under(root: str, options: Options, on_skip: Skip) -> Iterator[str]:
    left_out = _exclude_patterns(options)
    bases = (root, ".", options.root or ".")
    known: dict[str, gitignore.Patterns] = {}
    unreadable: list[str] = []
    walk = os.walk(root, onerror=lambda error: unreadable.append(str(error.filename)))
    for folder, folders, files in walk:  # links to folders are not followed, because they may form loops
        patterns = _patterns_in(os.path.realpath(folder), known) if options.respect_gitignore else gitignore.NONE
        reasons: dict[str, str] = {}
        for name in [f"{name}/" for name in sorted(folders)] + [n for n in sorted(files) if n.endswith(SUFFIXES)]:
            path = os.path.join(folder, name)
            reasons[path] = (
                _reason_by_kind(path)
                or _reason_to_exclude(path, bases, left_out)
                or _reason_to_ignore(patterns.file_ignoring(name))
            )
        folders[:] = [name for name in sorted(folders) if not reasons[os.path.join(folder, f"{name}/")]]
        for path, reason in reasons.items():
            if reason:
                on_skip(path, reason)
            elif not path.endswith("/"):
                yield path
    yield from unreadable  # to be reported like unreadable files


def _patterns_in(folder: str, known: dict[str, gitignore.Patterns]) -> gitignore.Patterns:
    """Return what git ignores in a folder; `known`: the same for the folders above it that are searched."""
    above = known.get(os.path.dirname(folder))
    known[folder] = (gitignore.around(folder) if above is None else above).inside(folder)
    return known[folder]


_DANGLING = "it is a link to a file that does not exist"


def _is_dangling(path: str) -> bool:
    """Return whether a path is a link to a file that does not exist, as Emacs makes to lock an edited file."""
    try:
        os.stat(path)
    except OSError as error:  # any other one is reported when the file is linted
        return isinstance(error, FileNotFoundError) and os.path.islink(path)
    return False


_BY_NAME = "folders of this name are not searched"


def _is_left_out_by_name(folder: str, name: str) -> bool:
    """Return whether a folder is skipped for its name: `dist` is one of built files, or a package of the program."""
    if name in _MAY_BE_PACKAGES and os.path.isfile(os.path.join(folder, "__init__.py")):
        return False
    return name in _ALWAYS_LEFT_OUT


def _reason_by_kind(path: str) -> str:
    """Return why a folder or file is skipped in a search for its name or as a link; "" if it is not."""
    if not path.endswith("/"):
        return _DANGLING if _is_dangling(path) else ""
    return _BY_NAME if _is_left_out_by_name(path, os.path.basename(path[:-1])) else ""


def _reason_to_exclude(path: str, bases: tuple[str, ...], left_out: pathspec.GitIgnoreSpec) -> str:
    is_excluded = left_out.patterns and any(left_out.match_file(_relative(path, base)) for base in bases)
    return "the setting `exclude`" if is_excluded else ""


def _reason_to_ignore(file: str) -> str:
    return f"ignored by {display_path(file)}" if file else ""


def _exclude_patterns(options: Options) -> pathspec.GitIgnoreSpec:
    try:
        return pathspec.GitIgnoreSpec.from_lines(options.exclude)
    except ValueError as error:
        raise ConfigError(f"invalid value for exclude: {error}", "write it as in a .gitignore: third_party/") from error


def _relative(path: str, base: str) -> str:
    relative = relative_path(path, base)
    return relative + "/" if path.endswith("/") else relative


def lines_of(source: str) -> list[str]:
    """Return a text's lines with their endings, as Python counts them: a form feed, for one, does not end a line."""
    return list(io.StringIO(source, newline=""))


def encoding_of(data: bytes) -> str:
    """Return the encoding that the beginning of a Python file declares.

    Raises:
        SyntaxError: the declared encoding does not exist.
    """
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def decode(data: bytes, path: str) -> Text:
    """Return a file's text.

    Raises:
        SyntaxError: the file is not text in its declared encoding, or not a notebook.
    """
    if path.endswith(".ipynb"):
        return _notebook(data)
    if b"\0" in data:
        raise SyntaxError("it contains a NUL byte")
    encoding = encoding_of(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise SyntaxError(f"it is not {encoding}: {error.reason} at byte {error.start}") from None
    return Text(io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True))


def _notebook(data: bytes) -> Text:
    lines: list[Line] = []
    starts: list[tuple[int, int]] = []
    for number, source in cells.code_cells(data):
        starts.append((len(lines) + 1, number))
        lines += cells.lines_of(source) or [Line("", "", "")]
    replaced = {n: line for n, line in enumerate(lines, 1) if line.is_replaced}
    return Text("".join(f"{line.python}\n" for line in lines) or "\n", tuple(starts), replaced)
