"""``hbconv score``: no row lost or answered from the wrong column, no file destroyed, every
refusal before the work.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import SparsePCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import hbconv
from hbconv.cli import main

NAMES = list("abcdef")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model of six columns that takes missing values, and the table it was
    fitted on.
    """
    path = tmp_path_factory.mktemp("score")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 6)), columns=NAMES)
    model = HistGradientBoostingClassifier(max_iter=3).fit(table, table.a > 0)
    hbconv.convert(model, backend="reference").save(path / "m.hbc")
    table.to_parquet(path / "t.parquet")
    return path, table, model


@pytest.fixture
def work(folder, tmp_path, monkeypatch):
    path, _, _ = folder
    for name in ("m.hbc", "t.parquet"):
        (tmp_path / name).write_bytes((path / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def score(capsys, *argv):
    code = main(["score", "m.hbc", *map(str, argv)])
    return code, capsys.readouterr().err


def refused(capsys, message, *argv, status=1):
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    code, error = score(capsys, *argv)
    assert (code, "Traceback" in error) == (status, False)
    assert message in error
    assert {path: path.read_bytes() for path in before} == before


class TestOutput:
    def test_is_never_the_input_or_the_model(self, capsys, work):
        os.symlink("t.parquet", "link.parquet")
        os.link("t.parquet", "hard.parquet")
        for name in ("t.parquet", "./t.parquet", "link.parquet", "hard.parquet"):
            refused(capsys, "is the input itself", "t.parquet", "-o", name, status=2)
        (work / "m.hbc").rename(work / "m.parquet")
        assert main(["score", "m.parquet", "t.parquet", "-o", "m.parquet"]) == 2

    def test_does_not_lie_in_the_input_folder(self, capsys, work):
        (work / "in").mkdir()
        (work / "t.parquet").rename(work / "in" / "t.parquet")
        refused(capsys, "lies in the input folder", "in", "-o", "in/o.parquet", status=2)

    @pytest.mark.parametrize(
        ("output", "message"),
        [
            ("o.xlsx", "unknown table format"),
            ("o", "unknown table format"),
            ("none/o.parquet", "there is no folder none"),
            ("d.parquet", "no ordinary file"),
        ],
    )
    def test_is_checked_before_anything_is_loaded(self, capsys, work, output, message):
        (work / "d.parquet").mkdir()
        (work / "m.hbc").write_text("would be refused, were it looked at")
        refused(capsys, message, "t.parquet", "-o", output, status=2)

    @pytest.mark.parametrize(
        ("suffix", "read"),
        [
            ("csv", pyarrow.csv.read_csv),
            ("arrow", pyarrow.feather.read_table),
            ("feather", pyarrow.feather.read_table),
        ],
    )
    def test_has_the_format_of_its_suffix(self, capsys, work, folder, suffix, read):
        _, table, model = folder
        assert score(
            capsys, "t.parquet", "-o", f"o.{suffix}", "--keep", "a", "--batch-rows", 64
        ) == (0, "")
        answers = read(work / f"o.{suffix}")
        assert answers.column_names == ["a", "predict"]
        assert answers["predict"].to_pylist() == model.predict(table).tolist()
        assert answers["a"].to_pylist() == table.a.tolist()

    def test_has_the_columns_of_an_answer_to_a_single_row(self, capsys, work, folder):
        """Which is flat, of sparse components."""
        table = folder[1]
        model = SparsePCA(3, max_iter=1).fit(table)
        hbconv.convert(model, backend="reference").save("m.hbc")
        table[:3].to_parquet("t.parquet")
        assert score(capsys, "t.parquet", "-o", "o.parquet", "--batch-rows", "2") == (0, "")
        found = pq.read_table("o.parquet").to_pandas().to_numpy()
        np.testing.assert_allclose(found, model.transform(table[:3]), rtol=1e-9, atol=1e-12)

    def test_takes_no_name_that_others_know(self, capsys, work):
        (work / "victim").write_text("precious")
        os.symlink("victim", "o.parquet.partial")
        assert score(capsys, "t.parquet", "-o", "o.parquet")[0] == 0
        assert (work / "victim").read_text() == "precious"
        assert sorted(path.name for path in work.iterdir()) == [
            "m.hbc",
            "o.parquet",
            "o.parquet.partial",
            "t.parquet",
            "victim",
        ]
        assert (work / "o.parquet").stat().st_mode & 0o777 == 0o666 & ~_umask()


class TestColumns:
    @pytest.mark.parametrize("keep", ["predict_proba_True", "a,predict_proba_False"])
    def test_kept_ones_are_never_lost(self, capsys, work, folder, keep):
        folder[1].assign(predict_proba_True=7.0, predict_proba_False=8.0).to_parquet("t.parquet")
        refused(
            capsys,
            "the answers have columns of that name",
            "t.parquet",
            "-o",
            "o.parquet",
            "--keep",
            keep,
            "--method",
            "predict_proba",
            status=2,
        )
        assert score(capsys, "t.parquet", "-o", "o.parquet", "--keep", keep) == (0, "")
        assert pq.read_table("o.parquet").column_names == [*keep.split(","), "predict"]

    def test_of_one_file_alone_are_named(self, capsys, work, folder):
        (work / "in").mkdir()
        folder[1].to_parquet("in/1.parquet")
        folder[1].drop(columns=["a", "c"]).to_parquet("in/2.parquet")
        refused(capsys, "2.parquet lacks the columns 'a', 'c'", "in", "-o", "o.parquet")

    def test_of_types_that_fit_are_read_as_one(self, capsys, work, folder):
        _, table, model = folder
        (work / "in").mkdir()
        whole = table.round().astype({"a": "int64", "b": "int32"})
        whole.to_parquet("in/1.parquet")
        table.astype({"c": "float32"}).to_parquet("in/2.parquet")
        table.assign(d=None).to_parquet("in/3.parquet")
        assert score(capsys, "in", "-o", "o.parquet") == (0, "")
        rows = pd.concat([whole, table.astype({"c": "float32"}), table.assign(d=np.nan)])
        assert pq.read_table("o.parquet")["predict"].to_pylist() == model.predict(rows).tolist()

    def test_of_types_that_do_not_fit_are_named(self, capsys, work, folder):
        (work / "in").mkdir()
        folder[1].to_parquet("in/1.parquet")
        folder[1].assign(b="text").to_parquet("in/2.parquet")
        refused(capsys, "Column 'b' is double in 1.parquet and ", "in", "-o", "o.parquet")

    def test_that_stand_twice_are_named(self, capsys, work, folder):
        columns = [pa.array(folder[1][name]) for name in (*NAMES, "a")]
        (work / "in").mkdir()
        folder[1].to_parquet("in/1.parquet")
        for path in ("t.parquet", "in/2.parquet"):
            pq.write_table(pa.table(columns, names=[*NAMES, "a"]), path)
        refused(
            capsys,
            "t.parquet holds the columns 'a' more than once",
            "t.parquet",
            "-o",
            "o.parquet",
        )
        refused(capsys, "2.parquet holds the columns 'a' more than once", "in", "-o", "o.parquet")


class TestFiles:
    def test_damaged_in_a_folder_is_named(self, capsys, work, folder):
        (work / "in").mkdir()
        folder[1].to_parquet("in/1.parquet")
        (work / "in" / "2.parquet").write_bytes(b"PAR1 not really")
        refused(capsys, "2.parquet cannot be read as parquet", "in", "-o", "o.parquet")

    def test_damaged_page_is_found_where_the_writer_left_checksums(self, capsys, work, folder):
        pq.write_table(
            pa.Table.from_pandas(folder[1]),
            "t.parquet",
            write_page_checksum=True,
            compression="none",
            use_dictionary=False,
        )
        data = bytearray((work / "t.parquet").read_bytes())
        data[2000:2008] = b"\0" * 8
        (work / "t.parquet").write_bytes(data)
        refused(capsys, "t.parquet cannot be read as parquet", "t.parquet", "-o", "o.parquet")

    def test_folder_without_table_files_is_named(self, capsys, work):
        (work / "in").mkdir()
        refused(capsys, "holds no table files", "in", "-o", "o.parquet")

    def test_memory_does_not_grow_with_the_file(self, work):
        """The peaks of two processes, of which one reads ten times as many rows of six float64
        columns.
        """
        hbconv.convert(LinearRegression().fit(np.eye(6), np.arange(6.0)), backend="reference").save(
            "linear.hbc"
        )
        small, large = (_peak(work, rows) for rows in (300_000, 3_000_000))
        assert large - small < 30 << 20  # the rows alone take 130 MB more


class TestCsv:
    """CSV files are read as pandas.read_csv reads them, whatever their first block looks like."""

    def test_types_are_those_of_the_whole_file(self, capsys, work, folder):
        lines = [
            "a,b,c,d,e,f,id,note",
            *["1,2,,4,5,6,7,"] * 200_000,
            "1.5,2,-0.25,4,NA,1e400,x,late",
        ]
        (work / "t.csv").write_text("\n".join(lines) + "\n")
        assert score(capsys, "t.csv", "-o", "o.parquet", "--keep", "id,note,d") == (0, "")
        answers, table = pq.read_table("o.parquet"), pd.read_csv("t.csv", low_memory=False)
        assert answers["predict"].to_pylist() == folder[2].predict(table[NAMES]).tolist()
        assert [str(kind) for kind in answers.schema.types[:3]] == ["string", "string", "int64"]
        assert answers["id"].to_pylist()[-2:] == ["7", "x"]
        assert answers["note"].to_pylist()[-2:] == [None, "late"]

    def test_missing_texts_are_missing(self, capsys, work):
        table = pd.DataFrame(
            {"city": ["Rome", "Oslo", None, "Rome"] * 9, "n": [1.0, 2.0, 3.0, 5.0] * 9}
        )
        prepare = make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["city"]),
            remainder="passthrough",
        )
        model = make_pipeline(prepare, LinearRegression()).fit(table, table.n)
        hbconv.convert(model, backend="reference").save("m.hbc")
        (work / "t.csv").write_text(
            'city,n\nOslo,1\n,2\nNA,3\n"",4\nRome,\n'.replace("Rome,", "Rome,5")
        )
        assert score(capsys, "t.csv", "-o", "o.parquet") == (0, "")
        np.testing.assert_allclose(
            pq.read_table("o.parquet")["predict"], model.predict(pd.read_csv("t.csv")), rtol=1e-9
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a,b,c,d,e,f\n1,2,3\n", "t.csv cannot be read as csv"),
            ("", "t.csv is empty, so it names no columns"),
            ("a,b\n1,2\n", "lacks the columns 'c', 'd', 'e', 'f'"),
        ],
    )
    def test_damage_is_named(self, capsys, work, text, message):
        (work / "t.csv").write_text(text)
        refused(capsys, message, "t.csv", "-o", "o.parquet")

    def test_a_word_among_numbers_is_named(self, capsys, work):
        (work / "t.csv").write_text(
            "\n".join(["a,b,c,d,e,f", *["1,2,3,4,5,6"] * 200_000, "1,2,3,4,five,6"])
        )
        refused(capsys, "'five'", "t.csv", "-o", "o.parquet")


