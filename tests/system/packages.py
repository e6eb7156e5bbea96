"""Build the wheel and the sdist, check them, and install each where nothing else is.

python tests/system/packages.py [--output dist]

In each environment the example of the README's first block runs: a pipeline is fitted, converted,
saved, loaded and verified, with numpy's backend.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
TRIAL = """
import hbconv
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_iris(return_X_y=True)
source = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
hbconv.convert(source, "reference").save("model.hbc")
model = hbconv.load("model.hbc")
report = hbconv.verify(source, model, X)
assert report.ok, report
assert model.score(X, y) == source.score(X, y)
print("hbconv", hbconv.__version__, "from", hbconv.__file__)
"""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, and end with its exit code if it fails."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def build(output: Path) -> list[Path]:
    """Build both packages into a folder without others, and return them."""
    for old in output.glob("hbconv-*"):
        old.unlink()
    run(sys.executable, "-m", "hatchling", "build", "-d", output)
    run(sys.executable, "-m", "twine", "check", "--strict", *output.glob("hbconv-*"))
    return sorted(output.glob("hbconv-*"))


def require_tracked(sdist: Path) -> None:
    """End with a message if the sdist holds a file that git does not."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    tracked = set(listed.stdout.decode().splitlines()) | {"PKG-INFO"}
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if strange := sorted(held - tracked):
        sys.exit(f"{sdist.name} holds what git does not: {', '.join(strange[:5])}")


def install(package: Path) -> None:
    """Install a package into an empty environment, and run the trial there."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        python = place / "venv/bin/python"
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "-c", ROOT / "constraints.txt", f"{package}[sklearn]", cwd=place)
        run(python, "-c", TRIAL, cwd=place)
        run(place / "venv/bin/hbconv", "explain", "model.hbc", cwd=place)


def main() -> None:
    """Build, check and install."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, default=ROOT / "dist")
    packages = build(options.parse_args().output)
    for package in packages:
        if package.suffix == ".gz":
            require_tracked(package)
        install(package)


if __name__ == "__main__":
    main()
