"""The check of devices: its runner with parts that end, hang, die and flood; its page; and a
rehearsal of every part on the CPU, for a minute on a device is dear.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.gpu import environment, figures, page, peers, place
from benchmarks.gpu.__main__ import find_parts, main
from benchmarks.gpu.child import results
from benchmarks.gpu.fitted import MODELS, find
from benchmarks.gpu.parts import PARTS, PREDICTED, Part, kernels, sanitize, score, unproven
from benchmarks.gpu.place import Cuda, Rehearsal
from benchmarks.gpu.processes import ROOT, SAID_BYTES, Ended, run_limited
from benchmarks.gpu.record import Record, State
from benchmarks.gpu.runner import Lines, in_order, run_parts
from benchmarks.gpu.sanitizer import find_sanitizer
from benchmarks.gpu.shown import last_lines

ROOMS = ("benchmarks/gpu", "tests/gpu", "tests/support", "hbconv/backends/cuda")
THREE = (Part("first", 10, ""), Part("second", 20, ""), Part("third", 30, ""))
MINUTES = 8
STARTING = 10
"""Seconds that a process may take before it asks anything: 10 were measured, with 8 at once."""
RETURNED = 12_000
"""Characters of the end of an output that come back from a machine that is rented."""


class Clock:
    """Seconds that pass only when a part takes them."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Fakes:
    """Parts that take the seconds they are given; each finds one thing first."""

    def __init__(self, clock, **seconds):
        self.clock = clock
        self.seconds = seconds
        self.ran = []
        self.known = {}

    def __call__(self, part, known, take):
        self.ran.append(part.name)
        self.known[part.name] = known
        take({"what": part.name, "way": "once", "microseconds": len(self.ran)})
        taken = self.seconds.get(part.name, 1)
        self.clock.now += min(taken, part.seconds)
        return Ended(0 if taken <= part.seconds else None, taken, "said")


def run(record, budget=100.0, **seconds):
    clock = Clock()
    fakes = Fakes(clock, **seconds)
    told = []
    run_parts(THREE, record, budget, fakes, lambda *words: told.append(words), clock)
    return fakes.ran, told


def states(record):
    return [record.state(part.name) for part in THREE]


def test_parts_run_in_their_order_and_a_second_call_runs_none():
    record = Record()
    assert run(record)[0] == ["first", "second", "third"]
    assert states(record) == [State.DONE] * 3
    assert run(record)[0] == []


def test_a_part_that_no_longer_fits_is_named_and_a_shorter_one_behind_it_runs():
    record = Record()
    ran, told = run(record, budget=31.0, first=2)
    assert ran == ["first", "second"]
    assert states(record) == [State.DONE, State.DONE, State.LEFT]
    assert told[-1] == ("third", "  its 30 s do not fit the 28 s that are left")
    record = Record()
    record.set("second", state=State.DONE)
    assert run(record, budget=29.0)[0] == ["first"]


def test_what_never_began_comes_before_what_was_cut():
    record = Record()
    run(record, budget=32.0, first=99)
    assert states(record) == [State.CUT, State.DONE, State.LEFT]
    assert [part.name for part in in_order(THREE, record)] == ["third", "first"]
    assert run(record)[0] == ["third", "first"]
    assert states(record) == [State.DONE] * 3


def test_results_are_in_the_file_when_the_runner_is_killed(tmp_path):
    record = Record(tmp_path / "folder" / "found.json")

    def killed(part, known, take):
        take({"what": "found", "way": "early"})
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        run_parts(THREE, record, 100, killed, print)
    held = Record.read(record.path)
    assert held.rows("first") == [{"what": "found", "way": "early"}]
    assert states(held) == [State.BEGUN, State.LEFT, State.LEFT]
    assert in_order(THREE, held)[-1].name == "first"


def test_a_result_takes_the_place_of_the_same_one():
    record = Record()
    record.add("first", {"what": "a", "rows": 1, "way": "x", "microseconds": 2})
    record.add("first", {"what": "a", "rows": 2, "way": "x", "microseconds": 3})
    record.add("first", {"what": "a", "rows": 1, "way": "x", "microseconds": 4})
    assert [row["microseconds"] for row in record.rows("first")] == [3, 4]


