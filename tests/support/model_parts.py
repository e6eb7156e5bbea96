"""The manifest and the arrays of a ``.hbc`` file, for tests that change them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load

from hbconv.runtime.storage.narrow import inflate_members

__all__ = ["ARRAYS", "read_parts"]

ARRAYS = "arrays.safetensors"


def read_parts(data: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return both; arrays are to be written again as they are, so none is deflated any more."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        members = {ARRAYS: archive.read(ARRAYS)}
    lengths = {
        name: manifest["lengths"].pop(name) for name in members.keys() & manifest["lengths"].keys()
    }
    arrays = load(inflate_members(members, lengths, len(data))[ARRAYS])
    return manifest, {name: np.array(array) for name, array in arrays.items()}
