"""Exceptions that represent control flow in the interpreted program."""

from syncheck.lint.interp.values import Value


class TooLongError(Exception):
    """Too many statements were interpreted."""


class Jump(Exception):  # noqa: N818  not an error, but control flow
    """The program continues elsewhere."""


class Returned(Jump):
    """A function returns."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class BreakSignal(Jump):
    """`break`."""


class ContinueSignal(Jump):
    """`continue`."""


class Raised(Jump):
    """`raise`: the path ends here."""
