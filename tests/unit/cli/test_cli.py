"""The commands, as a user runs them: exit codes, JSON, files that appear only when complete."""

import json
import sys
import zipfile

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

import hbconv
from hbconv.cli import main


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = 500
    age = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(40, 10, rows))
    return pd.DataFrame(
        {
            "age": age,
            "fare": rng.gamma(2, 20, rows),
            "city": rng.choice(["Paris", "Zürich", "Rome"], rows),
        }
    )


@pytest.fixture(scope="module")
def pipeline(table):
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "fare"]),
        (OneHotEncoder(handle_unknown="ignore"), ["city"]),
    )
    return make_pipeline(prepare, LogisticRegression()).fit(
        table, np.where(table.fare > 35, "yes", "no")
    )


@pytest.fixture
def files(tmp_path, table, pipeline):
    joblib.dump(pipeline, tmp_path / "model.joblib")
    pq.write_table(
        pa.Table.from_pandas(table, preserve_index=False),
        tmp_path / "rows.parquet",
        row_group_size=100,
    )
    return tmp_path


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def converted(capsys, files):
    code, _, error = run(
        capsys,
        "convert",
        files / "model.joblib",
        "--allow-pickle",
        "--backend",
        "reference",
        "-o",
        files / "model.hbc",
    )
    assert (code, error) == (0, "")
    return files / "model.hbc"


def test_convert_says_what_it_wrote(capsys, files):
    code, out, _ = run(
        capsys,
        "convert",
        files / "model.joblib",
        "--allow-pickle",
        "--backend",
        "reference",
        "-o",
        files / "m.hbc",
        "--json",
    )
    result = json.loads(out)
    assert code == 0
    assert result["bytes"] == (files / "m.hbc").stat().st_size
    assert result["methods"][:2] == ["predict", "predict_proba"]
    assert result["inputs"] == "float64 (2 columns), string (1)"


def test_convert_compiles_for_a_sample(capsys, files, table):
    small = table.astype({"age": "float32", "fare": "float32"})
    small.to_parquet(files / "small.parquet")
    model, rows = files / "model.joblib", files / "small.parquet"
    options = ["--allow-pickle", "--backend", "onnx", "--sample", rows, "-o", files / "m.hbc"]
    code, out, error = run(capsys, "convert", model, *options, "--json")
    assert (code, error) == (0, "")
    result = json.loads(out)
    assert result["inputs"] == "float32 (2 columns), string (1)"
    assert "predict of float32 (2 columns), string (1)" in result["compiled"]
    stored = hbconv.load(files / "m.hbc", trusted=True)
    assert len(stored.compiled) == len(stored.parsed.exported)


@pytest.mark.skipif(sys.platform != "linux", reason="machines are of Linux")
def test_convert_compiles_for_several_machines(capsys, files, table):
    numbers = table[["fare"]]
    numbers.to_parquet(files / "numbers.parquet")
    joblib.dump(StandardScaler().fit(numbers), files / "scaler.joblib")
    command = ["convert", files / "scaler.joblib", "--allow-pickle", "--backend", "tvm", "--json"]
    machines = ["--machines", "x86-64,aarch64", "--sample", files / "numbers.parquet"]
    assert run(capsys, *command, *machines, "-o", files / "m.hbc")[0] == 0
    with zipfile.ZipFile(files / "m.hbc") as archive:
        libraries = {name.split("/")[-1] for name in archive.namelist() if name.endswith(".so")}
    assert {"x86-64@batch.kernel.so", "aarch64@batch.kernel.so"} <= libraries


def programs_of(file):
    with zipfile.ZipFile(file) as archive:
        programs = json.loads(archive.read("manifest.json"))["programs"]
    return {method for program in programs for method in program["methods"]}


