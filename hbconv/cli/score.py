"""Score table files of any number and size, in batches of bounded memory.

Inputs are files, folders, patterns and URLs of parquet, CSV, Arrow or JSON lines, or - for
standard input. An output with a suffix is one file, which appears when it is complete. An output
folder/ holds a file for each input file, and --resume continues after an interruption.
"""

from __future__ import annotations

import argparse
import codecs
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hbconv.cli import Terminated, answer, code_of, fail, positive
from hbconv.cli.score_folder import (
    check_outputs,
    describe_run,
    join_rejects,
    replaces_rejects,
    score_shard,
    text_file,
)
from hbconv.cli.sources import load_model, model_arguments
from hbconv.engines.scorer import Scorer
from hbconv.errors import HbconvError, InputError, OptionError
from hbconv.files import scratch, sweep
from hbconv.score.concurrency import parse_devices
from hbconv.score.formats import SUFFIXES, WRITTEN_SUFFIX, kind_of
from hbconv.score.job import ScoreJob, answering_for
from hbconv.score.outputs import open_new_output, open_output
from hbconv.score.resumable import Folder
from hbconv.score.shards import UTF8, Shard, as_path, find_shards, is_url, look_at, open_file_system
from hbconv.score.tables import open_table
from hbconv.system.temporary import folder_of_temporaries

__all__: list[str] = []

FORMATS = tuple(WRITTEN_SUFFIX)

