"""Write the table of model files in ``docs/sources.md`` from the registry of formats.

python docs/site/formats_table.py
"""

from __future__ import annotations

from pathlib import Path

from hbconv.model_formats import FileFormat, ModelFormat

PAGE = Path(__file__).parents[1] / "sources.md"
FIRST, LAST = "<!-- Written by docs/site/formats_table.py. -->\n", "<!-- End of the formats. -->\n"


def write_page(page: str) -> str:
    """Return the page with the table of the formats that are read."""
    before, _, rest = page.partition(FIRST)
    _, _, after = rest.partition(LAST)
    table = [
        "| what | usual suffix | what tells it | read by |",
        "| --- | --- | --- | --- |",
        *map(_row, read_formats()),
    ]
    return f"{before}{FIRST}\n" + "".join(f"{line}\n" for line in table) + f"\n{LAST}{after}"


def read_formats() -> list[FileFormat]:
    """Return the rows of the registry that something reads: by library, then others."""
    rows = [row.value for row in ModelFormat if row.value.reader]
    return sorted(rows, key=lambda row: (not row.library, row.test is None, row.library.lower()))


def _row(row: FileFormat) -> str:
    suffixes = ", ".join(f"`{suffix}`" for suffix in row.suffixes)
    cells = (row.name, suffixes, row.content, row.reader)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


if __name__ == "__main__":
    PAGE.write_text(write_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
