"""RowArtifact: several compiled variants of one program, each for its numbers of rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from hbconv.backends.base import Arrays, Artifact, Bound
from hbconv.cost_model.tuning_record import BUCKETS, Bucket
from hbconv.runtime.batching import run_in_chunks

__all__ = ["FITTED", "RowArtifact", "Variant", "other_files", "own_files"]

FITTED = ""
"""Folder of the files of the fitted variant."""


@dataclass(frozen=True)
class Variant:
    """One compiled variant of a program.

    Parameters
    ----------
    artifact : Artifact
    chunk : int
        Rows that fit in the memory of one run.
    """

    artifact: Artifact
    chunk: int

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs, by chunks where the rows are many for this variant."""
        return run_in_chunks(self.artifact.run, inputs, self.chunk)


class RowArtifact(Artifact):
    """A program that runs in the variant of the bucket that the rows are in.

    Parameters
    ----------
    fitted : Variant
        Runs where no other variant does.
    others : mapping of Bucket to Variant
    """

    def __init__(self, fitted: Variant, others: Mapping[Bucket, Variant]) -> None:
        self.fitted = fitted
        self.others = others
        self._variants = [others.get(bucket, fitted) for bucket in BUCKETS]
        self._limits = [bucket.most for bucket in BUCKETS if bucket.most is not None]
        self.sizes = self._bound_sizes()

    @property
    def chunk(self) -> int:
        """Rows that a call of very many takes at once."""
        return self._variants[-1].chunk

    def variant(self, rows: int) -> Variant:
        """Return the variant that runs so many rows."""
        # ``bisect_left``: a bucket holds its own last number of rows.
        return self._variants[bisect_left(self._limits, rows)]

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs."""
        return self.variant(len(next(iter(inputs.values())))).run(inputs)

    def for_rows(self, rows: int) -> Artifact:
        """Return the variant that runs so many rows."""
        return self.variant(rows).artifact

    def compile_for(self, rows: int) -> None:
        """Compile what the first call of this number of rows would compile."""
        self.for_rows(rows).compile_for(rows)

    def bind(self, rows: int) -> Bound | None:
        """Bind the variant for so many rows."""
        variant = self.variant(rows)
        # Bound memory takes all rows at once, which more than a chunk must not be.
        return variant.artifact.bind(rows) if rows <= variant.chunk else None

    def files(self) -> dict[str, bytes]:
        """Return the files of all variants, those of other buckets in folders that name them."""
        all_files = dict(self.fitted.artifact.files())
        # Buckets of one variant share its files.
        for variant in dict.fromkeys(self.others.values()):
            folder = self._folder(variant)
            all_files |= {
                f"{folder}/{name}": data for name, data in variant.artifact.files().items()
            }
        return all_files

    def chunks(self) -> dict[str, int]:
        """Return the rows that each variant takes at once, by the folder of its files."""
        variants = {self._folder(variant): variant for variant in self.others.values()}
        variants[FITTED] = self.fitted
        return {folder: variant.chunk for folder, variant in variants.items()}

    def _folder(self, variant: Variant) -> str:
        return _folder(bucket for bucket, other in self.others.items() if other is variant)

    def _bound_sizes(self) -> tuple[int, ...]:
        """Add the ends of buckets to the sizes worth binding: none spans two variants."""
        sizes = self.fitted.artifact.sizes
        if not sizes:
            return ()
        variants = zip(self._limits, self._variants[:-1], self._variants[1:], strict=True)
        ends = {
            end for end, variant, after in variants if variant is not after and end < max(sizes)
        }
        return tuple(sorted({*sizes, *ends}))


def own_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those of stored files that are of the fitted variant."""
    return {name: data for name, data in files.items() if "/" not in name}


def other_files(
    files: Mapping[str, bytes],
) -> list[tuple[str, tuple[Bucket, ...], dict[str, bytes]]]:
    """Return those of stored files that are of other variants: folder, buckets and files of each.

    Examples
    --------
    >>> stored = {"model.pt": b"all", "rows-1-17/model.pt": b"few"}
    >>> [(folder, [str(b) for b in of], files) for folder, of, files in other_files(stored)]
    [('rows-1-17', ['1 row', '17 to 1,000 rows'], {'model.pt': b'few'})]
    """
    by_folder: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        if _buckets(folder):
            by_folder.setdefault(folder, {})[name] = data
    return [(folder, _buckets(folder), of) for folder, of in by_folder.items()]


def _folder(buckets: Iterable[Bucket]) -> str:
    return "-".join(["rows", *(str(bucket.least) for bucket in buckets)])


def _buckets(folder: str) -> tuple[Bucket, ...]:
    """Return the buckets that a folder names; those of another version are none."""
    named = folder.split("-")[1:]
    return tuple(bucket for bucket in BUCKETS if str(bucket.least) in named)
