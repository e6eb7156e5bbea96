"""Compiled code is kept between runs, in a folder of the suite's own; ``--cold`` begins with none.

The keys of the cache hold everything that code is made from, so a run with a kept cache asks the
same of the same code. What torch compiles is kept beside it, under torch's own keys.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import platformdirs
import pytest

__all__ = ["keep_text", "kept_folder"]

VARIABLE = "HBCONV_TEST_CACHE"
COLD = pytest.StashKey[TemporaryDirectory[str]]()


def kept_folder() -> Path:
    """Return the folder that is kept between runs, for all checkouts of the user."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else platformdirs.user_cache_path("hbconv-tests", appauthor=False)


def keep_text(path: Path, text: str) -> None:
    """Write a file of the kept folder, whole or not at all: what is kept is never needed."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(text, "utf-8")
        part.replace(path)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--cold``."""
    parser.addoption(
        "--cold",
        action="store_true",
        help="compile everything anew, and keep nothing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the caches of all processes of the run, and guard what kernels write."""
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--cold"):
        config.stash[COLD] = TemporaryDirectory(prefix="hbconv-cache-")
        os.environ[VARIABLE] = config.stash[COLD].name
    folder = kept_folder()
    os.environ["HBCONV_CACHE"] = str(folder / "kernels")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "torch")
    os.environ.setdefault("HBCONV_GUARD", "canaries")
    # Where torch calls kernels of tvm, its own operators would go untested.
    os.environ.setdefault("HBCONV_TORCH_OPERATORS", "plain")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads of two processes meet here


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the caches of a cold run."""
    if COLD in config.stash:
        config.stash[COLD].cleanup()
