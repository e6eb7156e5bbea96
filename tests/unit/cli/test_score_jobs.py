"""``hbconv score`` on many files: every input is found and answered as the source answers it, bad
rows are named, and a folder of answers survives what ends a run.
"""

import gzip
import io
import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from kills import kill_runs
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import hbconv
from hbconv.cli import main
from hbconv.errors import BackendError, OptionError
from hbconv.score.outputs import open_output
from hbconv.system.files import lock_file

NAMES = list("abc")
KILLS = 2


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of three columns that refuses what is missing, and 60 rows."""
    path = tmp_path_factory.mktemp("jobs") / "m.hbc"
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=NAMES)
    model = LogisticRegression().fit(table, np.where(table.a + table.b > 0, "yes", "no"))
    hbconv.convert(model, backend="reference").save(path)
    return path, table.assign(id=range(60)), model


@pytest.fixture
def work(fitted, tmp_path, monkeypatch):
    (tmp_path / "m.hbc").write_bytes(fitted[0].read_bytes())
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def score(capsys, *argv):
    code = main(["score", "m.hbc", *map(str, argv), "--json"])
    return code, json.loads(capsys.readouterr().out)


def scored(capsys, *argv):
    code, result = score(capsys, *argv)
    assert code == 0, result
    return result


def refused(capsys, message, *argv):
    code, result = score(capsys, *argv)
    assert code in (1, 2)  # the rows or the files, or what was asked
    assert message in result["error"]


def write_parts(table, count=4):
    for number, rows in enumerate(np.array_split(np.arange(len(table)), count)):
        table.iloc[rows].to_parquet(f"in/{number}.parquet", index=False)


def folder_with_rejects(capsys, table):
    """Score files with two bad rows into a folder; return the arguments and the rejects."""
    bad = table.copy()
    bad.loc[[3, 38], "b"] = np.nan
    write_parts(bad)
    argv = ["in", "-o", "out/", "--rejects", "bad.jsonl"]
    scored(capsys, *argv)
    return argv, Path("bad.jsonl").read_text()


class TestInputs:
    @pytest.mark.parametrize(
        "given",
        [["in"], ["in/"], ["in/*.parquet"], ["in/[0-9].parquet"], ["**/*.parquet"]],
        ids=str,
    )
    def test_of_many_files_are_one_table(self, capsys, work, fitted, given):
        _, table, model = fitted
        write_parts(table)
        (work / "in/_SUCCESS").touch()
        (work / "in/.hidden").touch()
        scored(capsys, *given, "-o", "o.parquet", "--keep", "id")
        found = pq.read_table("o.parquet").to_pydict()
        assert found == {"id": list(range(60)), "predict": model.predict(table[NAMES]).tolist()}

    def test_formats_are_read_alike(self, capsys, work, fitted):
        _, table, model = fitted
        table.to_parquet("in/1.parquet", index=False)
        table.to_csv("in/2.csv", index=False)
        pyarrow.feather.write_feather(table, "in/3.feather")
        table.to_json("in/4.jsonl", orient="records", lines=True, double_precision=15)
        with gzip.open("in/5.csv.gz", "wt") as file:
            table.to_csv(file, index=False)
        assert scored(capsys, "in", "-o", "o.parquet")["rows"] == 300
        assert pq.read_table("o.parquet")["predict"].to_pylist() == (
            5 * model.predict(table[NAMES]).tolist()
        )

    def test_folders_tell_columns(self, capsys, work, fitted):
        table = fitted[1].assign(year=[2024, 2025] * 30)
        table.to_parquet("in/set", partition_cols=["year"])
        result = scored(capsys, "in/set", "-o", "o.parquet", "--keep", "id,year")
        found = pq.read_table("o.parquet").to_pandas().sort_values("id")
        assert found.year.tolist() == [2024, 2025] * 30
        assert result["columns"] == {"id": "int64", "year": "int32", "predict": "string"}

    def test_standard_input(self, capsys, work, fitted, monkeypatch):
        _, table, model = fitted
        data = io.BytesIO(table.to_csv(index=False).encode())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data))
        scored(capsys, "-", "--input-format", "csv", "-o", "o.jsonl")
        lines = [json.loads(line)["predict"] for line in Path("o.jsonl").read_text().splitlines()]
        assert lines == model.predict(table[NAMES]).tolist()

    def test_of_other_file_systems(self, capsys, work, fitted):
        """fsspec keeps the files in memory, as it would in a bucket."""
        import fsspec

        _, table, model = fitted
        system = fsspec.filesystem("memory")
        for number in (1, 2):
            with system.open(f"/bucket/in/{number}.parquet", "wb") as file:
                table.to_parquet(file)
        scored(capsys, "memory://bucket/in", "-o", "memory://bucket/o.parquet")
        with system.open("/bucket/o.parquet") as file:
            assert pq.read_table(file)["predict"].to_pylist() == (
                2 * model.predict(table[NAMES]).tolist()
            )
        scored(capsys, "memory://bucket/in/*.parquet", "-o", "memory://bucket/out/")
        result = scored(capsys, "memory://bucket/in", "-o", "memory://bucket/out/", "--resume")
        assert (result["rows"], result["files_done_before"]) == (120, 2)
        refused(capsys, "--force", "memory://bucket/in", "-o", "memory://bucket/o.parquet")
        system.rm("/bucket", recursive=True)

    def test_json_types_are_those_of_all_lines(self, capsys, work, fitted):
        lines = [{"a": 1, "b": 2, "c": None, "t": "2020-01-01"}, {"a": 1.5, "b": 1, "c": 3}]
        Path("in/1.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        refused(capsys, "1.jsonl, row 1: ", "in", "-o", "o.parquet")
        Path("in/1.jsonl").write_text(json.dumps(lines[1]))
        scored(capsys, "in", "-o", "o.parquet")
        assert pq.read_table("o.parquet")["predict"].to_pylist() == (
            fitted[2].predict(pd.DataFrame([lines[1]])[NAMES]).tolist()
        )

    @pytest.mark.parametrize(
        "texts",
        [
            ["10:30", "2020-01-01", "2020-01-01 10:00:00"],
            ["9007199254740993", "1.5", "-2"],
            ["18446744073709551615", "0.5", "3"],
            ["1", "18446744073709551616", "2"],
        ],
    )
    def test_kept_texts_are_those_of_the_file(self, capsys, work, fitted, texts):
        """Whatever pyarrow takes them for, in one file or in several."""
        lines = [f"1,2,3,{text}\n" for text in texts]
        Path("in/1.csv").write_text("a,b,c,t\n" + "".join(lines))
        Path("in/2.csv").write_text("a,b,c,t\n" + lines[1])
        scored(capsys, "in/1.csv", "-o", "o.parquet", "--keep", "t")
        assert pq.read_table("o.parquet")["t"].to_pylist() == texts

    @pytest.mark.parametrize(
        ("texts", "kind"),
        [
            (["2", "18446744073709551615"], "uint64"),
            (["9007199254740993", "-1"], "int64"),
            (["1.5", "2"], "double"),
        ],
    )
    @pytest.mark.parametrize("files", [1, 2])
    def test_kept_numbers_keep_their_digits(self, capsys, work, fitted, texts, kind, files):
        for number, part in enumerate(np.array_split(texts, files)):
            rows = "".join(f"1,2,3,{text}\n" for text in part)
            Path(f"in/{number}.csv").write_text("a,b,c,t\n" + rows)
        scored(capsys, "in", "-o", "o.csv", "--keep", "t")
        found = [line.split(",")[0] for line in Path("o.csv").read_text().splitlines()[1:]]
        assert [text.strip('"') for text in found] == texts
        if files == 1:
            scored(capsys, "in", "-o", "o.parquet", "--keep", "t")
            assert pq.read_schema("o.parquet").field("t").type == kind

    def test_long_numbers_beside_fractions_of_another_file(self, capsys, work, fitted):
        Path("in/1.csv").write_text("a,b,c,t\n1,2,3,9007199254740993\n")
        Path("in/2.csv").write_text("a,b,c,t\n1,2,3,1.5\n")
        scored(capsys, "in", "-o", "o.parquet", "--keep", "t")
        assert pq.read_table("o.parquet")["t"].to_pylist() == ["9007199254740993", "1.5"]

    @pytest.mark.parametrize(
        ("values", "row"),
        [
            (["9007199254740993", "1.5"], 1),
            (["1.5", "null", "-9007199254740993"], 3),
            (["18446744073709551615", "1"], 1),
            (["1e3", "9007199254740993"], 2),
            (['{"x": [1.5]}', '{"x": [2, 9007199254740993]}'], 2),
            (["1" + 400 * "0", "1"], 1),
        ],
    )
    def test_json_numbers_that_lose_digits_are_refused(self, capsys, work, fitted, values, row):
        lines = [f'{{"a": 1, "b": 2, "c": 3, "t": {value}}}\n' for value in values]
        Path("in/1.jsonl").write_text("".join(lines))
        refused(capsys, f"1.jsonl, row {row}: column 't' holds the whole number", "in", "-o",
                "o.jsonl", "--keep", "t")  # fmt: skip
        scored(capsys, "in", "-o", "o.jsonl")

    @pytest.mark.parametrize(
        "values",
        [
            ["9007199254740993", "null", "-9223372036854775808"],
            ["9007199254740992", "1.5"],
            ["0.12345678901234567", "1"],
            ['{"x": 9007199254740993, "y": 1.5}', "null"],
            ['"9007199254740993"', '"1.5"'],
        ],
    )
    def test_json_numbers_that_keep_their_digits(self, capsys, work, fitted, values):
        lines = [f'{{"a": 1, "b": 2, "c": 3, "t": {value}}}\n' for value in values]
        Path("in/1.jsonl").write_text("".join(lines))
        scored(capsys, "in", "-o", "o.jsonl", "--keep", "t")
        found = [json.loads(line)["t"] for line in Path("o.jsonl").read_text().splitlines()]
        assert found == [json.loads(value) for value in values]

    def test_json_times_are_text(self, capsys, work, fitted):
        row = {
            "a": 1.0,
            "b": 2.0,
            "c": 3.0,
            "t": "2020-01-01",
            "l": [0.5],
            "d": {"t": "2020-01-01"},
        }
        Path("in/1.jsonl").write_text(json.dumps(row))
        scored(capsys, "in", "-o", "o.jsonl", "--keep", "t,l,d")
        found = json.loads(Path("o.jsonl").read_text())
        assert {name: found[name] for name in "tld"} == {name: row[name] for name in "tld"}

    def test_categories_that_look_like_times_are_known(self, capsys, work):
        table = pd.DataFrame({"at": ["10:30", "11:00"] * 4, "y": [0.0, 1.0] * 4})
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LinearRegression())
        model.fit(table[["at"]], table.y)
        hbconv.convert(model, backend="reference").save("m.hbc")
        table.to_csv("in/1.csv", index=False)
        table.to_json("in/2.jsonl", orient="records", lines=True)
        scored(capsys, "in", "-o", "o.parquet")
        found = pq.read_table("o.parquet")["predict"]
        np.testing.assert_allclose(found, [0, 1] * 8, atol=1e-9)

    def test_lines_within_values_of_large_files(self, capsys, work, fitted):
        """Beyond the first megabyte, where pyarrow cuts the file."""
        note = "one\n" * 2_000
        rows = f'1,2,3,"{note}"\n' * 300
        Path("in/1.csv").write_text("a,b,c,t\n" + rows)
        scored(capsys, "in", "-o", "o.parquet", "--keep", "t")
        assert pq.read_table("o.parquet")["t"].to_pylist() == [note] * 300

    def test_unknown_suffix_is_named(self, capsys, work, fitted):
        fitted[1].to_parquet("in/part-0")
        refused(capsys, "part-0: unknown table format", "in", "-o", "o.parquet")
        scored(capsys, "in", "-o", "o.parquet", "--input-format", "parquet")

    def test_other_files_are_left_out_by_a_pattern(self, capsys, work, fitted):
        fitted[1].to_parquet("in/ä [1].parquet")
        Path("in/README.txt").write_text("rows of May")
        refused(capsys, "leave the file out by a pattern", "in", "-o", "o.parquet")
        assert scored(capsys, "in/*.parquet", "-o", "o.parquet")["rows"] == 60

    def test_tables_without_columns_are_named(self, capsys, work, fitted):
        pq.write_table(pa.table({}), "in/0.parquet")
        refused(
            capsys, "0.parquet lacks the columns 'a', 'b', 'c'. It has none.", "in", "-o", "o.csv"
        )


class TestOutputs:
    def test_of_several_methods(self, capsys, work, fitted):
        _, table, model = fitted
        write_parts(table)
        scored(capsys, "in", "-o", "o.csv", "--method", "predict,predict_proba", "--method",
               "decision_function")  # fmt: skip
        found = pd.read_csv("o.csv")
        names = ["predict", "predict_proba_no", "predict_proba_yes", "decision_function"]
        assert list(found) == names
        expected = model.predict_proba(table[NAMES])
        np.testing.assert_allclose(found[names[1:3]], expected, rtol=1e-9)

    def test_that_are_there_stay(self, capsys, work, fitted):
        write_parts(fitted[1])
        Path("o.csv").write_text("mine")
        refused(capsys, "--force", "in", "-o", "o.csv")
        assert Path("o.csv").read_text() == "mine"
        scored(capsys, "in", "-o", "o.csv", "--force")

    @pytest.mark.parametrize("name", ["in/0.parquet", "in/new.parquet", "there.parquet"])
    @pytest.mark.parametrize("scheme", ["file", "memory"])
    def test_are_refused_by_their_url_too(self, capsys, work, fitted, scheme, name):
        import fsspec

        fitted[1].to_parquet("in/0.parquet")
        fitted[1].to_parquet("there.parquet")
        root = f"{scheme}://{work}"
        fsspec.filesystem("memory").put("in", f"{work}/in", recursive=True)
        fsspec.filesystem("memory").put("there.parquet", f"{work}/there.parquet")
        message = {"in/0.parquet": "is the input itself", "in/new.parquet": "lies in the input"}
        refused(capsys, message.get(name, "there already"), f"{root}/in", "-o", f"{root}/{name}")
        if "in/" in name:
            refused(capsys, message[name], f"{root}/in", "-o", f"{root}/{name}", "--force")

    def test_of_file_urls_are_folders_of_this_machine(self, capsys, work, fitted):
        write_parts(fitted[1])
        scored(capsys, "in", "-o", f"file://{work}/out/")
        scored(capsys, f"file://{work}/in", "-o", "out/", "--resume")
        assert Path("out/_hbconv/lock").exists()

    def test_are_one_runs_at_a_time(self, capsys, work, fitted):
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/")
        with Path("out/_hbconv/lock").open("rb") as held:
            assert lock_file(held.fileno())
            refused(capsys, "another run is at work", "in", "-o", "out/", "--resume")
        scored(capsys, "in", "-o", "out/", "--resume")

    def test_are_scored_where_files_cannot_be_locked(self, capsys, work, fitted, monkeypatch):
        for module in ("fcntl", "msvcrt"):
            monkeypatch.setitem(sys.modules, module, None)
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/")
        assert len(pq.read_table("out")) == len(fitted[1])

    def test_sent_elsewhere_are_whole_or_not_there(self, work, monkeypatch):
        import fsspec

        system = fsspec.filesystem("memory")
        system.pipe("/sent/o.csv", b"yesterday")

        def stop(source, target, length):
            target.write(source.read()[:3])
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(shutil, "copyfileobj", stop)
            with pytest.raises(KeyboardInterrupt), open_output("memory://sent/o.csv") as path:
                path.write_text("today")
        assert {name: system.cat(name) for name in system.find("/sent")} == {
            "/sent/o.csv": b"yesterday"
        }
        with open_output("memory://sent/o.csv") as path:
            path.write_text("today")
        assert system.cat("/sent/o.csv") == b"today"
        assert system.find("/sent") == ["/sent/o.csv"]

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["-o", "o.csv", "--resume"], "--resume is for folders"),
            (["-o", "o.csv", "--output-format", "csv"], "--output-format is for folders"),
            (["-o", "out/", "--resume", "--force"], "Give one"),
            (["-o", "o.csv", "--input-format", "csv"], "without a known suffix"),
            (["-o", "o.csv", "--rejects", "bad.txt"], ".jsonl"),
            (["-o", "in/out/"], "lies in the input folder"),
            (["-", "-o", "o.csv"], "given alone"),
        ],
    )
    def test_options_that_do_not_apply_are_refused(self, capsys, work, fitted, argv, message):
        write_parts(fitted[1])
        refused(capsys, message, "in", *argv)


class TestBadRows:
    def test_are_named_by_file_and_row(self, capsys, work, fitted):
        table = fitted[1].copy()
        table.loc[38, "b"] = np.nan
        write_parts(table)
        refused(capsys, "2.parquet, row 9: Input X contains NaN", "in", "-o", "o.parquet")
        assert not Path("o.parquet").exists()

    def test_go_aside(self, capsys, work, fitted):
        _, table, model = fitted
        bad = table.copy()
        bad.loc[[3, 38, 39], "b"] = np.nan
        write_parts(bad)
        result = scored(capsys, "in", "-o", "o.parquet", "--rejects", "bad.jsonl", "--keep", "id")
        assert (result["rows"], result["rejected"]) == (57, 3)
        lines = [json.loads(line) for line in Path("bad.jsonl").read_text().splitlines()]
        assert [(line["file"], line["row"]) for line in lines] == [
            ("0.parquet", 4), ("2.parquet", 9), ("2.parquet", 10)]  # fmt: skip
        assert [line["values"]["id"] for line in lines] == [3, 38, 39]
        good = table.drop([3, 38, 39])
        assert pq.read_table("o.parquet").to_pydict() == {
            "id": good.id.tolist(),
            "predict": model.predict(good[NAMES]).tolist(),
        }

    def test_of_csv_files(self, capsys, work, fitted):
        Path("in/1.csv").write_text("a,b,c\n1,2,3\n1,2\n4,five,6\n-1,-2,-3,-4\n-1,-2,-3\n")
        refused(capsys, "1.csv cannot be read as csv: row 2 has 2 values", "in", "-o", "o.csv")
        scored(capsys, "in", "-o", "o.csv", "--rejects", "bad.jsonl")
        lines = [json.loads(line) for line in Path("bad.jsonl").read_text().splitlines()]
        assert {line["row"]: line["reason"].split(",")[-1] for line in lines} == {
            2: " and the header 3.",
            4: " and the header 3.",
            3: " and holds the text 'five'.",
        }
        assert pd.read_csv("o.csv").predict.tolist() == (
            fitted[2].predict(pd.DataFrame([[1, 2, 3], [-1, -2, -3]], columns=NAMES)).tolist()
        )

    @pytest.mark.parametrize(
        ("output", "rejects", "message"),
        [
            ("o.jsonl", "./o.jsonl", "lies in the output"),
            ("o.csv", "in/../in/1.jsonl", "is the input itself"),
            ("o.csv", "link.jsonl", "is the input itself"),
            ("o.csv", "in/bad.jsonl", "lies in the input folder"),
            ("out/", "out/../out/bad.jsonl", "there is no folder"),
            ("made/", "made/bad.jsonl", "lies in the output"),
            ("o.csv", "none/bad.jsonl", "there is no folder none"),
            ("out/", "precious.jsonl", "--rejects precious.jsonl is there already"),
        ],
    )
    def test_go_where_nothing_is_lost(self, capsys, work, fitted, output, rejects, message):
        fitted[1].to_json("in/1.jsonl", orient="records", lines=True)
        Path("made").mkdir()
        Path("precious.jsonl").write_text("mine")
        os.link("in/1.jsonl", "link.jsonl")
        before = Path("in/1.jsonl").read_bytes()
        refused(capsys, message, "in", "-o", output, "--rejects", rejects)
        if output == "out/":
            refused(capsys, message, "in", "-o", output, "--rejects", rejects, "--resume")
        assert (Path("in/1.jsonl").read_bytes(), Path("precious.jsonl").read_text()) == (
            before, "mine")  # fmt: skip

    def test_of_another_run_stay(self, capsys, work, fitted):
        """A run that goes on replaces its own file of rejects alone."""
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/", "--rejects", "bad.jsonl")
        Path("precious.jsonl").write_text("mine")
        refused(capsys, "there already", "in", "-o", "out/", "--rejects", "precious.jsonl",
                "--resume")  # fmt: skip
        scored(capsys, "in", "-o", "out/", "--rejects", "./bad.jsonl", "--resume")

    @pytest.mark.parametrize(("error", "exit_code"), [(BackendError, 1), (OptionError, 2)])
    def test_are_not_what_ails_the_device(
        self, capsys, work, fitted, monkeypatch, error, exit_code
    ):
        def fail(scorer, batch):
            if batch.num_rows:
                raise error("the device is gone")
            return answered(scorer, batch)

        answered = hbconv.Scorer.__call__
        monkeypatch.setattr(hbconv.Scorer, "__call__", fail)
        write_parts(fitted[1])
        code, result = score(capsys, "in", "-o", "o.csv", "--rejects", "bad.jsonl")
        assert (code, result["error"]) == (exit_code, "the device is gone")
        assert not Path("o.csv").exists()

    def test_are_not_looked_for_before_the_method(self, capsys, work, fitted, monkeypatch):
        monkeypatch.setattr("hbconv.cli.score.open_table", None)
        write_parts(fitted[1])
        refused(capsys, "no method 'bogus'", "in", "-o", "o.csv", "--method", "bogus")


class TestFolders:
    def test_hold_a_file_for_each_input(self, capsys, work, fitted):
        _, table, model = fitted
        write_parts(table)
        result = scored(capsys, "in", "-o", "out/", "--output-format", "csv", "--keep", "id")
        assert (result["files"], result["files_done_before"]) == (4, 0)
        names = sorted(path.name for path in Path("out").glob("*.csv"))
        assert names == ["0.csv", "1.csv", "2.csv", "3.csv"]
        found = pd.concat([pd.read_csv(f"out/{name}") for name in names])
        assert found.predict.tolist() == model.predict(table[NAMES]).tolist()
        refused(capsys, "holds a run that was finished", "in", "-o", "out/")
        assert scored(capsys, "in", "-o", "out/", "--resume", "--output-format", "csv", "--keep",
                      "id")["files_done_before"] == 4  # fmt: skip

    def test_go_on_after_a_bad_row(self, capsys, work, fitted):
        _, table, model = fitted
        bad = table.copy()
        bad.loc[38, "b"] = np.nan
        write_parts(bad)
        refused(capsys, "2 of 4 files are done; --resume goes on.", "in", "-o", "out/")
        first = {path: path.stat().st_ino for path in Path("out").glob("*.parquet")}
        refused(capsys, "holds a run that was begun", "in", "-o", "out/")
        refused(capsys, "other rejects", "in", "-o", "out/", "--resume", "--rejects", "x.jsonl")
        refused(capsys, "other methods", "in", "-o", "out/", "--resume", "--method",
                "predict_proba")  # fmt: skip
        table.iloc[30:45].to_parquet("in/2.parquet", index=False)
        refused(capsys, "other inputs (2.parquet)", "in", "-o", "out/", "--resume")
        assert first == {path: path.stat().st_ino for path in Path("out").glob("*.parquet")}
        scored(capsys, "in", "-o", "out/", "--force")
        found = [pq.read_table(f"out/{i}.parquet")["predict"].to_pylist() for i in range(4)]
        assert [label for part in found for label in part] == model.predict(table[NAMES]).tolist()

    def test_damaged_answers_are_written_anew(self, capsys, work, fitted):
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/")
        whole = Path("out/1.parquet").read_bytes()
        Path("out/1.parquet").write_bytes(whole[:20] + b"\0" + whole[21:])
        Path("out/2.parquet").unlink()
        assert scored(capsys, "in", "-o", "out/", "--resume")["files_done_before"] == 2
        assert Path("out/1.parquet").read_bytes() == whole
        assert scored(capsys, "in", "-o", "out/", "--resume")["files_done_before"] == 4

    def test_collect_rejects_of_all_files(self, capsys, work, fitted):
        argv, lines = folder_with_rejects(capsys, fitted[1])
        assert [json.loads(line)["row"] for line in lines.splitlines()] == [4, 9]
        Path("out/3.parquet").unlink()
        scored(capsys, *argv, "--resume")
        assert Path("bad.jsonl").read_text() == lines

    def test_lost_rejects_are_found_anew(self, capsys, work, fitted):
        argv, lines = folder_with_rejects(capsys, fitted[1])
        Path("out/_hbconv/rejects/2.parquet.jsonl").unlink()
        assert scored(capsys, *argv, "--resume")["files_done_before"] == 3
        assert Path("bad.jsonl").read_text() == lines

    def test_stay_whole_where_they_cannot_be_replaced(self, capsys, work, fitted):
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/")
        Path("out/mine.txt").write_text("precious")
        refused(capsys, "holds files of others", "in", "-o", "out/", "--force")
        Path("out/mine.txt").unlink()
        assert scored(capsys, "in", "-o", "out/", "--resume")["files_done_before"] == 4

    def test_of_others_are_left_alone(self, capsys, work, fitted):
        write_parts(fitted[1])
        Path("out").mkdir()
        Path("out/mine.txt").write_text("precious")
        for option in ([], ["--force"], ["--resume"]):
            refused(capsys, "holds files of others", "in", "-o", "out/", *option)
        assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]

    def test_names_that_meet_are_refused(self, capsys, work, fitted, monkeypatch):
        """Before the model is loaded."""
        monkeypatch.setattr("hbconv.cli.score.load_model", None)
        fitted[1].to_parquet("in/1.parquet")
        fitted[1].to_csv("in/1.csv")
        refused(capsys, "would both be scored to 1.parquet", "in", "-o", "out/")

    @pytest.mark.parametrize("devices", [None, "cpu,cpu"])
    def test_killed_runs_lose_nothing(self, tmp_path, monkeypatch, devices):
        """The short form of ``make kills``."""
        monkeypatch.chdir(tmp_path)
        assert kill_runs(KILLS, devices=devices) >= 1


class TestForeignFolders:
    """A run's folder is its own, whoever else may write to it."""

    @pytest.mark.parametrize("force", [[], ["--force"]], ids=["without", "force"])
    @pytest.mark.parametrize("text", ["{", "", "[]", "\xff", '{"outputs": [1]}', "[" * 100_000])
    def test_damaged_job_is_named(self, capsys, work, fitted, text, force):
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/")
        Path("out/_hbconv/job.json").write_bytes(text.encode("latin-1"))
        told = "out/_hbconv/job.json is damaged, so the run cannot continue. Start again with"
        if not force:
            refused(capsys, told, "in", "-o", "out/")
            refused(capsys, told, "in", "-o", "out/", "--resume")
            return
        Path("out/mine.txt").write_text("precious")
        refused(capsys, "holds files of others, such as mine.txt", "in", "-o", "out/", *force)
        Path("out/mine.txt").unlink()
        assert scored(capsys, "in", "-o", "out/", *force)["files_done_before"] == 0

    @pytest.mark.parametrize("name", ["../mine.txt", "{work}/mine.txt", "x/../../mine.txt"])
    def test_names_outside_are_never_removed(self, capsys, work, fitted, name):
        write_parts(fitted[1])
        Path("mine.txt").write_text("precious")
        Path("out/_hbconv/done").mkdir(parents=True)
        name = name.format(work=work)
        job = {"outputs": [name], "rejects": False, "inputs": {}}
        record = {"output": name, "rows": 1, "rejected": 0, "bytes": 1, "sha256": ""}
        Path("out/_hbconv/job.json").write_text(json.dumps(job))
        Path("out/_hbconv/done/0.json").write_text(json.dumps(record))
        Path("out/_hbconv/manifest.json").write_text(json.dumps({"shards": [record]}))
        refused(capsys, "job.json is damaged", "in", "-o", "out/")
        scored(capsys, "in", "-o", "out/", "--force")
        assert Path("mine.txt").read_text() == "precious"

    @pytest.mark.parametrize("record", ["{", "[]", '{"output": "0.parquet"}', ""])
    def test_damaged_records_count_as_none(self, capsys, work, fitted, record):
        write_parts(fitted[1])
        scored(capsys, "in", "-o", "out/")
        for name in ("manifest.json", "done/0.parquet.json"):
            Path("out/_hbconv/done").mkdir(exist_ok=True)
            Path("out/_hbconv", name).write_text(record)
        assert scored(capsys, "in", "-o", "out/", "--resume")["files_done_before"] == 0

    @pytest.mark.parametrize("place", ["_hbconv/lock", "_hbconv/job.json", "0.parquet", "_hbconv"])
    @pytest.mark.parametrize("option", [[], ["--force"], ["--resume"]], ids=str)
    def test_links_are_not_followed(self, capsys, work, fitted, place, option):
        write_parts(fitted[1])
        Path("elsewhere").mkdir()
        Path("elsewhere/precious").write_text("mine")
        link = Path("out") / place
        link.parent.mkdir(parents=True)
        link.symlink_to(work / ("elsewhere" if place == "_hbconv" else "elsewhere/precious"))
        refused(capsys, f"{link} is a link or no ordinary file", "in", "-o", "out/", *option)
        assert [path.name for path in Path("elsewhere").iterdir()] == ["precious"]
        assert Path("elsewhere/precious").read_text() == "mine"

    def test_locks_keep_what_they_hold(self, capsys, work, fitted):
        write_parts(fitted[1])
        Path("out/_hbconv").mkdir(parents=True)
        Path("out/_hbconv/lock").write_text("mine")
        scored(capsys, "in", "-o", "out/")
        assert Path("out/_hbconv/lock").read_text() == "mine"


