"""What the order graph is made of, by number."""

from typing import TypeAlias

OpId: TypeAlias = int
"""An operation, from 0 in the order in which the host submitted them."""
EdgeId: TypeAlias = int
"""Something that waits, from 0 in the order of the calls."""
SlotId: TypeAlias = int
"""What a stream had been given at some moment: one record of an event, or of no event."""
