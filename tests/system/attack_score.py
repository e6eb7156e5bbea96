"""Attack ``hbconv score``: tables that are cut off or spliced, and runs that are killed.

What is answered is what pandas and the csv module read of the same bytes, row by row, and what they
refuse is refused. A killed run leaves the file that was there, or its whole answers, and the next
one leaves nothing of it. Each case is made again from its number:

    python tests/system/attack_score.py --first 17 --count 1
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from fuzz.runner import Report, Subject, fuzz
from kills import require_no_process
from sklearn.linear_model import LogisticRegression

import hbconv
from hbconv.cli import main as hbconv_main

COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
SUFFIXES = (
    ".csv",
    ".csv.gz",
    ".csv.zst",
    ".jsonl",
    ".jsonl.gz",
    ".jsonl.zst",
    ".arrow",
    ".parquet",
)
KILL_EVERY = 40
"""One case in so many kills a run."""
ENDS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Signals, and the exit codes of runs that they end."""
NOTES = ("plain", "", 'say "hi", then go', "one\ntwo", "é日本", '"', ",", "5 inches")
YESTERDAY = b"the answers of yesterday"
LARGE = 30_000
"""Rows of a run that is killed."""


class RowsDifferError(Exception):
    """Rows were lost, or answered otherwise than by the source."""


def table_of(rows, rng):
    """Return rows of a table with texts that need quotes."""
    notes = [NOTES[i] for i in rng.integers(len(NOTES), size=rows)]
    numbers = rng.normal(size=(rows, 2)).round(4)
    return pd.DataFrame({"id": range(rows), "a": numbers[:, 0], "note": notes, "b": numbers[:, 1]})


def fitted():
    """Return the model of all cases."""
    table = table_of(200, np.random.default_rng(0))
    return LogisticRegression().fit(table[["a", "b"]], np.where(table.a > table.b, "yes", "no"))


def write(table, path):
    """Write a table in the format of a suffix."""
    suffix = "".join(path.suffixes)
    if suffix == ".parquet":
        table.to_parquet(path, row_group_size=16, index=False)
    elif suffix == ".arrow":
        whole = pa.Table.from_pandas(table, preserve_index=False)
        with pa.ipc.new_file(path, whole.schema) as file:
            file.write_table(whole, max_chunksize=16)
    else:
        text = io.StringIO()
        if suffix.startswith(".csv"):
            table.to_csv(text, index=False)
        else:
            table.to_json(text, orient="records", lines=True)
        with pa.output_stream(path, compression=COMPRESSION.get(path.suffix)) as file:
            file.write(text.getvalue().encode())


def corpus(suffix, folder):
    """Write some whole files of a format."""
    for number, rows in enumerate((0, 1, 7, 40)):
        write(table_of(rows, np.random.default_rng(number)), folder / f"{number}{suffix}")


def mutate(data, rng):
    """Cut a file off, or take a piece out of it, or put one into it that stands elsewhere."""
    if not data or rng.random() < 0.05:
        return data
    at, other = (int(i) for i in rng.integers(len(data) + 1, size=2))
    size = int(rng.choice([1, 2, 5, 40, 300]))
    kind = rng.choice(["cut", "cut", "out", "in", "quote", "line"])
    if kind == "cut":
        return data[:at]
    if kind == "out":
        return data[:at] + data[at + size :]
    if kind == "in":
        return data[:at] + data[other : other + size] + data[at:]
    if kind == "quote":
        return (
            data[:at]
            + bytes(rng.choice([b'"', b'\n"', b',"', b"\r", b"null\n", b"\xe9"]))
            + data[at:]
        )
    end = data.rfind(b"\n", 0, at) + 1
    return data[:end]


