"""``hbconv score --on``: the same answers, rejects and records as those of the plain job, whichever
calls a cluster loses, makes twice or overtakes.

The cluster here is this process, whose calls are bytes and come from threads, as those of all
clusters do; ``test_clusters`` asks real ones.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

import hbconv
from hbconv.cli import main
from hbconv.errors import OptionError
from hbconv.score import cluster_job, clusters, parts
from hbconv.score.clusters import ComputeCluster, travelling_call

NAMES = list("abc")
SLOTS = 3


class HereCluster(ComputeCluster):
    """Calls here: one in three is lost before it runs, and one in three when it has, and is made
    again.
    """

    def connect(self, address: str | None, work: bytes, threads: int) -> None:
        self.slots = SLOTS
        self.work = work
        self.draw = random.Random(address)
        self.function = travelling_call()
        self.calls = 0
        self.most = int(address or 1 << 30)

    def call(self, parts: Sequence[bytes]) -> bytes:
        self.calls += bool(parts)
        if self.calls > self.most:
            raise RuntimeError("executor 3 exited\n\nio.Error: it was killed\n\tat Job.java:1")
        for _ in range(self.draw.randrange(3)):
            self.function(self.work, parts)
        return self.function(self.work, parts)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A model of three columns that refuses what is missing, and 400 rows, three of them bad."""
    path = tmp_path_factory.mktemp("jobs") / "m.hbc"
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 3)), columns=NAMES)
    model = LogisticRegression().fit(table, np.where(table.a + table.b > 0, "yes", "no"))
    hbconv.convert(model, backend="reference").save(path)
    table.loc[[3, 250, 399], "b"] = np.nan
    return path, table.assign(id=range(400))


