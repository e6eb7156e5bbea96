"""``hbconv score`` over tables as they come: other names, other separators, several models, a pipe."""

import io
import json
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import OneHotEncoder

import hbconv
from hbconv.cli import main

TABLE = pd.DataFrame({"id": range(40), "a": np.arange(40) / 8, "b": np.arange(40) % 7})
MODEL = LinearRegression().fit(TABLE[["a", "b"]], TABLE.a - TABLE.b)
OTHER = LogisticRegression().fit(TABLE[["b"]], TABLE.b > 3)
EXPECTED = pytest.approx(MODEL.predict(TABLE[["a", "b"]]).tolist(), abs=1e-12)
OLD = TABLE.rename(columns={"a": "A", "b": "count"})


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hbconv.convert(MODEL, backend="reference").save("m.hbc")
    hbconv.convert(OTHER, backend="reference").save("n.hbc")
    return tmp_path


def score(capsys, *argv):
    code = main(["score", "m.hbc", *map(str, argv)])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.err


def write(table, name):
    kind = Path(name).suffix
    if kind == ".csv":
        table.to_csv(name, index=False)
    elif kind == ".parquet":
        table.to_parquet(name, row_group_size=16)
    elif kind == ".arrow":
        table.to_feather(name)
    else:
        table.to_json(name, orient="records", lines=True)


class TestRename:
    @pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "t.jsonl"])
    def test_reads_a_column_by_another_name(self, capsys, work, name):
        write(OLD, name)
        renames = ["--rename", "a=A", "--rename", "b=count", "--rename", "key=id"]
        code, error = score(capsys, name, "-o", "o.csv", *renames, "--keep", "key,b")
        assert (code, error) == (0, "")
        found = pd.read_csv("o.csv")
        assert list(found) == ["key", "b", "predict"]
        assert found.key.tolist() == TABLE.id.tolist()
        assert found.predict.tolist() == EXPECTED

    def test_swaps_names(self, capsys, work):
        """Each name is of one column, whichever was renamed first."""
        write(TABLE.rename(columns={"a": "b", "b": "a"}), "t.parquet")
        assert (
            score(capsys, "t.parquet", "-o", "o.csv", "--rename", "a=b", "--rename", "b=a")[0] == 0
        )
        assert pd.read_csv("o.csv").predict.tolist() == EXPECTED

    def test_reads_the_names_of_folders(self, capsys, work):
        Path("in/count=3").mkdir(parents=True)
        write(TABLE.drop(columns="b"), "in/count=3/t.parquet")
        assert score(capsys, "in", "-o", "o.csv", "--rename", "b=count", "--keep", "b")[0] == 0
        assert set(pd.read_csv("o.csv").b) == {3}

    def test_of_two_columns_to_one_name_is_refused(self, capsys, work):
        write(TABLE.assign(A=1.0), "t.csv")
        code, error = score(capsys, "t.csv", "-o", "o.csv", "--rename", "a=A")
        assert code == 1
        assert "holds the columns 'a' more than once" in error

    def test_of_a_column_that_is_not_there_is_refused(self, capsys, work):
        write(TABLE, "t.csv")
        code, error = score(capsys, "t.csv", "-o", "o.csv", "--rename", "a=x")
        assert code == 1
        assert "--rename a=x: t.csv has no column 'x'" in error
        code, error = score(capsys, "t.csv", "-o", "o.csv", "--rename", "a=x", "--rename", "a=y")
        assert code == 2
        assert "--rename: a is named twice" in error

    def test_long_numbers_are_refused_by_the_name_in_the_file(self, capsys, work):
        rows = [{"a": 1.5, "b": 2, "key": 0.5}, {"a": 1.5, "b": 2, "key": 2**53 + 1}]
        Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, error = score(capsys, "t.jsonl", "-o", "o.csv", "--rename", "k=key", "--keep", "k")
        assert code == 1
        assert f"holds the whole number {2**53 + 1}" in error

    def test_belongs_to_the_job_of_a_folder(self, capsys, work):
        write(OLD, "t.csv")
        asked = ["t.csv", "-o", "out/", "--rename", "a=A", "--rename", "b=count"]
        assert score(capsys, *asked)[0] == 0
        write(OLD.assign(a=9.0), "t.csv")
        code, error = score(capsys, "t.csv", "-o", "out/", "--rename", "b=count", "--resume")
        assert code == 2
        assert "holds a run with other" in error