def attempt(suffix, path, rng):
    """Score a file, with and without rejects, and compare."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        file = Path(f"rows{suffix}")
        file.write_bytes(path.read_bytes())
        MODEL.save("m.hbc")
        rejects = ["--rejects", "bad.jsonl"] if rng.random() < 0.7 else []
        output = f"o{rng.choice(['.parquet', '.csv', '.jsonl', '.arrow'])}"
        asked = ["m.hbc", file.name, "-o", output, "--keep", "id,note", "--quiet", *rejects]
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            code = hbconv_main(["score", *asked])
        judge(file, code, errors.getvalue(), output, rejects)


def judge(file, code, errors, output, rejects):
    """Require what a run may do with a file."""
    if code:
        require(errors.startswith("hbconv: ") and file.name in errors, f"no name: {errors}")
        require(not Path(output).exists(), "a refused file has answers")
        require(errors.count("\n") == 1 or "Input " in errors, f"not one line: {errors}")
        require(not rejects or may_be_refused(file, errors), f"refused: {errors}")
        return
    rows = read_rows(file)
    require(rows is not None, "pandas refuses what is answered")
    bad = [json.loads(line) for line in lines_of(Path("bad.jsonl"))] if rejects else []
    aside = {line["row"] for line in bad}
    require(len(aside) == len(bad), "a row was set aside twice")
    answers = read_answers(Path(output))
    numbers = [n for n in range(1, len(rows) + 1) if n not in aside]
    require(
        len(answers) == len(numbers), f"{len(rows)} rows, {len(answers)} answers, {len(bad)} bad"
    )
    for number in aside:
        require(not is_good(rows[number - 1]), f"row {number} was set aside: {rows[number - 1]}")
    for number, (_, answer) in zip(numbers, answers.iterrows(), strict=True):
        compare(rows[number - 1], answer, number)


def compare(row, answer, number):
    """Require the source's answer to a row, beside what was kept of it."""
    require(is_good(row), f"row {number} is answered: {row}")
    values = pd.DataFrame([[float(row["a"]), float(row["b"])]], columns=["a", "b"])
    require(SOURCE.predict(values)[0] == answer.predict, f"row {number}: {answer.predict}")
    for name in ("id", "note"):
        told = "" if answer[name] is None or answer[name] != answer[name] else str(answer[name])
        held = row[name]
        same = told == held or as_number(told) == as_number(held) or held in MISSING
        require(same, f"row {number}: {name} is {told!r}, and was {held!r}")


MISSING = {"", "NA", "nan", "null", "None", "NaN", "n/a", "N/A"}


def as_number(text):
    """Return a number that a text stands for, or a text."""
    try:
        return float(text)
    except ValueError:
        return text


def is_good(row):
    """Say whether a row can be answered: it is as long as the header, and a and b are finite."""
    if row is None:
        return False
    found = [as_number(str(row[name]).strip()) for name in ("a", "b")]
    return all(isinstance(v, float) and np.isfinite(v) for v in found)


def may_be_refused(file, errors):
    """Say whether a run with rejects may refuse a file: pandas does, or its last row is cut off.

    pandas ends the process over some Arrow files, and reads JSON less strictly.
    """
    if not file.name.startswith("rows.csv"):
        return True
    rows = read_rows(file)
    if rows is None or (rows[-1:] == [None] and "ends inside this row" in errors):
        return True
    return sorted(rows_of(file)[0]) != ["a", "b", "id", "note"]


def read_rows(file):
    """Return the rows that pandas and the csv module read, as texts; None of files they refuse.

    A row that is longer or shorter than the header is None.
    """
    read = {".csv": partial(pd.read_csv, on_bad_lines="skip", index_col=False),
            ".jsonl": partial(pd.read_json, lines=True, dtype=False, convert_dates=False),
            ".parquet": pd.read_parquet, ".arrow": pd.read_feather}  # fmt: skip
    kind = file.suffixes[0]
    try:
        with pa.input_stream(file, compression="detect") as source:
            table = read[kind](io.BytesIO(source.read()))
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:
        return None
    if kind != ".csv":
        missing = {"id", "a", "b", "note"} - set(table)
        return None if missing and len(table) else [plain(row) for row in table.to_dict("records")]
    rows = rows_of(file)
    width = len(rows[0])
    return [dict(zip(rows[0], row, strict=True)) if len(row) == width else None for row in rows[1:]]


def plain(row):
    """Return the values of a row as texts, of missing ones as an empty one."""
    return {k: "" if v is None or v != v else str(v) for k, v in row.items()}


def rows_of(file):
    """Return the records of a CSV file."""
    with pa.input_stream(file, compression="detect") as source:
        text = source.read().decode().removeprefix("\ufeff")
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def read_answers(path):
    """Return a file of answers."""
    if path.suffix == ".csv":
        return pd.read_csv(path, dtype={"note": str, "id": str}, keep_default_na=False)
    if path.suffix == ".jsonl":
        return pd.DataFrame([json.loads(line) for line in lines_of(path)])
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_feather(path)


def lines_of(path):
    """Return the lines of a text, which may hold ends of lines of other kinds."""
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def require(holds, what):
    """Raise what does not hold."""
    if not holds:
        raise RowsDifferError(what)


