"""Functions that a file imports from other files of its repository.

Only the required statements of another file are parsed, once their code is needed. They are located by the beginnings
of its lines. A name is unknown if two files could be meant, or if it is bound in a statement that cannot be parsed.
"""

import ast
import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import pairwise

from syncheck.lint import files
from syncheck.lint.interp.scope import alias_of, definitions_in, flat, full_name
from syncheck.source.text import parse_module
from syncheck.system import files as disk

_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
"""Files and folders that mark the root folder of a repository."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_DEEPEST = 16
"""Maximum number of folders to search upwards from a file."""
_LARGEST = 1_000_000
"""Maximum size in bytes of a file to read."""
_MAX_HOPS = 3
"""Maximum number of files that re-export a name."""
_MAX_USES = 1
"""Maximum number of definitions between an imported name and the code that it uses."""
_STATEMENT = re.compile(r"^(?=[^\s#)\]}])", re.MULTILINE)
"""The beginning of a top-level statement, or of a further branch of one."""
_NAME = re.compile(r"^(?:(?:async\s+)?def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_CONTINUED = re.compile(r"(elif|else|except|finally)\b")
_IMPORTING = ("import ", "from ", "if ", "try:", "with ")
_ASYNCHRONOUS = re.compile(
    r"Stream\(|\.stream\(|(?:non_blocking|async_op) *= *(?!False|non_blocking|async_op)|isend\(|irecv\("
    r"|cuda\.Event\(|record_event\("
)
"""Code that may leave work running."""
_OF_ASYNCHRONOUS = ("tream(", "non_blocking", "async_op", "isend(", "irecv(", "Event(", "record_event(")
"""Words without which there is no such code. Searching for them is much faster than matching the pattern."""
_CLOCK = re.compile(r"perf_counter|monotonic|default_timer|time\.time\(")
_WRAPPER = re.compile(r"__enter__|contextmanager|wraps\(")
_TIMER = re.compile(r"class\s+\w*(?:[Tt]imer|[Ss]topwatch|StopWatch)\w*\b")
"""The class of a timer, whose methods start and stop it."""
_LONGEST = 12_000
"""Maximum length in characters of a definition that is followed from other files."""
_NETWORK = re.compile(r"class\s+\w+\([^)]*Module\b")
_FROM = re.compile(r"^from\s+(\.*[\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORTED_NAME = re.compile(r"(?:^|[,(])\s*(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Module:
    """An imported file.

    Attributes:
        path: the path of the file.

    Args:
        path: the path of the file.
        text: its source.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._parts: dict[str, str] = {}  # name -> source of the statement that binds it
        self._others: list[str] = []  # other statements that may bind names
        self._known: dict[str, ast.stmt | None] = {}
        self._used: dict[str, list[str]] = {}
        self._leaving: dict[str, bool] = {}
        self._kinds: dict[str, str] = {}  # name -> the first word of the statement that binds it
        for part in _top_level(text):
            match = _NAME.search(part) if part.startswith("@") else _NAME.match(part)
            if match is not None:
                name = match[1] or match[2]
                self._parts[name] = part
                self._kinds[name] = match[0].split(maxsplit=1)[0]
            elif part.startswith(_IMPORTING):
                self._others.append(part)

    def get(self, name: str) -> ast.stmt | None:
        """Return the statement that binds a name, the last one if there are several; None if none is found."""
        if name not in self._known:
            own = self._parts.get(name)
            others = (part for part in reversed(self._others) if name in part)
            found = (_binding(part, name) for part in ([own] if own is not None else others))
            self._known[name] = next((statement for statement in found if statement is not None), None)
        return self._known[name]

    def is_class(self, name: str) -> bool:
        """Return whether the statement that binds a name begins as a class does; it is not parsed for that."""
        return self._kinds.get(name) == "class"

    def is_function(self, name: str) -> bool:
        """Return whether the statement that binds a name begins as a function does; it is not parsed for that."""
        return self._kinds.get(name) in {"def", "async"}

    def source(self, name: str) -> str:
        """Return the source of the statement that binds a name; "" if it is in a branch."""
        return self._parts.get(name, "")

    def used_by(self, name: str) -> list[str]:
        """Return the names of this file that the statement that binds a name uses."""
        if name not in self._used:
            words = set(_WORD.findall(self.source(name))) - {name}
            self._used[name] = [word for word in words if word in self._parts or word in self.imported]
        return self._used[name]

    def has_work(self, name: str) -> bool:
        """Return whether the statement that binds a name contains code that may leave work running, or is a timer."""
        if name not in self._leaving:
            self._leaving[name] = _has_work(self.source(name))
        return self._leaving[name]

    @cached_property
    def imported(self) -> dict[str, str]:
        """Name that the file imports from another module -> its full name."""
        found: dict[str, str] = {}
        for part in self._others:
            if "from " in part:
                with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                    for statement in flat(parse_module(part).body):
                        if isinstance(statement, ast.ImportFrom):
                            found |= {a.asname or a.name: full_name(statement, a.name) for a in statement.names}
        return found