class TestMissingColumns:
    def test_of_other_letter_case_are_suggested(self, capsys, work):
        write(TABLE.rename(columns={"a": "A"}), "t.csv")
        code, error = score(capsys, "t.csv", "-o", "o.csv")
        assert code == 1
        assert "They differ by letter case: hbconv score --rename a=A." in error

    @pytest.mark.parametrize(("letter", "named"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
    def test_behind_another_separator_are_suggested(self, capsys, work, letter, named):
        TABLE.to_csv("t.csv", index=False, sep=letter)
        code, error = score(capsys, "t.csv", "-o", "o.csv")
        assert code == 1
        assert f"hbconv score --separator {named}." in error
        code, error = score(capsys, "t.csv", "-o", "o.csv", "--separator", named.strip("'"))
        assert (code, error) == (0, "")
        assert pd.read_csv("o.csv").predict.tolist() == EXPECTED


class TestSeparator:
    def test_quotes_open_behind_it_alone(self, capsys, work):
        """A comma before a quote is a letter of its field, and a line may end within quotes."""
        notes = ['5",', 'x,"y', 'two\nlines; "quoted"', ""] * 10
        TABLE.assign(note=notes).to_csv("t.csv", index=False, sep=";")
        asked = ["t.csv", "-o", "o.jsonl", "--separator", ";", "--keep", "note"]
        assert score(capsys, *asked) == (0, "")
        rows = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
        assert [row["note"] for row in rows] == [note or None for note in notes]

    def test_a_quote_that_stays_open_is_named_with_its_column(self, capsys, work):
        Path("t.csv").write_text('id;a;b\n1;2;3\n2;"3;4\n')
        code, error = score(capsys, "t.csv", "-o", "o.csv", "--separator", ";")
        assert code == 1
        assert "row 2, column 'a'" in error

    @pytest.mark.parametrize("letter", ["", ";;", '"', "é"])
    def test_is_one_letter(self, work, letter):
        with pytest.raises(SystemExit, match="2"):
            main(["score", "m.hbc", "t.csv", "-o", "o.csv", "--separator", letter])

    def test_is_for_csv_files(self, capsys, work):
        write(TABLE, "t.parquet")
        code, error = score(capsys, "t.parquet", "-o", "o.csv", "--separator", ";")
        assert code == 2
        assert "--separator is for CSV files" in error


class TestStandardOutput:
    def test_holds_the_answers_alone(self, work):
        write(TABLE, "t.csv")
        command = ["score", "m.hbc", "t.csv", "-o", "-", "--output-format", "csv", "--keep", "id"]
        done = subprocess.run(
            [sys.executable, "-m", "hbconv", *command], check=True, capture_output=True
        )
        found = pd.read_csv(io.BytesIO(done.stdout))
        assert found.predict.tolist() == EXPECTED
        assert b"-: 40 rows by predict" in done.stderr

    @pytest.mark.parametrize(
        ("kind", "read"), [("parquet", pd.read_parquet), ("ipc", pd.read_feather)]
    )
    def test_takes_formats_that_end_with_their_index(self, capfdbinary, work, kind, read):
        write(TABLE, "t.csv")
        asked = f"score m.hbc t.csv -o - --output-format {kind} --quiet".split()
        assert main(asked) == 0
        out, error = capfdbinary.readouterr()
        assert error == b""
        assert len(read(io.BytesIO(out))) == 40

    def test_is_empty_where_a_row_is_refused(self, capsys, work):
        write(TABLE.assign(a=TABLE.a.where(TABLE.id != 39)), "t.csv")
        assert main(["score", "m.hbc", "t.csv", "-o", "-", "--output-format", "csv"]) == 1
        out, error = capsys.readouterr()
        assert out == ""
        assert "t.csv, row 40" in error

    def test_needs_a_format(self, capsys, work):
        assert "with --output-format" in score(capsys, "t.csv", "-o", "-")[1]
        asked = ("t.csv", "-o", "o.csv", "--output-format", "csv")
        assert "here the suffix tells" in score(capsys, *asked)[1]


class TestSeveralModels:
    @pytest.mark.parametrize("devices", [[], ["--devices", "cpu"]], ids=["here", "processes"])
    def test_answer_the_same_rows(self, capsys, work, devices):
        write(TABLE, "t.parquet")
        models = ["--model", "new=n.hbc", "--model", "same=m.hbc"]
        asked = ["t.parquet", "-o", "o.parquet", *models, "--keep", "id", "--batch-rows", 9]
        assert score(capsys, *asked, *devices)[0] == 0
        found = pd.read_parquet("o.parquet")
        assert list(found) == ["id", "predict", "new_predict", "same_predict"]
        assert found.predict.tolist() == EXPECTED
        assert found.same_predict.tolist() == found.predict.tolist()
        assert found.new_predict.tolist() == OTHER.predict(TABLE[["b"]]).tolist()

    def test_each_reads_text_as_it_was_fitted(self, capsys, work):
        """A word among the numbers makes text of a column; one model reads it so."""
        colours = pd.DataFrame({"b": ["3", "5", "3"]})
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(colours)
        hbconv.convert(encoder, backend="reference").save("n.hbc")
        Path("t.csv").write_text("a,b\n1.5,3\n2.5,5\n0.5,x\n")
        asked = ["t.csv", "-o", "o.csv", "--model", "codes=n.hbc", "--rejects", "r.jsonl"]
        assert score(capsys, *asked)[0] == 0
        assert pd.read_csv("o.csv").codes_b_5.tolist() == [0, 1]
        (line,) = Path("r.jsonl").read_text().splitlines()
        assert json.loads(line)["row"] == 3

    def test_a_row_that_one_refuses_is_set_aside_by_its_name(self, capsys, work):
        write(TABLE.assign(b=TABLE.b.where(TABLE.id != 5)), "t.csv")
        hbconv.convert(LinearRegression().fit(TABLE[["a"]], TABLE.a), backend="reference").save(
            "m.hbc"
        )
        asked = ["t.csv", "-o", "o.csv", "--model", "new=n.hbc", "--rejects", "r.jsonl"]
        assert score(capsys, *asked)[0] == 0
        assert len(pd.read_csv("o.csv")) == 39
        (line,) = Path("r.jsonl").read_text().splitlines()
        assert json.loads(line)["row"] == 6
        assert json.loads(line)["reason"].startswith("Model new: ")

    def test_of_one_name_are_refused(self, capsys, work):
        write(TABLE.assign(new_predict=1), "t.csv")
        twice = ["--model", "new=n.hbc", "--model", "new=m.hbc"]
        assert "new is named twice" in score(capsys, "t.csv", "-o", "o.csv", *twice)[1]
        kept = ["--model", "new=n.hbc", "--keep", "new_predict"]
        assert "column new_predict already" in score(capsys, "t.csv", "-o", "o.csv", *kept)[1]
        gone = ["--model", "new=gone.hbc"]
        assert "No file gone.hbc" in score(capsys, "t.csv", "-o", "o.csv", *gone)[1]
        own = ["-o", "n.hbc.csv", "--model", "new=n.hbc.csv", "--force"]
        Path("n.hbc").rename("n.hbc.csv")
        assert "is the input itself" in score(capsys, "t.csv", *own)[1]


class TestSummary:
    def test_is_a_line_a_run_done_or_failed(self, capsys, work):
        write(TABLE, "t.csv")
        write(TABLE.assign(a=np.nan), "bad.csv")
        asked = [("t.csv", "o.csv"), ("t.csv", "o.csv"), ("bad.csv", "p.csv")]
        more = ["--summary", "runs.jsonl", "--quiet"]
        codes = [score(capsys, rows, "-o", output, *more)[0] for rows, output in asked]
        assert codes == [0, 2, 1]
        lines = [json.loads(line) for line in Path("runs.jsonl").read_text().splitlines()]
        assert [line["status"] for line in lines] == ["done", "failed", "failed"]
        assert (lines[0]["rows"], lines[0]["hbconv"]) == (40, hbconv.__version__)
        assert "is there already" in lines[1]["error"]
        assert lines[2]["input"] == ["bad.csv"]

    @pytest.mark.parametrize("place", ["t.jsonl", "m.hbc"])
    def test_writes_to_no_file_of_others(self, capsys, work, place):
        write(TABLE, "t.jsonl")
        before = Path(place).read_bytes()
        code, error = score(capsys, "t.jsonl", "-o", "o.csv", "--summary", place)
        assert code == 2
        assert "holds something else than runs" in error
        assert Path(place).read_bytes() == before


class TestConvert:
    def test_replaces_an_output_only_when_forced(self, capsys, work):
        joblib.dump(MODEL, "m.joblib")
        Path("m.hbc").write_text("the model of yesterday")
        asked = ["convert", "m.joblib", "--allow-pickle", "--backend", "reference", "-o", "m.hbc"]
        assert main(asked) == 2
        assert "m.hbc is there already. Replace it with --force." in capsys.readouterr().err
        assert Path("m.hbc").read_text() == "the model of yesterday"
        assert main([*asked, "--force"]) == 0
        assert hbconv.load("m.hbc").methods

    def test_exports_the_methods_that_are_named(self, capsys, work):
        joblib.dump(OTHER, "n.joblib")
        asked = [
            "convert",
            "n.joblib",
            "--allow-pickle",
            "--backend",
            "onnx",
            "-o",
            "n.onnx",
            "--methods",
        ]
        assert main([*asked, "predict,predict_proba"]) == 0
        import onnx

        names = [output.name for output in onnx.load("n.onnx").graph.output]
        assert names == ["predict", "predict_proba"]


class TestBench:
    def test_shows_how_many_times_as_fast(self, capsys, work):
        joblib.dump(MODEL, "m.joblib")
        asked = [
            "bench",
            "m.joblib",
            "--allow-pickle",
            "--backend",
            "reference",
            "--batch",
            "9",
            "--repeat",
            "1",
        ]
        assert main([*asked, "--json"]) == 0
        source, ours = json.loads(capsys.readouterr().out)["figures"]
        assert source["speed_up"] == 1
        assert ours["speed_up"] == source["seconds"] / ours["seconds"]
        assert main(asked) == 0
        assert "speed-up beside source" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            ("--data gone.csv", "No file gone.csv"),
            ("--backends torhc", "Did you mean 'torch'"),
            ("--methods predict,apply", "bench times one method"),
        ],
    )
    def test_refuses_before_it_loads(self, capsys, work, argv, message):
        Path("m.hbc").write_text("would be refused, were it looked at")
        assert main(["bench", "m.hbc", *argv.split()]) == 2
        assert message in capsys.readouterr().err


def test_support_finds_the_start_of_a_name(capsys):
    assert main(["support", "HistGrad"]) == 2
    told = capsys.readouterr().err
    assert "HistGradientBoostingClassifier" in told
    assert "HistGradientBoostingRegressor" in told
