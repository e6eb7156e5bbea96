"""A short replay; ``python -m replay`` has the long one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from replay.__main__ import ask, compare, read, write

NAME = "LabelEncoder[numbers] on reference"
WAYS = ("transform", "transform bound for 1 of None", "transform compiled", "transform in parts")


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What one model answers."""
    return ask((NAME,))


def test_a_replay_names_the_answers_that_changed(
    answers: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same commit gives the same answers; one that changed is named, and one that is gone."""
    write(tmp_path / "replay.json", answers)
    recorded = read(tmp_path / "replay.json", (NAME,))
    assert compare(recorded, ask((NAME,))) == 0
    first, second, *others = answers
    changed = {first: [*answers[first], "more"], **{case: answers[case] for case in others}}
    assert compare(recorded, changed) == 1
    *_, one, other, total = capsys.readouterr().out.splitlines()
    assert one.startswith(f"case {first}: was ")
    assert other.startswith(f"case {second}: was ")
    assert other.endswith("is absent")
    assert total == f"replay: {len(answers):,} cases, 2 differ"


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_a_call_is_answered(answers: dict[str, Any], way: str) -> None:
    """Rows are answered three times, not refused alone."""
    kinds = [f"{NAME} | {way} | {count} of float64" for count in (1, 1000)]
    answered = [answers[kind] for kind in kinds if kind in answers]
    assert answered
    for answer in answered:
        assert len(answer) == 3
        assert answer[0][0][0] in ("int64", "float64"), answer
