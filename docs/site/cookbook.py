"""Run the cookbook, a notebook, and write its answers into it.

python docs/site/cookbook.py
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "cookbook.ipynb"


def run_cells(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the cells of code in their order, and return all cells with what they print and show."""
    names: dict[str, Any] = {}
    number = 0
    done = []
    for cell in cells:
        if cell["cell_type"] == "code":
            number += 1
            outputs = _run("".join(cell["source"]), names, number)
            cell = {**cell, "execution_count": number, "outputs": outputs}
        done.append(cell)
    return done


def _run(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run one cell; the value of its last expression is shown, as text and as HTML."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    value = None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - the project's own
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        text = said.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append(
            {
                "data": {kind: text.splitlines(keepends=True) for kind, text in _shown(value)},
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _shown(value: Any) -> list[tuple[str, str]]:
    page = getattr(value, "_repr_html_", None)
    return [*([("text/html", page())] if page else []), ("text/plain", repr(value))]


def write(path: Path = NOTEBOOK) -> None:
    """Run the notebook, and write it in the form that Jupyter does."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"] = run_cells(notebook["cells"])
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
