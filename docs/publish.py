"""Build the site of this version into a folder that keeps the sites of other versions.

    python docs/publish.py FOLDER

FOLDER then has `<version>/`. Unless it has a newer version, this version is also at its root, so that URLs without a
version lead to the newest. `versions.js` lists the versions for the selector in the header of every page.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = "versions.js"
_VERSION = re.compile(r"\d+\.\d+\.\d+\w*")


def build(folder: Path, version: str, versions: str) -> None:
    """Build the site of this checkout.

    Args:
        folder: output folder.
        version: version shown on the site.
        versions: URL of the list of versions, relative to the root of this site.
    """
    given = {"SYNCHECK_DOCS_VERSION": version, "SYNCHECK_DOCS_VERSIONS": versions}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **given})  # noqa: S603  fixed arguments


def publish(folder: Path, version: str, make: Callable[[Path, str, str], None] = build) -> None:
    """Add or replace the site of a version in a folder."""
    folder = folder.absolute()
    make(folder / version, version, f"../{LIST}")
    versions = [path.name for path in folder.iterdir() if path.is_dir() and _VERSION.fullmatch(path.name)]
    versions.sort(key=_order, reverse=True)
    if version == versions[0]:
        _replace_root(folder, version, make)
    text = f"var syncheckVersions = {json.dumps(versions)};\n"
    (folder / LIST).write_text(text, encoding="utf-8")


def _replace_root(folder: Path, version: str, make: Callable[[Path, str, str], None]) -> None:
    """Build the site at the root; keep the folders of versions and the files of git and of the host."""
    fresh = folder / ".fresh"
    make(fresh, version, LIST)
    for path in folder.iterdir():
        if not (_VERSION.fullmatch(path.name) or path.name.startswith(".") or path.name == "CNAME"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in fresh.iterdir():
        path.rename(folder / path.name)
    fresh.rmdir()


def _order(version: str) -> tuple[list[int], bool, str]:
    """Return the sort key of a version: 0.10.0 is newer than 0.9.0, and 0.9.0 than 0.9.0rc1."""
    numbers, rest = re.fullmatch(r"([\d.]+)(.*)", version).groups()  # type: ignore[union-attr]  # it matched `_VERSION`
    return [int(part) for part in numbers.split(".") if part], not rest, rest


if __name__ == "__main__":
    from syncheck.version import __version__

    publish(Path(sys.argv[1]), __version__)
