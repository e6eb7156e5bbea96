"""Files of ``deploy/``: whole, of the fields that their readers know, and true of the server."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from served import SIGNATURE, Doubling

from hbconv.cli import parser
from hbconv.serve.metrics import Metrics
from hbconv.serve.routes import find_destination
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = (DEPLOY / "hbconv.service").read_text(encoding="utf-8")
MANIFESTS = [*yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text(encoding="utf-8"))]
NGINX = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
SECTIONS = {
    "Unit": {"Description", "Documentation", "After", "Wants"},
    "Service": {
        *("Type", "ExecStart", "LoadCredential", "Environment", "KillMode", "TimeoutStopSec"),
        *("Restart", "RestartSec", "MemoryMax", "TasksMax", "LimitNOFILE", "DynamicUser"),
        *("CacheDirectory", "ReadOnlyPaths", "PrivateTmp", "PrivateDevices", "ProtectSystem"),
        *("ProtectHome", "ProtectKernelTunables", "ProtectKernelModules", "ProtectControlGroups"),
        *("NoNewPrivileges", "RestrictSUIDSGID", "RestrictAddressFamilies"),
        *("CapabilityBoundingSet", "SystemCallArchitectures"),
    },
    "Install": {"WantedBy"},
}
PROBE = {"httpGet", "periodSeconds", "timeoutSeconds", "failureThreshold"}
CONTAINER = {
    *("name", "image", "args", "env", "ports", "startupProbe", "readinessProbe", "livenessProbe"),
    *("lifecycle", "resources", "securityContext", "volumeMounts"),
}


def options(words):
    """What the command line makes of the words behind ``hbconv``."""
    return parser().parse_args([*words])


def test_the_unit_has_known_fields_and_options():
    sections = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", UNIT, re.MULTILINE | re.DOTALL))
    assert sections.keys() == SECTIONS.keys()
    for name, text in sections.items():
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert {line.partition("=")[0] for line in lines} == SECTIONS[name]
    (command,) = re.findall("^ExecStart=(.*)$", UNIT, re.MULTILINE)
    asked = options(shlex.split(command)[1:])
    assert asked.trusted
    (seconds,) = re.findall("^TimeoutStopSec=(.*)$", UNIT, re.MULTILINE)
    assert int(seconds) > asked.timeout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there")
def test_systemd_takes_the_unit(tmp_path):
    path = tmp_path / "hbconv.service"
    # The program of the unit is not installed here.
    path.write_text(UNIT.replace("/opt/hbconv/bin/hbconv", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", path]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in found.stderr.splitlines() if "hbconv" in line]
    assert (said, found.returncode) == ([], 0), found.stderr


def manifest(kind):
    (found,) = [one for one in MANIFESTS if one["kind"] == kind]
    return found


def test_the_manifests_belong_together():
    assert [one["kind"] for one in MANIFESTS] == ["Deployment", "Service", "PodDisruptionBudget"]
    for one in MANIFESTS:
        assert one.keys() == {"apiVersion", "kind", "metadata", "spec"}
    deployment = manifest("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    (container,) = deployment["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    targets = {port["targetPort"]: port["port"] for port in manifest("Service")["spec"]["ports"]}
    assert targets == ports
    volumes = {volume["name"] for volume in deployment["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_pod_is_probed_bounded_and_may_do_little():
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container.keys() == CONTAINER
    asked = options(["serve", "/models", "--host", "0.0.0.0", *container["args"]])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": asked.port, "grpc": asked.grpc_port}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container[name]
        assert probe.keys() <= PROBE
        route = find_destination(probe["httpGet"]["path"]).route
        assert (route.needs_token, route.needs_host) == (False, False)
        assert probe["httpGet"]["port"] in ports
    assert container["resources"].keys() == {"requests", "limits"}
    assert all(each.keys() == {"cpu", "memory"} for each in container["resources"].values())
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]
    (waits,) = container["lifecycle"]["preStop"]["exec"]["command"][1:]
    assert pod["terminationGracePeriodSeconds"] > asked.timeout + int(waits)


def test_nginx_passes_on_what_clients_ask():
    (pattern,) = re.findall(r"location ~ (\S+) \{", NGINX)
    for path in ("/v1/models/a:predict", "/v2", "/v2/models/a/infer", "/v2/health/ready"):
        assert find_destination(path)
        assert re.search(pattern, path)
    for path in ("/", "/metrics", "/openapi.json", "/v2/repository/index"):
        assert find_destination(path)
        assert not re.search(pattern, path)
    bodies = re.search(r"client_max_body_size (\d+)m;", NGINX)
    assert int(bodies[1]) << 20 == Settings.body_bytes
    waits = re.search(r"proxy_read_timeout (\d+)s;", NGINX)
    assert int(waits[1]) > Settings.seconds
    plain = re.sub(r"#.*", "", NGINX)
    assert plain.count("{") == plain.count("}")
    ends = [line.strip()[-1] for line in plain.splitlines() if line.strip()]
    assert set(ends) == set("{};")


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not there")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not there")
def test_nginx_takes_the_file(tmp_path):
    key, certificate = tmp_path / "models.key", tmp_path / "models.pem"
    pair = ["-keyout", key, "-out", certificate, "-subj", "/CN=models"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *pair], check=True)
    here = tmp_path / "hbconv.conf"
    here.write_text(NGINX.replace("/etc/nginx/tls", str(tmp_path)))
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid; events {{}} http {{ include {here}; }}")
    found = subprocess.run(["nginx", "-t", "-c", whole], capture_output=True, check=False)
    assert found.returncode == 0, found.stderr


def test_alerts_are_of_metrics_that_the_server_gives():
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    counted = Metrics()
    counted.begin([ServedModel("m", "1", Doubling(), SIGNATURE, 0)])
    given = set(re.findall(r"^(hbconv_\w+)", counted.text().decode(), re.MULTILINE))
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"].keys() == {"summary"}
        named = set(re.findall(r"hbconv_\w+", rule["expr"]))
        assert named <= given
        assert named or "up{" in rule["expr"]
        assert rule["expr"].count("(") == rule["expr"].count(")")
