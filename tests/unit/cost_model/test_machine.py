"""What is known of this machine and of what is installed."""

from importlib import metadata

from hbconv.cost_model.machine import PACKAGES, describe_versions


def test_versions_are_those_of_the_metadata():
    found = describe_versions()
    for package in PACKAGES:
        try:
            assert found[package] == metadata.version(package)
        except metadata.PackageNotFoundError:
            assert package not in found


def test_the_first_of_two_installed_versions_counts(tmp_path, monkeypatch):
    (tmp_path / "Apache.TVM-9.9+cpu.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert describe_versions()["apache-tvm"] == "9.9+cpu"


def test_a_folder_that_is_missing_holds_none(monkeypatch):
    monkeypatch.setattr("sys.path", ["/no/such/folder"])
    assert describe_versions().keys() == {"python"}