class TestChecksums:
    def write_alike(self):
        """Write another row under the same size and time."""
        before = Path("in/1.csv").stat()
        Path("in/1.csv").write_text("a,b,c\n9,8,7\n")
        os.utime("in/1.csv", ns=(before.st_atime_ns, before.st_mtime_ns))

    @pytest.mark.parametrize("option", [[], ["--checksum"]], ids=["time", "checksum"])
    def test_tell_what_size_and_time_do_not(self, capsys, work, option):
        Path("in/1.csv").write_text("a,b,c\n1,2,3\n")
        argv = ["in", "-o", "out/", "--resume", *option]
        scored(capsys, *argv)
        self.write_alike()
        if option:
            refused(capsys, "other inputs (1.csv)", *argv)
        else:
            assert scored(capsys, *argv)["files_done_before"] == 1

    def test_do_not_ask_when_a_file_was_written(self, capsys, work):
        Path("in/1.csv").write_text("a,b,c\n1,2,3\n")
        argv = ["in", "-o", "out/", "--resume", "--checksum"]
        scored(capsys, *argv)
        os.utime("in/1.csv", (0, 0))
        assert scored(capsys, *argv)["files_done_before"] == 1
        refused(capsys, "other options", *argv[:-1])
        refused(capsys, "--checksum is for folders", "in", "-o", "o.csv", "--checksum")


