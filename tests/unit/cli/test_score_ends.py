"""What ends ``hbconv score`` before its work is done: ctrl-C, a full disk, a folder that may not
be written. No half file is left, what was there stays, and ``--resume`` goes on.
"""

import errno
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

import hbconv
from hbconv.cli import main
from hbconv.score import outputs

NAMES = list("abc")
LIMIT = 100_000
"""Bytes that a file may have in a run whose disk is full."""
LARGE = 40_000
"""Rows whose answers take more than that in each format."""
SMALL = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=NAMES)
MODEL = LogisticRegression().fit(SMALL, np.where(SMALL.a > 0, "yes", "no"))


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Three files, of which the second is large."""
    monkeypatch.chdir(tmp_path)
    hbconv.convert(MODEL, backend="reference").save("m.hbc")
    Path("in").mkdir()
    for number, rows in enumerate((50, LARGE, 50)):
        values = np.random.default_rng(number).normal(size=(rows, 3))
        table = pd.DataFrame(values, columns=NAMES)
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), f"in/{number}.parquet")
    return tmp_path


def command(*argv):
    asked = ["in", "--method", "predict_proba", "--quiet", *argv]
    return [sys.executable, "-m", "hbconv", "score", "m.hbc", *asked]


FULL_DISK = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Lets files of a process grow to the limit alone. A fork of this one may be ended by its threads'
libraries before it is another program."""


def run(*argv):
    return subprocess.run(command(*argv), capture_output=True, text=True, check=False)


def run_on_a_full_disk(*argv):
    asked = [sys.executable, "-c", FULL_DISK, *command(*argv)]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


def strays(folder):
    return [path.name for path in folder.rglob(".*") if path.is_file()]


def require_answers():
    for number in range(3):
        rows = pq.read_table(f"in/{number}.parquet").to_pandas()
        found = pq.read_table(f"out/{number}.parquet").to_pandas()
        np.testing.assert_allclose(found.to_numpy(), MODEL.predict_proba(rows), rtol=1e-9)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits files as a full disk does")
class TestFullDisk:
    @pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".jsonl"])
    def test_leaves_the_answers_of_yesterday(self, work, suffix):
        output = work / f"o{suffix}"
        output.write_text("the answers of yesterday")
        done = run_on_a_full_disk("-o", output.name, "--force")
        assert (done.returncode, done.stdout) == (1, "")
        assert "File too large" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert output.read_text() == "the answers of yesterday"
        assert strays(work) == []

    @pytest.mark.parametrize("devices", [[], ["--devices", "cpu,cpu"]], ids=["here", "processes"])
    def test_loses_no_finished_file(self, work, devices):
        done = run_on_a_full_disk("-o", "out/", *devices)
        assert done.returncode == 1
        assert "1 of 3 files are done; --resume goes on." in done.stderr
        assert strays(work) == []
        first = Path("out/0.parquet").stat().st_ino
        done = run("-o", "out/", "--resume", "--json", *devices)
        assert json.loads(done.stdout)["files_done_before"] == 1
        assert Path("out/0.parquet").stat().st_ino == first
        require_answers()


