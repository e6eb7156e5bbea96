"""The pages of the project, and the fenced blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "benchmarks", "datasets", "strategies", "tests")
PAGES = sorted(
    page
    for folder in FOLDERS
    for page in (ROOT / folder).glob("**/*.md" if folder == "docs" else "*.md")
)
BLOCK = re.compile(r"^```(\w*) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the note behind the language, its text, and its first line."""

    language: str
    note: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        language, note, inside = found.groups()
        yield Block(language, note, inside, text.count("\n", 0, found.start()) + 2)


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))