class TestScorer:
    def test_travels_as_its_path(self, fitted):
        path, table, model = fitted
        score = pickle.loads(pickle.dumps(hbconv.Scorer(path, "predict_proba", keep=["id"])))
        batch = pa.RecordBatch.from_pandas(table, preserve_index=False)
        found = score(batch)
        assert isinstance(found, pa.RecordBatch)
        assert found.schema.names == ["id", "predict_proba_no", "predict_proba_yes"]
        expected = model.predict_proba(table[NAMES])[:, 1]
        np.testing.assert_allclose(found["predict_proba_yes"], expected, rtol=1e-9)
        assert score.model is hbconv.Scorer(path).model

    def test_reads_the_file_that_is_there_now(self, tmp_path, monkeypatch):
        table = pa.table({"a": [1.0], "b": [0.0]})
        found = []
        for folder, weight in (("one", 1.0), ("two", 2.0), ("two", 3.0)):
            (tmp_path / folder).mkdir(exist_ok=True)
            monkeypatch.chdir(tmp_path / folder)
            rows = pd.DataFrame(np.eye(2), columns=["a", "b"])
            model = LinearRegression(fit_intercept=False).fit(rows, [weight, 1.0])
            hbconv.convert(model, backend="reference").save("m.hbc")
            found.append(hbconv.Scorer("m.hbc")(table)["predict"][0].as_py())
        np.testing.assert_allclose(found, [1, 2, 3], rtol=1e-9)

    def test_of_a_model_in_memory(self):
        model = hbconv.convert(LinearRegression().fit(np.eye(2), [1.0, 2.0]), backend="reference")
        with pytest.raises(hbconv.OptionError, match="has no method 'predict_proba'"):
            hbconv.Scorer(model, "predict_proba")(pa.table({"a": [1.0], "b": [0.0]}))


