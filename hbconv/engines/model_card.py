"""Model cards: a folder as hubs of models hold it, with a README.md that people and hubs read.

The card begins with metadata in YAML between two lines of ``---``, as Hugging Face has it. Markdown
follows: what the model reads, what it answers, and how to load it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hbconv
from hbconv.engines.scorer import column_names
from hbconv.errors import MissingPackageError, OptionError, StoreError

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["CARD", "ModelCard", "read_card", "write_card"]

CARD = "README.md"
DATA = "model.hbc"
"""Name of the model's file next to its card."""
OWN = "hbconv"
"""The part of the metadata that is made from the model."""
TASKS = {"classifier": "tabular-classification", "regressor": "tabular-regression"}
"""Tasks as hubs name them, by the kind of the estimator."""
MOST_COLUMNS = 200
"""Rows of the longest table in the text. The metadata lists all columns."""

_HEAD = re.compile(r"---[ \t]*\n(.*?)\n---[ \t]*(?:\n(.*))?\Z", re.DOTALL)
# Everything else is written as a number of HTML, so that no text becomes Markdown or a tag.
_PLAIN = re.compile(r"[^\w .,:/()+-]")

_TEXT = """# {title}

{about}`{estimator}`, compiled by [hbconv](https://pypi.org/project/hbconv/) {version}.

## Use it

```python
import hbconv

model = hbconv.load({file!r})
answers = model.{method}(rows)
```

The file holds no pickle, and scikit-learn is not needed to load it.

## It reads

{reads}

## It answers

{answers}
"""


@dataclass(frozen=True)
class ModelCard:
    """A card that was read or written.

    Parameters
    ----------
    folder : Path
    metadata : mapping
        What the YAML holds.
    text : str
        The Markdown below it.
    """

    folder: Path
    metadata: Mapping[str, Any]
    text: str

    def load(self, *, trusted: bool = False) -> Model:
        """Load the model next to the card, as ``hbconv.load`` does.

        Raises
        ------
        StoreError
            The card names no file of its folder.
        """
        described = self.metadata.get(OWN)
        name = described.get("file") if isinstance(described, dict) else None
        # Anyone may have written the card, so it must not name a file outside its folder.
        if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
            raise StoreError(
                f"The card in {self.folder} names no model: hbconv.file is {name!r:.80}. "
                "hbconv.engines.model_card.write_card writes one."
            )
        return hbconv.load(self.folder / name, trusted=trusted)


def write_card(
    model: Model,
    folder: str | os.PathLike[str],
    *,
    title: str = "",
    about: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> ModelCard:
    """Save a model and its card into a folder that has no card yet.

    Parameters
    ----------
    model : Model
    folder : path
        Made where it is missing.
    title : str, optional
        By default the name of the estimator.
    about : str, optional
        Markdown: what the model is for, what it was fitted to, and where it fails.
    metadata : mapping, optional
        More entries for the YAML, such as ``license``, ``datasets`` and ``metrics``.

    Raises
    ------
    OptionError
        There is a card already, or ``metadata`` has an entry ``hbconv``.
    """
    yaml = _yaml()
    path = Path(folder)
    if (path / CARD).exists() or (path / DATA).exists():
        raise OptionError(f"{path} holds a {CARD} or a {DATA} already. Give another folder.")
    if metadata and OWN in metadata:
        raise OptionError(f"metadata[{OWN!r}] is made from the model. Leave it out.")
    entries = _metadata(model) | dict(metadata or {}) | {OWN: _describe(model)}
    text = _text(model, title, about)
    head = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
    path.mkdir(parents=True, exist_ok=True)
    model.save(path / DATA)
    (path / CARD).write_text(f"---\n{head}---\n{text}", encoding="utf-8")
    return ModelCard(path, entries, text)


def read_card(folder: str | os.PathLike[str]) -> ModelCard:
    """Read the card of a folder, which anyone may have written. Nothing of it is executed.

    Raises
    ------
    StoreError
        There is no card, or it does not begin with metadata.
    """
    yaml = _yaml()
    path = Path(folder)
    try:
        card = _HEAD.match((path / CARD).read_text(encoding="utf-8"))
        # safe_load makes plain values alone, and no objects of classes that the card names.
        metadata = yaml.safe_load(card[1]) if card else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise StoreError(f"The card {path / CARD} cannot be read: {error}") from error
    if card is None or not isinstance(metadata, dict):
        raise StoreError(f"{path / CARD} does not begin with metadata between two lines of ---.")
    return ModelCard(path, metadata, card[2] or "")


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingPackageError(
            "Model cards need PyYAML. Install with: pip install 'hbconv[cards]'"
        ) from error
    return yaml


def _metadata(model: Model) -> dict[str, Any]:
    """Return what hubs look for."""
    task = TASKS.get(model.parsed.traits.kind)
    tags = [OWN, *([task] if task else [])]
    return {"library_name": OWN, **({"pipeline_tag": task} if task else {}), "tags": tags}


def _describe(model: Model) -> dict[str, Any]:
    columns = zip(model.schema.names, model.dtypes, strict=True)
    return {
        "version": hbconv.__version__,
        "file": DATA,
        "backend": model.backend,
        "columns": [{"name": str(name), "dtype": dtype} for name, dtype in columns],
        "methods": {name: list(column_names(model, name)) for name in model.parsed.exported},
    }


def _text(model: Model, title: str, about: str) -> str:
    estimator = model.parsed.traits.estimator or "model"
    columns = list(zip(model.schema.names, model.dtypes, strict=True))
    answers = [(name, ", ".join(column_names(model, name))) for name in model.parsed.exported]
    return _TEXT.format(
        title=_cell(title or estimator),
        about=about.rstrip() + "\n\n" if about else "",
        estimator=estimator,
        version=hbconv.__version__,
        file=DATA,
        method="predict" if "predict" in model.methods else model.methods[0],
        reads="\n".join(_table(("column", "dtype"), columns)),
        answers="\n".join(_table(("method", "columns"), answers)),
    )


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "| --- | --- |"
    for row in rows[:MOST_COLUMNS]:
        yield f"| {' | '.join(map(_cell, row))} |"
    if len(rows) > MOST_COLUMNS:
        yield f"| and {len(rows) - MOST_COLUMNS:,} more | |"


def _cell(text: str) -> str:
    """Write a text so that Markdown and HTML show it as it is."""
    return _PLAIN.sub(lambda letter: f"&#{ord(letter[0])};", str(text))
