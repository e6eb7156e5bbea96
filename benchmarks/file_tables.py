"""List what a saved model holds: each member and each large table, by its bytes in the file.

    python benchmarks/file_tables.py model.hbc [--least 4096] [--nodes 300000]

A table of numbers is shown with its shape and dtype, and with the bytes that it takes by itself,
deflated as members are. ``--nodes`` divides all by a count, for example of the nodes of a forest.
"""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load

from hbconv.runtime.storage.narrow import deflate_members, inflate_members


def main() -> None:
    """Print the tables of a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--least", type=int, default=1 << 12, help="bytes of what is listed")
    parser.add_argument("--nodes", type=int, default=0, help="also show bytes for each of so many")
    chosen = parser.parse_args()
    data = chosen.file.read_bytes()
    for name, size in [("all", len(data)), *sizes(data)]:
        a_node = f"{size / chosen.nodes:8.2f} a node" if chosen.nodes else ""
        if size >= chosen.least:
            print(f"{size:>12,}{a_node}  {name}")


def sizes(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield each member and its bytes, then the tables in it; recipes take none."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    manifest = json.loads(members["manifest.json"])
    whole = inflate_members(members, manifest["lengths"], len(data))
    for name, member in sorted(members.items(), key=lambda item: -len(item[1])):
        yield name, len(member)
        for table, (kind, size) in _tables(whole[name]).items():
            yield f"    {table} {kind}", size
    for kind in ("layouts", "patches"):
        for name in manifest.get(kind, {}):
            yield f"{name} ({kind})", 0


def _tables(member: bytes) -> dict[str, tuple[str, int]]:
    """Return dtype, shape and deflated bytes of each tensor; none of other members."""
    try:
        tensors = load(member)
    except SafetensorError:
        return {}
    if len(tensors) < 2:
        return {}
    deflated, _ = deflate_members({name: x.tobytes() for name, x in tensors.items()})
    return {name: (f"{x.dtype}{list(x.shape)}", len(deflated[name])) for name, x in tensors.items()}


if __name__ == "__main__":
    main()
