"""Record of a run under a schedule, for comparison with another run: a JSON file."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from syncheck.errors import RecordError
from syncheck.system import job
from syncheck.witness.schedule import LaunchId, Pair

REQUEST = "SYNCHECK_RERUN"
"""Environment variable that tells a run started by another run what to record."""


@dataclass(frozen=True, slots=True)
class Request:
    """Specification of what to record.

    Attributes:
        file: the output file. Each rank of a job other than 0 appends its number to the name.
        pairs: the pairs of accesses whose values are recorded.
        root: the project's folder, in which models of libraries are found, since the run reads no settings file.
    """

    file: str
    pairs: tuple[Pair, ...] = ()
    root: str = ""

    def as_variable(self) -> str:
        """Return the request as the value of the environment variable."""
        pairs = [[str(launch) for launch in pair] for pair in self.pairs]
        return json.dumps({"file": self.file, "pairs": pairs, "root": self.root})


def request() -> Request | None:
    """Return this process's request, or None, and remove it from the environment so that children do not inherit it."""
    text = os.environ.pop(REQUEST, None)
    if text is None:
        return None
    data = json.loads(text)
    pairs = (Pair(LaunchId.of(earlier), LaunchId.of(later)) for earlier, later in data["pairs"])
    return Request(file_of_rank(data["file"], job.rank()), tuple(pairs), data["root"])


def file_of_rank(file: str, rank: int) -> str:
    """Return a rank's file, given the `file` that a run of one process would use."""
    return f"{file}.{rank}" if rank else file


def stdout_folder() -> str | None:
    """Return the folder for the output of the ranks that this process starts, if recording is requested, else None.

    Each rank prints to its own file, because lines could be interleaved in a shared file.
    """
    text = os.environ.get(REQUEST)
    return os.path.join(os.path.dirname(json.loads(text)["file"]), "lines") if text is not None else None


def root() -> str:
    """Return the project's folder if recording is requested; "" if not."""
    text = os.environ.get(REQUEST)
    return str(json.loads(text)["root"]) if text is not None else ""


def lines_of_rank(file: str, rank: int) -> list[str]:
    """Return the lines printed by a rank, given the `file` that a run of one process would use.

    Source:
        torch/distributed/elastic/multiprocessing/api.py, `DefaultLogsSpecs.reify`: a folder for each rank.
    """
    found = sorted(Path(file).parent.glob(f"lines/*/*/{rank}/stdout.log"))
    return [line for path in found for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a tensor.

    Attributes:
        checksum: checksum of all bytes.
        shown: the first values.
        count: total number of values.
        place: the source line that it belongs to; "" if unknown.
    """

    checksum: int
    shown: tuple[str, ...]
    count: int
    place: str = ""


@dataclass(slots=True)
class Record:
    """Record of a run.

    Attributes:
        read: launch -> the values that it read.
        left: launch -> the contents of the memory that it wrote, after both accesses of its pair have run.
        places: launch -> its source line.
        order: the watched launches in the order in which they ran.
        host: the values that the host read, in order.
        final: the contents of all GPU memory and all pinned memory at the end.
        forced: why launches that were held back ran early.
        has_ended: whether the program ran to its end.
        starts: on real GPUs, launch -> the first launch of its operator.
        issuers: on real GPUs, launch -> the next launch of the stream that it was submitted from, if that is another
            one.
        submitted: on real GPUs, launch -> time of its submission, in seconds since the start.
        delayed: on real GPUs, the number of delayed launches.
        failed: on real GPUs, how syncheck itself failed to work on the proof; "" if it did not.
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
        """Write the record to a file."""
        Path(path).write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(path: Path) -> Record:
    """Read the record of a run.

    Raises:
        RecordError: the record is missing or damaged.
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
        raise RecordError(f"the run left no readable record: {error}") from error


def _by_launch(data: dict[str, Any]) -> dict[str, list[Values]]:
    return {launch: list(map(_values, entries)) for launch, entries in data.items()}


def _values(data: dict[str, Any]) -> Values:
    return Values(int(data["checksum"]), tuple(map(str, data["shown"])), int(data["count"]), str(data["place"]))
