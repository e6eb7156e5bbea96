"""Rows of table files are counted: none is lost where a file is cut off, damaged, of another
encoding, or holds what pyarrow reads otherwise than pandas.
"""

import gzip
import io
import json
import random
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, fs
from sklearn.linear_model import LinearRegression

import hbconv
from hbconv.cli import main
from hbconv.errors import InputError
from hbconv.score import records
from hbconv.score.shards import Shard, find_shards
from hbconv.score.tables import open_table

NOTES = ['say "hi", you', "one\ntwo", "é日", "", "5 inches"]
TABLE = pd.DataFrame({"a": [1.5, 2, -3, 4, 5], "note": NOTES, "b": [0.5, 1, 2, 3, 4]})
READ = {
    ".csv": pd.read_csv,
    ".jsonl": partial(pd.read_json, lines=True),
    ".parquet": pd.read_parquet,
    ".arrow": pd.read_feather,
}
TEXTS = (".csv", ".csv.gz", ".csv.zst", ".jsonl", ".jsonl.gz", ".jsonl.zst")
PACK = {".gz": gzip.compress, ".zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True)}
CSV = "a,note,b\n1,x,2\n3,y,4\n5,z,6\n"


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = LinearRegression().fit(TABLE[["a", "b"]], TABLE.a)
    hbconv.convert(model, backend="reference").save("m.hbc")
    return tmp_path


def written(suffix):
    """Return the bytes of the table in a format."""
    sink = io.BytesIO()
    if suffix == ".parquet":
        TABLE.to_parquet(sink, row_group_size=2)
        return sink.getvalue()
    if suffix == ".arrow":
        with pa.ipc.new_file(sink, pa.Schema.from_pandas(TABLE)) as file:
            file.write_table(pa.Table.from_pandas(TABLE), max_chunksize=2)
        return sink.getvalue()
    lines = TABLE.to_json(orient="records", lines=True)
    text = TABLE.to_csv(index=False) if suffix.startswith(".csv") else lines
    return PACK.get(Path(f"x{suffix}").suffix, bytes)(text.encode())


def ours(path):
    """Return the rows that are read of a file, or None where it is refused by its name."""
    try:
        shards = find_shards([str(path)])
        table = open_table(shards, ["a", "note", "b"])
        return [row for batch in table.batches(shards[0], 3) for row in batch.to_pylist()]
    except InputError as error:
        return require_named(path, str(error))


def require_named(path, message):
    assert path.name in message


def theirs(path):
    """Return how many rows pandas reads, or None where it refuses a file."""
    try:
        with pa.input_stream(path, compression="detect") as source:
            return len(READ[path.suffixes[0]](io.BytesIO(source.read())))
    except ValueError:
        return None


def refusal(capsys, *argv, status=1):
    """Return the one line that refuses to score."""
    code = main(["score", "m.hbc", *map(str, argv), "-o", "o.csv"])
    found = capsys.readouterr()
    assert (code, found.out, found.err.count("\n")) == (status, "", 1)
    assert not Path("o.csv").exists()
    return found.err


@pytest.mark.parametrize("suffix", [*TEXTS, ".arrow", ".parquet"])
def test_files_that_are_cut_off_lose_no_row(tmp_path, suffix):
    """A file that ends too early is read as pandas reads it, or refused."""
    whole, path = written(suffix), tmp_path / f"rows{suffix}"
    path.write_bytes(whole)
    assert [(row["a"], row["b"]) for row in ours(path)] == [*zip(TABLE.a, TABLE.b, strict=True)]
    for cut in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:cut])
        found = ours(path)
        assert found is None or len(found) == theirs(path), whole[:cut]


@pytest.mark.parametrize("suffix", TEXTS)
def test_files_that_are_spliced_lose_no_row(tmp_path, suffix):
    whole, path, dice = written(suffix), tmp_path / f"rows{suffix}", random.Random(suffix)
    for _ in range(40):
        at, size, other = (dice.randrange(len(whole)) for _ in range(3))
        path.write_bytes(
            whole[:at] + dice.choice([b"", whole[other : other + size]]) + whole[at + 9 :]
        )
        found = ours(path)
        assert found is None or len(found) == theirs(path), path.read_bytes()