def _top_level(text: str) -> Iterator[str]:
    """Yield the source of each top-level statement of a file, with its branches and decorators."""
    waiting = ""
    starts = [match.start() for match in _STATEMENT.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        part = text[start:end]
        is_decorated = waiting.startswith("@") and not _NAME.search(waiting)
        if waiting and not is_decorated and not _CONTINUED.match(part):
            yield waiting
            waiting = ""
        waiting += part
    if waiting:
        yield waiting


def _binding(part: str, name: str) -> ast.stmt | None:
    try:
        return definitions_in(parse_module(part).body).get(name)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Imports:
    """Finds the functions that a file imports.

    Attributes:
        asked: path -> stamp of each file that was looked up. The results depend on these files.

    Args:
        path: the path of the file.
    """

    def __init__(self, path: str) -> None:
        self.asked: dict[str, disk.Stamp] = {}
        self._path = os.path.abspath(path)
        self._found: dict[tuple[str, str], tuple[Module, str] | None] = {}
        self._leaving: dict[tuple[str, str], bool] = {}

    def function(self, name: str, importer: str = "") -> tuple[Module, str] | None:
        """Return the file that defines a function or a class, and its name in that file; None if unknown.

        Args:
            name: the full name according to the imports: "package.module.function", "..module.function".
            importer: the path of the file that imports it, if it is another file.
        """
        key = name, importer
        if key not in self._found:
            self._found[key] = self._find(importer or self._path, name, _MAX_HOPS)
        return self._found[key]

    def kind(self, name: str, words: Iterable[str] = ()) -> ast.ClassDef | None:
        """Return a class of another file by its full name; None if unknown, or if its source has none of the words."""
        found = self.function(name)
        if found is None or (words and not any(word in found[0].source(found[1]) for word in words)):
            return None
        statement = found[0].get(found[1]) if found[0].is_class(found[1]) else None
        return statement if isinstance(statement, ast.ClassDef) else None

    def is_asynchronous(self, name: str) -> bool:
        """Return whether a function or a class of another file may leave work running, by its full name."""
        found = self.function(name)
        return found is not None and self._leaves_work(*found, _MAX_USES)

    def import_work(self, text: str) -> bool:
        """Return whether a file imports code of other files that may leave work running; `text`: its source."""
        for folder, names in _FROM.findall(text):
            found = [path for base in _bases(self._path, folder) if (path := self._file(base, folder.lstrip(".")))]
            if found and any(_mentions_work(path, self._stamp(path)) for path in found):
                joint = "" if folder.endswith(".") else "."
                if any(self.is_asynchronous(f"{folder}{joint}{name}") for name in _IMPORTED_NAME.findall(names)):
                    return True
        return False

    def _leaves_work(self, module: Module, name: str, hops: int) -> bool:
        key = module.path, name
        known = self._leaving.get(key)
        if known is None:
            self._leaving[key] = False  # for definitions that use one another
            known = self._leaving[key] = module.has_work(name) or (
                hops > 0
                and not _NETWORK.match(module.source(name))
                and any(self._uses_work(module, used, hops - 1) for used in module.used_by(name))
            )
        return known

    def _uses_work(self, module: Module, name: str, hops: int) -> bool:
        imported = module.imported.get(name)
        if imported is None:
            return self._leaves_work(module, name, hops)
        found = self.function(imported, module.path)
        return found is not None and self._leaves_work(*found, hops)

    def _find(self, importer: str, name: str, hops: int) -> tuple[Module, str] | None:
        folder, _, own = name.rpartition(".")
        found = [path for base in _bases(importer, name) if (path := self._file(base, folder.lstrip("."))) is not None]
        module = self._module(found[0]) if len(set(found)) == 1 else None
        if module is not None and (module.is_class(own) or module.is_function(own)):
            return module, own
        statement = module.get(own) if module is not None else None
        if module is None or statement is None:
            return None
        alias = alias_of(statement, own) if isinstance(statement, ast.ImportFrom) and hops else None
        if isinstance(statement, ast.ImportFrom) and alias is not None:
            return self._find(module.path, full_name(statement, alias.name), hops - 1)
        return None

    def _file(self, base: str, dotted: str) -> str | None:
        """Return the file of a module or package below a folder."""
        stem = os.path.join(base, *dotted.split(".")) if dotted else base
        candidates = [os.path.join(stem, "__init__.py")]
        if dotted:
            candidates.insert(0, f"{stem}.py")
        return next((path for path in candidates if self._stamp(path) is not None), None)

    def _stamp(self, path: str) -> disk.Stamp:
        if path not in self.asked:
            self.asked[path] = disk.stamp(path)
        return self.asked[path]

    def _module(self, path: str) -> Module | None:
        stamp = self._stamp(path)
        return _read(path, stamp) if stamp is not None and stamp[1] <= _LARGEST else None


@lru_cache(maxsize=512)
def _read(path: str, stamp: disk.Stamp) -> Module | None:
    """Return a file as of a given stamp."""
    del stamp  # part of the cache key
    try:
        return Module(path, files.decode(disk.read(path), path).source)
    except (OSError, SyntaxError):
        return None


def _has_work(source: str) -> bool:
    """Return whether some code may leave work running, or is a timer."""
    if _NETWORK.match(source) or len(source) > _LONGEST:
        return False  # its objects are not followed
    if _may_leave_work(source):
        return True
    is_timer = _TIMER.match(source) is not None and "synchronize" not in source
    return (is_timer or _WRAPPER.search(source) is not None) and _CLOCK.search(source) is not None


def _may_leave_work(source: str) -> bool:
    return any(word in source for word in _OF_ASYNCHRONOUS) and _ASYNCHRONOUS.search(source) is not None


@lru_cache(maxsize=16384)
def _mentions_work(path: str, stamp: disk.Stamp) -> bool:
    """Return whether a file contains code that may leave work running, or a timer, as of a given stamp."""
    if stamp is None or stamp[1] > _LARGEST:
        return False
    try:
        text = disk.read(path).decode("utf-8", "replace")
    except OSError:
        return False
    return _may_leave_work(text) or _CLOCK.search(text) is not None


def _bases(importer: str, name: str) -> tuple[str, ...]:
    """Return the folders that may contain a module."""
    level = len(name) - len(name.lstrip("."))
    if level:
        base = os.path.dirname(importer)
        for _ in range(level - 1):
            base = os.path.dirname(base)
        return (base,)
    return _with_package(os.path.dirname(importer), name.partition(".")[0])


@lru_cache(maxsize=4096)
def _with_package(folder: str, first: str) -> tuple[str, ...]:
    """Return the import roots of a repository that contain a package or module of a given name."""
    found = (os.path.join(base, first) for base in _roots(folder, first))
    return tuple(os.path.dirname(path) for path in found if os.path.isdir(path) or os.path.isfile(f"{path}.py"))


def _roots(folder: str, first: str) -> list[str]:
    """Return the folders that a file may import from: those of its repository that are not packages.

    Outside a repository, this is the folder of the file, or of its outermost package. In an installation
    folder, it is that folder, and only for imports of the file's own package.
    """
    found: list[str] = []
    package = ""
    for _ in range(_DEEPEST):
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            if os.path.basename(folder) in _INSTALLED:
                return [folder] if package == first else []
            found += [folder, os.path.join(folder, "src")]
        if any(os.path.exists(os.path.join(folder, marker)) for marker in _MARKERS):
            return found
        package, folder = os.path.basename(folder), os.path.dirname(folder)
    return found[:1]