class TestLinks:
    def test_are_followed(self, capsys, work, fitted):
        write_parts(fitted[1])
        Path("more").mkdir()
        Path("in/0.parquet").rename("more/0.parquet")
        Path("in/linked").symlink_to("../more")
        Path("in/one.parquet").symlink_to("../more/0.parquet")
        found = scored(capsys, "in", "-o", "out.parquet")
        assert found["rows"] == 60 + 15

    def test_in_a_circle_are_refused(self, capsys, work, fitted):
        """Each turn would answer the same rows once more."""
        write_parts(fitted[1])
        Path("in/below").mkdir()
        Path("in/below/up").symlink_to("..")
        refused(capsys, "in/below/up is a link to a folder that it lies in", "in", "-o", "out.csv")
        refused(capsys, "is a link to a folder", "in/**/*.parquet", "-o", "out.csv")

    def test_to_devices_are_refused(self, capsys, work, fitted):
        write_parts(fitted[1])
        Path("in/zeros.parquet").symlink_to("/dev/zero")
        refused(capsys, "zeros.parquet is no ordinary file", "in", "-o", "out.csv")

    def test_to_nothing_are_refused(self, capsys, work, fitted):
        write_parts(fitted[1])
        Path("in/gone.parquet").symlink_to("nowhere")
        refused(capsys, "gone.parquet is a link to nothing", "in", "-o", "out.csv")