@pytest.mark.parametrize(
    "pieces", [["a", '"', ",", "\n"], ["1", '""', '"', "\r\n", "\r", ",", "é"]]
)
def test_records_are_counted_as_pyarrow_reads_them(tmp_path, monkeypatch, pieces):
    """Texts drawn at random, in blocks of a few bytes; an open quote is refused as by pandas."""
    dice, path = random.Random(0), tmp_path / "rows.csv"
    shard = Shard(path.name, "csv", fs.LocalFileSystem(), str(path))
    for _ in range(150):
        monkeypatch.setattr(records, "BLOCK_BYTES", dice.choice([1, 2, 7, 50]))
        path.write_bytes(("h,i\n" + "".join(dice.choices(pieces, k=30))).encode())
        try:
            rows = sum(block.count for block in records.read_records(shard)) - 1
        except InputError:
            with pytest.raises(pd.errors.ParserError, match="EOF inside string"):
                pd.read_csv(path, on_bad_lines="skip")
            continue
        pd.read_csv(path, on_bad_lines="skip")
        assert rows == rows_by_pyarrow(path.read_bytes())


def rows_by_pyarrow(data):
    skipped = []
    skip = lambda row: skipped.append(row) or "skip"  # noqa: E731
    parse = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    found = csv.read_csv(io.BytesIO(data + b"\n"), csv.ReadOptions(use_threads=False), parse)
    return found.num_rows + len(skipped)


class TestQuotes:
    @pytest.mark.parametrize("more", [[], ["--rejects", "bad.jsonl"], ["--devices", "cpu,cpu"]])
    @pytest.mark.parametrize(
        ("line", "column"), [('3,"y,4', "note"), ('"3,y,4', "a"), ('3,y,"4', "b")]
    )
    def test_that_nobody_closes_are_named(self, capsys, work, line, column, more):
        """Not one row behind is lost, nor are they one reject."""
        Path("rows.csv").write_text(CSV.replace("3,y,4", line))
        told = refusal(capsys, "rows.csv", *more)
        assert (
            f"rows.csv, row 2, column '{column}': The file ends before it closes a quote." in told
        )
        assert not Path("bad.jsonl").exists()

    def test_take_no_more_memory_than_a_record_may(self, capsys, work, monkeypatch):
        monkeypatch.setattr(records, "BLOCK_BYTES", 50)
        monkeypatch.setattr(records, "RECORD_BYTES", 200)
        Path("rows.csv").write_text('a,note,b\n1,"x,2\n' + 100 * "3,y,4\n")
        assert "rows.csv, row 1, column 'note': The row exceeds" in refusal(capsys, "rows.csv")

    def test_of_the_header_are_named(self, capsys, work):
        Path("rows.csv").write_text('a,"note,b\n1,x,2\n')
        assert "rows.csv, header" in refusal(capsys, "rows.csv")

    def test_within_unquoted_fields_are_letters(self, capsys, work):
        Path("rows.csv").write_text(CSV.replace(",y,", ',5" wide,'))
        assert main(["score", "m.hbc", "rows.csv", "-o", "o.csv", "--keep", "note"]) == 0
        assert pd.read_csv("o.csv").note.tolist() == ["x", '5" wide', "z"]


