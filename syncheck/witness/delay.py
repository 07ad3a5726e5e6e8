"""A delay on a real GPU: data that makes one launch late, as a short string with which it can be repeated.

The parts of `d1-5f3a21-3.5@1.9x700-07ce` are: format version 1, the program's checksum, the delay, and a checksum of
the rest. This delay holds back launch 5 of stream 3 for 700 ms. `@1.9` means that the launch is submitted from stream
1, before launch 9 of that stream, and runs on a separate stream, as collectives do. A `+` at the end also delays each
later call of that operator from the same line. `0` means no delay.

Source:
    Sen, "Race directed random testing", PLDI 2008: one access is held back until the other one has arrived.
"""

import re
from dataclasses import dataclass

from syncheck.witness.schedule import LaunchId, Schedule, damaged_error, split_parts, with_checksum

_FORMAT = "d1"
_DELAY = re.compile(r"(\d+\.\d+)(?:@(\d+\.\d+))?x(\d+)(\+?)")


@dataclass(frozen=True, slots=True)
class Delay:
    """The delay in one run.

    Attributes:
        program: the program's checksum.
        launch: the launch to delay; None for none.
        milliseconds: the duration of the delay.
        issuer: the next launch of the stream that it is submitted from, if that is another stream.
        is_repeated: whether each later call of the operator from the same line is delayed as well.
    """

    program: int
    launch: LaunchId | None = None
    milliseconds: int = 0
    issuer: LaunchId | None = None
    is_repeated: bool = False

    def __str__(self) -> str:
        body = "0"
        if self.launch is not None:
            issuer = f"@{self.issuer}" if self.issuer is not None else ""
            body = f"{self.launch}{issuer}x{self.milliseconds}{'+' if self.is_repeated else ''}"
        return with_checksum(f"{_FORMAT}-{self.program:06x}-{body}")

    @property
    def description(self) -> str:
        """Text for a report."""
        each = ", repeated before each later call from the same line" if self.is_repeated else ""
        return f"{self.milliseconds / 1000:g} s{each}"

    @classmethod
    def parse(cls, text: str) -> "Delay":
        """Return the delay encoded by a text.

        Raises:
            ConfigError: the text is damaged.
        """
        program, body = split_parts(text)
        if body == "0":
            return cls(program)
        match = _DELAY.fullmatch(body)
        if match is None:
            raise damaged_error(text)
        launch, issuer, milliseconds, more = match.groups()
        return cls(program, LaunchId.of(launch), int(milliseconds), LaunchId.of(issuer) if issuer else None, bool(more))


def parse(text: str) -> Schedule | Delay:
    """Return the schedule of simulated GPUs or the delay on real GPUs encoded by a text.

    Raises:
        ConfigError: the text is damaged or of another version.
    """
    return Delay.parse(text) if text.startswith(f"{_FORMAT}-") else Schedule.parse(text)
