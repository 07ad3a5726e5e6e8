"""What a run under a schedule records for the comparison with another one: a file of JSON."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from syncheck.errors import RecordError
from syncheck.witness.schedule import LaunchId, Pair

REQUEST = "SYNCHECK_RERUN"
"""Environment variable: what a run that another one has started is to record."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be recorded.

    Attributes:
        file: where; each rank of a job adds its number to the name.
        pairs: the accesses of which the values are of interest.
    """

    file: str
    pairs: tuple[Pair, ...] = ()

    def as_variable(self) -> str:
        """Return it as the value of the environment variable."""
        return json.dumps({"file": self.file, "pairs": [[str(launch) for launch in pair] for pair in self.pairs]})


def request() -> Request | None:
    """Return what this process is to record, and take it out of the environment of its children; None for nothing."""
    text = os.environ.pop(REQUEST, None)
    if text is None:
        return None
    data = json.loads(text)
    pairs = (Pair(LaunchId.of(earlier), LaunchId.of(later)) for earlier, later in data["pairs"])
    return Request(file_of_rank(data["file"], own_rank()), tuple(pairs))


def own_rank() -> int:
    """Return this process's rank in its job; 0 where it is alone."""
    return int(os.environ.get("RANK", "0"))


def file_of_rank(file: str, rank: int) -> str:
    """Return where a rank records, where a run of one process records in `file`."""
    return f"{file}.{rank}" if rank else file


def folder_of_lines() -> str | None:
    """Return where each rank that this process starts prints, where another process has asked for what they record.

    They print into files of their own: in one file their lines may be mixed.
    """
    text = os.environ.get(REQUEST)
    return os.path.join(os.path.dirname(json.loads(text)["file"]), "lines") if text is not None else None


def lines_of_rank(file: str, rank: int) -> list[str]:
    """Return what a rank has printed, where a run of one process records in `file`.

    Source:
        torch/distributed/elastic/multiprocessing/api.py, `DefaultLogsSpecs.reify`: a folder for each rank.
    """
    found = sorted(Path(file).parent.glob(f"lines/*/*/{rank}/stdout.log"))
    return [line for path in found for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a tensor.

    Attributes:
        checksum: of all its bytes.
        shown: the first of them.
        count: how many there are.
        place: the line that it belongs to; "" where that is not known.
    """

    checksum: int
    shown: tuple[str, ...]
    count: int
    place: str = ""


@dataclass(slots=True)
class Record:
    """What happened in a run.

    Attributes:
        read: launch -> what it read.
        left: launch -> what is in the memory that it wrote, once both accesses of its pair have run.
        places: launch -> its line.
        order: the launches of interest in the order in which they ran.
        host: what the host was given, in order.
        final: all memory of GPUs, and all pinned memory, at the end.
        forced: why launches that were held back ran early.
        has_ended: the program got to its end.
        starts: on real GPUs, launch -> the first launch of its operator.
        issuers: on real GPUs, launch -> the next launch of the stream that it was submitted from, if that is another.
        submitted: on real GPUs, launch -> when it was submitted, in seconds since the start.
        delayed: on real GPUs, how many launches were delayed.
        failed: on real GPUs, how syncheck itself failed at what it does for the proof; "" if it did not.
    """

    read: dict[str, list[Values]] = field(default_factory=dict)
    left: dict[str, list[Values]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    host: list[Values] = field(default_factory=list)
    final: list[Values] = field(default_factory=list)
    forced: list[str] = field(default_factory=list)
    has_ended: bool = False
    starts: dict[str, str] = field(default_factory=dict)
    issuers: dict[str, str] = field(default_factory=dict)
    submitted: dict[str, float] = field(default_factory=dict)
    delayed: int = 0
    failed: str = ""

    def write(self, path: str) -> None:
        """Write it to a file."""
        Path(path).write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(path: Path) -> Record:
    """Read what a run has recorded.

    Raises:
        RecordError: there is nothing, or it is damaged.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Record(
            read=_by_launch(data["read"]),
            left=_by_launch(data["left"]),
            places=dict(data["places"]),
            order=list(data["order"]),
            host=list(map(_values, data["host"])),
            final=list(map(_values, data["final"])),
            forced=list(data["forced"]),
            has_ended=bool(data["has_ended"]),
            starts=dict(data["starts"]),
            issuers=dict(data["issuers"]),
            submitted=dict(data["submitted"]),
            delayed=int(data["delayed"]),
            failed=str(data["failed"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"the run has recorded nothing that can be read: {error}") from error


def _by_launch(data: dict[str, Any]) -> dict[str, list[Values]]:
    return {launch: list(map(_values, entries)) for launch, entries in data.items()}


def _values(data: dict[str, Any]) -> Values:
    return Values(int(data["checksum"]), tuple(map(str, data["shown"])), int(data["count"]), str(data["place"]))
