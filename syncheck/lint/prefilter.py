"""Prefilters: whether a file must be parsed, from its bytes, and a function interpreted, from its tree.

Every rule concerns streams, events, asynchronous copies or collectives, graphs, threads or clocks. Each of these
involves a word that appears in the file, its anchor.
"""

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache

from syncheck.lint import deferred, rule_registry
from syncheck.lint.nodes import once, walk
from syncheck.source.expressions import STREAM_CONTEXTS, last_name

_TORCH = (b"torch", b"accelerator")
_OTHER_LIBRARY = re.compile(rb"^\s*(?:import|from) +(?:mxnet|tensorflow|paddle|mindspore|jax)\b", re.MULTILINE)
_USE = re.compile(rb"^[^#\n]*(?:\btorch\b)", re.MULTILINE)
_WORDS = (
    b"Stream(", b"Event(enable_timing", b"non_blocking", b"async_op", b"isend", b"irecv", b"CUDAGraph",
    b"make_graphed", b"wait_stream", b"record_stream", b"elapsed_time", b"import Stream", b"import Event",
    b".Stream", b".Event",
)  # fmt: skip
_SUPPRESSION = b"# syncheck"
_CLOCKS = (
    b"perf_counter", b"time.time", b"monotonic", b"timeit", b"import time", b"Thread", b"datetime.now(",
    b"datetime.utcnow(",
)  # fmt: skip
_DEVICES = (
    b"cuda", b"xpu", b"npu", b"hpu", b"musa", b"accelerator", b"deepspeed", b".to(dev", b".to(self.", b".to(args.",
    b"_batch_end",
)  # fmt: skip
"""Words of code that may use a GPU, also in hooks of a trainer."""

_ANCHORS = frozenset(
    """Stream ExternalStream Event CUDAGraph wait_stream wait_event record_stream record_event non_blocking async_op
    elapsed_time isend irecv batch_isend_irecv set_stream make_graphed_callables""".split()
)
CLOCKS = frozenset("perf_counter perf_counter_ns monotonic monotonic_ns time time_ns default_timer".split())
"""Functions of the standard library that read a host clock."""
_CLOCK_ANCHORS = CLOCKS | {"timeit", "Thread"}
_DEVICE_ANCHORS = frozenset("cuda xpu npu hpu musa accelerator get_accelerator deepspeed synchronize".split())
STREAM_BLOCK = "a stream block"
_of_libraries: set[str] = set()
_WORD = re.compile(r"\w+")
_TO_DEVICE = re.compile(
    r"^(?!\s*#).*\.to\(\s*(?:device *= *)?(?:\w+\.)*"
    r"_?(?:(?:torch_|cuda_)?device|dev_id|device_id|local_rank|rank)\b(?!\()",
    re.MULTILINE,
)
"""A move to a device that a variable names."""
_DEVICE = r"(?:['\"]cuda|(?:\w+\.)*_?(?:(?:torch_|cuda_)?device|dev|gpu|local_rank|(?:device|dev|gpu)_id)\b(?!\())"
MOVED = re.compile(rf"\.cuda\(|\.to\((?:device=)?{_DEVICE}|\bdevice={_DEVICE}")
"""Text of an expression whose value is on a device that may be a GPU."""
GPU = re.compile(r"cuda|accelerator|(?<![a-z])(?:xpu|npu|hpu|musa|gpu)", re.IGNORECASE)
"""Text that names a GPU."""
_TO_HOST = re.compile(r"""\.cpu\(|\.to\(\s*(?:device *= *)?['"]cpu""")
_HOST_NAME = re.compile(r"""^(\w+) *= *(?:torch\.device\()?['"]cpu['"]""", re.MULTILINE)
"""A global variable that stands for the host: `device = "cpu"`."""
_ANY_DEVICE_NAME = re.compile(r"""^[ \t]*(?:if [^\n]*: *)?(\w+) *=[^\n]*['"](?:cuda|xpu)""", re.MULTILINE)
"""A variable that may stand for a GPU, also in a branch."""
_DEVICE_NAME = re.compile(r"""^(\w+) *=[^\n]*['"]cuda\b""", re.MULTILINE)
GIVEN_DEVICES = frozenset("device torch_device cuda_device dev gpu rank local_rank device_id dev_id gpu_id".split())
"""Names of the devices that functions are given to run on."""
_CLOCKS_IMPORTED = sorted(CLOCKS)
_CLOCK_ALIAS = re.compile(rf"import(?:[^\n]*,)? *(?:{'|'.join(_CLOCKS_IMPORTED)}) as (\w+)")
_CLOCK = rf"(?:(?:time|timeit)\.(?:{'|'.join(_CLOCKS_IMPORTED)})|perf_counter|default_timer)"
_CLOCK_BOUND = re.compile(rf"(\w+) *(?::[^=\n]*)?= *{_CLOCK}(?=[,)\n])")
"""A clock as a default argument or an attribute: `clock: Callable[[], float] = time.perf_counter`."""
_DATES = re.compile(r"datetime\.((?:utc)?now)\(")
_DATE_INTERVAL = re.compile(r"seconds|timedelta|now\([^()\n]*\) *- *\w")
"""Text of code that uses the difference of two dates."""
_CLOCK_WORDS = ("perf_counter", "monotonic", "default_timer", "time.time")
"""Words of the lines to search for it: searching whole files takes a seventh of the time of a check."""


