"""Score table files of any number and size, in batches of bounded memory.

Inputs are files, folders, patterns and URLs of parquet, CSV, Arrow or JSON lines, or - for
standard input. An output with a suffix is one file, which appears when it is complete. An output
folder/ holds a file for each input file, and --resume continues after an interruption. The output -
is standard output.
"""

from __future__ import annotations

import argparse
import codecs
import os
import pickle
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hbconv.cli import Terminated, answer, code_of, fail, pair, positive, require_file
from hbconv.cli.score_folder import (
    check_outputs,
    describe_run,
    join_rejects,
    replaces_rejects,
)
from hbconv.cli.sources import load_model, methods_argument, model_arguments, split_names
from hbconv.cli.waiting import LOG_SECONDS, waiting
from hbconv.engines.scorer import Scorer
from hbconv.errors import HbconvError, InputError, OptionError
from hbconv.files import scratch, sweep
from hbconv.score.answers import FIRST, needed_of, require_columns_of_their_own
from hbconv.score.cluster_job import ClusterJob
from hbconv.score.clusters import open_cluster, parse_cluster
from hbconv.score.concurrency import parse_devices
from hbconv.score.formats import SUFFIXES, WRITTEN_SUFFIX, kind_of
from hbconv.score.job import ScoreJob, answering_for
from hbconv.score.outputs import open_new_output, open_output, text_file
from hbconv.score.parts import SharedWork
from hbconv.score.resumable import Folder
from hbconv.score.run_log import log_run
from hbconv.score.shards import UTF8, Shard, as_path, find_shards, is_url, look_at, open_file_system
from hbconv.score.tables import ShardTable, open_table
from hbconv.system.temporary import folder_of_temporaries

__all__: list[str] = []

FORMATS = tuple(WRITTEN_SUFFIX)
STDOUT = "-"

