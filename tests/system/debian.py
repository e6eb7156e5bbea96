"""Packages of Debian in a folder: nothing is installed, and nobody needs to be root."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["download", "extract", "make_python"]

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LAUNCHER = """#!/bin/sh
# The loader of its own C library starts it: that of the machine may be older.
exec "{usr}/lib64/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "{usr}/lib/x86_64-linux-gnu" \\
    "{usr}/bin/python{version}" "$@"
"""


def download(
    packages: Sequence[str], folder: Path, *, architecture: str, suite: str | None = None
) -> list[Path]:
    """Return packages and all that they need, for an architecture.

    They are of the machine's own Debian, or of another suite at the place that it comes from.
    """
    folder = folder.resolve()  # apt reads other paths from the root
    (folder / "state/lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    options = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Install-Recommends": "false",
    }
    if suite is not None:
        sources = folder / "sources.list"
        sources.write_text(f"deb [signed-by={KEYRING}] {_mirror()} {suite} main\n", "utf-8")
        options |= {"Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "/dev/null"}
    apt = ["apt-get", *(f"--option={name}={value}" for name, value in options.items())]
    subprocess.run([*apt, "update", "--quiet"], check=True)
    subprocess.run([*apt, "install", "--yes", "--download-only", *packages], check=True)
    return sorted((folder / "cache/archives").glob("*.deb"))


def _mirror() -> str:
    """Return where the machine's own Debian comes from."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    return told.stdout.split()[0]


def extract(packages: Sequence[Path], place: Path) -> None:
    """Unpack the files of packages."""
    place.mkdir(parents=True, exist_ok=True)
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", package, place], check=True)


def make_python(version: str, folder: Path) -> Path:
    """Return an interpreter of Debian's newest suite for x86-64, with a C library of its own."""
    root = folder.resolve() / "root"
    python = root / "usr/bin/python3"
    if python.exists():
        return python
    wanted = (f"python{version}-minimal", f"libpython{version}-stdlib", "libgomp1", "libstdc++6")
    extract(download(wanted, folder, architecture="amd64", suite="sid"), root)
    python.write_text(LAUNCHER.format(usr=root / "usr", version=version), "utf-8")
    python.chmod(0o755)
    return python
