"""What a user meets first: help with examples, short explanations, comparisons with the library
that a model file is of, and stored programs that run when they are trusted.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier, XGBRegressor

import hbconv
from hbconv.cli import COMMANDS, main, parser
from hbconv.sources.verification import compare

NAMES = list("abcd")
ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 4)), columns=NAMES)
CLASSES = np.arange(90) % 3


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def examples():
    """Commands of the examples in the help of each command and of all."""
    texts = [parser().epilog]
    for name in COMMANDS:
        module = sys.modules[f"hbconv.cli.{name.replace('-', '_')}"]
        texts.append(module.EXAMPLES)
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [line for line in lines if line.startswith("hbconv ") and "COMMAND" not in line]


@pytest.fixture(scope="module")
def boosters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boosters")
    ROWS.to_csv(folder / "rows.csv", index=False)
    few = {"n_estimators": 4, "max_depth": 3}
    light = LGBMClassifier(**few, verbose=-1).fit(ROWS, CLASSES)
    light.booster_.save_model(folder / "classes.txt")
    plain = LGBMRegressor(**few, verbose=-1).fit(ROWS.to_numpy(), ROWS.a)
    plain.booster_.save_model(folder / "unnamed.txt")
    for suffix in ("json", "ubj"):
        XGBClassifier(**few).fit(ROWS, CLASSES).save_model(folder / f"classes.{suffix}")
    XGBRegressor(**few).fit(ROWS.to_numpy(), ROWS.a).save_model(folder / "unnamed.json")
    cat = CatBoostClassifier(n_estimators=4, verbose=0, allow_writing_files=False)
    cat.fit(ROWS, CLASSES)
    for kind in ("json", "cbm"):
        cat.save_model(folder / f"cat.{kind}", format=kind)
    for name, other in (("classes.txt", "light"), ("classes.ubj", "ubj.txt"), ("cat.json", "cat")):
        shutil.copy(folder / name, folder / other)
    return folder


BOOSTERS = (
    "classes.txt",
    "unnamed.txt",
    "classes.json",
    "classes.ubj",
    "unnamed.json",
    "cat.json",
    "cat.cbm",
    "light",
    "ubj.txt",
    "cat",
)


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_shows_examples(self, capsys, name):
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        shown = capsys.readouterr().out
        assert f"\nexamples:\n  hbconv {name}" in shown

    @pytest.mark.parametrize("line", examples())
    def test_examples_are_commands(self, line):
        options = parser().parse_args(shlex.split(line)[1:])
        assert options.run

    def test_is_the_answer_to_no_command(self, capsys):
        code, out, error = run(capsys)
        assert (code, out) == (2, "")
        assert "examples:\n  hbconv convert" in error

    def test_of_one_command_imports_no_other(self):
        code = (
            "import sys; from hbconv.cli import parser; parser(['score']); "
            "print([m for m in sys.modules if m in ('hbconv.optimize', 'hbconv.parse')])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True
        )
        assert (done.stdout.strip(), done.stderr) == ("[]", "")


class TestCompletion:
    @pytest.mark.parametrize(
        ("typed", "offered"),
        [("hbconv sc", ["score "]), ("hbconv score --res", ["--resume "]), ("hbconv x", [""])],
    )
    def test_is_argcompletes(self, tmp_path, typed, offered):
        pytest.importorskip("argcomplete", reason="argcomplete completes; it is not installed")
        asked = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "offered"),
            "COMP_LINE": typed,
            "COMP_POINT": str(len(typed)),
        }
        command = [sys.executable, "-m", "hbconv"]
        done = subprocess.run(command, check=False, env=os.environ | asked, capture_output=True)
        assert (done.returncode, done.stdout) == (0, b"")
        assert (tmp_path / "offered").read_text().split("\013") == offered


class TestVerify:
    @pytest.mark.parametrize("name", BOOSTERS)
    def test_compares_a_booster_with_its_own_library(self, capsys, boosters, name):
        code, out, error = run(
            capsys, "verify", boosters / name, boosters / "rows.csv", "--backend", "reference",
            "--json")  # fmt: skip
        assert (code, error) == (0, "")
        report = json.loads(out)
        wanted = {"predict", "predict_proba"} if "cat" in name else {"raw_scores", "apply"}
        assert wanted <= report["methods"].keys()
        assert report["rows"] == len(ROWS)

    def test_finds_a_booster_that_answers_otherwise(self, capsys, boosters, monkeypatch):
        """The library reads another file than the converter."""
        import lightgbm

        other = LGBMRegressor(n_estimators=2, verbose=-1).fit(ROWS, ROWS.b).booster_
        monkeypatch.setattr(lightgbm, "Booster", lambda model_file: other)
        code, out, _ = run(capsys, "verify", boosters / "unnamed.txt", boosters / "rows.csv",
                           "--backend", "reference")  # fmt: skip
        assert code == 1
        assert "The model differs from its source." in out

    def test_names_a_library_that_is_missing(self, capsys, boosters, monkeypatch):
        monkeypatch.setitem(sys.modules, "lightgbm", None)
        code, _, error = run(capsys, "verify", boosters / "classes.txt", boosters / "rows.csv",
                             "--backend", "reference")  # fmt: skip
        assert code == 1
        assert "pip install lightgbm" in error

    def test_asks_for_the_source_of_a_saved_model(self, capsys, boosters, tmp_path):
        hbconv.convert(boosters / "unnamed.txt", "reference").save(tmp_path / "model.txt")
        code, _, error = run(capsys, "verify", tmp_path / "model.txt", boosters / "rows.csv")
        assert code == 2
        assert "hbconv verify SOURCE" in error

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_counts_small_differences_from_zero_in_few_digits(self, dtype):
        expected, found = np.array([0.0, 1.0], dtype), np.array([1e-27, 1.0], dtype)
        difference = compare("predict", expected, found, dtype)
        assert difference.within
        assert 0 < difference.relative < 1e-6
        assert 0 < difference.ulp < 1
        assert max(map(len, str(difference).split())) < 16


class TestBench:
    @pytest.mark.parametrize("name", ["classes.txt", "classes.json", "cat.json"])
    def test_times_a_booster_beside_its_own_library(self, capsys, boosters, name):
        code, out, _ = run(capsys, "bench", boosters / name, "--backend", "reference",
                           "--batch", "1,20", "--repeat", 1, "--json")  # fmt: skip
        assert code == 0
        timed = [(figure["backend"], figure["rows"]) for figure in json.loads(out)["figures"]]
        assert timed == [(name, rows) for rows in (1, 20) for name in ("source", "reference")]

    def test_goes_without_the_library(self, capsys, boosters, monkeypatch):
        monkeypatch.setitem(sys.modules, "lightgbm", None)
        code, out, _ = run(capsys, "bench", boosters / "classes.txt", "--backend", "reference",
                           "--batch", 1, "--repeat", 1, "--json")  # fmt: skip
        assert code == 0
        assert [figure["backend"] for figure in json.loads(out)["figures"]] == ["reference"]


class TestExplain:
    def test_begins_with_five_lines(self, capsys, boosters):
        code, out, _ = run(capsys, "explain", boosters / "classes.txt", "--backend", "reference")
        assert code == 0
        lines = out.splitlines()
        assert len(lines) == 6
        assert "on backend reference" in lines[0]
        assert [line.split()[0] for line in lines[1:5]] == ["reads", "answers", "trees", "graph"]
        assert "12 trees" in lines[3]
        assert "--verbose" in lines[5]

    def test_counts_the_steps_that_it_shows(self):
        source = RandomForestClassifier(3, random_state=0).fit(ROWS, CLASSES)
        found = hbconv.convert(source, backend="reference").explain()
        before, after = (sum(line.startswith("%") for line in text.splitlines())
                         for text in (found.before, found.after))  # fmt: skip
        assert found.summary.splitlines()[4] == (
            f"graph    {before} steps as parsed, {after} as optimized by {len(found.rules)} rewrites"
        )

    def test_shows_one_stage_alone(self, capsys, boosters):
        code, _, error = run(capsys, "explain", boosters / "classes.txt", "--stage", "typed",
                             "--verbose")  # fmt: skip
        assert code == 2
        assert "--stage shows one stage alone" in error


class TestTrusted:
    def test_runs_the_programs_of_the_file(self, capsys, boosters, tmp_path, monkeypatch):
        """Nothing is compiled then."""
        model, rows = tmp_path / "m.hbc", boosters / "rows.csv"
        run(capsys, "convert", boosters / "classes.txt", "-o", model, "--backend", "onnx",
            "--sample", rows)  # fmt: skip
        score = ["score", model, rows, "--json", "--method", "predict"]
        assert run(capsys, *score, "-o", tmp_path / "1.csv")[0] == 0

        def refuse(*_):
            raise hbconv.BackendError("compiled again")

        monkeypatch.setattr("hbconv.runtime.programs.Programs.variant", refuse)
        assert run(capsys, *score, "-o", tmp_path / "2.csv")[0] == 1
        assert run(capsys, *score, "-o", tmp_path / "2.csv", "--trusted")[0] == 0
        assert (tmp_path / "1.csv").read_text() == (tmp_path / "2.csv").read_text()

    @pytest.mark.parametrize("command", [["score", "-o", "o.csv"], ["verify"], ["bench"]])
    def test_is_for_saved_models(self, capsys, boosters, tmp_path, monkeypatch, command):
        monkeypatch.chdir(tmp_path)
        data = [] if command == ["bench"] else [boosters / "rows.csv"]
        code, _, error = run(
            capsys, command[0], boosters / "classes.txt", *data, *command[1:], "--trusted"
        )
        assert code == 2
        assert "--trusted is for .hbc files" in error