def test_convert_keeps_programs_of_the_methods_it_writes(capsys, files, table):
    table.to_parquet(files / "rows.parquet")
    command = ["convert", files / "model.joblib", "--allow-pickle", "--backend", "onnx"]
    rows = ["--sample", files / "rows.parquet"]
    code, out, _ = run(
        *(capsys, *command, *rows, "--methods", "predict", "-o", files / "one.hbc", "--json")
    )
    assert (code, programs_of(files / "one.hbc")) == (0, {"predict"})
    assert [line.split(" of ")[0] for line in json.loads(out)["compiled"]] == ["predict"]
    assert run(capsys, *command, *rows, "-o", files / "all.hbc")[0] == 0
    again = ["convert", files / "all.hbc", "-o", files / "again.hbc", "--force"]
    for options, held in [
        ([], set()),
        (["--trusted"], programs_of(files / "all.hbc")),
        (["--trusted", "--methods", "predict"], {"predict"}),
    ]:
        assert run(capsys, *again, *options)[0] == 0
        assert programs_of(files / "again.hbc") == held


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "n.so"], "--machines is for .hbc files, and the output is .so"),
        (["-o", "n", "--format", "triton"], "the output is .pt"),
        (["-o", "n.hbc"], "--machines needs --sample"),
        (["-o", "n.hbc", "--sample", "rows.parquet", "--machines", "vax"], "Unknown machine 'vax'"),
    ],
)
def test_convert_refuses_machines_that_no_file_would_hold(capsys, files, options, message):
    options = [files / o if o.startswith(("n", "rows")) else o for o in options]
    command = ["convert", files / "model.joblib", "--allow-pickle", "--backend", "tvm"]
    code, _, error = run(capsys, *command, "--machines", "aarch64", *options)
    assert (code, message in error) == (2, True), error


def test_convert_writes_a_triton_repository(capsys, files):
    output = str(files / "repository")
    command = ["convert", str(files / "model.joblib"), "--allow-pickle", "-o", output, "--json"]
    assert main([*command, "--format", "triton", "--name", "fares", "--file", ".onnx"]) == 0
    result = json.loads(capsys.readouterr().out)
    written = [p for p in (files / "repository").rglob("*") if p.is_file()]
    assert {p.name for p in written} == {"config.pbtxt", "model.onnx"}
    assert result["bytes"] == sum(p.stat().st_size for p in written)
    assert main([*command, "--format", "triton", "--name", "fares"]) == 1
    assert "give the model another name" in json.loads(capsys.readouterr().out)["error"]
    for wrong in ("model.joblib", "no/folder"):
        command[4] = str(files / wrong)
        assert main([*command, "--format", "triton"]) == 2


@pytest.mark.parametrize("tune", [["--tune"], ["--tune", "0.01"], ["--tune=0.01"]], ids=str)
def test_convert_tunes(capsys, tmp_path, tune):
    rng = np.random.default_rng(0)
    source = RandomForestClassifier(10, max_depth=4, random_state=0)
    joblib.dump(source.fit(rng.normal(size=(99, 3)), np.arange(99) % 2), tmp_path / "m.joblib")
    options = [tmp_path / "m.joblib", "--allow-pickle", "--backend", "torch", *tune, "--json"]
    code, out, _ = run(capsys, "convert", *options, "-o", tmp_path / "m.hbc")
    assert code == 0
    assert "ms against" in json.loads(out)["tuned"][0]
    code, out, _ = run(capsys, "explain", tmp_path / "m.hbc", "--verbose")
    assert code == 0
    assert "\nTuned\n" in out


def test_convert_tunes_no_forced_strategy(capsys, files):
    options = ["--allow-pickle", "--backend", "torch", "--strategy", "gemm", "--tune"]
    code, _, error = run(capsys, "convert", files / "model.joblib", "-o", files / "m.hbc", *options)
    assert code == 2
    assert "leaves tune= nothing to choose" in error


def test_a_pickle_is_loaded_only_when_allowed(capsys, files):
    code, out, error = run(capsys, "convert", files / "model.joblib", "-o", files / "m.hbc")
    assert (code, out) == (2, "")
    assert "--allow-pickle" in error
    assert not (files / "m.hbc").exists()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_score_answers_as_the_source(capsys, files, table, pipeline, suffix):
    path, rows = files / f"in{suffix}", pa.Table.from_pandas(table, preserve_index=False)
    {".parquet": pq.write_table, ".csv": pa.csv.write_csv, ".arrow": pa.feather.write_feather}[
        suffix
    ](rows, path)
    model = converted(capsys, files)
    code, out, error = run(
        capsys,
        "score",
        model,
        path,
        "-o",
        files / "out.parquet",
        "--batch-rows",
        64,
        "--keep",
        "fare,city",
        "--json",
    )
    assert (code, error) == (0, "")
    assert json.loads(out)["rows"] == len(table)
    answers = pq.read_table(files / "out.parquet")
    assert answers.column_names == ["fare", "city", "predict"]
    assert answers["predict"].to_pylist() == pipeline.predict(table).tolist()
    assert answers["city"].to_pylist() == table.city.tolist()


