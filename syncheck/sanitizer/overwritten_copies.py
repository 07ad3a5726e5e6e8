"""Host reads of a copy that a later copy overwrites, although the host has waited for the event of the earlier copy.

In a loop, `e.synchronize()` waits for the copy of one iteration, and the next iteration has already started another
copy to the same memory. To wait for that one, too, would only make the host read the wrong data.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from syncheck.hb.ids import SiteId
from syncheck.sanitizer.messages import Text
from syncheck.sanitizer.monitor import Sites

if TYPE_CHECKING:
    from syncheck.sanitizer.collector import PendingFinding

_ADVICE = (
    "the copy at line {line} overwrites what the host has not read yet: read it before that copy, or use one buffer "
    "for each copy in flight"
)
_OF_EARLIER_COPY = " is recorded here, for the copy of an earlier iteration"


def with_other_buffer(pending: "PendingFinding", sites: Sites) -> "PendingFinding":
    """Return a finding with advice to use another buffer, if its event belongs to an earlier iteration of a loop.

    Args:
        pending: a finding whose event was recorded before the work.
        sites: the call sites.
    """
    copy, _ = pending.related[0]
    if not _is_later(pending.early_record, copy, sites):
        return pending
    related = [
        (site, _of_earlier_copy(text) if site == pending.early_record else text) for site, text in pending.related
    ]
    text = _ADVICE.format(line=sites.location(copy).frame.line)
    return replace(pending, related=related, advice=(text,), fix=None)


def _is_later(record: SiteId, work: SiteId, sites: Sites) -> bool:
    """Return whether a record stands after the work in the code of one function, so that it is of another iteration."""
    one, other = sites.location(record).frame, sites.location(work).frame
    return (one.path, one.function) == (other.path, other.function) and one.line > other.line


def _of_earlier_copy(text: Text) -> Text:
    event, *_ = text
    return (event, _OF_EARLIER_COPY)