class TestOptions:
    @pytest.mark.parametrize(
        ("option", "message"),
        [
            (["--precision", "nonsense"], "nonsense"),
            (["--device", "cuda"], "Backend 'reference' runs on cpu"),
            (["--strategy", "foo"], "foo"),
        ],
    )
    def test_of_a_saved_model_apply_or_are_refused(self, capsys, work, option, message):
        refused(capsys, message, "t.parquet", "-o", "o.parquet", *option, status=2)

    def test_of_a_saved_model_apply(self, capsys, work):
        assert main(["explain", "m.hbc", "--precision", "fast", "--threads", "2", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["target"]["precision"] == "fast"

    @pytest.mark.parametrize(
        "option",
        [
            ("--batch-rows", "0"),
            ("--batch-rows", str(2**40)),
            ("--batch-rows", "many"),
            ("--threads", "0"),
        ],
    )
    def test_that_no_number_can_be_are_wrong_usage(self, capsys, work, option):
        with pytest.raises(SystemExit, match="2"):
            main(["score", "m.hbc", "t.parquet", "-o", "o.parquet", *option])
        assert "no whole number from 1" in capsys.readouterr().err

    @pytest.mark.parametrize("option", [("--batch", "a,b"), ("--batch", "0"), ("--repeat", "0")])
    def test_of_bench_likewise(self, capsys, work, option):
        with pytest.raises(SystemExit, match="2"):
            main(["bench", "m.hbc", *option])
        assert "no whole number from 1" in capsys.readouterr().err


class TestSignals:
    @pytest.mark.parametrize(
        ("number", "code", "message"),
        [(signal.SIGINT, 130, "Interrupted"), (signal.SIGTERM, 143, "Terminated")],
    )
    def test_that_end_it_leave_nothing(self, work, folder, number, code, message):
        """The process is ended as soon as its temporary is there, long before the last of its
        rows.
        """
        pq.write_table(pa.Table.from_pandas(pd.concat([folder[1]] * 2000)), "t.parquet")
        (work / "o.parquet").write_text("the answers of yesterday")
        command = [
            sys.executable,
            "-m",
            "hbconv.cli",
            "score",
            "m.hbc",
            "t.parquet",
            "-o",
            "o.parquet",
            "--batch-rows",
            "50",
            "--force",
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while not list(work.glob(".hbconv-*")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, error = process.communicate()
        assert (process.returncode, error) == (code, f"hbconv: {message}; nothing was written.\n")
        assert sorted(path.name for path in work.iterdir()) == ["m.hbc", "o.parquet", "t.parquet"]
        assert (work / "o.parquet").read_text() == "the answers of yesterday"

    def test_nobody_reads_the_results(self, work):
        """The reading end of the pipe is closed before the command prints more than a pipe
        holds.
        """
        command = [sys.executable, "-m", "hbconv", "support"]
        reading, writing = os.pipe()
        os.close(reading)
        finished = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(writing)
        assert (finished.returncode, finished.stderr) == (141, "")


def _umask():
    current = os.umask(0)
    os.umask(current)
    return current


def _peak(work, rows):
    """Score some rows in a process of its own, and return the most memory it held, in bytes."""
    with pq.ParquetWriter(
        "large.parquet", pa.schema([(name, pa.float64()) for name in NAMES])
    ) as writer:
        for _ in range(rows // 100_000):
            writer.write_table(
                pa.table(
                    dict(
                        zip(NAMES, np.random.default_rng(0).normal(size=(6, 100_000)), strict=True)
                    )
                )
            )
    script = "import resource, sys; from hbconv.cli import main; main(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    command = [
        sys.executable,
        "-c",
        script,
        "score",
        "linear.hbc",
        "large.parquet",
        "-o",
        "o.parquet",
        "--quiet",
    ]
    return (
        int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
        << 10
    )