def test_a_part_that_was_cut_does_not_ask_again_what_it_knows():
    record = Record()
    for what in ("a", "b", "b", "d"):
        record.add("first", {"what": what, "way": str(len(record.rows("first")))})
    record.add("first", {"what": "c", "way": "test", "outcome": State.CUT})
    record.add("first", {"what": "e", "way": "test", "outcome": "passed"})
    record.set("first", state=State.CUT)
    fakes = Fakes(Clock())
    run_parts(THREE, record, 100, fakes, lambda name, line: None, fakes.clock)
    assert fakes.known == {"first": ["a", "b", "d"], "second": [], "third": []}
    place = Rehearsal(frozenset(["a"]))
    assert [*figures.named(place, "a", lambda: [{"what": "a"}])] == []
    (failed,) = figures.named(place, "b", lambda: [{"what": 1 // 0}])
    assert failed["failed"].startswith("ZeroDivisionError")


def test_a_part_that_dies_has_failed():
    record = Record()
    run_parts(
        THREE,
        record,
        100,
        lambda part, known, take: Ended(-11, 1.0, "fault"),
        lambda name, line: None,
    )
    assert states(record) == [State.FAILED] * 3
    assert "said: 'fault'" in last_lines(THREE, record)


def script(text):
    return [sys.executable, "-c", text]


def test_grandchildren_of_other_sessions_are_killed(tmp_path):
    pid = tmp_path / "pid"
    ended = run_limited(
        script(
            "import subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
            " start_new_session=True)\n"
            f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
            "time.sleep(99)"
        ),
        2.0,
    )
    assert ended.status is None
    until = time.monotonic() + 5
    while is_running(int(pid.read_text())) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(int(pid.read_text()))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_is_left_behind_is_killed(tmp_path):
    leaves = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "print(child.pid)"
    )
    ended = run_limited(script(leaves), 30)
    assert ended.status == 0
    assert not is_running(int(ended.said))


def test_a_flood_is_read_and_only_its_end_is_kept():
    ended = run_limited(script("import sys\nwhile True: sys.stderr.write('x' * 9999)"), 0.5)
    assert ended.status is None
    assert len(ended.said) == SAID_BYTES


def test_a_command_that_dies_says_how():
    ended = run_limited(script("import os\nprint('soon')\nos.abort()"), 30, environment={"A": "1"})
    assert ended.status == -6
    assert "soon" in ended.said or ended.said == ""


def test_a_line_that_is_not_whole_is_left(tmp_path):
    taken = []
    lines = Lines(tmp_path / "rows.jsonl", taken.append)
    lines.read()
    lines.path.write_text('{"what": 1}\n{"wha')
    lines.read()
    with lines.path.open("a") as file:
        file.write('t": 2}\n')
    lines.read()
    lines.read()
    assert taken == [{"what": 1}, {"what": 2}]


def test_the_last_lines_come_back_whole_with_every_state():
    record = Record()
    for part in THREE:
        for number in range(300):
            record.add(part.name, {"what": f"model {number}", "way": "x" * 40, "microseconds": 1})
        record.set(part.name, state=State.DONE)
    record.facts["environment"] = {"nvforest": "missing; asked for by a peer", "torch": "2.11"}
    text = last_lines(THREE, record)
    assert len(text) < RETURNED
    assert "\nmissing, so left out: nvforest\n" in text
    assert text.endswith("first done, second done, third done")


def test_limits_fit_the_time():
    assert sum(part.seconds for part in PARTS) <= MINUTES * 60


def test_every_test_of_devices_is_asked():
    asked = {test.partition("[")[0] for test in (*unproven.TESTS, *kernels.TESTS)}
    there = {
        f"tests/gpu/{path.name}::{name}"
        for path in (ROOT / "tests/gpu").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert asked == there


def test_unknown_parts_are_named():
    assert find_parts("predicted,calls") == [PREDICTED, PARTS[1]]
    with pytest.raises(Exception, match="no part other; there are unproven"):
        find_parts("other")


def test_the_page_keeps_what_is_not_known(tmp_path):
    written = tmp_path / "page.md"
    text = "".join(f"<!-- {title} -->\nold\n<!-- end of {title} -->\n" for title in page.TABLES)
    written.write_text(text)
    record = Record(facts={"device": "A device"})
    row = {"what": "m", "rows": 1_000_000, "low": 1.0, "high": 3.0, "calls": 9}
    record.add("kernels", {**row, "way": "walk", "microseconds": 2.0, "predicted": 1.5})
    record.add("kernels", {**row, "way": "nvforest", "microseconds": 4.0, "peer": True})
    record.add("kernels", {"what": "m", "way": "walk, bits", "differing": []})
    facts = {
        "device": "H100",
        "kernel": "walk",
        "up to rows": 1_000_000,
        "clocks a row": 1,
        "limit": "integer",
    }
    facts |= {"shared bytes": 1000, "microseconds": 1.0}
    record.add("predicted", {"what": "m", "way": "walk, H100", **facts})
    record.add("predicted", {"what": "m", "way": "bits, H100", **facts, "kernel": "bits"})
    page.write(written, record)
    found = written.read_text()
    assert "| m | walk | 1.5 | 2.0 | 1.3 |" in found
    assert "| m | bits | 1.0 |  |  |" in found
    assert "A device.\n\n| model | rows | fastest kernel" in found
    assert "| m | 1,000,000 | walk | 2.0 | 1.0 to 3.0 |  | 5e+11 | nvforest | 4.0 | 2.0 |" in found
    assert found.count("\nold\n") == len(page.TABLES) - 3


def test_the_environment_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name == "tvm" else name)
    told = environment.describe()
    assert "apache-tvm         missing; asked for by backend tvm" in told
    assert "pip install apache-tvm\n" in told
    program = tmp_path / "cuda-13" / "bin" / "compute-sanitizer"
    program.parent.mkdir(parents=True)
    monkeypatch.setenv("PATH", "")
    assert find_sanitizer(str(tmp_path)) is None
    program.touch()
    assert find_sanitizer(str(tmp_path)) == str(program)


def test_the_environment_names_what_packages_load():
    """A folder of wheels that lacks one fails on the device, and not before."""
    there = set().union(*map(required, ("torch", "scikit-learn", "cupy-cuda13x")))
    known = {canonicalize_name(name) for name in environment.PACKAGES} | there
    for name in environment.PACKAGES:
        left_out = {other for other in required(name) if not other.startswith("nvidia-")} - known
        assert not left_out, name


def required(package):
    """Return what a package needs on Linux, extras aside; nothing, where it is not installed."""
    with suppress(PackageNotFoundError):
        found = map(Requirement, requires(package) or ())
        asked = {"extra": "", "sys_platform": "linux", "platform_system": "Linux"}
        return {
            canonicalize_name(r.name) for r in found if not r.marker or r.marker.evaluate(asked)
        }
    return set()


def test_what_a_part_waits_for_ends_before_the_part():
    """A process takes seconds to import torch, and a part that is cut has told nothing."""
    limits = {part.name: part.seconds - STARTING for part in PARTS}
    assert max(unproven.TESTS.values()) <= limits["unproven"]
    assert max(kernels.TESTS.values()) <= limits["kernels"]
    assert limits["sanitize"] >= sanitize.SECONDS
    assert limits["score"] >= score.SECONDS


def test_a_device_is_asked_as_torch_allows(monkeypatch):
    """Signatures are torch's own; what they answer is made up."""
    event = create_autospec(torch.cuda.Event, instance=True)
    event.elapsed_time.return_value = 2.0
    monkeypatch.setattr(torch.cuda, "Event", create_autospec(torch.cuda.Event, return_value=event))
    for name, found in (
        ("synchronize", None),
        ("memory_allocated", 5),
        ("max_memory_allocated", 7),
        ("reset_peak_memory_stats", None),
        ("current_device", 0),
    ):
        spec = create_autospec(getattr(torch.cuda, name), return_value=found)
        monkeypatch.setattr(torch.cuda, name, spec)
    monkeypatch.setattr(place, "describe_device", str)
    device = Cuda()
    row = figures.on_device(device, figures.figure(device, "m", 1, "w", lambda: 1), lambda: 1)
    assert row["device microseconds"] == 2000.0
    assert (device.held_bytes(), device.peak_bytes(lambda: 1)) == (5, 2)
    assert device.sizes() == "cuda:0"
    assert [name for name, _ in device.test_commands(["a", "b"])] == ["a", "b"]
    monkeypatch.setattr(place, "find_sanitizer", lambda: "sanitizer")
    assert [name for name, _ in device.kernel_commands()] == ["memcheck", "racecheck"]
    monkeypatch.setattr(place, "find_sanitizer", lambda: None)
    assert device.kernel_commands() == []


NVFOREST = """
class Forest:
    def optimize(self, *, data=None, batch_size=1024, unique_batches=10, timeout=0.2): return self
    def predict(self, X): return X.sum(1)

def load_model(model_file, *, model_type=None, device="auto", precision=None): return Forest()
"""


def test_nvforest_is_called_as_its_pages_say(monkeypatch, tmp_path):
    (tmp_path / "nvforest.py").write_text(NVFOREST)
    monkeypatch.syspath_prepend(tmp_path)
    model = type("Model", (), {"for_peers": lambda self: Path("model.txt")})()
    for _, make in peers.find_nvforest(model):
        predict = make()
        assert predict(torch.ones(3, 2)).tolist() == predict(torch.ones(3, 2)).tolist() == [2] * 3
    sys.modules.pop("nvforest")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MODELS if "covtype" not in name])
