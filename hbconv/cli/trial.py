"""Read a CatBoost file and parse its model, in a process that a damaged file may end.

Run it by ``python -m hbconv.cli.trial model.cbm``.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from hbconv.cli.catboost_files import open_catboost
from hbconv.errors import HbconvError
from hbconv.parse import parse


def main(path: Path) -> None:
    """Do what comes before a model's answers; a refusal is no crash."""
    with suppress(HbconvError):
        parse(open_catboost(path))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
