"""Batteries that pass, fail, hang or tell nothing: the night goes on, and names what failed."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import suppress
from pathlib import Path

import pytest
from night import BATTERIES
from night_runner import LEFT, ROOT, Battery, Night, find_missing, run_night
from suite import time_limits

CASES = {"cases": r"^([\d,]+) cases", "findings": r"^case .+"}
HANGS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600)
"""
LEAVES = HANGS.removesuffix("time.sleep(600)\n") + "print('1 cases')"
TESTS = f"""
import pytest

def test_passes(): pass

def test_fails(): assert False

@pytest.mark.parametrize("n", range(3))
def test_is_left(n): pytest.skip("{LEFT} 1 s")

@pytest.mark.skip
def test_is_skipped(): pass

@pytest.fixture
def broken():
    yield
    raise OSError

def test_fails_twice(broken): assert False
"""


def fake(name, *commands, minutes=1.0, **options):
    """A battery whose limit no command comes near to, unless it is given another."""
    return Battery(name, minutes, f"does it {name}?", commands, **options)


def script(text, *words):
    """A command that runs a script, whose braces are no fields."""
    quoted = shlex.join(["-c", text, *map(str, words)])
    return "{python} " + quoted.replace("{", "{{").replace("}", "}}")


@pytest.fixture
def run(tmp_path, capsys):
    """Run batteries: the exit code, the batteries of night.json, and what is printed."""

    def run(*batteries, grace_seconds=1.0):
        code = run_night(batteries, Night(20261127, 1.0, tmp_path, grace_seconds))
        told = json.loads((tmp_path / "night.json").read_text("utf-8"))
        return code, {one["name"]: one for one in told["batteries"]}, capsys.readouterr().out

    return run


def require_end(process):
    """Require that a process ends soon: it is waited for by whoever inherits it."""
    until = time.monotonic() + 10
    while is_alive(process):
        assert time.monotonic() < until, f"process {process} is still there"
        time.sleep(0.02)


def is_alive(process):
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_night_goes_on_and_names_what_failed(run, tmp_path):
    child = tmp_path / "child"
    code, told, printed = run(
        fake("pass", script("print('1,200 cases')"), **CASES),
        fake("fail", script("print('9 cases\\ncase 4: dead'); raise SystemExit(1)"), **CASES),
        fake("hang", script(HANGS, child), minutes=2 / 60),
        fake("break", script("import os; os.abort()"), script("0"), **CASES),
        fake("leave", script("print('70 cases')"), count=100, **CASES),
        fake("tell", script("print('well')"), **CASES),
        fake("need", script("0"), needs=("valgrund", "python3", "json")),
    )
    assert code == 1
    assert told["pass"]["passed"] == 1200
    assert told["pass"]["peak_bytes"] > 1e6
    assert (told["fail"]["passed"], told["fail"]["failures"]) == (8, ["case 4: dead"])
    assert told["hang"]["failures"] == ["killed 1 s after its limit; the log says where it stood"]
    assert 'File "<string>", line 5 in <module>' in (tmp_path / "hang.log").read_text()
    require_end(int(child.read_text()))
    assert told["break"]["failures"][0].startswith("command 1: ended with status -6: ")
    assert told["break"]["failures"][1] == "command 2: wrote no report: it wrote nothing"
    assert (told["leave"]["passed"], told["leave"]["left"]) == (70, 30)
    assert told["tell"]["failures"] == ["wrote no report: well"]
    assert told["need"]["not_run"] == "valgrund is missing"
    assert "| need | does it need? | not run: valgrund is missing | | |" in printed
    assert "| pass | does it pass? | 1,200 | 0 | 0.0 |" in printed
    assert f"- fail, {tmp_path}/fail.log\n  - case 4: dead\n- hang" in printed
    assert printed.endswith((tmp_path / "night.md").read_text())


def test_a_command_without_time_is_left(run):
    wait = script("import time; time.sleep(0.2)")
    code, told, printed = run(fake("wait", wait, wait, minutes=0.1 / 60), grace_seconds=60.0)
    assert code == 0
    assert (told["wait"]["passed"], told["wait"]["left"]) == (1, 1)
    assert "| 1, 1 left | 0 |" in printed


def test_a_night_without_failures_ends_well(run):
    code, _, printed = run(fake("pass", script("0")))
    assert code == 0
    assert "Nothing failed." in printed


def test_what_a_command_leaves_behind_ends_with_it(run, tmp_path):
    child = tmp_path / "child"
    code, _, _ = run(fake("leave", script(LEAVES, child), **CASES))
    assert code == 0
    require_end(int(child.read_text()))


def test_tests_are_counted_from_their_report(run, tmp_path):
    tests = tmp_path / "test_it.py"
    tests.write_text(TESTS)
    command = "env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {python} -m pytest -p no:cacheprovider"
    command += " --junitxml {junit} -c /dev/null "
    code, told, printed = run(Battery("whole", 1, "", (command + shlex.quote(str(tests)),)))
    found = told["whole"]
    names = ["test_it::test_fails", "test_it::test_fails_twice"]
    assert code == 1
    assert [found[name] for name in ("passed", "failed", "skipped", "left")] == [1, 2, 1, 3]
    assert [name.rpartition(".")[2] for name in found["failures"]] == names
    assert "| 3, 3 left | 2 |" in printed


def test_a_test_that_takes_too_long_is_named(run):
    line = "FAILED tests/a.py::b: 75 s of the processor; 60 s are allowed"
    tell = "; import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('<testsuites/>'); exit(1)"
    _, told, _ = run(fake("whole", script(f"print({line!r})" + tell) + " {junit}"))
    assert told["whole"]["failures"] == ["tests/a.py::b: 75 s of the processor"]
    assert line.endswith(f"; {time_limits.PROCESSOR_SECONDS:.0f} s are allowed")


def test_scale_multiplies_counts_and_limits(tmp_path):
    battery = fake("ask", "{python} {count} {first} {minutes} {seed}", count=100)
    words = Night(20261127, 0.15, tmp_path).fill(battery, 0, 30.0)
    assert words[-4:] == ["15", str(20261127 * 15), "0.50", "20261127"]


def test_numbers_are_all_up_to_the_count_or_some(tmp_path):
    battery = fake("ask", "{numbers}", count=70)
    all_of_them, some = (
        [int(word) for word in Night(7, scale, tmp_path).fill(battery, 0, 30.0)]
        for scale in (1.5, 0.1)
    )
    assert all_of_them == [*range(1, 71)]
    assert len(set(some)) == 7
    assert set(some) < set(all_of_them)


@pytest.mark.parametrize("battery", BATTERIES, ids=lambda battery: battery.name)
def test_commands_name_files_that_are_there(battery, tmp_path):
    night = Night(20261127, 0.15, tmp_path)
    for number in range(len(battery.commands)):
        words = night.fill(battery, number, 60.0)
        paths = [word.rpartition("=")[2] for word in words if "tests/" in word]
        assert [path for path in paths if not all(map(_exists, path.split(":")))] == []


def _exists(path):
    return (ROOT / path).exists()


def test_reasons_of_the_limit_are_pytests():
    assert time_limits.LEFT == LEFT


def test_nothing_is_missing_where_nothing_is_needed():
    assert find_missing(fake("pass")) == ""
