"""Hooks of mkdocs: pages that lie beside ``docs/``, links to them, and notes of code blocks.

The pages are written for readers of the repository. On the site they must say the same, so nothing
is written twice: the README is the front page, and links are turned to where a page is there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "SECURITY.md": "develop/security_policy.md",
    "CODE_OF_CONDUCT.md": "develop/conduct.md",
    "benchmarks/README.md": "develop/running_benchmarks.md",
    "strategies/README.md": "develop/strategies.md",
    "tests/README.md": "develop/tests.md",
}
"""Pages that lie beside ``docs/``, and where they are on the site."""

LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```(\w+) (.+)$", re.MULTILINE)
BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside ``docs/``."""
    for source, place in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links to the places of the site, and write the notes of blocks as their titles."""
    place = page.file.src_uri
    source = next((s for s, p in BESIDE.items() if p == place), f"docs/{place}")

    def turned(found: re.Match[str]) -> str:
        return _turned(found, source, place)

    parts = BLOCK.split(markdown)
    parts[::2] = [LINK.sub(turned, part) for part in parts[::2]]
    return FENCE.sub(_titled, "".join(parts))


def _turned(found: re.Match[str], source: str, place: str) -> str:
    """Return a link as it must be on the site; the words alone where nothing is there."""
    words, target, anchor = found[1], found[2], found[3] or ""
    if not target or target.startswith(("http://", "https://", "mailto:")):
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    there = "index.md" if path in ("docs", "docs/README.md") else BESIDE.get(path)
    if there is None and path.startswith("docs/"):
        there = path.removeprefix("docs/")
    if there is None:
        return words.strip("![]")
    return f"{words}({posixpath.relpath(there, posixpath.dirname(place) or '.')}{anchor})"


def _titled(found: re.Match[str]) -> str:
    """Return the head of a block: its note becomes a title, or is left out."""
    language, note = found[1], found[2]
    shown = note in ("prints", "sketch") or note.endswith(".py")
    return f'```{language} title="{note}"' if shown else f"```{language}"