class TestEnds:
    def test_inside_the_last_row_is_no_reject(self, capsys, work):
        Path("rows.csv").write_text(CSV[: CSV.index("z")])
        told = refusal(capsys, "rows.csv", "--rejects", "bad.jsonl")
        assert "rows.csv, row 3: The file ends inside this row, which has 2 values of 3." in told

    @pytest.mark.parametrize(("suffix", "row"), [(".csv", 0), (".jsonl", 1)])
    def test_of_a_compressed_file_are_named(self, capsys, work, suffix, row):
        Path(f"rows{suffix}.gz").write_bytes(written(f"{suffix}.gz")[:-5])
        assert f"rows{suffix}.gz, " in (told := refusal(capsys, f"rows{suffix}.gz"))
        assert "The file is cut off or damaged here: Truncated compressed stream." in told

    @pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.jsonl", "r.parquet", "r.arrow"])
    def test_before_the_first_row_are_told_alike(self, capsys, work, name):
        Path(name).touch()
        told = f"hbconv: {name} is empty, so it names no columns. Leave it out.\n"
        assert refusal(capsys, name) == told

    def test_behind_the_header_give_an_empty_answer(self, capsys, work):
        Path("rows.csv").write_text("a,note,b")
        assert main(["score", "m.hbc", "rows.csv", "-o", "o.csv"]) == 0
        assert Path("o.csv").read_text() == '"predict"\n'

    def test_rows_that_a_parquet_file_tells_of_are_all_there(self, capsys, work, monkeypatch):
        TABLE.to_parquet("rows.parquet")
        read = pq.ParquetFile.iter_batches
        monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: list(read(*a, **k))[:0])
        assert "it holds 0 rows, and its head has 5" in refusal(capsys, "rows.parquet")


class TestJsonLines:
    """pyarrow takes two objects of a line for two rows, and dies of ``null`` and of deep lists."""

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("null", "it holds null, which is no object"),
            ('{"a": 1, "b": 2} null', "Extra data"),
            ('{"a": 1, "b": 2}{"a": 1, "b": 2}', "Extra data"),
            ('{"a": 1,', "Expecting property name"),
            ("[1]", "it holds [1], which is no object"),
            (
                '{"a": 1, "b": 2, "c": ' + 5000 * "[" + 5000 * "]" + "}",
                "it holds lists or objects within",
            ),
        ],
    )
    @pytest.mark.parametrize("place", [0, 1])
    def test_that_are_no_object_are_named(self, capsys, work, line, reason, place):
        lines = ['{"a": 1, "b": 2}', '{"a": 3, "b": 4}']
        lines.insert(place, line)
        Path("rows.jsonl").write_text("\n".join(lines))
        told = refusal(capsys, "rows.jsonl")
        assert f"rows.jsonl cannot be read as json, row {place + 1}: {reason}" in told

    def test_with_braces_in_texts_are_read(self, capsys, work):
        Path("rows.jsonl").write_text(json.dumps({"a": 1, "b": 2, "note": '} x {"a": [' * 99}))
        assert main(["score", "m.hbc", "rows.jsonl", "-o", "o.csv"]) == 0