def kill(number):
    """Kill a run at a random moment, run again, and look at what is there."""
    rng = np.random.default_rng(number)
    suffix, kept = rng.choice(SUFFIXES), rng.random() < 0.5
    output = str(rng.choice(["o.parquet", "o.csv", "o.jsonl", "o.arrow", "out/"]))
    ending = list(ENDS)[rng.integers(len(ENDS))]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        table = table_of(LARGE, rng)
        Path("in").mkdir()
        Path("tmp").mkdir()
        MODEL.save("m.hbc")
        for part in range(2):
            write(table.iloc[part::2], Path(f"in/{part}{suffix}"))
        command = ["score", "m.hbc", "in", "-o", output, "--quiet", "--batch-rows", "500"]
        command += ["--rejects", "bad.jsonl"] if rng.random() < 0.3 else []
        if kept and output != "out/":
            Path(output).write_bytes(YESTERDAY)
            command.append("--force")
        code = killed_run(command, ending, rng)
        require(code in (0, ENDS[ending], -ending), f"exit {code} of {ending.name}")
        is_there = output != "out/" and Path(output).exists()
        if is_there and Path(output).read_bytes() != YESTERDAY:
            require_all(table, Path(output), suffix)
        more = ["--resume"] if output == "out/" else ["--force"] * is_there
        done = subprocess.run(
            [sys.executable, "-m", "hbconv", *command, *more], **PIPES, check=False
        )
        require(done.returncode == 0, f"the next run: {done.stderr}")
        require_no_process(Path.cwd())
        left = [str(path) for path in Path().rglob(".hbconv-*")]
        require(not left, f"left: {left}")
        require_all(table, Path(output), suffix)


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def killed_run(command, ending, rng):
    """Start a run and send it a signal; return its exit code."""
    os.environ["TMPDIR"] = str(Path("tmp").absolute())
    process = subprocess.Popen(
        [sys.executable, "-m", "hbconv", *command],
        **PIPES,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509  (nohup ignores it)
    )
    until = time.monotonic() + 60
    while process.poll() is None and not list(Path().rglob(".hbconv-*")):
        require(time.monotonic() < until, "the run does not begin")
        time.sleep(0.002)
    time.sleep(float(rng.random()) * 0.5)
    process.send_signal(ending)
    _, errors = process.communicate(timeout=60)
    require("Traceback" not in errors, errors)
    return process.returncode


def require_all(table, output, suffix):
    """Require the source's answer to each row of two files."""
    for part in range(2):
        rows = table.iloc[part::2]
        expected = SOURCE.predict(rows[["a", "b"]]).tolist()
        if output.suffix:
            found = read_answers(output).predict.tolist()
            found = found[: len(expected)] if part == 0 else found[-len(expected) :]
        else:
            found = read_answers(output / f"{part}{suffix}".replace(suffix, named(suffix)))
            found = found.predict.tolist()
        require(found == expected, f"file {part} has other answers")


def named(suffix):
    """Return the suffix of the answers to a file: its last one is another."""
    return f"{Path(f'x{suffix}').with_suffix('').name.removeprefix('x')}.parquet"


def attack(cases):
    """Try cases, and return a report of them."""
    report = Report()
    for number in (n for n in cases if n % KILL_EVERY == 0):
        try:
            kill(number)
            report.outcomes["killed as asked"] += 1
        except Exception as error:
            note(report, number, "unnamed", f"{type(error).__name__}: {error}")
    for place, suffix in enumerate(SUFFIXES):
        own = [n for n in cases if n % KILL_EVERY and n % len(SUFFIXES) == place]
        subject = Subject(suffix, partial(corpus, suffix), mutate, partial(attempt, suffix))
        found = fuzz(subject, own)
        report.outcomes.update(found.outcomes)
        report.findings.update(found.findings)
    return report


def note(report, number, outcome, what):
    """Write a finding down."""
    report.outcomes[outcome] += 1
    report.findings[number] = what


def counts(report):
    """Return how many findings there are of each kind."""
    kinds = Counter(map(kind_of, report.findings.values()))
    return {kind: kinds[kind] for kind in ("crashed", "unnamed", "hung", "above memory", "wrong")}


def kind_of(what):
    """Return the kind of a finding."""
    if what.startswith("RowsDifferError"):
        return "wrong"
    if "MemoryError" in what or "malloc" in what:
        return "above memory"
    if "out of time" in what or "TimeoutExpired" in what:
        return "hung"
    return "crashed" if what.startswith("killed") else "unnamed"


SOURCE = fitted()
MODEL = hbconv.convert(SOURCE, backend="reference")


def main():
    """Print what was found, and return 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # forks wait for threads of libraries for ever
        alone = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.run([sys.executable, *sys.argv], env=alone, check=False).returncode
    began = time.monotonic()
    report = attack(range(options.first, options.first + options.count))
    for number, what in sorted(report.findings.items()):
        print(f"case {number}: {what}")
    minutes = (time.monotonic() - began) / 60
    told = ", ".join(f"{count:,} {kind}" for kind, count in counts(report).items())
    print(f"attack_score: {options.count:,} cases in {minutes:.1f} minutes: {told}")
    return int(bool(report.findings))


if __name__ == "__main__":
    sys.exit(main())