EXAMPLES = """
examples:
  hbconv score model.hbc rows.parquet -o answers.parquet --keep id
  hbconv score model.hbc 'in/**/*.csv' -o answers.csv --method predict,predict_proba
  hbconv score model.hbc s3://bucket/in/ -o s3://bucket/out/ --resume
  hbconv score model.hbc - --input-format csv -o answers.jsonl --rejects bad.jsonl
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "input", nargs="+", help="files, folders, patterns or URLs to score; - is standard input"
    )
    command.add_argument(
        "-o",
        "--output",
        required=True,
        help=f"file to write ({', '.join(SUFFIXES)}), or folder/ for a file to each input file",
    )
    command.add_argument(
        "--method",
        action="append",
        help="method to call (default: predict, or the model's first); may be given again",
    )
    command.add_argument(
        "--keep",
        default="",
        metavar="COLUMNS",
        help="input columns to copy to the output, separated by commas",
    )
    command.add_argument(
        "--batch-rows",
        type=positive,
        default=65_536,
        help="rows held in memory at a time (default 65,536)",
    )
    command.add_argument(
        "--input-format", choices=FORMATS, help="format of standard input and unknown suffixes"
    )
    command.add_argument(
        "--encoding", help="encoding of CSV and JSON lines files (default utf-8), such as latin-1"
    )
    command.add_argument(
        "--output-format", choices=FORMATS, help="format of the files of a folder (default parquet)"
    )
    command.add_argument(
        "--rejects",
        metavar="FILE",
        help="set rows aside that cannot be scored, as JSON lines (.jsonl), and continue",
    )
    command.add_argument(
        "--devices",
        metavar="NAMES",
        help="devices that share the batches, a process each: cuda:0,cuda:1 for example",
    )
    command.add_argument("--resume", action="store_true", help="continue the run of a folder")
    command.add_argument(
        "--checksum",
        action="store_true",
        help="tell changed input files by their contents, not by size and time of writing",
    )
    command.add_argument("--force", action="store_true", help="replace an output that is there")
    command.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(options: argparse.Namespace) -> int:
    """Check all that can be checked before any work, then score file after file."""
    began = time.perf_counter()
    _use_paths(options)
    into_folder = _is_folder(options.output)
    require_options(options, into_folder=into_folder)
    with ExitStack() as stack:
        shards = stack.enter_context(_shards(options))
        check_outputs(options, shards, into_folder=into_folder)
        _sweep(options)
        kept = tuple(dict.fromkeys(name for name in options.keep.split(",") if name))
        methods = options.method and [m for text in options.method for m in text.split(",")]
        scorer = Scorer(load_model(options), methods, kept)
        _ = scorer.names  # methods and columns are refused before a row is read
        needed = scorer.needed(shards[0].schema.names)
        only_kept = tuple(name for name in kept if name not in needed)
        skip = (lambda _: "skip") if options.rejects else None
        table = open_table(shards, (*needed, *only_kept), skip, only_kept)
        advance = stack.enter_context(progress(shards, quiet=options.quiet))
        answering = stack.enter_context(answering_for(options, load_model, scorer, table.schema))
        job = ScoreJob(scorer, table, options.batch_rows, advance, answering)
        _ = job.schema  # what is compiled belongs to the start
        if into_folder:
            return _score_folder(job, options, began)
        started = time.perf_counter()
        rows, rejected = _score_file(job, options)
    _answer(options, job, rows, rejected, started - began, time.perf_counter() - started)
    return 0


def _use_paths(options: argparse.Namespace) -> None:
    """Turn URLs of local files into paths, which all checks are made for."""
    options.input = [as_path(place) for place in options.input]
    options.output = as_path(options.output)
    options.rejects = options.rejects and as_path(options.rejects)


def _is_folder(output: str) -> bool:
    path = output.partition("?")[0]
    return path.endswith("/") or (kind_of(path) is None and Path(path).is_dir())


@contextmanager
def _shards(options: argparse.Namespace) -> Iterator[tuple[Shard, ...]]:
    """Find the input files; standard input is copied to a temporary file first."""
    encoding = options.encoding or UTF8
    if options.input != ["-"]:
        shards = find_shards(options.input, options.input_format, encoding)
        if options.input_format and all(kind_of(shard.path) for shard in shards):
            raise OptionError("--input-format is for files without a known suffix; here is none.")
        if options.encoding and not any(shard.kind in ("csv", "json") for shard in shards):
            raise OptionError("--encoding is for CSV and JSON lines files; here is none.")
        yield shards
        return
    # Parquet and Arrow files are read from their end, which a pipe does not have.
    with scratch() as path:
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        system, place = open_file_system(str(path))
        name = f"standard-input{WRITTEN_SUFFIX[options.input_format]}"
        yield (look_at(Shard(name, options.input_format, system, place, encoding)),)


def _sweep(options: argparse.Namespace) -> None:
    """Remove what killed runs left half-written where this run writes."""
    written = [options.output, options.rejects]
    folders = {os.path.dirname(p) or "." for p in written if p and not is_url(p)}
    for folder in {*folders, folder_of_temporaries()}:
        sweep(folder)


def _score_file(job: ScoreJob, options: argparse.Namespace) -> tuple[int, int]:
    kind = SUFFIXES[os.path.splitext(options.output.partition("?")[0])[1].lower()]
    place = open_output if options.force else open_new_output
    with ExitStack() as stack:
        rejects = text_file(stack, place(options.rejects)) if options.rejects else None
        path = stack.enter_context(place(options.output))
        return job.write(job.table.shards, path, kind, rejects)


def _score_folder(job: ScoreJob, options: argparse.Namespace, began: float) -> int:
    folder = Folder(options.output)
    kind = options.output_format or "parquet"
    asked = describe_run(job, folder, options, kind)
    replaces = replaces_rejects(options, into_folder=True)
    with folder.lock():
        records = folder.begin(asked, resume=options.resume, force=options.force)
        done = {record["output"] for record in records}
        todo = [shard for shard in job.table.shards if folder.output(shard, kind) not in done]
        started = time.perf_counter()
        try:
            for shard in todo:
                records.append(score_shard(job, folder, shard, kind, options))
            if options.rejects:
                join_rejects(
                    folder, asked, (open_output if replaces else open_new_output)(options.rejects)
                )
        except (KeyboardInterrupt, Terminated) as stopped:
            return fail(
                f"Stopped; {len(records)} of {len(job.table.shards)} files are done. "
                "Go on with --resume.",
                as_json=options.json,
                code=code_of(stopped),
            )
        except (HbconvError, OSError) as error:
            raise InputError(
                f"{error} {len(records)} of {len(job.table.shards)} files are done; "
                "--resume goes on."
            ) from error
        folder.finish(asked, records)
    rows = sum(record["rows"] for record in records)
    rejected = sum(record["rejected"] for record in records)
    seconds = time.perf_counter() - started
    _answer(options, job, rows, rejected, started - began, seconds, resumed=len(done))
    return 0


def _answer(
    options: argparse.Namespace,
    job: ScoreJob,
    rows: int,
    rejected: int,
    start: float,
    seconds: float,
    *,
    resumed: int | None = None,
) -> None:
    methods = ", ".join(job.scorer.methods)
    result = {
        "output": options.output,
        "rows": rows,
        "rejected": rejected,
        "start_seconds": round(start, 3),
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
        "method": methods,
        "columns": {field.name: str(field.type) for field in job.schema},
    }
    if resumed is not None:
        result |= {"files": len(job.table.shards), "files_done_before": resumed}
    aside = f", {rejected:,} rejected" if rejected else ""
    before = f", {resumed:,} files done before" if resumed else ""
    answer(
        options,
        result,
        f"{options.output}: {rows:,} rows by {methods}{aside}{before} in {seconds:.2f} s "
        f"({rows / seconds:,.0f} rows/s), start {start:.2f} s",
    )


def require_options(options: argparse.Namespace, *, into_folder: bool) -> None:
    """Refuse options that do not apply, and files that are not there.

    Raises
    ------
    OptionError
    """
    output = options.output
    if into_folder:
        if options.resume and options.force:
            raise OptionError("--resume goes on with a run, and --force replaces it. Give one.")
    else:
        if SUFFIXES.get(os.path.splitext(output.partition("?")[0])[1].lower()) is None:
            raise OptionError(
                f"-o {output}: unknown table format. Known: {', '.join(SUFFIXES)}, or a folder/."
            )
        for name in ("resume", "output_format"):
            if getattr(options, name):
                raise OptionError(
                    f"--{name.replace('_', '-')} is for folders of answers. Give -o folder/."
                )
    if options.encoding:
        require_encoding(options.encoding)
    if options.checksum and not into_folder:
        raise OptionError("--checksum is for folders of answers. Give -o folder/.")
    if options.devices:
        if options.device:
            raise OptionError("--devices names all devices. Leave --device out.")
        options.device = parse_devices(options.devices)[0]  # for what is asked of the model here
    if (
        options.rejects
        and SUFFIXES.get(Path(options.rejects.partition("?")[0]).suffix.lower()) != "json"
    ):
        raise OptionError(f"--rejects {options.rejects}: give a file that ends in .jsonl.")
    if "-" in options.input and (len(options.input) > 1 or not options.input_format):
        raise OptionError("Standard input (-) is given alone, and with --input-format.")
    if not Path(options.model).is_file():
        raise OptionError(f"No file {options.model}.")


def require_encoding(name: str) -> None:
    """Refuse what is no encoding of text.

    Raises
    ------
    OptionError

    Examples
    --------
    >>> require_encoding("Latin1")
    >>> require_encoding("hex")
    Traceback (most recent call last):
    hbconv.errors.OptionError: --encoding hex: no encoding of text. Name one such as latin-1.
    """
    try:
        is_text = codecs.getincrementaldecoder(name)().decode(b"", final=True) == ""
    except (LookupError, ValueError, TypeError):
        is_text = False
    if not is_text:
        raise OptionError(f"--encoding {name}: no encoding of text. Name one such as latin-1.")


@contextmanager
def progress(shards: Sequence[Shard], *, quiet: bool) -> Iterator[Any]:
    """Give a function that takes rows scored, and tells of them on standard error.

    A terminal gets a report at once, and a log after half a minute, then every half minute.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        quiet = True
    if quiet:
        yield lambda rows: None
        return
    # A log keeps every line, so it gets few.
    rest = 0.1 if sys.stderr.isatty() else 30.0
    counts = [shard.rows for shard in shards if shard.rows is not None]
    total = sum(counts) if len(counts) == len(shards) else None
    with tqdm(
        total=total,
        unit=" rows",
        unit_scale=True,
        file=sys.stderr,
        mininterval=rest,
        delay=0 if rest < 1 else rest,
        leave=sys.stderr.isatty(),
    ) as bar:
        yield bar.update