@pytest.fixture
def work(fitted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model and four files, each of many row groups."""
    shutil.copy(fitted[0], tmp_path / "m.hbc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(clusters.ENGINES, "here", HereCluster)
    monkeypatch.setattr(cluster_job, "PART_BATCHES", 2)
    Path("in").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(400), 4)):
        part = fitted[1].iloc[rows]
        part.to_parquet(f"in/{number}.parquet", index=False, row_group_size=7)
    return tmp_path


def score(capsys: Any, *argv: str) -> tuple[int, dict[str, Any]]:
    code = main(["score", "m.hbc", *argv, "--json", "--batch-rows", "10"])
    return code, json.loads(capsys.readouterr().out)


def scored(capsys: Any, *argv: str) -> dict[str, Any]:
    code, result = score(capsys, *argv)
    assert code == 0, result
    return result


def refused(capsys: Any, message: str, *argv: str) -> None:
    code, result = score(capsys, *argv)
    assert code in (1, 2)
    assert message in result["error"]


def counts(result: dict[str, Any]) -> dict[str, Any]:
    told = ("rows", "rejected", "method", "columns", "files", "files_done_before")
    return {name: result[name] for name in told if name in result}


OPTIONS = [
    ["--keep", "id"],
    ["--methods", "predict,predict_proba", "--model", "new=m.hbc", "--keep", "id,b"],
]


class TestOneFile:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_has_the_rows_of_the_plain_job_in_their_order(self, capsys, work, options):
        plain = scored(capsys, "in", "-o", "p.parquet", "--rejects", "p.jsonl", *options)
        argv = ("in", "-o", "c.parquet", "--rejects", "c.jsonl", *options, "--on", "here")
        assert counts(scored(capsys, *argv)) == counts(plain)
        found, expected = (pd.read_parquet(f"{name}.parquet") for name in "cp")
        # A part ends where no batch of the plain job does, and BLAS adds by the size of a batch.
        pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
        assert Path("c.jsonl").read_text() == Path("p.jsonl").read_text()
        assert '"row": 51' in Path("c.jsonl").read_text()

    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "arrow"])
    def test_of_other_formats(self, capsys, work, fitted, suffix):
        table = fitted[1].rename(columns={"a": "A"})
        table.to_csv("rows.csv", index=False)
        with Path("rows.csv").open("a") as file:
            file.write("1,2\n5,6,7,8\n")
        rows = ["rows.csv", "--rename", "a=A", "--keep", "id", "--rejects"]
        plain = scored(capsys, *rows, "p.jsonl", "-o", f"p-out.{suffix}")
        cluster = scored(capsys, *rows, "c.jsonl", "-o", f"c-out.{suffix}", "--on", "here")
        assert counts(cluster) == counts(plain)
        assert Path(f"c-out.{suffix}").read_bytes() == Path(f"p-out.{suffix}").read_bytes()
        assert Path("c.jsonl").read_bytes() == Path("p.jsonl").read_bytes()

    def test_goes_to_standard_output(self, capfdbinary, work, fitted):
        argv = ["score", "m.hbc", "in", "-o", "-", "--output-format", "csv", "--quiet"]
        argv += ["--rejects", "bad.jsonl"]
        assert main(argv) == 0
        plain = capfdbinary.readouterr().out
        Path("bad.jsonl").unlink()
        assert main([*argv, "--on", "here"]) == 0
        assert capfdbinary.readouterr().out == plain

    def test_types_are_those_of_the_first_rows_of_all(self, capsys, work, monkeypatch):
        """A model may answer other rows with another type: each part is told the first one."""
        asked = []
        monkeypatch.setattr(
            cluster_job, "ReturnedPart", lambda *part: asked.append(part) or part[0].none
        )
        refused_by = pytest.raises(AttributeError, match="none")
        with refused_by:
            score(capsys, "in", "-o", "c.parquet", "--on", "here", "--rejects", "c.jsonl")
        assert [str(schema.field("predict").type) for _, schema in asked] == ["string"]

    def test_is_not_there_where_a_row_is_refused(self, capsys, work):
        refused(
            capsys, "0.parquet, row 4: Input X contains NaN", "in", "-o", "c.csv", "--on", "here"
        )
        assert not list(work.glob("*c.csv")) + list(work.glob(".hbconv-*"))


class TestFolder:
    def test_holds_the_files_of_the_plain_job(self, capsys, work):
        plain = scored(capsys, "in", "-o", "p/", "--rejects", "p.jsonl", "--keep", "id")
        argv = ("in", "-o", "c/", "--rejects", "c.jsonl", "--keep", "id", "--on", "here")
        assert counts(scored(capsys, *argv)) == counts(plain)
        names = sorted(path.relative_to("p") for path in Path("p").rglob("*"))
        assert names == sorted(path.relative_to("c") for path in Path("c").rglob("*"))
        for name in names:
            if name.suffix == ".parquet":
                assert (Path("c") / name).read_bytes() == (Path("p") / name).read_bytes()
        assert Path("c.jsonl").read_text() == Path("p.jsonl").read_text()
        manifests = [json.loads(Path(p, "_hbconv/manifest.json").read_text()) for p in "pc"]
        assert manifests[0]["shards"] == manifests[1]["shards"]

    @pytest.mark.parametrize("then", [[], ["--on", "here"]], ids=["plain", "cluster"])
    def test_goes_on_here_or_on_a_cluster(self, capsys, work, then):
        argv = ("in", "-o", "c/", "--rejects", "c.jsonl")
        refused(capsys, "--resume goes on", *argv, "--on", "here:2")
        done = len(list(Path("c").rglob("done/*.json")))
        assert 0 < done < 4
        result = scored(capsys, *argv, "--resume", *then)
        assert counts(result) | {"columns": 0} == {
            "rows": 397,
            "rejected": 3,
            "method": "predict",
            "columns": 0,
            "files": 4,
            "files_done_before": done,
        }
        assert pq.read_table("c").num_rows == 397

    def test_is_one_that_the_workers_see(self, capsys, work, monkeypatch):
        monkeypatch.setattr(
            parts.FilePart,
            "run",
            lambda part, job, **_: {"output": "0.parquet", "bytes": 1, "rows": 1, "rejected": 0},
        )
        refused(capsys, "and it is not in c/ here", "in", "-o", "c/", "--on", "here")

    def test_of_another_machine_is_refused_by_the_worker(self, capsys, work, monkeypatch):
        away = work / "away"
        monkeypatch.setattr(cluster_job.os.path, "abspath", lambda path: str(away / path))
        refused(capsys, "does not see the run in", f"{work}/in", "-o", "c/", "--on", "here")
        assert not away.exists()


class TestCalls:
    """A call takes several parts, and gives back those that it has no time for."""

    @pytest.mark.parametrize("limit", ["CALL_SECONDS", "CALL_BYTES", None])
    @pytest.mark.parametrize("output", ["{}/", "{}.arrow"])
    def test_lose_no_part_that_is_left(self, capsys, work, monkeypatch, limit, output):
        monkeypatch.setattr(sys.modules[__name__], "SLOTS", 1)
        asked = watch_calls(monkeypatch)
        if limit:
            monkeypatch.setattr(parts, limit, -1)
        plain = scored(capsys, "in", "-o", output.format("p"), "--rejects", "p.jsonl")
        argv = ("in", "-o", output.format("c"), "--rejects", "c.jsonl", "--on", "here")
        assert counts(scored(capsys, *argv)) == counts(plain)
        assert Path("c.jsonl").read_text() == Path("p.jsonl").read_text()
        found, expected = (read(output.format(name)) for name in "cp")
        pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
        assert max(asked) > 1
        assert (sum(asked) > len(list(Path("in").iterdir()))) or not limit

    def test_tell_of_the_parts_before_a_bad_one(self, capsys, work, monkeypatch):
        pd.read_parquet("in/0.parquet").dropna().to_parquet("in/0.parquet", index=False)
        monkeypatch.setattr(clusters, "_share", lambda parts, _: parts)
        refused(capsys, "2 of 4 files are done", "in", "-o", "c/", "--on", "here")

    def test_ask_every_slot_before_the_run_begins(self, capsys, work, monkeypatch):
        """A worker that has another hbconv says so before a folder is begun."""
        monkeypatch.setattr(hbconv, "__version__", "0.0")
        asked = watch_calls(monkeypatch)
        refused(
            capsys, "has hbconv 0.0. Install 'hbconv[score]==", "in", "-o", "c/", "--on", "here"
        )
        assert set(asked) == {0}
        assert not Path("c").exists()


def watch_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of parts of each call."""
    asked: list[int] = []
    call = HereCluster.call

    def watched(self: HereCluster, some: Sequence[bytes]) -> bytes:
        asked.append(len(some))
        return call(self, some)

    monkeypatch.setattr(HereCluster, "call", watched)
    return asked


def read(place: str) -> pd.DataFrame:
    if place.endswith("/"):
        return pq.read_table(place).to_pandas()
    return pa.ipc.open_file(place).read_all().to_pandas()


class TestRefused:
    def test_files_that_a_worker_sees_otherwise(self, capsys, work, monkeypatch):
        monkeypatch.setattr(cluster_job, "_packed", _changed(cluster_job._packed))
        refused(capsys, "is not the same file on", "in", "-o", "c/", "--on", "here")

    def test_answers_that_no_worker_returns(self, capsys, work, monkeypatch):
        monkeypatch.setattr(parts, "MOST_BYTES", 100)
        argv = ("in", "-o", "c.csv", "--rejects", "c.jsonl", "--on", "here")
        refused(capsys, "Write a file for each input: -o folder/", *argv)

    def test_a_part_that_the_cluster_gives_up(self, capsys, work):
        said = "gave work up: RuntimeError: io.Error: it was killed"
        refused(capsys, said, "in", "-o", "c.csv", "--on", "here:1", "--rejects", "c.jsonl")

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["in", "--on", "slurm"], "'slurm' is no engine. Known: ray, spark, dask"),
            (["in", "--on", "dask", "--devices", "cpu,cpu"], "Leave it or --on out"),
            (["in", "--on", "dask", "--device", "cuda"], "--on computes on CPUs"),
            (["-", "--on", "dask", "--input-format", "csv"], "not standard input"),
        ],
    )
    def test_options_that_do_not_apply(self, capsys, work, monkeypatch, argv, message):
        monkeypatch.delitem(clusters.ENGINES, "here")
        refused(capsys, message, *argv, "-o", "c.csv")

    def test_engines_that_are_not_installed(self, capsys, work, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        refused(capsys, "pip install 'hbconv[ray]'", "in", "-o", "c.csv", "--on", "ray")


class TestClosed:
    def test_when_it_is_refused_as_it_is_connected(self, monkeypatch):
        """Ray would end this process a minute after a cluster that it did not leave."""
        left = []

        def connect(*_):
            raise OptionError("too many threads")

        monkeypatch.setitem(clusters.ENGINES, "here", HereCluster)
        monkeypatch.setattr(HereCluster, "connect", connect)
        monkeypatch.setattr(HereCluster, "close", lambda _: left.append(True))
        with pytest.raises(OptionError, match="too many"), clusters.open_cluster("here", b"", 1):
            pass
        assert len(left) == 1


class TestSignals:
    def test_are_handled_as_before(self, monkeypatch):
        """Ray ends the process at SIGTERM by itself, where the command has a run to tell of."""

        def connect(cluster, *_):
            signal.signal(signal.SIGTERM, lambda *_: None)
            cluster.slots = 1

        monkeypatch.setitem(clusters.ENGINES, "here", HereCluster)
        monkeypatch.setattr(HereCluster, "connect", connect)
        monkeypatch.setattr(HereCluster, "start_workers", lambda _: None)
        before = signal.getsignal(signal.SIGTERM)
        with clusters.open_cluster("here", b"", 1):
            assert signal.getsignal(signal.SIGTERM) is before


def _changed(packed):
    def change(part):
        before = packed(part)
        Path(part.shard.path).touch()
        return before

    return change
