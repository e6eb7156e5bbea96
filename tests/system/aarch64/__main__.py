"""Convert, predict, save and load on an emulated aarch64 processor: ``make aarch64``.

    python -m aarch64 [--folder build/aarch64] [--every 40]

The folder gets Python of the machine's own Debian for arm64, wheels of the constraints, and qemu.
This machine writes a C library, and a file with programs for itself and for the guest.
``aarch64.trial`` asks them there, beside models that are fitted, converted, saved and loaded in the
guest. Then one first case in so many of ``versions.battery`` is judged there on tvm.

It needs apt, dpkg-deb and uv. Emulated code is right or wrong as on a processor, and says nothing of
speed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib
from aarch64.trial import LIBRARY, SOURCE, foreign_model
from debian import download, extract

import hbconv

ROOT = Path(__file__).parents[3]
DEBIAN = ("python3-minimal", "libpython3-stdlib", "libgomp1", "libstdc++6")
WHEELS = (
    *("numpy", "scikit-learn", "scipy", "pandas", "lightgbm", "catboost", "apache-tvm"),
    *("apache-tvm-ffi", "hypothesis", "onnx", "onnxruntime", "platformdirs", "pytest"),
    *("safetensors", "skops"),
)
ALONE = ("xgboost",)
"""Without what it needs: 300 MB of code for GPUs."""
ROOMS = (
    "",
    "tests",
    "tests/system",
    "tests/support",
    "tests/conformance",
    "strategies",
    "datasets",
)


@dataclass(frozen=True)
class Guest:
    """A system for aarch64 in a folder.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    @property
    def root(self) -> Path:
        """Files of Debian."""
        return self.folder / "root"

    @property
    def site(self) -> Path:
        """Packages of Python."""
        return self.folder / "site"

    @property
    def qemu(self) -> Path:
        """The emulator of one process."""
        return self.folder / "host/usr/bin/qemu-aarch64-static"

    def prepare(self) -> None:
        """Get what is not there yet."""
        if not self.root.exists():
            extract(download(DEBIAN, self.folder, architecture="arm64"), self.root)
        if not self.qemu.exists():
            subprocess.run(["apt-get", "download", "qemu-user-static"], cwd=self.folder, check=True)
            extract(sorted(self.folder.glob("qemu-*.deb")), self.folder / "host")
        if not self.site.exists():
            self._install(WHEELS)
            self._install(ALONE, "--no-deps")

    def _install(self, packages: Sequence[str], *options: str) -> None:
        command = [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--only-binary", ":all:"),
            *("--python-platform", "aarch64-manylinux_2_28", "--target", str(self.site)),
            *("--python-version", self.interpreter.name.removeprefix("python")),
            *("--constraint", str(ROOT / "constraints.txt"), *options, *packages),
        ]
        subprocess.run(command, check=True)

    @property
    def interpreter(self) -> Path:
        """Python of the root."""
        return next(self.root.glob("usr/bin/python3.*[0-9]"))

    def python(self, *arguments: str, stdout: int | None = None) -> str:
        """Run Python there; return what it prints into a pipe."""
        paths = [*(str(ROOT / room) for room in ROOMS), str(self.site)]
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "HBCONV_CACHE": str(self.folder / "kernels"),
        }
        command = [self.qemu, "-L", self.root, self.interpreter, "-W", "ignore", *arguments]
        ran = subprocess.run(command, env=environment, stdout=stdout, text=True, check=True)
        return ran.stdout


def write_foreign(folder: Path) -> None:
    """Write on this machine what the guest asks: a model, and a C library where it compiles."""
    source, rows = foreign_model()
    joblib.dump((source, source.predict_proba(rows)), folder / SOURCE)
    model = hbconv.convert(source, "tvm", sample=rows[:2], machines=["x86-64", "aarch64"])
    model.save(folder / Path(SOURCE).with_suffix(".hbc"))
    model.export(folder / LIBRARY, target="aarch64")


def main() -> None:
    """Prepare the guest, and ask it."""
    options = argparse.ArgumentParser(prog="aarch64", description=__doc__.splitlines()[0])
    options.add_argument("--folder", type=Path, default=ROOT / "build/aarch64")
    options.add_argument("--every", type=int, default=40, help="judge one first case in so many")
    chosen = options.parse_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    guest = Guest(folder)
    guest.prepare()
    write_foreign(folder)
    guest.python("-m", "aarch64.trial", str(folder))
    battery = ("-m", "versions.battery", "--backends", "tvm", "--seeds", "0")
    told = guest.python(*battery, "--every", str(chosen.every), stdout=subprocess.PIPE)
    print(told, end="")
    if '"differs"' in told or '"agrees"' not in told:
        sys.exit("The battery differs from the sources.")


if __name__ == "__main__":
    main()