def test_score_probabilities_are_named_by_class(capsys, files, table, pipeline):
    model = converted(capsys, files)
    assert (
        run(
            capsys,
            "score",
            model,
            files / "rows.parquet",
            "-o",
            files / "p.parquet",
            "--method",
            "predict_proba",
        )[0]
        == 0
    )
    answers = pq.read_table(files / "p.parquet")
    assert answers.column_names == ["predict_proba_no", "predict_proba_yes"]
    np.testing.assert_allclose(
        answers["predict_proba_yes"], pipeline.predict_proba(table)[:, 1], rtol=1e-10
    )


def test_score_leaves_nothing_behind_when_rows_are_bad(capsys, files, table):
    bad = table.assign(fare=np.where(np.arange(len(table)) == 450, np.inf, table.fare))
    pq.write_table(pa.Table.from_pandas(bad, preserve_index=False), files / "bad.parquet")
    (files / "out.parquet").write_text("the answers of yesterday")
    code, _, error = run(
        capsys,
        "score",
        converted(capsys, files),
        files / "bad.parquet",
        "-o",
        files / "out.parquet",
        "--batch-rows",
        100,
        "--force",
    )
    assert code == 1
    assert "infinity" in error
    assert (files / "out.parquet").read_text() == "the answers of yesterday"
    assert not list(files.glob("*.partial"))


def test_score_no_rows(capsys, files, table):
    pq.write_table(
        pa.Table.from_pandas(table.head(0).astype({"city": "str"}), preserve_index=False),
        files / "none.parquet",
    )
    assert (
        run(
            capsys,
            "score",
            converted(capsys, files),
            files / "none.parquet",
            "-o",
            files / "out.parquet",
        )[0]
        == 0
    )
    assert pq.read_table(files / "out.parquet").num_rows == 0


WRONG_USE = [
    (["score", "model.hbc", "nothing.parquet", "-o", "o.parquet"], "No file nothing.parquet"),
    (["score", "nothing.hbc", "rows.parquet", "-o", "o.parquet"], "No file nothing.hbc"),
    (["score", "model.hbc", "rows.parquet", "-o", "no/o.parquet"], "there is no folder no"),
    (
        ["score", "model.hbc", "rows.parquet", "-o", "o.parquet", "--method", "transform"],
        "no method 'transform'. It has: predict",
    ),
    (["convert", "nothing.joblib", "-o", "o.hbc"], "No file nothing.joblib"),
    (["convert", "x" * 5000, "-o", "o.hbc"], "No file xxx"),
    (["convert", "model.hbc", "-o", "o.hbc", "--sample", "nothing.csv"], "No file nothing.csv"),
    (["explain", "nothing.hbc"], "No file nothing.hbc"),
    (["explain", "model.hbc", "--svg", "no/graph.svg"], "--svg no/graph.svg: there is no folder"),
    (["explain", "model.hbc", "--backend", "torhc"], "Did you mean 'torch'"),
    (["explain", "model.hbc", "--stage", "lowerd"], "Did you mean 'lowered'"),
    (["verify", "model.joblib", "nothing.csv", "--allow-pickle"], "No file nothing.csv"),
    (["verify", "model.joblib", "rows.parquet"], "add --allow-pickle"),
    (["bench", "nothing.joblib"], "No file nothing.joblib"),
    (["report", "nothing.hbc"], "No file nothing.hbc"),
]
FAILURES = [
    (
        ["score", "model.hbc", "text.csv", "-o", "o.parquet"],
        "lacks the columns 'age', 'fare', 'city'",
    ),
    (["score", "model.hbc", "damaged.parquet", "-o", "o.parquet"], "cannot be read as parquet"),
    (
        ["score", "model.hbc", "rows.parquet", "-o", "o.parquet", "--keep", "name"],
        "lacks the columns 'name'",
    ),
    (["convert", "rows.parquet", "-o", "o.hbc"], "unknown model format"),
    (
        ["convert", "damaged.joblib", "--allow-pickle", "-o", "o.hbc"],
        "damaged.joblib cannot be read",
    ),
    (["convert", "damaged.cbm", "-o", "o.hbc"], "damaged.cbm cannot be read"),
    (["explain", "damaged.hbc"], "The model file is damaged"),
]