class TestDevices:
    def test_share_the_batches(self, capsys, work, fitted):
        """What two processes write, and set aside, is what one does."""
        _, table, _ = fitted
        write_parts(table.assign(b=table.b.mask(table.id % 17 == 3)))
        argv = ["in", "--keep", "id", "--batch-rows", 4, "--force", "--rejects", "bad.jsonl"]
        one = scored(capsys, *argv, "-o", "one.parquet")
        rejects = Path("bad.jsonl").read_text()
        two = scored(capsys, *argv, "-o", "two.parquet", "--devices", "cpu,cpu")
        assert pq.read_table("two.parquet") == pq.read_table("one.parquet")
        assert Path("bad.jsonl").read_text() == rejects
        assert (one["rows"], one["rejected"]) == (two["rows"], two["rejected"]) == (56, 4)

    @pytest.mark.parametrize("size", [1, 3, 7, 100])
    def test_read_row_groups_by_themselves(self, capsys, work, fitted, size):
        """Row groups that end inside batches, one of no rows, and a file of another format."""
        table = pa.Table.from_pandas(fitted[1], preserve_index=False)
        with pq.ParquetWriter("in/a.parquet", table.schema) as file:
            for part in (table.slice(0, 20), table.slice(20, 0), table.slice(20)):
                file.write_table(part, row_group_size=size)
        fitted[1].head(9).to_csv("in/b.csv", index=False)
        argv = ["in", "--keep", "id", "--batch-rows", 4]
        scored(capsys, *argv, "-o", "one.parquet")
        scored(capsys, *argv, "-o", "two.parquet", "--devices", "cpu,cpu")
        assert pq.read_table("two.parquet") == pq.read_table("one.parquet")

    def test_name_a_damaged_file(self, capsys, work, fitted):
        write_parts(fitted[1])
        path = min(Path("in").rglob("*.parquet"))
        data = bytearray(path.read_bytes())
        data[10:40] = bytes(30)
        path.write_bytes(data)
        refused(capsys, path.name, "in", "-o", "two.parquet", "--devices", "cpu,cpu")
        assert not Path("two.parquet").exists()

    def test_are_named_once(self, capsys, work, fitted):
        write_parts(fitted[1])
        argv = ["in", "-o", "out/", "--devices"]
        refused(capsys, "Leave --device out", *argv, "cpu", "--device", "cpu")
        refused(capsys, "is no device", *argv, "gpu0")
