"""The wheel holds both packages, their type markers and the licence, and nothing else; the
command line starts fast.
"""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import hbconv

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_wheel_holds_both_packages_and_no_more(wheel_names):
    tops = {name.split("/")[0] for name in wheel_names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"hbconv", "hbconv_strategies"}
    data = {"hbconv/py.typed", "hbconv/support.json", "hbconv_strategies/py.typed"}
    data |= {"hbconv/serve/protocol/page.html", "hbconv/runtime/report/page.html"}
    assert data | {"hbconv_strategies/gemm.py", "hbconv/backends/reference.py"} <= set(wheel_names)
    assert any(name.endswith("licenses/LICENSE") for name in wheel_names)


def test_every_source_file_is_in_the_wheel(wheel_names):
    kinds = ("*.py", "*.cu", "*.cuh")
    files = [path for kind in kinds for path in (ROOT / "hbconv").rglob(kind)]
    sources = [path.relative_to(ROOT).as_posix() for path in files]
    assert set(sources) <= set(wheel_names)


def test_every_extra_is_in_the_tested_set():
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(d for extra in project["optional-dependencies"].values() for d in extra),
    ]
    names = {w.split(">")[0].split("[")[0].strip().lower() for w in wanted} - {"hbconv"}
    assert names <= pinned


def test_the_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == hbconv.__version__


def test_the_command_line_lists_its_commands_without_heavy_imports():
    heavy = ("torch", "sklearn", "onnx", "tvm", "pandas", "pyarrow")
    code = f"import sys; from hbconv.cli import parser; parser(); print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()
        == "[]"
    )


def test_support_as_json():
    done = subprocess.run(
        [sys.executable, "-m", "hbconv", "support", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    support = json.loads(done.stdout)
    assert "sklearn.preprocessing.StandardScaler" in support["estimators"]
    assert support["backends"]["reference"] == ["ready"]