@pytest.mark.parametrize(
    ("code", "argv", "message"),
    [(2, *case) for case in WRONG_USE] + [(1, *case) for case in FAILURES],
)
def test_errors_are_one_sentence_and_exit_2_or_1(capsys, files, monkeypatch, code, argv, message):
    """2 says that the command was asked wrongly, and 1 that what it was asked for failed."""
    converted(capsys, files)
    (files / "text.csv").write_text("a,b\n1,x\n")
    damaged = {"parquet": b"PAR1", "joblib": b"\x80", "hbc": b"PK\3\4manifest.json", "cbm": b"CBM1"}
    for kind, begin in damaged.items():
        (files / f"damaged.{kind}").write_bytes(begin + b" not really")
    monkeypatch.chdir(files)
    found, out, error = run(capsys, *argv)
    assert (found, out) == (code, "")
    assert message in error
    assert error.count("\n") == 1
    found, out, _ = run(capsys, *argv, "--json")
    assert found == code
    assert message in json.loads(out)["error"]


def test_usage_errors_exit_2(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["scroe"])
    assert "invalid choice" in capsys.readouterr().err


def test_explain_shows_plan_and_graphs(capsys, files):
    path = converted(capsys, files)
    code, out, _ = run(capsys, "explain", path, "--verbose", "--dot", files / "g.dot")
    assert code == 0
    assert "StandardScaler" in out
    assert (files / "g.dot").read_text().startswith("digraph")
    assert {"plan", "before", "after"} <= json.loads(
        run(capsys, "explain", files / "model.hbc", "--json")[1]
    ).keys()


def test_explain_draws(capsys, files):
    path = converted(capsys, files)
    svg, page = files / "g.svg", files / "g.html"
    assert run(capsys, "explain", path, "--svg", svg, "--html", page)[0] == 0
    assert svg.read_text(encoding="utf-8").startswith("<svg ")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_explain_stops_at_a_stage(capsys, files):
    path = converted(capsys, files)
    code, out, _ = run(capsys, "explain", path, "--stage", "lowered")
    assert code == 0
    assert out.startswith("predict, lowered")
    assert "%0 = input x" in out
    report = json.loads(run(capsys, "explain", path, "--stage", "typed", "--json")[1])
    assert report["stage"] == "typed"
    assert "columns" in report["texts"]["model"]


def test_explain_reports_the_kernels(capsys, files):
    code, out, _ = run(
        capsys, "explain", files / "model.joblib", "--allow-pickle", "--backend", "tvm", "--kernel"
    )
    assert code == 0
    assert "Kernel of predict_proba" in out
    kernels = json.loads(
        run(
            capsys,
            "explain",
            files / "model.joblib",
            "--allow-pickle",
            "--backend",
            "tvm",
            "--kernel",
            "--json",
        )[1]
    )["kernels"]
    assert [kernel["method"] for kernel in kernels][:2] == ["predict", "predict_proba"]
    code, _, error = run(
        capsys,
        "explain",
        files / "model.joblib",
        "--allow-pickle",
        "--backend",
        "torch",
        "--kernel",
    )
    assert code == 1
    assert "operator after operator" in error


def test_verify_compares_with_the_source(capsys, files):
    code, out, _ = run(
        capsys,
        "verify",
        files / "model.joblib",
        "--allow-pickle",
        files / "rows.parquet",
        "--backend",
        "reference",
        "--json",
    )
    assert code == 0
    assert set(json.loads(out)["methods"]) >= {"predict", "predict_proba"}


