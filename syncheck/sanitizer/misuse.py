"""Findings other than races: memory freed too early, work on the wrong device, objects created in loops."""

from syncheck.findings import EditKind
from syncheck.hb.ids import AllocationId, NamedKind, ObjectKind, SiteId, StreamId, ViewId
from syncheck.hb.memory import FreedAccess
from syncheck.rules import (
    missing_record_stream,
    pageable_non_blocking,
    stream_device_mismatch,
    stream_in_loop,
    thread_loses_device,
    useless_record_stream,
)
from syncheck.sanitizer.classify import is_on_current_stream
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.fixes import EACH, PendingEdit, PendingFix, first_of, for_each, insertion
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import (
    ResultCode,
    StreamCode,
    StreamInfo,
    StreamRef,
    TensorCode,
    TensorRef,
    Text,
    TorchCode,
)


def reuse(
    freed: FreedAccess, view: ViewId, used_by: Label, sites: tuple[SiteId, SiteId, SiteId], user: StreamInfo
) -> PendingFinding:
    """Return the finding for a use of freed memory that may be reallocated.

    Args:
        freed: the use.
        view: the view used.
        used_by: the operator that uses it.
        sites: call sites of the allocation, of the free, and of the next allocation.
        user: the stream that uses it.
    """
    allocated, free, reuse_site = sites
    facts: dict[str, Text] = {
        "tensor": (TensorRef(freed.allocation, view),),
        "user": (StreamRef(freed.use.actor),),
        "verb": ("writing" if freed.use.is_write else "reading",),
    }
    related: list[tuple[SiteId, Text]] = [
        (free, ("freed here",)),
        (allocated, ("allocated here, on ", StreamRef(freed.home))),
        (reuse_site, ("this allocation may reuse its memory",)),
    ]
    code = StreamCode(freed.use.actor, is_current=user.handle == 0 or is_on_current_stream(used_by))
    of_group = for_each(NamedKind.ALLOCATION_GROUP, freed.allocation, EACH, ".record_stream(", code, ")")
    at_once = (ResultCode(allocated), ".record_stream(", StreamCode(freed.use.actor), ")")
    fix = first_of(
        [
            PendingFix((insertion(used_by.site, TensorCode(freed.allocation), ".record_stream(", code, ")"),)),
            PendingFix((insertion(used_by.site, *of_group),), after=allocated),
            PendingFix((PendingEdit(EditKind.INSERT_AFTER, allocated, at_once),), is_unsafe=True),
        ]
    )
    home, actor = StreamRef(freed.home), StreamRef(freed.use.actor)
    advice: Text = ("let ", home, ", or the host, wait for ", actor, " before the tensor is freed")
    if user.is_internal:  # the program has no object for it
        return PendingFinding(
            missing_record_stream.RULE, used_by.site, facts, related, advice, None, freed.allocation, (free, allocated)
        )
    advice = ("; or ", *advice)
    return PendingFinding(
        missing_record_stream.RULE,
        used_by.site,
        facts,
        related,
        advice,
        fix,
        freed.allocation,
        (free, allocated),
        freed=free,
        cause=(freed.use.actor, freed.home),
    )


def useless_record(
    allocation: AllocationId, view: ViewId, site: SiteId, reason: Text, name_sites: tuple[SiteId, ...]
) -> PendingFinding:
    """Return the finding for a useless `record_stream`; `name_sites` may reveal the tensor's name."""
    facts: dict[str, Text] = {"tensor": (TensorRef(allocation, view),), "reason": reason}
    advice: Text = ("remove the call at {line}",)
    return PendingFinding(
        useless_record_stream.RULE,
        site,
        facts,
        advice=advice,
        allocation=allocation,
        name_sites=name_sites,
        is_about_call=True,
    )


def mismatch(operator: str, device: int, context_stream: StreamId, site: SiteId, entered: SiteId) -> PendingFinding:
    """Return the finding for work on a different device from the entered stream's; `entered`: where it was entered."""
    facts: dict[str, Text] = {
        "operator": (operator.removeprefix("aten::"),),
        "device": (f"cuda:{device}",),
        "stream": (StreamRef(context_stream),),
    }
    related: list[tuple[SiteId, Text]] = [(entered, ("the stream context is entered here",))]
    advice: Text = (f"use a stream on cuda:{device}: `torch.cuda.Stream(device={device})`",)
    return PendingFinding(stream_device_mismatch.RULE, site, facts, related, advice)


def pageable(allocation: AllocationId, view: ViewId, site: SiteId) -> PendingFinding:
    """Return the finding for a non_blocking copy from memory that is not pinned."""
    facts: dict[str, Text] = {"tensor": (TensorRef(allocation, view),)}
    advice: Text = ("pin the source once (`pin_memory()`), or drop `non_blocking=True` at {line}",)
    return PendingFinding(pageable_non_blocking.RULE, site, facts, advice=advice, allocation=allocation)


def created_in_loop(kind: ObjectKind, site: SiteId) -> PendingFinding:
    """Return the finding for a stream or event that is created on every iteration of a loop."""
    advice: Text = ("create it once, before the loop that runs {line}",)
    return PendingFinding(stream_in_loop.RULE, site, {"thing": (str(kind),)}, [], advice)


def lost_context(actual: StreamId, expected: StreamId, site: SiteId, device: int | None = None) -> PendingFinding:
    """Return the finding for a thread that uses the default device or stream instead of its starter's.

    `device`: that of `expected`, if the thread lacks only the device.
    """
    facts: dict[str, Text] = {"actual": (StreamRef(actual),), "expected": (StreamRef(expected),)}
    call = insertion(site, TorchCode("cuda.set_stream"), "(", StreamCode(expected), ")")
    advice: Text = (", in the thread; it also sets the device",)
    if device is not None:
        call, advice = insertion(site, TorchCode("cuda.set_device"), f"({device})"), (", in the thread",)
    fix = PendingFix((call,), is_unsafe=True)
    return PendingFinding(thread_loses_device.RULE, site, facts, [], advice, fix)


RULES = (
    missing_record_stream.RULE,
    useless_record_stream.RULE,
    pageable_non_blocking.RULE,
    stream_device_mismatch.RULE,
    thread_loses_device.RULE,
    stream_in_loop.RULE,
)
"""The rules that this module reports."""