class TestEncodings:
    @pytest.mark.parametrize(
        ("name", "data", "place"),
        [
            ("r.csv", CSV.replace("y", "é").encode("latin-1"), "r.csv, row 2, column 'note'"),
            ("r.csv", CSV.replace("y", '"é"').encode("latin-1"), "r.csv, row 2, column 'note'"),
            ("r.csv", CSV.replace("note", "é").encode("latin-1"), "r.csv, header"),
            ("r.csv", CSV.encode("utf-16"), "r.csv, header"),
            ("r.jsonl", b'{"a": 1, "b": 2}\n{"a": 1, "note": "\xe9", "b": 2}', "r.jsonl, row 2, column 'note'"),
        ],
    )  # fmt: skip
    def test_that_are_not_told_are_named(self, capsys, work, name, data, place):
        Path(name).write_bytes(data)
        told = refusal(capsys, name)
        assert f"{place}: The bytes " in told
        assert "are no text in utf-8" in told
        assert "quote" not in told
        assert ("utf-16." in told) == data.startswith(b"\xff\xfe")

    @pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be", "cp1252", "utf-8-sig"])
    @pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
    def test_that_are_told_are_read(self, capsys, work, monkeypatch, encoding, suffix):
        monkeypatch.setattr(records, "BLOCK_BYTES", 7)
        text = CSV if suffix == ".csv" else '{"a":1,"note":"x","b":2}\n{"a":3,"note":"y","b":4}\n'
        Path(f"r{suffix}").write_bytes(text.replace("y", "é").encode(encoding))
        asked = f"score m.hbc r{suffix} -o o.csv --keep note --encoding {encoding}"
        assert main(asked.split()) == 0
        assert pd.read_csv("o.csv").note[1] == "é"

    @pytest.mark.parametrize("kind", ["string", "large_string"])
    def test_of_binary_files_are_named(self, capsys, work, kind):
        note = pa.array([b"x", b"\xe9"]).cast(f"large_{'binary'}" if "large" in kind else "binary")
        note = pa.Array.from_buffers(pa.type_for_alias(kind), 2, note.buffers())
        pq.write_table(pa.table({"a": [1.0, 2], "b": [1.0, 2], "note": note}), "r.parquet")
        told = refusal(capsys, "r.parquet", "--keep", "note")
        assert "r.parquet, row 2, column 'note': The bytes are no text in utf-8" in told

    @pytest.mark.parametrize("output", ["o.csv", "o.jsonl"])
    def test_of_bytes_are_refused_by_formats_of_text(self, capsys, work, output):
        pq.write_table(pa.table({"a": [1.0], "b": [1.0], "n": [b"\xe9"]}), "r.parquet")
        assert main(["score", "m.hbc", "r.parquet", "-o", output, "--keep", "n"]) == 1
        told = capsys.readouterr().err
        assert ".hbconv-" not in told
        assert not Path(output).exists()
        assert main(["score", "m.hbc", "r.parquet", "-o", "o.parquet", "--keep", "n"]) == 0
        assert pq.read_table("o.parquet")["n"].to_pylist() == [b"\xe9"]

    def test_that_do_not_exist_are_refused(self, capsys, work):
        Path("r.csv").write_text(CSV)
        assert "no encoding of text" in refusal(capsys, "r.csv", "--encoding", "hex", status=2)
        TABLE.to_parquet("r.parquet")
        told = refusal(capsys, "r.parquet", "--encoding", "latin-1", status=2)
        assert "for CSV and JSON" in told

    def test_of_file_names_are_refused(self, capsys, work):
        Path("in").mkdir()
        Path("in/\udcff.csv").write_text(CSV)
        assert "is a name that is no text in utf-8" in refusal(capsys, "in", status=2)


class TestControls:
    """Controls of names and values reach no terminal: they could write what was never said."""

    HOSTILE = "a\x1b]0;x\x07\x1b[2J\x9b\u202e"

    def test_ends_of_lines_forge_no_line(self, capsys, work):
        Path("rows.csv").write_text('"c\nhbconv: all is well",d\n1,2\n')
        assert r"It has: 'c\nhbconv: all is well', 'd'." in refusal(capsys, "rows.csv")

    def test_of_files_are_escaped(self, capsys, work):
        Path("rows.csv").write_text(f"{self.HOSTILE},c\n1,2\n")
        told = refusal(capsys, "rows.csv")
        assert r"It has: 'a\x1b]0;x\x07\x1b[2J\x9b\u202e', 'c'." in told

    @pytest.mark.parametrize("command", ["explain", "verify", "convert", "bench"])
    def test_of_models_are_escaped(self, capsys, work, command):
        model = LinearRegression().fit(TABLE[["a", "b"]], TABLE.a)
        model.feature_names_in_ = np.array([self.HOSTILE, "b"], object)
        hbconv.convert(model, backend="reference").save("m.hbc")
        Path("rows.csv").write_text(CSV)
        more = {"verify": ["rows.csv"], "convert": ["--sample", "rows.csv", "-o", "n.hbc"],
                "bench": ["--data", "rows.csv", "--batch", "1"], "explain": []}[command]  # fmt: skip
        main([command, "m.hbc", *more])
        found = capsys.readouterr()
        told = found.out + found.err
        assert told
        assert all(letter.isprintable() or letter == "\n" for letter in told)
