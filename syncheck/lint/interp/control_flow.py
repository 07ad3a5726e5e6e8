"""How a program that is followed leaves the place where it is."""

from syncheck.lint.interp.values import Value


class TooLongError(Exception):
    """Too much was followed."""


class Jump(Exception):  # noqa: N818  no error: it goes where the program goes
    """The program goes on somewhere else."""


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
