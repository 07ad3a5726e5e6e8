"""Identifiers of the parts of the order graph."""

from typing import TypeAlias

OpId: TypeAlias = int
"""An operation, numbered from 0 in the order of submission by the host."""
EdgeId: TypeAlias = int
"""A wait, numbered from 0 in the order of the calls."""
SlotId: TypeAlias = int
"""The work submitted to a stream at some point in time: one record of an event, or an implicit one."""