def test_models_are_kept_and_read(name, models):
    """Shapes of several classes need more rows to be fitted to than a rehearsal has."""
    found = find(name, models, Rehearsal())
    again = find(name, models, Rehearsal())
    assert again == found
    assert found.rows(3).shape == (3, len(found.on_host().schema.columns))
    read = found.for_peers()
    assert (read is None) == (name in ("linear", "mixed", "mixed-trees"))


@pytest.mark.parametrize("name", ["xgboost-d6", "deep"])
def test_peers_answer_tensors(name, models):
    model = find(name, models, Rehearsal())
    forest = model.forest()
    x = torch.tensor(model.rows(5))
    for _, make in peers.peers(model, forest, Rehearsal()):
        assert np.asarray(make()(x)).reshape(5, -1).shape == (5, forest.n_outputs)


@pytest.mark.rooms(*ROOMS)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", [part.name for part in (*PARTS, PREDICTED)])
def test_every_part_is_rehearsed(part, models):
    rows = list(results(part, Rehearsal(), models))
    assert rows
    assert [row for row in rows if "failed" in row] == []
    assert [row for row in rows if row.get("differing")] == []
    assert json.loads(json.dumps(rows)) == rows


def test_without_a_device_the_environment_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(environment, "_device", lambda: "missing: there is no driver")
    found = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["gpu", "--json", str(found), "--parts", "calls"])
    assert main() == 1
    assert capsys.readouterr().out.startswith("device             missing: there is no driver\n")
    assert not found.exists()


@pytest.mark.rooms(*ROOMS)
def test_the_whole_program(tmp_path, monkeypatch, capsys):
    """A part in a process of its own, its file, and the page."""
    found = tmp_path / "found.json"
    written = tmp_path / "page.md"
    written.write_text("<!-- tests -->\nold\n<!-- end of tests -->\n")
    words = f"--json {found} --parts sanitize --rehearse --models {tmp_path} --write {written}"
    monkeypatch.setattr(sys, "argv", ["gpu", *words.split()])
    monkeypatch.setenv("HBCONV_CACHE", os.environ.get("HBCONV_CACHE", str(tmp_path)))
    assert main() == 0
    assert Record.read(found).rows("sanitize")[0]["outcome"] == "passed"
    assert "| every kernel | emulated | passed |" in written.read_text()
    assert capsys.readouterr().out.endswith("sanitize done\n")
