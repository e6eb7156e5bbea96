"""A few files of each attack end by name; that findings are told apart, and made again."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fresh import run_fresh
from fuzz.runner import damaged

from attack_files.__main__ import SUBJECTS, kind_of
from attack_files.text_keys import TEXT_KEYS, ubjson
from attack_files.values import hostile
from hbconv.parse.xgboost.model_file import decode_ubjson

COUNT = 12
"""Files of a format (for long: ``python -m attack_files --count 30000``)."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the children's memory and time are limited as Linux does it"
)

FEW = """
from attack_files.__main__ import BYTES, SECONDS
from attack_files.hbc_fields import hbc_fields
from fuzz.runner import fuzz
from sklearn.decomposition import DictionaryLearning, NMF
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import LinearSVC
import numpy as np

def models():
    x = np.abs(np.random.default_rng(0).normal(size=(60, 5)))
    yield "weights", NMF(2, max_iter=50).fit(x)
    yield "codes", DictionaryLearning(3, max_iter=3, transform_algorithm="lasso_cd").fit(x)
    yield "pairs", OneVsOneClassifier(LinearSVC()).fit(x, np.arange(60) % 3)

report = fuzz(hbc_fields(models), range(COUNT), SECONDS, BYTES)
print(report)
raise SystemExit(bool(report.findings))
"""


@pytest.mark.share("light")
@pytest.mark.parametrize("name", [subject.name for subject in TEXT_KEYS])
def test_texts_with_a_hostile_value_end_by_name(name):
    ran = run_fresh("-m", "attack_files", "--count", str(COUNT), "--subject", name)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 crashed, 0 unnamed, 0 hung, 0 above memory, 0 wrong" in ran.stdout


def test_files_with_a_hostile_field_end_by_name():
    ran = run_fresh("-c", FEW.replace("COUNT", "40"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "40 files:" in ran.stdout


def test_findings_are_told_apart():
    kinds = {
        "killed: SIGSEGV": "crashed",
        "killed: out of time": "hung",
        "MemoryError: m (5 bytes)": "above memory",
        "AssertionError: predict differs": "wrong",
        "KeyError: 'x' (a.py:3)": "unnamed",
    }
    assert {what: kind_of(what) for what in kinds} == kinds


def test_each_kind_of_value_is_hurt():
    rng = np.random.default_rng(0)
    made = [hostile([1, 2], rng) for _ in range(60)]
    assert {type(value) for value in made} >= {list}
    assert any(isinstance(value, list) and len(value) > 1000 for value in made)
    texts = [hostile("name", rng) for _ in range(200)]
    assert {"\ud800", ""} <= {text for text in texts if isinstance(text, str)}


def test_ubjson_is_what_its_reader_reads():
    document = {"a": [1, 2.5, "x", None, True], "b": {"c": -7}}
    assert decode_ubjson(b"".join(ubjson(document))) == document


def test_a_case_makes_the_same_file_again():
    subject = SUBJECTS["xgboost_keys"]
    files = [b'{"a": [1, 2, 3], "b": "4"}']
    assert damaged(subject, files, 7)[0] == damaged(subject, files, 7)[0]
    assert damaged(subject, files, 7)[0] != damaged(subject, files, 8)[0]
