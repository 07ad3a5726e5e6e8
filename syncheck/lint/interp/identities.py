"""The identity of unknown values: two uses of a variable are two uses of one value, whatever it is."""

from syncheck.lint.interp.values import DERIVED, MOVED, UNKNOWN, Value

ITERATOR = Value()
"""An iterator over something unknown: it is not None."""


def is_unknown(value: Value | None) -> bool:
    """Return whether nothing is known about a value."""
    return value.__class__ is Value and value is not DERIVED and value is not MOVED


def has_identity(value: Value) -> bool:
    """Return whether a value is unknown, but the same at each of its uses."""
    return is_unknown(value) and value is not UNKNOWN


def named(value: Value) -> Value:
    """Return a value that is bound to a name: an unknown one gets an identity."""
    return Value() if value is UNKNOWN else value


class Objects:
    """The objects that a program makes of unknown classes."""

    def __init__(self) -> None:
        self._made: dict[int, Value] = {}  # by id; it keeps them alive

    def new(self) -> Value:
        """Return another one."""
        made = Value()
        self._made[id(made)] = made
        return made

    def __contains__(self, value: Value) -> bool:
        return id(value) in self._made


class Elements:
    """The elements of unknown values: two loops over one value visit the same ones."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Value, list[Value]]] = {}  # by id of the value, which it keeps alive

    def of(self, source: Value, index: int) -> Value:
        """Return the element of an unknown value at an index that is at most the number of those returned so far."""
        _, elements = self._known.setdefault(id(source), (source, []))
        if index == len(elements):
            elements.append(Value())
        return elements[index]
