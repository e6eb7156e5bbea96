"""The image of the server: linted, and built where a container engine runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hbconv.cli import parser

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
LINES = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
INSTRUCTIONS = [line.split(None, 1) for line in LINES if line and not line.startswith("#")]


def values(instruction):
    return [value for name, value in INSTRUCTIONS if name == instruction]


def test_hadolint_finds_nothing():
    hadolint = shutil.which("hadolint") or Path(sys.executable).with_name("hadolint")
    found = subprocess.run(
        [hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_is_slim_and_runs_as_nobody_special():
    assert all(re.fullmatch(r"python:[\d.]+-slim-\w+( AS \w+)?", base) for base in values("FROM"))
    last = [name for name, _ in INSTRUCTIONS]
    assert last.index("USER") > max(i for i, name in enumerate(last) if name == "FROM")
    assert int(values("USER")[0]) > 0
    (entry,) = map(json.loads, values("ENTRYPOINT"))
    assert entry == ["hbconv", "serve", "/models", "--host", "0.0.0.0"]
    assert parser().parse_args([*entry[1:], "--trusted"]).trusted


def test_what_is_copied_is_there_and_not_ignored():
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for copied in values("COPY"):
        sources = copied.split()[:-1]
        for source in () if sources[0].startswith("--from") else sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in allowed


def test_the_extras_of_the_image_need_no_compiler_of_models():
    """The image installs numpy, safetensors and the server alone."""
    assert "'.[serve,grpc]'" in " ".join(values("RUN"))


def test_compose_and_prometheus():
    services = yaml.safe_load((DOCKER / "compose.yml").read_text(encoding="utf-8"))["services"]
    assert parser().parse_args(["serve", "/models", *services["hbconv"]["command"]]).trusted
    assert (DOCKER / services["hbconv"]["build"]["context"] / "pyproject.toml").exists()
    assert all(port.startswith("127.0.0.1:") for one in services.values() for port in one["ports"])
    for volume in services["prometheus"]["volumes"]:
        assert (DOCKER / volume.partition(":")[0]).exists()
    scraped = yaml.safe_load((DOCKER / "prometheus.yml").read_text(encoding="utf-8"))
    assert scraped["scrape_configs"][0]["static_configs"][0]["targets"] == ["hbconv:8000"]


def engine_runs():
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not engine_runs(), reason="no container engine runs here")
def test_the_image_is_built():
    command = ["docker", "build", "-q", "-f", DOCKER / "Dockerfile", ROOT]
    image = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    size = ["docker", "image", "inspect", "-f", "{{.Size}}", image]
    assert int(subprocess.run(size, capture_output=True, text=True, check=True).stdout) < 300e6
    helped = subprocess.run(
        ["docker", "run", "--rm", image, "--help"], capture_output=True, check=False
    )
    assert helped.returncode == 0
