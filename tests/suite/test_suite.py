"""The rules of the suite: what is chosen, left out, freed, and too slow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from suite import quick, rooms, shares
from suite.time_limits import LEFT, Times

ROOT = Path(__file__).parents[2]

CASES = """
import pytest

@pytest.mark.share("case")
@pytest.mark.parametrize("number", range(600))
def test_shared(number):
    pass

def test_alone():
    pass
"""


@pytest.fixture
def run(tmp_path):
    """A function that runs pytest on a text, under the rules of the suite."""

    def pytest_on(text, *options):
        path = tmp_path / "test_cases.py"
        path.write_text(text)
        setting = (f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), "-p", "conftest")
        folders = (ROOT, ROOT / "tests", ROOT / "tests/support", ROOT / "tests/conformance")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", str(path), *setting, *options],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return pytest_on


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ([], 30, 75),
        (["--share", "60"], 4, 22),
        (["--share", "100000"], 2, 2),
        (["--share", "1"], 601, 601),
        (["--whole"], 601, 601),
    ],
    ids=["ordinary", "one in 60", "at least one", "one in 1", "whole"],
)
def test_a_share_of_the_cases_runs(run, options, least, most):
    assert least <= int(re.search(r"(\d+) passed", run(CASES, *options))[1]) <= most


def test_a_seed_draws_other_cases():
    names = [f"test[{number}]" for number in range(1000)]
    chosen = [{name for name in names if shares._number(name, drawn) % 6 == 0} for drawn in (0, 1)]
    assert all(120 <= len(some) <= 220 for some in chosen)
    assert len(chosen[0] & chosen[1]) < 60


def test_every_kind_of_share_is_in_the_table():
    texts = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    used = {kind for text in texts for kind in re.findall(r'mark\.share\("(\w+)"\)', text)}
    assert {"light", "sweep"} <= used <= {*shares.SHARES}


def test_a_test_runs_where_its_rooms_have_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("HBCONV_TEST_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    monkeypatch.setattr(rooms, "_merge_base", lambda: "")
    (tmp_path / "room").mkdir()
    code = tmp_path / "room" / "code.py"
    code.write_text("1")
    rooms.rooms_digest.cache_clear()
    assert rooms.comparisons("test", ("room",)) == []
    rooms._keep("test", ("room",))
    assert rooms.comparisons("test", ("room",)) == [True]
    assert rooms.comparisons("another test", ("room",)) == []
    code.write_text("2")
    rooms.rooms_digest.cache_clear()
    assert rooms.comparisons("test", ("room",)) == [False]
    rooms.rooms_digest.cache_clear()


def test_a_room_is_compared_with_the_merge_base(tmp_path, monkeypatch):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    monkeypatch.setenv("HBCONV_TEST_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv("HBCONV_BASE", raising=False)
    for name in ("room", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text("1")
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")

    def answers():
        rooms._merge_base.cache_clear()
        rooms.is_as_at_the_merge_base.cache_clear()
        return [any(rooms.comparisons("test", (name,))) for name in ("room", "other")]

    assert answers() == [False, False]  # the main branch tells nothing of itself
    assert rooms.comparisons("test", ("room",)) == []
    git("checkout", "-b", "branch")
    (tmp_path / "other" / "code.py").write_text("2")
    git("commit", "-am", "second")
    assert answers() == [True, False]
    (tmp_path / "room" / "new.py").write_text("3")
    assert answers() == [False, False]
    (tmp_path / "room" / "new.py").unlink()
    monkeypatch.setenv("HBCONV_BASE", "main")
    assert answers() == [True, False]
    monkeypatch.setenv("HBCONV_BASE", "no-such-commit")
    assert answers() == [False, False]
    rooms._merge_base.cache_clear()
    rooms.is_as_at_the_merge_base.cache_clear()


def test_a_command_runs_where_its_rooms_are_known_to_have_changed(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HBCONV_TEST_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    monkeypatch.setattr(rooms, "_merge_base", lambda: "")
    (tmp_path / "code.py").write_text("1")

    def main(*arguments):
        rooms.rooms_digest.cache_clear()
        monkeypatch.setattr(sys, "argv", ["rooms", "engines", "code.py", *arguments])
        assert rooms.main() == 0
        return capfd.readouterr().out

    print_it = ("--run", sys.executable, "-c", "print('run')")
    assert "compared with nothing" in main(*print_it)
    main("--passed")
    assert "have not changed" in main(*print_it)
    (tmp_path / "code.py").write_text("2")
    assert main(*print_it) == "run\n"
    rooms.rooms_digest.cache_clear()


def report(name, seconds):
    found = pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "teardown", duration=seconds)
    found.processor = seconds
    return found


def test_a_test_that_takes_too_long_is_named():
    times = Times(60.0)
    times.pytest_runtest_logreport(report("tests/test_a.py::test_quick", 59.0))
    times.pytest_runtest_logreport(report("tests/test_a.py::test_slow", 61.0))
    assert times.too_long() == ["tests/test_a.py::test_slow: 61 s of the processor"]


def test_times_are_kept_of_whole_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HBCONV_TEST_CACHE", str(tmp_path))
    for names in (["a", "b"], ["a"]):
        times = Times(60.0)
        for name in names:
            times.pytest_runtest_logreport(report(f"tests/test_a.py::{name}", 2.0))
        times.keep()
    assert json.loads((tmp_path / "seconds.json").read_text()) == {"tests/test_a.py": [2, 4.0]}


def test_what_begins_too_late_is_left(run):
    assert LEFT in run("def test_a(): pass", "--limit", "1e-9", "-rs")


@pytest.mark.parametrize(
    ("changed", "files", "cases"),
    [
        (
            "hbconv/parse/sklearn/impute.py",
            {"tests/unit/parse/sklearn/test_impute.py"},
            {"sklearn.impute"},
        ),
        (
            "hbconv/parse/xgboost/trees.py",
            {"tests/unit/parse/xgboost/test_xgboost.py"},
            {"xgboost"},
        ),
        (
            "hbconv/backends/tvm/trees/bitwise/emit.py",
            {"tests/unit/backends/tvm/trees/test_bitwise.py"},
            set(),
        ),
        ("hbconv/serve/routes.py", {"tests/unit/serve/test_routes.py"}, set()),
        ("tests/unit/test_names.py", {"tests/unit/test_names.py"}, set()),
    ],
)
def test_the_nearest_tests_are_chosen(changed, files, cases):
    choice = quick.choose([changed], {})
    assert files <= {*choice.files}
    assert cases <= {*choice.case_modules}


def test_a_node_leads_to_the_parsers_that_use_it():
    near = quick.distances(["hbconv/containers/nodes/neighbors.py"])
    assert near["matrix.cases.sklearn.neighbors.nearest"] == 1
    assert near.get("matrix.cases.sklearn.naive_bayes", quick.FAR) > 1


def test_what_takes_longer_than_there_is_time_is_left():
    near = "tests/unit/backends/tvm/trees/test_bitwise.py"
    other = "tests/unit/backends/tvm/trees/test_categories.py"
    choice = quick.choose(["hbconv/backends/tvm/trees/bitwise/emit.py"], {near: 99.0, other: 99.0})
    assert near in choice.files  # it lies at the same path
    assert other in choice.left
