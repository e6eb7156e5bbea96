"""Run ``model.pt`` with torch alone: hbconv and scikit-learn need not be installed."""

import json

import torch

told = {"hbconv.json": ""}
model = torch.jit.load("model.pt", _extra_files=told)
interface = json.loads(told["hbconv.json"])
rows = {"age": [31.0, float("nan")], "income": [2400.0, 3100.0], "city": ["oslo", "paris"]}


def argument(given: dict) -> object:
    """Return a list of texts, or a matrix (n_rows, n_columns)."""
    columns = [rows[name] for name in given["columns"]]
    text = given["dtype"] == "string"
    return columns[0] if text else torch.tensor(columns, dtype=getattr(torch, given["dtype"])).T


answers = model(*map(argument, interface["inputs"]))
for output, answer in zip(interface["outputs"], answers, strict=True):
    labels = output["classes"]
    print(output["method"], [labels[0][code] for code in answer] if labels else answer.tolist())