def add_words(names: Iterable[str]) -> None:
    """Add anchors: the names of functions that libraries describe."""
    _of_libraries.update(names)


def can_matter(data: bytes) -> bool:
    """Return whether any rule could report anything in a file, or a comment in it could suppress nothing."""
    return _can_be_followed(data) or rule_registry.can_matter(data) or _SUPPRESSION in data


def mentions_torch(data: bytes) -> bool:
    """Return whether a file names torch or an accelerator."""
    return any(word in data for word in _TORCH)


def is_of_other_library(data: bytes) -> bool:
    """Return whether a file imports another library with GPUs, such as MXNet, and does not use torch."""
    return _OTHER_LIBRARY.search(data) is not None and _USE.search(data) is None


def _can_be_followed(data: bytes) -> bool:
    """Return whether a semantic rule could report anything in a file."""
    if any(word.encode() in data for word in _of_libraries):
        return True
    if not mentions_torch(data) or is_of_other_library(data):
        return False
    if any(word in data for word in _WORDS):
        return True
    return any(word in data for word in _CLOCKS) and any(word in data for word in _DEVICES)


_SEARCHED = (
    "Stream", "Event", "CUDAGraph", "wait_stream", "wait_event", "record_stream", "record_event", "non_blocking",
    "async_op", "elapsed_time", "isend", "irecv", "set_stream", "make_graphed", ".stream(", "perf_counter", "monotonic",
    "time(", "time_ns", "default_timer", "timeit", "Thread",
)  # fmt: skip


@lru_cache(maxsize=4)
def clock_aliases(source: str) -> frozenset[str]:
    """Return the names that a file gives clocks: `from time import monotonic as now`, `clock=time.monotonic`.

    In a file that uses intervals between dates, the functions that return the current date are clocks, too.
    """
    found = set(_CLOCK_ALIAS.findall(source) if any(f"{name} as " in source for name in _CLOCKS_IMPORTED) else ())
    if any(word in source for word in _CLOCK_WORDS):
        lines = (line for line in source.splitlines() if any(word in line for word in _CLOCK_WORDS))
        found.update(*(_CLOCK_BOUND.findall(f"{line}\n") for line in lines))
    dates = _DATES.findall(source)
    if dates and _DATE_INTERVAL.search(source):
        found.update(dates)
    kept = re.findall(rf"\.(\w+) *= *(?:{'|'.join(sorted(found))})\n", source) if found else []
    return frozenset((*found, *kept))