def test_bench_times_the_source_beside(capsys, files):
    argv = (
        "bench",
        files / "model.joblib",
        "--allow-pickle",
        "--data",
        files / "rows.parquet",
        "--backend",
        "reference",
        "--batch",
        "1,50",
        "--repeat",
        "2",
    )
    figures = json.loads(run(capsys, *argv, "--json")[1])["figures"]
    assert [(f["backend"], f["rows"]) for f in figures] == [
        ("source", 1),
        ("reference", 1),
        ("source", 50),
        ("reference", 50),
    ]


def test_bench_leaves_out_each_rule_that_matters(capsys, files):
    data = ("--data", files / "rows.parquet", "--backends", "reference,torch", "--batch", "1,20")
    argv = ("bench", files / "model.joblib", "--allow-pickle", *data, "--repeat", "2", "--ablate")
    figures = json.loads(run(capsys, *argv, "--json")[1])["figures"]
    first = [f for f in figures if (f["backend"], f["rows"]) == ("reference", 1)]
    rules = [f["rules"] for f in first]
    assert (rules[0], rules[-1]) == ("all rules", "no rule")
    assert "without derive_linear" in rules
    assert "without narrow_forests" not in rules  # the model has no trees
    assert first[0]["times_slower"] == 1
    assert {(f["backend"], f["rows"]) for f in figures} == {
        ("reference", 1), ("reference", 20), ("torch", 1), ("torch", 20),
    }  # fmt: skip


def test_bench_prints_what_a_rule_gains(capsys, files):
    data = ("--data", files / "rows.parquet", "--backend", "reference", "--batch", "20")
    argv = ("bench", files / "model.joblib", "--allow-pickle", *data, "--repeat", "1", "--ablate")
    code, out, _ = run(capsys, *argv)
    assert code == 0
    assert "without derive_linear" in out


def test_model_files_of_lightgbm_and_xgboost_need_no_flag(capsys, tmp_path):
    x = np.random.default_rng(0).normal(size=(200, 4))
    y = (x[:, 0] > 0).astype(int)
    LGBMClassifier(n_estimators=3, verbose=-1).fit(x, y).booster_.save_model(tmp_path / "lgbm.txt")
    for suffix in ("json", "ubj"):
        XGBClassifier(n_estimators=3).fit(x, y).save_model(tmp_path / f"xgb.{suffix}")
    for name in ("lgbm.txt", "xgb.json", "xgb.ubj"):
        assert (
            run(
                capsys,
                "convert",
                tmp_path / name,
                "--backend",
                "reference",
                "-o",
                tmp_path / f"{name}.hbc",
            )[0]
            == 0
        )


@pytest.mark.share("light")
@pytest.mark.parametrize(
    ("kind", "classes"), [(CatBoostClassifier, True), (CatBoostRegressor, False)]
)
def test_model_files_of_catboost_answer_as_the_estimator(capsys, tmp_path, kind, classes):
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 4)), columns=list("abcd"))
    y = np.where(x.a > 0, "yes", "no") if classes else np.exp(x.a)
    settings = {} if classes else {"loss_function": "Poisson"}
    model = kind(
        iterations=3,
        depth=3,
        grow_policy="Depthwise",
        thread_count=1,
        verbose=0,
        allow_writing_files=False,
        **settings,
    ).fit(x, y)
    pq.write_table(pa.Table.from_pandas(x, preserve_index=False), tmp_path / "rows.parquet")
    for name, form in (("model.json", "json"), ("model.cbm", "cbm")):
        model.save_model(tmp_path / name, format=form)
        assert (
            run(
                capsys,
                "convert",
                "--force",
                tmp_path / name,
                "--backend",
                "reference",
                "-o",
                tmp_path / "model.hbc",
            )[0]
            == 0
        )
        assert (
            run(
                capsys,
                "score",
                "--force",
                tmp_path / "model.hbc",
                tmp_path / "rows.parquet",
                "-o",
                tmp_path / "out.parquet",
            )[0]
            == 0
        )
        assert (
            pq.read_table(tmp_path / "out.parquet")["predict"].to_pylist()
            == model.predict(x).tolist()
        )


