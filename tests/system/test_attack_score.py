"""A few cases of the attack on ``hbconv score``, and that it sees what it is to see."""

import os
import subprocess
import sys
from pathlib import Path

import attack_score
import pytest

FOLDER = Path(__file__).parent
DAMAGED = "1", "16"
"""First case and count: two files of each format."""
KILLED = "40", "1"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the children's memory and time are limited as Linux does it"
)


@pytest.mark.parametrize(("first", "count"), [DAMAGED, KILLED], ids=["damaged", "killed"])
def test_nothing_is_found(first, count):
    paths = os.pathsep.join([str(FOLDER), *filter(None, sys.path)])
    command = [sys.executable, str(FOLDER / "attack_score.py"), "--first", first, "--count", count]
    environment = {**os.environ, "PYTHONPATH": paths}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith(f"attack_score: {count} cases in ")
    assert "0 crashed, 0 unnamed, 0 hung, 0 above memory, 0 wrong" in ran.stdout


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ("id,note,predict\n1,x,no\n", "2 rows, 1 answers"),
        ("id,note,predict\n1,x,no\n2,y,no\n", "row 2: no"),
        ("id,note,predict\n1,x,no\n2,z,yes\n", "note is 'z'"),
    ],
)
def test_lost_and_other_rows_are_seen(tmp_path, monkeypatch, answers, what):
    monkeypatch.chdir(tmp_path)
    file = Path("rows.csv")
    file.write_text("id,a,note,b\n1,-2,x,2\n2,2,y,-2\n")
    Path("o.csv").write_text("id,note,predict\n1,x,no\n2,y,yes\n")
    attack_score.judge(file, 0, "", "o.csv", [])
    Path("o.csv").write_text(answers)
    with pytest.raises(attack_score.RowsDifferError, match=what):
        attack_score.judge(file, 0, "", "o.csv", [])


def test_findings_are_counted_by_their_kind():
    findings = {
        1: "killed: SIGSEGV",
        2: "killed: out of time",
        3: "KeyError: 'a' (x.py:3)",
        4: "RowsDifferError: row 2: no",
        5: "MemoryError: ",
    }
    found = attack_score.counts(attack_score.Report(findings=findings))
    assert found == {"crashed": 1, "unnamed": 1, "hung": 1, "above memory": 1, "wrong": 1}
