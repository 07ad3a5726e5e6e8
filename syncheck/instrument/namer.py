"""Passes the program's names for its objects to the monitor while the program's frames are alive."""

from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Protocol

import torch

from syncheck.findings import EditKind
from syncheck.hb.ids import NO_ALLOCATION, AllocationId, EventId, NamedKind, SiteId, StreamId
from syncheck.instrument.groups import group_in_frame
from syncheck.instrument.items import name_of_item
from syncheck.instrument.naming import counted_name, listed_once, name_of_tensor, stored_name
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.tensor_facts import extent
from syncheck.instrument.torch_internals import sparse_parts
from syncheck.sanitizer.collector import PendingFinding, binds_result
from syncheck.sanitizer.messages import EventCode, GroupCode, Part, StreamCode, TensorCode
from syncheck.sanitizer.monitor import Monitor, SourceLine
from syncheck.source.frames import frame_at, locals_of
from syncheck.source.lines import line_of_frame

_MAX_FRAMES = 64
"""The most frames to search for those of the program."""


class Identities(Protocol):
    """Identifies the program's objects; each method returns 0 for an unknown object."""

    def allocation_of(self, tensor: torch.Tensor) -> AllocationId:
        """Return the allocation that holds a tensor."""
        ...

    def stream_of(self, value: Any) -> StreamId:
        """Return the stream that an object represents."""
        ...

    def event_of(self, value: Any) -> EventId:
        """Return the event that an object represents."""
        ...


