"""Programs that drive a library whose own synchronizations are deleted."""

import ast
import shutil
from dataclasses import dataclass
from pathlib import Path

DRIVERS = Path(__file__).with_name("drivers")


@dataclass(frozen=True)
class Suite:
    """A driver program and its library.

    Attributes:
        repository: `owner/name`.
        package: the library's folder in its repository.
        files: the library's files in which synchronizations are deleted.
    """

    driver: Path
    repository: str
    package: str
    devices: int
    files: tuple[str, ...]

    def copy(self, checkouts: Path, folder: Path) -> None:
        """Copy the library into a folder.

        Raises:
            FileNotFoundError: there is no checkout of it.
        """
        source = checkouts / self.repository.replace("/", "+") / self.package
        if not source.is_dir():
            raise FileNotFoundError(f"{source}: check {self.repository} out there")
        shutil.copytree(source, folder / self.package)


def read(driver: Path) -> Suite:
    """Return the settings in a program's docstring: lines `name: value` after the first line."""
    text = ast.get_docstring(ast.parse(driver.read_text())) or ""
    values = dict(line.split(": ", 1) for line in text.splitlines()[1:] if ": " in line)
    files = tuple(values["files"].split())
    return Suite(driver, values["repository"], files[0].partition("/")[0], int(values["devices"]), files)