class FullDisk:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write_batch(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("devices", [[], ["--devices", "cpu"]], ids=["here", "processes"])
def test_no_thread_outlives_a_run_that_fails(work, devices, monkeypatch, capsys):
    """One that reads when the interpreter ends would take the process with it."""
    monkeypatch.setattr(outputs, "_open_writer", lambda *_: FullDisk())
    before = set(threading.enumerate())
    gc.disable()  # which would end it, sooner or later
    try:
        argv = ["in", "-o", "o.csv", "--batch-rows", "20", "--quiet", *devices]
        code = main(["score", "m.hbc", *argv])
        left = set(threading.enumerate()) - before
    finally:
        gc.enable()
    assert (code, left) == (1, set())
    assert "No space left on device" in capsys.readouterr().err


class TestCtrlC:
    @pytest.mark.parametrize("devices", [[], ["--devices", "cpu,cpu"]], ids=["here", "processes"])
    def test_is_gone_on_from(self, work, devices):
        argv = ["-o", "out/", "--resume", "--batch-rows", "20", *devices]
        process = subprocess.Popen(
            command(*argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        done = work / "out/_hbconv/done/0.parquet.json"
        while not (done.exists() and list(work.glob("out/.hbconv-*"))):  # of the large file
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
        told = "hbconv: Stopped; 1 of 3 files are done. Go on with --resume.\n"
        assert (process.returncode, out, error) == (130, "", told)
        assert strays(work) == []
        assert sorted(path.name for path in Path("out").glob("*.parquet")) == ["0.parquet"]
        done = run("-o", "out/", "--resume", "--json", *devices)
        assert json.loads(done.stdout)["files_done_before"] == 1
        require_answers()


def hears_of_terminals():
    """Undo what ``nohup`` did to the tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def begun(work, *argv):
    """Start a run, and return it when it is writing the large file."""
    before = set(work.rglob(".hbconv-*"))
    process = subprocess.Popen(
        command(*argv),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_of_terminals,  # noqa: PLW1509  (it runs no code but this)
    )
    while not set(work.rglob(".hbconv-*")) - before:
        assert process.poll() is None
        time.sleep(0.002)
    return process


class TestClosedTerminal:
    def test_leaves_nothing(self, work):
        """A shell that is closed sends SIGHUP twice."""
        process = begun(work, "-o", "o.csv", "--batch-rows", "20")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        _, error = process.communicate()
        told = "hbconv: Terminated; nothing was written.\n"
        assert (process.returncode, error) == (128 + signal.SIGHUP, told)
        assert strays(work) == []
        assert not Path("o.csv").exists()

    def test_is_nothing_to_a_run_that_ignores_it(self, work):
        """As nohup has it."""
        asked = ["nohup", *command("-o", "o.csv")]
        process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and not list(work.glob(".hbconv-*")):
            time.sleep(0.002)
        process.send_signal(signal.SIGHUP)
        process.communicate()
        assert process.returncode == 0
        assert len(Path("o.csv").read_text().splitlines()) == LARGE + 101


class TestKilled:
    def test_runs_are_swept_and_others_are_not(self, work):
        killed = begun(work, "-o", "o.csv", "--batch-rows", "20", "--rejects", "bad.jsonl")
        killed.kill()
        killed.communicate()
        left = set(work.glob(".hbconv-*"))
        alive = begun(work, "-o", "p.csv", "--batch-rows", "20")
        own = set(work.glob(".hbconv-*")) - left
        assert left
        assert own
        assert run("-o", "o.csv").returncode == 0
        assert not any(path.exists() for path in left)
        alive.communicate()
        assert alive.returncode == 0
        assert Path("p.csv").read_text() == Path("o.csv").read_text()
        assert strays(work) == []


class TestTwoRuns:
    @pytest.mark.parametrize(
        "rejects", [[], ["--rejects", "bad.jsonl"]], ids=["answers", "rejects"]
    )
    def test_into_one_new_file_are_told_who_won(self, work, rejects):
        """The second run begins when the first is at work, and ends before it."""
        slow = begun(work, "-o", "slow.csv" if rejects else "o.csv", "--batch-rows", "20", *rejects)
        slow.send_signal(signal.SIGSTOP)
        assert run("-o", "o.csv", *rejects).returncode == 0
        won = Path("o.csv").read_bytes()
        slow.send_signal(signal.SIGCONT)
        _, error = slow.communicate()
        lost = "bad.jsonl" if rejects else "o.csv"
        assert slow.returncode == 2
        assert f"hbconv: {lost} appeared while this run was at work" in error
        assert Path("o.csv").read_bytes() == won
        assert strays(work) == []

    @pytest.mark.parametrize("output", ["o.csv", "bad.jsonl", "out/"])
    def test_links_to_nothing_are_no_new_file(self, work, output):
        Path(output.rstrip("/")).symlink_to("nowhere")
        asked = ["-o", "p.csv", "--rejects", output] if "bad" in output else ["-o", output]
        done = run(*asked)
        assert done.returncode == (1 if output == "out/" else 2)
        assert "Traceback" not in done.stderr
        assert Path(output.rstrip("/")).is_symlink()
        assert not Path("nowhere").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_folders_that_may_not_be_written_are_named(work):
    Path("closed").mkdir(mode=0o500)
    for output in ("closed/o.csv", "closed/out/"):
        done = run("-o", output)
        assert done.returncode == 1
        assert "Permission denied" in done.stderr
