"""Host clocks: readings are tracked, and the difference of two readings is checked."""

import time
import timeit
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from syncheck.hb.ids import ReadingId, SiteId
from syncheck.instrument.patching import Patches
from syncheck.source.clock_uses import may_be_subtracted
from syncheck.source.frames import frame_at
from syncheck.source.lines import is_user_file

_FLOAT_CLOCKS = ("time", "perf_counter", "monotonic")
_INTEGER_CLOCKS = ("time_ns", "perf_counter_ns", "monotonic_ns")


class FloatReading(float):
    """A reading in seconds: a float that pickles as one, by a call of `float`."""

    __slots__ = ("clocks", "ident")
    ident: ReadingId
    clocks: "weakref.ref[Clocks]"

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, FloatReading):
            _report(other, self)
        return float.__sub__(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _subtracted(float.__rsub__(self, other), self)

    def __mul__(self, other: Any) -> Any:
        return self._scaled(float.__mul__(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._scaled(float.__truediv__(self, other))

    def _scaled(self, value: Any) -> Any:
        """Return the same reading in another unit."""
        if not isinstance(value, float):
            return value
        reading = FloatReading(value)
        reading.ident, reading.clocks = self.ident, self.clocks
        return reading

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (float(self),)

    def __copy__(self) -> "FloatReading":
        return self

    def __deepcopy__(self, memo: Any) -> "FloatReading":
        return self


class IntegerReading(int):
    """A reading in nanoseconds: an int that pickles as one, by a call of `int`."""

    ident: ReadingId
    clocks: "weakref.ref[Clocks]"

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, IntegerReading):
            _report(other, self)
        return int.__sub__(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _subtracted(int.__rsub__(self, other), self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return int, (int(self),)

    def __copy__(self) -> "IntegerReading":
        return self

    def __deepcopy__(self, memo: Any) -> "IntegerReading":
        return self


class _SubtractedFloat(float):
    """A sum from which a reading was subtracted: `total -= time()`. A later reading is added to it."""

    __slots__ = ("reading",)
    reading: FloatReading

    def __add__(self, other: Any) -> Any:
        if isinstance(other, FloatReading):
            _report(self.reading, other)
        return float.__add__(self, other)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (float(self),)


class _SubtractedInteger(int):
    """The same of a reading in nanoseconds."""

    reading: IntegerReading

    def __add__(self, other: Any) -> Any:
        if isinstance(other, IntegerReading):
            _report(self.reading, other)
        return int.__add__(self, other)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return int, (int(self),)


def _subtracted(difference: Any, reading: FloatReading | IntegerReading) -> Any:
    """Return a difference that remembers the reading that was subtracted; only a number does."""
    kind: Any = _SubtractedFloat if isinstance(reading, FloatReading) else _SubtractedInteger
    if not isinstance(difference, kind.__base__):
        return difference
    made = kind(difference)
    made.reading = reading
    return made


def _report(earlier: FloatReading | IntegerReading, later: FloatReading | IntegerReading) -> None:
    """Report a difference if both readings were taken in one check that is still active; each check has its own ids."""
    clocks = later.clocks()
    if clocks is not None and clocks is earlier.clocks():
        clocks.difference(earlier.ident, later.ident)


class Clocks:
    """Replaces the clocks of `time` and `timeit` for callers in user files; other callers get plain numbers."""

    def __init__(
        self,
        notify: Callable[..., None],
        patches: Patches,
        next_reading: Callable[[], ReadingId],
        site: Callable[[], SiteId],
    ) -> None:
        self._notify = notify
        self._patches = patches
        self._next = next_reading
        self._site = site
        self._reference = weakref.ref(self)  # the program keeps readings, which must not keep the check alive
        # id of a code object and offset of a call in it -> the code object, and whether the result may be subtracted
        self._tracked: dict[tuple[int, int], tuple[CodeType, bool]] = {}

    def install(self) -> None:
        """Replace the clocks."""
        for name in _FLOAT_CLOCKS:
            self._patches.set(time, name, self._wrap(getattr(time, name), FloatReading))
        for name in _INTEGER_CLOCKS:
            self._patches.set(time, name, self._wrap(getattr(time, name), IntegerReading))
        self._patches.set(timeit, "default_timer", time.perf_counter)
        self._patches.set(timeit.Timer, "timeit", self._watched(timeit.Timer.timeit))

    def difference(self, earlier: ReadingId, later: ReadingId) -> None:
        """Report that the program subtracted two readings."""
        self._notify("clock_difference", earlier, later)

    def _watched(self, measure: Callable[..., float]) -> Callable[..., float]:
        """Take a reading before and after `Timer.timeit`, which bound its own clock before ours was installed."""

        def timed(timer: timeit.Timer, number: int = timeit.default_number) -> float:  # type: ignore[attr-defined]
            began, ended = self._next(), self._next()
            self._notify("clock", began, self._site())
            spent = measure(timer, number)
            self._notify("clock", ended, self._site())
            self._notify("clock_difference", began, ended)
            return spent

        timed.__name__, timed.__doc__ = measure.__name__, measure.__doc__
        return timed

    def _is_tracked(self, frame: FrameType) -> bool:
        """Return whether a reading in a frame is tracked: in a user file, unless the program surely only keeps it."""
        code, lasti = frame.f_code, frame.f_lasti
        known = self._tracked.get((id(code), lasti))
        if known is None:
            is_tracked = is_user_file(code.co_filename) and may_be_subtracted(code, lasti)
            known = self._tracked[id(code), lasti] = code, is_tracked
        return known[1]

    def _wrap(self, clock: Callable[[], Any], kind: Any) -> Callable[[], Any]:
        def read() -> Any:
            value = clock()
            if not self._is_tracked(frame_at(1)):
                return value
            reading = kind(value)
            reading.ident = self._next()
            reading.clocks = self._reference
            self._notify("clock", reading.ident, self._site())
            return reading

        read.__name__ = clock.__name__
        read.__doc__ = clock.__doc__
        return read