EXAMPLES = """
examples:
  hbconv score model.hbc rows.parquet -o answers.parquet --keep id
  hbconv score model.hbc 'in/**/*.csv' -o answers.csv --methods predict,predict_proba
  hbconv score model.hbc s3://bucket/in/ -o s3://bucket/out/ --resume
  hbconv score model.hbc - --input-format csv -o - --output-format csv
  hbconv score model.hbc rows.csv -o answers.csv --rename spend=SPEND --separator ';'
  hbconv score model.hbc rows.parquet -o answers.parquet --model new=other.hbc
  hbconv score model.hbc s3://bucket/in/ -o s3://bucket/out/ --on dask:tcp://10.0.0.5:8786
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
        help=f"file to write ({', '.join(SUFFIXES)}), folder/ for a file to each input file, or - "
        "for standard output",
    )
    methods_argument(command, "what to call (default: predict, or the model's first)")
    command.add_argument(
        "--model",
        dest="models",
        metavar="NAME=FILE",
        type=pair,
        action="append",
        default=[],
        help="another model, which answers the same rows in columns NAME_...; may be given again",
    )
    command.add_argument(
        "--rename",
        metavar="NEW=OLD",
        type=pair,
        action="append",
        default=[],
        help="read the column OLD of the tables as the column NEW; may be given again",
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
        "--separator",
        type=separator,
        metavar="LETTER",
        help="between the values of CSV files (default ,), such as ';', or tab",
    )
    command.add_argument(
        "--output-format",
        choices=FORMATS,
        help="format of standard output, or of the files of a folder (default parquet)",
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
    command.add_argument(
        "--on",
        metavar="ENGINE[:ADDRESS]",
        help="score on a cluster that is there: ray, spark or dask, with its address or master "
        "(default: the one that the engine finds by itself)",
    )
    command.add_argument("--resume", action="store_true", help="continue the run of a folder")
    command.add_argument(
        "--checksum",
        action="store_true",
        help="tell changed input files by their contents, not by size and time of writing",
    )
    command.add_argument("--force", action="store_true", help="replace an output that is there")
    command.add_argument("--quiet", action="store_true", help="no progress on standard error")
    command.add_argument(
        "--summary",
        metavar="FILE",
        help="add a line of JSON to this file when the run ends, done or failed, for schedulers",
    )


def run(options: argparse.Namespace) -> int:
    """Check all that can be checked before any work, then score file after file."""
    _use_paths(options)
    with log_run(options.summary) as facts:
        facts |= {"model": options.model, "input": options.input, "output": options.output}
        return _score(options, facts)


def _score(options: argparse.Namespace, facts: dict[str, Any]) -> int:
    began = time.perf_counter()
    into_folder = _is_folder(options.output)
    require_options(options, into_folder=into_folder)
    with ExitStack() as stack:
        with waiting("Reading the model and the tables", quiet=options.quiet):
            shards = stack.enter_context(_shards(options))
            check_outputs(options, shards, into_folder=into_folder)
            _sweep(options)
            scorers = load_scorers(options)
            table = _open_table(shards, scorers, options)
        with waiting("Compiling the model", quiet=options.quiet):
            answering = stack.enter_context(answering_for(options, load_scorers, scorers, table))
            job = ScoreJob(scorers, table, options.batch_rows, lambda _: None, answering)
            _ = job.schema  # what is compiled belongs to the start
        if options.on:
            with waiting(f"Connecting to {options.on}", quiet=options.quiet):
                job = stack.enter_context(on_cluster(job, options))
        job = replace(job, advance=stack.enter_context(progress(shards, quiet=options.quiet)))
        if into_folder:
            return _score_folder(job, options, began, facts)
        started = time.perf_counter()
        rows, rejected = _score_file(job, options)
    seconds = time.perf_counter() - started
    _answer(options, job, rows, rejected, started - began, seconds, facts)
    return 0


@contextmanager
def on_cluster(job: ScoreJob, options: argparse.Namespace) -> Iterator[ClusterJob]:
    """Give the same job on the cluster of ``--on``."""
    work = SharedWork(job.scorers, job.table.schema, job.batch_rows, bool(options.rejects))
    threads = max(scorer.model.target.threads for scorer in job.scorers.values())
    with open_cluster(options.on, pickle.dumps(work), threads) as cluster:
        same = {field.name: getattr(job, field.name) for field in fields(job)}
        yield ClusterJob(**same, cluster=cluster)


def load_scorers(options: argparse.Namespace) -> dict[str, Scorer]:
    """Load the models, for the device that the options name.

    Raises
    ------
    OptionError
        A model lacks a method, or two have columns of one name; before a row is read.
    """
    kept = split_names([options.keep])
    methods = split_names(options.methods) or None
    paths = {FIRST: options.model, **dict(options.models)}
    scorers = {
        name: Scorer(
            load_model(argparse.Namespace(**vars(options) | {"model": path})), methods, kept
        )
        for name, path in paths.items()
    }
    require_columns_of_their_own(scorers)
    return scorers


def _open_table(
    shards: Sequence[Shard], scorers: Mapping[str, Scorer], options: argparse.Namespace
) -> ShardTable:
    """Find the types of the columns that some model reads, and of those that are kept."""
    needed = needed_of(scorers, shards[0].schema.names)
    only_kept = tuple(name for name in scorers[FIRST].keep if name not in needed)
    skip = (lambda _: "skip") if options.rejects else None
    return open_table(shards, (*needed, *only_kept), skip, only_kept)


def _use_paths(options: argparse.Namespace) -> None:
    """Turn URLs of local files into paths, which all checks are made for."""
    options.input = [as_path(place) for place in options.input]
    options.output = as_path(options.output)
    options.rejects = options.rejects and as_path(options.rejects)


def _is_folder(output: str) -> bool:
    if output == STDOUT:
        return False
    path = output.partition("?")[0]
    return path.endswith("/") or (kind_of(path) is None and Path(path).is_dir())


@contextmanager
def _shards(options: argparse.Namespace) -> Iterator[tuple[Shard, ...]]:
    """Find the input files; standard input is copied to a temporary file first."""
    form: dict[str, Any] = {
        "encoding": options.encoding or UTF8,
        "separator": options.separator or ",",
        "renames": {old: new for new, old in options.rename},
    }
    if options.input != ["-"]:
        shards = find_shards(options.input, options.input_format, **form)
        if options.input_format and all(kind_of(shard.path) for shard in shards):
            raise OptionError("--input-format is for files without a known suffix; here is none.")
        if options.encoding and not any(shard.kind in ("csv", "json") for shard in shards):
            raise OptionError("--encoding is for CSV and JSON lines files; here is none.")
        if options.separator and not any(shard.kind == "csv" for shard in shards):
            raise OptionError("--separator is for CSV files; here is none.")
        yield shards
        return
    # Parquet and Arrow files are read from their end, which a pipe does not have.
    with scratch() as path:
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        system, place = open_file_system(str(path))
        name = f"standard-input{WRITTEN_SUFFIX[options.input_format]}"
        yield (look_at(Shard(name, options.input_format, system, place, **form)),)


def _sweep(options: argparse.Namespace) -> None:
    """Remove what killed runs left half-written where this run writes."""
    written = [options.output, options.rejects]
    places = [p for p in written if p and p != STDOUT and not is_url(p)]
    folders = {os.path.dirname(place) or "." for place in places}
    for folder in {*folders, folder_of_temporaries()}:
        sweep(folder)


def _score_file(job: ScoreJob, options: argparse.Namespace) -> tuple[int, int]:
    place = open_output if options.force else open_new_output
    with ExitStack() as stack:
        rejects = text_file(stack, place(options.rejects)) if options.rejects else None
        if options.output == STDOUT:
            path = stack.enter_context(_standard_output())
            return job.write(job.table.shards, path, options.output_format, rejects)
        kind = SUFFIXES[os.path.splitext(options.output.partition("?")[0])[1].lower()]
        path = stack.enter_context(place(options.output))
        return job.write(job.table.shards, path, kind, rejects)


@contextmanager
def _standard_output() -> Iterator[Path]:
    """Give a temporary file, which goes to standard output when the block ends without an error."""
    # Whoever reads must not take half of the answers for all of them.
    with scratch() as path:
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()


def _score_folder(
    job: ScoreJob, options: argparse.Namespace, began: float, facts: dict[str, Any]
) -> int:
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
            for record in job.write_files(folder, todo, kind, set_aside=bool(options.rejects)):
                records.append(record)
            if options.rejects:
                join_rejects(
                    folder, asked, (open_output if replaces else open_new_output)(options.rejects)
                )
        except (KeyboardInterrupt, Terminated) as stopped:
            facts |= {"status": "stopped", "files_done": len(records)}
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
    _answer(options, job, rows, rejected, started - began, seconds, facts, resumed=len(done))
    return 0


def _answer(
    options: argparse.Namespace,
    job: ScoreJob,
    rows: int,
    rejected: int,
    start: float,
    seconds: float,
    facts: dict[str, Any],
    *,
    resumed: int | None = None,
) -> None:
    methods = ", ".join(job.methods)
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
    facts |= result
    aside = f", {rejected:,} rejected" if rejected else ""
    before = f", {resumed:,} files done before" if resumed else ""
    # Standard output may hold the answers themselves.
    told = sys.stderr if options.output == STDOUT else sys.stdout
    if told is sys.stderr and options.quiet:
        return
    answer(
        options,
        result,
        f"{options.output}: {rows:,} rows by {methods}{aside}{before} in {seconds:.2f} s "
        f"({rows / seconds:,.0f} rows/s), start {start:.2f} s",
        told,
    )


def require_options(options: argparse.Namespace, *, into_folder: bool) -> None:
    """Refuse options that do not apply, and files that are not there.

    Raises
    ------
    OptionError
    """
    if into_folder:
        if options.resume and options.force:
            raise OptionError("--resume goes on with a run, and --force replaces it. Give one.")
    else:
        _require_one_file(options)
    if options.encoding:
        require_encoding(options.encoding)
    if options.checksum and not into_folder:
        raise OptionError("--checksum is for folders of answers. Give -o folder/.")
    if options.on:
        _require_cluster_options(options)
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
    for what, pairs in (("--model", options.models), ("--rename", options.rename)):
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise OptionError(f"{what}: {max(names, key=names.count)} is named twice.")
    for model in (options.model, *(path for _, path in options.models)):
        require_file(model)


def _require_cluster_options(options: argparse.Namespace) -> None:
    """Refuse what does not go with a cluster.

    Raises
    ------
    OptionError
    """
    parse_cluster(options.on)
    if options.devices:
        raise OptionError("--devices shares the batches on this machine. Leave it or --on out.")
    if options.device not in (None, "cpu"):
        raise OptionError(f"--device {options.device}: --on computes on CPUs. Leave one out.")
    if "-" in options.input:
        raise OptionError("--on reads files that all workers see, and not standard input.")


def _require_one_file(options: argparse.Namespace) -> None:
    """Refuse what does not go with an output of one file, or with standard output."""
    output = options.output
    if options.resume:
        raise OptionError("--resume is for folders of answers. Give -o folder/.")
    if output == STDOUT:
        if not options.output_format:
            raise OptionError("Standard output (-) is given with --output-format.")
        return
    if SUFFIXES.get(os.path.splitext(output.partition("?")[0])[1].lower()) is None:
        raise OptionError(
            f"-o {output}: unknown table format. Known: {', '.join(SUFFIXES)}, or a folder/."
        )
    if options.output_format:
        raise OptionError(
            "--output-format is for folders and standard output; here the suffix tells."
        )


def separator(text: str) -> str:
    r"""Read what separates the values of a row for argparse.

    >>> separator(";"), separator("tab")
    (';', '\t')
    """
    letter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(letter) != 1 or not letter.isascii() or letter in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} is not one letter of ASCII, or tab")
    return letter


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

    A terminal gets a report at once, and a log one every half minute.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        quiet = True
    if quiet:
        yield lambda rows: None
        return
    # A log keeps every line, so it gets few.
    rest = 0.1 if sys.stderr.isatty() else LOG_SECONDS
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
