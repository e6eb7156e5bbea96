"""That the judge of damaged models sees what it is to see, and that all kinds of arrays are
damaged.
"""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from fuzz.files import FILES
from fuzz.judge import answers_alike, in_child
from fuzz.mutate import mutate_array
from fuzz.runner import Subject, fuzz


def test_arrays_of_records_are_damaged_too():
    nodes = np.zeros(5, [("feature", "i8"), ("threshold", "f8"), ("leaf", "?")])
    made = [mutate_array(nodes, np.random.default_rng(seed)) for seed in range(40)]
    assert {len(array) for array in made} >= {0, 2, 5, 10}
    for field in nodes.dtype.names:
        assert any(array[field].any() for array in made)


def test_a_single_number_is_damaged_too():
    made = [mutate_array(np.array(3), np.random.default_rng(seed)) for seed in range(40)]
    assert {array.shape for array in made} >= {(), (1,)}
    assert any(array.shape == () and array != 3 for array in made)


def test_damage_that_fails_is_reported():
    def mutate(data, rng):
        raise ValueError("cannot be damaged")

    report = fuzz(
        Subject(
            "whole", lambda folder: (folder / "a").write_bytes(b"a"), mutate, lambda path, rng: None
        ),
        range(2),
    )
    assert "cannot be damaged" in report.findings[1]


def test_the_noise_of_a_large_number_in_a_row_is_no_difference():
    source = {"transform": np.array([[1e8, 1e-7], [1.0, 1e-7]])}
    answers_alike(source, {"transform": source["transform"] + [[0, 1e-7], [0, 0]]})
    with pytest.raises(AssertionError, match="differs"):
        answers_alike(source, {"transform": source["transform"] + [[0, 0], [0, 1e-7]]})


def test_of_float32_numbers_the_noise_is_larger():
    source = {"transform": np.array([[3194.0, 1e-2]], np.float32)}
    answers_alike(source, {"transform": source["transform"] + np.float32([[0, 1e-3]])})
    with pytest.raises(AssertionError, match="differs"):
        answers_alike(source, {"transform": source["transform"] + np.float32([[0, 1e-2]])})
    wide = {"transform": source["transform"].astype(np.float64)}
    with pytest.raises(AssertionError, match="differs"):
        answers_alike(wide, {"transform": wide["transform"] + [[0, 1e-3]]})


def test_the_models_of_a_number_are_the_same_each_time(tmp_path):
    members = []
    skops = next(subject for subject in FILES if subject.name == "skops")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        skops.corpus(tmp_path / name)
        members.append([_arrays(path) for path in sorted((tmp_path / name).iterdir())])
    assert members[0] == members[1]


def _arrays(path):
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist() if name.endswith(".npy")]


def test_answers_that_differ_and_errors_without_a_name_are_found():
    def attempt(path, rng):
        if rng.random() < 0.5:
            raise KeyError("learner")
        answers_alike({"predict": np.zeros(3)}, {"predict": np.zeros(3) + 1e-3})

    report = fuzz(
        Subject(
            "poison",
            lambda folder: (folder / "a").write_bytes(b"a"),
            lambda data, rng: data,
            attempt,
        ),
        range(10),
    )
    assert report.outcomes["unnamed"] == 10
    assert {what.partition(":")[0] for what in report.findings.values()} == {
        "KeyError",
        "AssertionError",
    }


def test_a_source_that_dies_answers_nothing():
    import os

    assert in_child(lambda: os.kill(os.getpid(), 9)) == (False, None)
    assert in_child(lambda: 1 / 0) == (True, None)
    assert in_child(lambda: [1, 2]) == (True, [1, 2])
