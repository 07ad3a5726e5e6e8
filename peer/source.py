"""PyTorch's own tests, extracted from Debian's source package. This repository contains no copy of them."""

import hashlib
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

VERSION = "2.6.0+dfsg"
ARCHIVE = f"pytorch_{VERSION}.orig.tar.xz"
SHA256 = "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff"
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = "trixie"
WANTED = ("test/test_", "test/autograd/", "test/nn/")


def unpacked(folder: Path, wanted: tuple[str, ...] = WANTED) -> Path:
    """Return the folder with the tests, downloading and unpacking them below `folder` if necessary."""
    tests = folder / f"pytorch-{VERSION}"
    if not all((tests / path).exists() for path in wanted if path.endswith("/")):
        archive = folder / ARCHIVE
        if not archive.exists():
            _download(folder)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            raise SystemExit(f"{archive} is not the archive of Debian's package: its SHA-256 is {found}. Delete it.")
        partial = tests.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                path = member.name.partition("/")[2]  # without the top folder
                content = tar.extractfile(member) if path.startswith(wanted) and ".." not in path else None
                if content is not None:
                    (partial / path).parent.mkdir(parents=True, exist_ok=True)
                    (partial / path).write_bytes(content.read())
        shutil.rmtree(tests, ignore_errors=True)  # left by an earlier version of this script, which unpacked less
        partial.rename(tests)
    return tests / "test"


def _download(folder: Path) -> None:
    """Download the archive, with apt and its own sources, lists and cache if apt is available."""
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("apt-get") and Path(KEYRING).exists():
        _download_with_apt(folder)
    else:
        url = f"{MIRROR}/pool/main/p/pytorch/{ARCHIVE}"
        partial = folder / f"{ARCHIVE}.partial"
        with urllib.request.urlopen(url) as response, partial.open("wb") as file:
            shutil.copyfileobj(response, file)
        partial.rename(folder / ARCHIVE)


def _download_with_apt(folder: Path) -> None:
    own = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (own / name).mkdir(parents=True, exist_ok=True)
    sources = own / "debian.sources"
    sources.write_text(
        f"Types: deb-src\nURIs: {MIRROR}\nSuites: {SUITES}\nComponents: main\nSigned-By: {KEYRING}\n", encoding="utf-8"
    )
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::Lists": own / "lists",
        "Dir::Cache": own / "cache",
        "APT::Sandbox::User": "",
    }
    apt = ["apt-get", "--quiet", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "source", "--download-only", "--tar-only", "pytorch"], cwd=folder, check=True)