class Namer:
    """Names streams and events where they are created, and the objects of a finding where it is reported.

    Args:
        monitor: returns the monitor, which receives the names.
        sites: maps call sites to names and lines.
        identities: identifies objects.
        after_finding: called after new findings.
    """

    def __init__(
        self,
        monitor: Callable[[], Monitor],
        sites: SiteTable,
        identities: Identities,
        after_finding: Callable[[], None],
    ) -> None:
        self._monitor = monitor
        self._sites = sites
        self._identities = identities
        self._after_finding = after_finding
        self._made_at: dict[SiteId, int] = {}  # call site in a comprehension -> index of the last object created there

    def name_new(self, kind: NamedKind, ident: int, site: SiteId) -> None:
        """Name a new object after the variable that the program binds it to."""
        name = self._sites.bound_directly(site)
        if "[...]" in name:  # created in a comprehension, so add its index
            number = self._made_at[site] = self._made_at.get(site, -1) + 1
            name = counted_name(name, number)
        if name:
            self._monitor().name(kind, ident, name)

    def name_findings(self, findings: list[PendingFinding]) -> None:
        """Name the objects that new findings mention."""
        frame = frame_at(1)
        repeated = [finding for finding in findings if finding.successor]
        findings = [finding for finding in findings if not finding.successor]
        with listed_once():
            for finding in repeated:
                self._name_successor(finding, frame)
            for finding in findings:
                if finding.allocation:
                    self._name_tensor(finding, frame)
                    self._name_part(TensorCode(finding.allocation), finding.site, frame)  # for later findings, too
                self._name_at_lines(finding, frame)
                self._name_freed(finding, frame)
        if any(finding.is_certain for finding in findings):
            self._after_finding()

    def _name_tensor(self, finding: PendingFinding, frame: FrameType | None) -> None:
        """Name the tensor of a finding; among several in the same memory, that of the bytes concerned."""
        allocation, wanted = finding.allocation, finding.extent
        name = ""
        if wanted is not None:
            name = name_of_tensor(frame, lambda value: self._extent_in(allocation, value) == wanted)
            name = name or name_of_tensor(frame, lambda value: _overlap(self._extent_in(allocation, value), wanted))
            self._monitor().name_view(allocation, finding.view, name)
        name = name or name_of_tensor(frame, partial(self._is_tensor, allocation))
        if name:
            self._monitor().name(NamedKind.ALLOCATION, allocation, name)

    def _name_at_lines(self, finding: PendingFinding, frame: FrameType | None) -> None:
        """Name the objects that a fix mentions, in the frames at the lines where it may be applied."""
        for edit in finding.fix.all_edits() if finding.fix is not None else ():
            if edit.kind is not EditKind.INSERT_BEFORE:
                continue
            for part in edit.code:
                self._name_part(part, edit.site, frame)

    def _name_successor(self, finding: PendingFinding, frame: FrameType | None) -> None:
        """Name a tensor that is gone after the variable that holds its successor in the same call."""
        successor, finding.successor = finding.successor, NO_ALLOCATION
        for edit in finding.fix.all_edits() if finding.fix is not None else ():
            for part in edit.code:
                self._name_part(part, edit.site, frame, successor)

    def _name_part(
        self, part: Part, site: SiteId, frame: FrameType | None, successor: AllocationId = NO_ALLOCATION
    ) -> None:
        """Name the object that a part of a fix mentions, in the frames at the lines of a call site.

        Args:
            part: the part of the code.
            site: the call site.
            frame: the innermost frame.
            successor: the successor of a tensor that is gone.
        """
        wanted = self._wanted(part, successor)
        if wanted is None:
            return
        kind, ident, name_in = wanted
        for line, outer_frame in _frames_at(self._sites.lines_of(site), frame):
            name = name_in(outer_frame)
            if name:
                self._monitor().name_at(kind, ident, name, line.path, line.number)

    def _name_freed(self, finding: PendingFinding, frame: FrameType | None) -> None:
        """Name a freed tensor after the variable whose rebinding freed it, if that still holds a tensor."""
        found = self._sites.user_code(finding.freed) if finding.freed else None
        name = stored_name(*found) if found is not None else ""
        while name and frame is not None:
            if found is not None and frame.f_code is found[0]:
                line = self._sites.lines_of(finding.freed)[0]
                if binds_result(name, line, self._sites.lines_of(finding.site)[0]):
                    return
                if _is_tensor(locals_of(frame).get(name)):
                    self._monitor().name_at(NamedKind.ALLOCATION, finding.allocation, name, line.path, line.number)
                return
            frame = frame.f_back

    def _wanted(self, part: Part, successor: AllocationId) -> tuple[NamedKind, int, Callable[[FrameType], str]] | None:
        """Return kind and id of the object that a part of a fix mentions, and a function that names it in a frame.

        Return None if the part mentions no object.
        """
        identities = self._identities
        match part:
            case StreamCode(stream):
                return NamedKind.STREAM, stream, _namer_of(lambda value: identities.stream_of(value) == stream)
            case EventCode(event):
                return NamedKind.EVENT, event, _namer_of(lambda value: identities.event_of(value) == event)
            case TensorCode(allocation):
                return NamedKind.ALLOCATION, allocation, _namer_of(partial(self._is_tensor, successor or allocation))
            case GroupCode(NamedKind.STREAM_GROUP, ident):
                return part.kind, ident, partial(group_in_frame, of=identities.stream_of, wanted=ident)
            case GroupCode(kind, ident):
                return kind, ident, partial(group_in_frame, of=self._allocation_of, wanted=successor or ident)
            case _:
                return None

    def _allocation_of(self, value: Any) -> AllocationId:
        return self._identities.allocation_of(value) if _is_tensor(value) else NO_ALLOCATION

    def _is_tensor(self, allocation: AllocationId, value: Any) -> bool:
        return self._allocation_of(value) == allocation

    def _extent_in(self, allocation: AllocationId, value: Any) -> tuple[int, int] | None:
        """Return the extent of a tensor in an allocation, as from `extent`; None if it is not a tensor in it."""
        if not _is_tensor(value):
            return None
        parts = sparse_parts(value) or [value]
        return next((extent(part) for part in parts if self._is_tensor(allocation, part)), None)


def _is_tensor(value: Any) -> bool:
    """Return whether an object of the program is a tensor. `isinstance` would run the `__class__` of a lazy proxy."""
    return issubclass(type(value), torch.Tensor)


def _namer_of(is_wanted: Callable[[Any], bool]) -> Callable[[FrameType], str]:
    """Return a function that finds a name for an object in a frame."""
    return lambda frame: name_of_item(is_wanted, frame)


def _overlap(one: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    return one is not None and one[0] < other[1] and other[0] < one[1]


def _frames_at(lines: tuple[SourceLine, ...], frame: FrameType | None) -> Iterator[tuple[SourceLine, FrameType]]:
    """Yield the frames at the given lines, from a frame outwards."""
    waiting = {(line.path, line.number, line.function): line for line in lines}
    looked_at = 0
    while frame is not None and waiting and looked_at < _MAX_FRAMES:
        line = waiting.pop(line_of_frame(frame), None)
        if line is not None:
            yield line, frame
        frame = frame.f_back
        looked_at += 1
