"""``hbconv tune-machine``: measures, keeps, shows and forgets."""

import json

import pytest
from sklearn.linear_model import LogisticRegression

import hbconv
from hbconv.cli import main, tune_machine
from hbconv.cost_model import find_record
from hbconv.cost_model.price_record import GROUPS
from hbconv.errors import MissingPackageError
from hbconv.runtime.timing.machine_prices import PriceTime


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, and nothing in memory before or after."""
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path / "cache"))
    find_record.cache_clear()
    yield tmp_path / "cache"
    find_record.cache_clear()


@pytest.fixture
def told(monkeypatch):
    """Measures nothing: everything takes twice as long as predicted."""
    asked = []

    def measured(name, seconds):
        asked.append((name, seconds))
        return [PriceTime(name, group, 1e-6, 2e-6) for group in GROUPS]

    monkeypatch.setattr(tune_machine, "measure_backend", measured)
    return asked


def run(capsys, *argv):
    code = main(["tune-machine", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_real_run_is_kept_and_used(capsys):
    source = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    before = hbconv.convert(source, "torch").explain()
    assert "prices: shipped" in str(before)
    assert before.to_dict()["prices"] == "shipped"
    code, out, _ = run(capsys, "--backends", "torch", "--seconds", "0.2", "--json")
    result = json.loads(out)
    assert code == 0
    assert [time["group"] for time in result["times"]] == list(GROUPS)
    assert all(time["predicted"] > 0 for time in result["times"])
    assert all(1 / 8 <= factor <= 8 for factor in result["factors"]["torch"].values())
    after = str(hbconv.convert(source, "torch").explain())
    assert f"prices: of this machine, measured {result['measured']}" in after
    assert "prices: shipped" in str(hbconv.convert(source, "onnx").explain())


def test_seconds_are_shared_by_the_backends(capsys, told):
    code, out, _ = run(capsys, "--seconds", "4", "--backends", "torch,onnx,torch")
    assert (code, told) == (0, [("torch", 2.0), ("onnx", 2.0)])
    assert "predicted" in out
    assert out.count("2.00") == 2 * len(GROUPS)


def test_by_default_the_backends_installed_are_measured(capsys, told, monkeypatch):
    monkeypatch.setattr(tune_machine, "_is_installed", lambda name: name != "tvm")
    run(capsys)
    assert [name for name, _ in told] == ["torch", "onnx"]


def test_show_and_forget(capsys, told):
    assert "shipped ones count" in run(capsys, "--show")[1]
    run(capsys, "--backends", "onnx")
    assert run(capsys, "--show")[1].count("2.00") == len(GROUPS)
    shown = json.loads(run(capsys, "--show", "--json")[1])
    assert shown["factors"] == {"onnx": dict.fromkeys(GROUPS, 2.0)}
    assert json.loads(run(capsys, "--forget", "--json")[1]) == {"forgotten": True}
    assert "No prices were kept" in run(capsys, "--forget")[1]
    assert json.loads(run(capsys, "--show", "--json")[1]) == {"measured": None, "factors": {}}


def test_a_run_replaces_what_was_kept(capsys, told):
    run(capsys, "--backends", "torch")
    run(capsys, "--backends", "onnx")
    assert find_record().factors.keys() == {"onnx"}


def test_nothing_is_measured_where_nothing_can_be_kept(capsys, told, monkeypatch):
    monkeypatch.setenv("HBCONV_CACHE", "0")
    code, out, error = run(capsys)
    assert (code, out, told) == (2, "", [])
    assert "HBCONV_CACHE keeps nothing" in error


def test_a_folder_that_others_may_write_to_is_an_error(capsys, told, folder):
    (folder / "1").mkdir(parents=True)
    (folder / "1").chmod(0o777)
    code, out, error = run(capsys, "--backends", "torch")
    assert (code, out) == (2, "")
    assert "cannot be kept" in error


def test_a_backend_that_is_missing_is_an_error_where_it_is_named(capsys, told, monkeypatch):
    class Missing:
        def require_packages(self):
            raise MissingPackageError("Backend 'tvm' needs tvm.")

    monkeypatch.setattr(tune_machine, "find_backend", lambda name: Missing())
    for argv in (["--backends", "tvm"], []):
        code, _, error = run(capsys, *argv)
        assert code == 1
        assert "tvm" in error
    assert told == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--backends", "torhc"], "Did you mean 'torch'"),
        (["--backends", "torchscript"], "Unknown backend 'torchscript'"),
        (["--seconds", "0"], "no positive number"),
        (["--seconds", "nan"], "no positive number"),
        (["--seconds", "soon"], "invalid"),
        (["--show", "--forget"], "not allowed with"),
    ],
)
def test_wrong_usage_exits_2(capsys, argv, message):
    with pytest.raises(SystemExit, match="2"):
        main(["tune-machine", *argv])
    assert message in capsys.readouterr().err