def test_skops_files_load_when_they_hold_only_known_types(capsys, tmp_path, pipeline, table):
    import skops.io

    skops.io.dump(pipeline, tmp_path / "model.skops")
    code, _, error = run(
        capsys,
        "convert",
        tmp_path / "model.skops",
        "--backend",
        "reference",
        "-o",
        tmp_path / "m.hbc",
    )
    assert (code, error) == (0, "")


def test_a_skops_file_is_verified_by_the_library_of_its_booster(capsys, tmp_path, table):
    import skops.io
    import xgboost

    x = table[["age", "fare"]]
    source = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(x, table.fare > 35)
    skops.io.dump(source, tmp_path / "model.skops")
    x.to_parquet(tmp_path / "rows.parquet")
    asked = "verify", tmp_path / "model.skops", tmp_path / "rows.parquet"
    code, told, error = run(capsys, *asked, "--backend", "reference")
    assert (code, error) == (0, "")
    assert "predict_proba" in told


def test_score_of_several_targets(capsys, files, table):
    labels = np.stack(
        [np.where(table.fare > 35, "dear", "cheap"), np.digitize(table.fare, [20, 50])], axis=1
    )
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(
        table[["age", "fare"]], labels
    )
    joblib.dump(model, files / "several.joblib")
    score = (
        "score",
        "--force",
        files / "several.joblib",
        files / "rows.parquet",
        "--allow-pickle",
        "-o",
        files / "out.parquet",
        "--method",
    )
    assert run(capsys, *score, "predict_proba")[0] == 0
    answers = pq.read_table(files / "out.parquet")
    assert answers.column_names == [
        f"predict_proba_{c}" for c in ("0_cheap", "0_dear", "1_0", "1_1", "1_2")
    ]
    np.testing.assert_array_equal(
        answers.column("predict_proba_1_2"), model.predict_proba(table[["age", "fare"]])[1][:, 2]
    )
    assert run(capsys, *score, "predict")[0] == 0
    assert pq.read_table(files / "out.parquet").column_names == ["predict_0", "predict_1"]
    code, _, error = run(capsys, *score, "decision_path")
    assert code != 0
    assert "The answers of 'decision_path' are no columns of a table" in error


def test_texts_are_scored_from_the_column_that_holds_them(capsys, tmp_path):
    texts = ["good film", "bad film", "good good", "a bad one", "fine"] * 20
    labels = np.array([1, 0, 1, 0, 1] * 20)
    joblib.dump(
        make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels),
        tmp_path / "model.joblib",
    )
    pq.write_table(pa.table({"id": np.arange(100), "text": texts}), tmp_path / "rows.parquet")
    code, _, _ = run(
        capsys,
        "convert",
        tmp_path / "model.joblib",
        "--allow-pickle",
        "--backend",
        "reference",
        "-o",
        tmp_path / "model.hbc",
    )
    assert code == 0
    code, _, error = run(
        capsys,
        "score",
        "--force",
        tmp_path / "model.hbc",
        tmp_path / "rows.parquet",
        "-o",
        tmp_path / "out.parquet",
        "--keep",
        "id",
    )
    assert (code, error) == (0, "")
    assert pq.read_table(tmp_path / "out.parquet").column("predict").to_pylist() == labels.tolist()
    code, _, error = run(
        capsys,
        "score",
        "--force",
        tmp_path / "model.hbc",
        tmp_path / "rows.parquet",
        "-o",
        tmp_path / "out.parquet",
    )
    assert code == 1
    assert "id, text" in error
    pq.write_table(pa.table({"text": texts}), tmp_path / "texts.parquet")
    code, _, _ = run(
        capsys,
        "verify",
        tmp_path / "model.joblib",
        "--allow-pickle",
        tmp_path / "texts.parquet",
        "--backend",
        "torch",
    )
    assert code == 0
    data = ("--data", tmp_path / "texts.parquet", "--batch", "3", "--repeat", "1")
    code, out, _ = run(
        capsys,
        "bench",
        tmp_path / "model.joblib",
        "--allow-pickle",
        *data,
        "--backend",
        "reference",
        "--json",
    )
    assert code == 0
    assert [figure["backend"] for figure in json.loads(out)["figures"]] == ["source", "reference"]
