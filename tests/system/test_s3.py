"""``hbconv score`` reads from buckets of an S3 server and writes into them, and goes on there."""

import json
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from sklearn.linear_model import LogisticRegression

import hbconv
from hbconv.cli import main

NAMES = list("abc")
TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=NAMES)
MODEL = LogisticRegression().fit(TABLE, np.where(TABLE.a > 0, "yes", "no"))
FILES = ("0.parquet", "1.parquet", "year=2024/größe 3.parquet")


@pytest.fixture(scope="module")
def server():
    """The query of URLs that name a server of this process."""
    moto = pytest.importorskip("moto.server", reason="moto serves the bucket; it is not installed")
    running = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    running.stop()


@pytest.fixture
def bucket(server, tmp_path, monkeypatch):
    """A bucket with files of rows, and a model in the working folder."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.chdir(tmp_path)
    hbconv.convert(MODEL, backend="reference").save("m.hbc")
    system, _ = fs.FileSystem.from_uri(f"s3://jobs{server}&allow_bucket_creation=true")
    system.create_dir("jobs")
    for name in FILES:
        with system.open_output_stream(f"jobs/in/{name}") as file:
            pq.write_table(pa.Table.from_pandas(TABLE, preserve_index=False), file)
    yield system
    system.delete_dir_contents("jobs")


def score(capsys, *argv):
    code = main(["score", "m.hbc", *argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def answers(system, name):
    return pq.read_table(name, filesystem=system)["predict"].to_pylist()


def test_files_of_a_bucket_are_one_table(capsys, server, bucket):
    code, result = score(capsys, f"s3://jobs/in{server}", "-o", f"s3://jobs/all.parquet{server}")
    assert (code, result["rows"]) == (0, 120)
    assert answers(bucket, "jobs/all.parquet") == 3 * MODEL.predict(TABLE).tolist()
    listed = bucket.get_file_info(fs.FileSelector("jobs"))
    assert [i.base_name for i in listed if i.type == fs.FileType.File] == ["all.parquet"]


@pytest.mark.parametrize("written", [str, quote], ids=["as-it-is", "quoted"])
def test_folders_go_on(capsys, server, bucket, written):
    run = [f"s3://jobs/in/{server}", "-o", written("s3://jobs/out ö/").replace("%3A", ":") + server]
    code, result = score(capsys, *run)
    assert (code, result["files"]) == (0, 3), result
    for name in FILES:
        assert answers(bucket, f"jobs/out ö/{name}") == MODEL.predict(TABLE).tolist()
    bucket.delete_file(f"jobs/out ö/{FILES[2]}")
    code, result = score(capsys, *run, "--resume")
    assert (code, result["files_done_before"]) == (0, 2)
    assert answers(bucket, f"jobs/out ö/{FILES[2]}") == MODEL.predict(TABLE).tolist()


def test_rejects_go_into_a_bucket(capsys, server, bucket):
    output, bad = (f"s3://jobs/{name}{server}" for name in ("o.csv", "bad.jsonl"))
    code, result = score(capsys, f"s3://jobs/in/0.parquet{server}", "-o", output, "--rejects", bad)
    assert (code, result["rejected"]) == (0, 0)
    assert bucket.get_file_info("jobs/bad.jsonl").size == 0


@pytest.mark.parametrize(
    ("given", "output", "message"),
    [
        ("jobs/none.parquet", "jobs/o.csv", "No file s3://jobs/none.parquet"),
        ("nobody/in", "jobs/o.csv", "No file s3://nobody/in"),
        ("jobs/in", "nobody/o.csv", "there is no bucket nobody"),
        ("jobs/in", "jobs/in/o.csv", "lies in the input folder"),
        ("jobs/in/0.parquet", "jobs/in/0.parquet", "is the input itself"),
    ],
)
def test_what_cannot_be_is_refused_first(capsys, server, bucket, given, output, message):
    code, result = score(capsys, f"s3://{given}{server}", "-o", f"s3://{output}{server}", "--force")
    assert code == 2
    assert message in result["error"]
