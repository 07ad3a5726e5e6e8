"""Epochs and vector clocks.

An epoch is one int, `time << ACTOR_BITS | actor`: FastTrack's `c@t` in one word. A vector clock is a list with one
epoch an actor, at the actor's index; 0 means that nothing of that actor is known. An epoch is covered by a clock
when `clock[epoch & ACTOR_MASK] >= epoch`; epoch 0 is covered by every clock.

Source:
    FastTrack: Efficient and Precise Dynamic Race Detection, Flanagan & Freund, PLDI 2009, sections 2 and 3.
"""

from typing import TypeAlias

from syncheck.hb.ids import StreamId

ACTOR_BITS = 12
ACTOR_MASK = (1 << ACTOR_BITS) - 1
TICK = 1 << ACTOR_BITS
MOST_STREAMS = ACTOR_MASK
"""An epoch can name no more streams; each stream costs a word in the clock of every other."""
HOST = StreamId(0)
"""The host is actor 0; streams start at 1."""

Epoch: TypeAlias = int
VectorClock: TypeAlias = list[Epoch]


def actor_of(epoch: Epoch) -> StreamId:
    """Return the actor on whose clock an epoch is."""
    return StreamId(epoch & ACTOR_MASK)


def covers(clock: VectorClock, epoch: Epoch) -> bool:
    """Return whether everything at `epoch` happens before the clock's owner's next op."""
    actor = epoch & ACTOR_MASK
    return epoch == 0 or (actor < len(clock) and clock[actor] >= epoch)


def join(clock: VectorClock, other: VectorClock) -> bool:
    """Raise each entry of `clock` to that of `other`; return whether anything changed.

    `other` may be shorter, as it is when it was copied before some stream existed.
    """
    if len(other) < len(clock):
        other = other + [0] * (len(clock) - len(other))
    joined = list(map(max, clock, other))
    if joined == clock:
        return False
    clock[:] = joined
    return True