def device_names(source: str) -> frozenset[str]:
    """Return the names of a file's devices, such as `device` and `gpu = torch.device("cuda" if use_gpu else "cpu")`."""
    if not may_use_gpu(source):
        return frozenset()
    is_named = "'cuda" in source or '"cuda' in source
    named = frozenset(_DEVICE_NAME.findall(source) if is_named else ())
    of_host = GIVEN_DEVICES & set(_HOST_NAME.findall(source))
    if of_host:
        of_host -= set(_ANY_DEVICE_NAME.findall(source))
    return named | (GIVEN_DEVICES - of_host)


def anchor_lines(source: str, aliases: Iterable[str] = ()) -> list[int]:
    """Return the lines, from 1 and in order, with an anchor, a word without which no semantic rule reports anything.

    Args:
        source: the text of a file.
        aliases: see `clock_aliases`.
    """
    return lines_with(source, (*_SEARCHED, *_of_libraries, *(f"{name}(" for name in aliases)))


def lines_with(source: str, words: Iterable[str]) -> list[int]:
    """Return the lines, from 1 and in order, that contain any of some words."""
    offsets: set[int] = set()
    for word in words:
        start = source.find(word)
        while start >= 0:
            offsets.add(start)
            start = source.find(word, start + len(word))
    found: list[int] = []
    line, begin = 1, 0
    for offset in sorted(offsets):
        line += source.count("\n", begin, offset)
        begin = offset
        found.append(line)
    return found


def spans_any(node: ast.stmt, lines: list[int]) -> bool:
    """Return whether a statement spans any of some lines, which are in order."""
    first = bisect_left(lines, node.lineno)
    return first < len(lines) and lines[first] <= (node.end_lineno or node.lineno)


def has_anchor(node: ast.AST, aliases: frozenset[str] = frozenset(), devices: frozenset[str] = frozenset()) -> bool:
    """Return whether any rule could report anything in a function that is interpreted on its own.

    Args:
        node: the function.
        aliases: see `clock_aliases`.
        devices: see `device_names`.
    """
    text = deferred.source_of(node)
    wanted = _ANCHORS | _CLOCK_ANCHORS | _of_libraries | {"stream"} | aliases
    if text is not None and wanted.isdisjoint(_WORD.findall(text)):
        return False
    found = words_in(node)
    if found & _ANCHORS or found & _of_libraries or STREAM_BLOCK in found:
        return True
    return bool(found & (_CLOCK_ANCHORS | aliases) and found & (_DEVICE_ANCHORS | devices))


@lru_cache(maxsize=4)
def may_use_gpu(source: str) -> bool:
    """Return whether a file mentions CUDA, or moves something to a device that a variable names."""
    return "cuda" in source or (".to(" in source and _TO_DEVICE.search(source) is not None)


@lru_cache(maxsize=4)
def uses_gpu(source: str) -> bool:
    """Return whether a file mentions GPUs, other than for what it then copies to the host."""
    if "cuda" not in source and may_use_gpu(source):
        return True
    lines = (line for line in source.splitlines() if GPU.search(line))
    return any(not _TO_HOST.search(line) for line in lines)


def reads_clock(node: ast.AST, aliases: frozenset[str]) -> bool:
    """Return whether a function may read a clock; `aliases`: see `clock_aliases`."""
    text = deferred.source_of(node)
    return not (_CLOCK_ANCHORS | aliases).isdisjoint(words_in(node) if text is None else _WORD.findall(text))


@once
def words_in(node: ast.AST) -> set[str]:
    """Return the names, members and keywords in a function, with markers for stream blocks and GPU device strings."""
    found: set[str] = set()
    for inner in walk(node):
        if inner.__class__ is ast.Name:
            found.add(inner.id)
        elif inner.__class__ is ast.Attribute:
            found.add(inner.attr)
        elif isinstance(inner, ast.keyword) and inner.arg:
            found.add(inner.arg)
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.startswith("cuda"):
            found.add("cuda")
        elif isinstance(inner, ast.Call) and last_name(inner.func) in STREAM_CONTEXTS:
            found.add(STREAM_BLOCK)
    return found
