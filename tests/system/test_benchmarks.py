"""What benchmarks make of their readings, on readings given here."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def imported(monkeypatch):
    """Import a module of the benchmarks, which import each other by name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def figure(contender, median, rows=1, wrong=False):
    return {
        "model": "svc", "rows": rows, "contender": contender, "median": median, "wrong": wrong,
    }  # fmt: skip


def test_call_without_processor_time_divides(imported, monkeypatch):
    timing = imported("timing")
    monkeypatch.setattr(timing.time, "process_time", lambda: 7.0)
    found = timing.least_processor_seconds({"source": int, "other": int}, 0.0)
    assert found["source"] / found["other"] == 1


def test_fastest_of_source_and_peers_counts(imported):
    page = imported("typical_page")
    figures = [
        figure("source", 8.0),
        figure("hbconv tvm", 2.0),
        figure("hbconv torch", 0.1),
        figure("faiss", 1.0, wrong=True),
        figure("skl2onnx", 5.0),
        *(figure(name, 6.0, 100) for name in ("source", "hbconv tvm")),
        *(figure(name, 3.0, 100, wrong=True) for name in ("sklearnex", "faiss")),
    ]
    cells = page.cells_of({"figures": figures})
    ratios = {rows: page.times_the_fastest(cell) for (_, rows), cell in cells.items()}
    assert ratios == {1: 2.5, 100: 0.5}
    counted = list(page._counts({"figures": figures}))
    assert page.line("workloads and numbers of rows", "0", "1", "1") in counted
    assert "- svc, 100 rows: 0.5 times scikit-learn-intelex" in counted


def test_peers_of_workloads_are_known(imported):
    typical, peers = imported("typical"), imported("peers")
    assert set(typical.KIND_PEERS) == {w.kind for w in typical.WORKLOADS.values()}
    assert {*typical._all_peers(), *(f"hbconv {name}" for name in typical.BACKENDS)} <= {
        *peers.PEERS
    }
    assert {*typical.SHORT} <= typical.WORKLOADS.keys()


def test_costs_that_grow_are_told_by_axis(imported, tmp_path):
    page = imported("growth_page")
    costs = {
        "convert_s": 0.5, "peak_mib": 20.0, "file_mb": 0.25, "row_us": 3.5, "batch_ns": 1234.0,
        "source_ns": 5678.0,
    }  # fmt: skip
    figures = [{"axis": "trees", "size": size, **costs} for size in (1000, 10)]
    stored = {"figures": figures, "machine": {"processor": "Zen"}}
    for folder in ("figures", "performance"):
        (tmp_path / folder).mkdir()
    about = {"depth": ("levels", "Why."), "trees": ("trees of 31 leaves", "The last are small.")}
    page.write(tmp_path, stored, about)
    told = (tmp_path / "performance" / "growth.md").read_text().splitlines()
    assert "## Depth" not in told
    assert "The last are small." in told
    sizes = [line.split(" | ")[0] for line in told if line.startswith("| 1")]
    assert sizes == ["| 10", "| 1,000"]
    assert "| 10 | 0.50 s | 20 MiB | 0.25 MB | 3.5 us | 1,234 ns | 5,678 ns |" in told
    assert (tmp_path / "figures" / "growth.svg").stat().st_size > 0
