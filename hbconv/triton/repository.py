"""A model's folder in a repository: complete or absent, and one more version where it exists."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hbconv.errors import OptionError, StoreError

__all__ = ["add_version", "require_model_name"]

CONFIG = "config.pbtxt"


def require_model_name(name: object) -> str:
    """Return the name of a model, or raise OptionError where it cannot name a folder."""
    if not isinstance(name, str) or name != Path(name).name or name.startswith(".") or not name:
        raise OptionError(
            f"name={name!r} does not name a folder. Choose letters and digits, such as 'churn'."
        )
    return name


def add_version(repository: Path, name: str, config: str, files: Mapping[str, bytes]) -> Path:
    """Write the next version of a model, and return its folder ``<repository>/<name>/<version>``.

    A server that watches the repository sees a version when it is complete.

    Parameters
    ----------
    repository : Path
        It is made if it does not exist; its parent must exist.
    name : str
    config : str
        Text of ``config.pbtxt``.
    files : mapping of str to bytes
        Of the version.

    Raises
    ------
    StoreError
        The repository has a model of this name with other inputs, outputs or settings.
    """
    repository.mkdir(exist_ok=True)
    model = repository / name
    if not model.exists():
        with _appearing_folder(model) as folder:
            (folder / CONFIG).write_text(config, encoding="utf-8")
            _write(folder / "1", files)
        return model / "1"
    _require_same_config(model, config)
    version = 1 + max((int(p.name) for p in model.iterdir() if p.name.isdecimal()), default=0)
    with _appearing_folder(model / str(version)) as folder:
        _write(folder, files)
    return model / str(version)


def _require_same_config(model: Path, config: str) -> None:
    found = model / CONFIG
    if not found.is_file() or found.read_text(encoding="utf-8") != config:
        raise StoreError(
            f"{model} exists, and its {CONFIG} is another one: it has other inputs, outputs or "
            "settings. Remove the folder, or give the model another name."
        )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


@contextmanager
def _appearing_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder, which is renamed to the path when the block ends without an error.

    Its name begins with a dot. Triton reads versions from folders whose names are numbers.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
