"""Epochs and vector clocks.

An epoch is one int, `time << ACTOR_BITS | actor`: FastTrack's `c@t` in one word. A vector clock is a list with one
epoch per actor, at the actor's index; 0 means that no op of that actor is covered. A clock covers an epoch when
`clock[epoch & ACTOR_MASK] >= epoch`; every clock covers epoch 0.

Source:
    FastTrack: Efficient and Precise Dynamic Race Detection, Flanagan & Freund, PLDI 2009, sections 2 and 3.
"""

from typing import TypeAlias

from syncheck.hb.ids import StreamId

ACTOR_BITS = 12
ACTOR_MASK = (1 << ACTOR_BITS) - 1
TICK = 1 << ACTOR_BITS
MAX_STREAMS = ACTOR_MASK
"""The most streams that an epoch can name; each stream costs a word in the clock of every other stream."""
HOST = StreamId(0)
"""The host is actor 0; streams start at 1."""

Epoch: TypeAlias = int
VectorClock: TypeAlias = list[Epoch]


def actor_of(epoch: Epoch) -> StreamId:
    """Return the actor that an epoch belongs to."""
    return StreamId(epoch & ACTOR_MASK)


def covers(clock: VectorClock, epoch: Epoch) -> bool:
    """Return whether everything up to `epoch` happens before the next op of the clock's owner."""
    actor = epoch & ACTOR_MASK
    return epoch == 0 or (actor < len(clock) and clock[actor] >= epoch)


def join(clock: VectorClock, other: VectorClock) -> bool:
    """Raise each entry of `clock` to that of `other`; return whether anything changed.

    `other` may be shorter if it was copied before the newest streams existed.
    """
    if len(other) < len(clock):
        other = other + [0] * (len(clock) - len(other))
    joined = list(map(max, clock, other))
    if joined == clock:
        return False
    clock[:] = joined
    return True
