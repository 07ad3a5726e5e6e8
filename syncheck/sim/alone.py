"""The state in which one stream and one thread have done all GPU work so far, so that nothing can race."""

from _thread import get_ident

from syncheck.hb.clock import HOST
from syncheck.hb.ids import StreamId


class Alone:
    """Whether all GPU work so far was done on one default stream, by one thread.

    While that is so, a launch completes no finding, so the monitor may receive launches, allocations and frees later:
    before its next other call. Nothing is lost or reordered. It ends for good at the first sign of anything else.

    Attributes:
        stream: the stream; HOST if it is not the only one, is not known yet, or has to report its next launch at once.
        thread: the thread.
        has_ended: whether the state has ended.
    """

    def __init__(self) -> None:
        self.stream: StreamId = HOST
        self.thread = get_ident()
        self.has_ended = False

    def suspend(self) -> None:
        """Report the next launch at once: it may complete a finding, such as one about the wait before it."""
        self.stream = HOST

    def end(self) -> None:
        """Report every launch at once from now on."""
        self.has_ended = True
        self.stream = HOST
