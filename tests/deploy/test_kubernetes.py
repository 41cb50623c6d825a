"""The manifests of deploy/kubernetes: by Kubernetes' schemas, the Spark operator's, and our own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from copy import deepcopy
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication

from tallystick import settings, spark_submit
from tallystick.commands.audit import audit
from tallystick.errors import ExitCode
from tallystick.producers.mysql.settings import load_servers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.31", kubernetes_validate.latest_version())
"""Of Kubernetes: the oldest in which all that is used is stable, and the newest that is known."""
OPERATOR = "sparkoperator.k8s.io/v1beta2"


def documents(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((FOLDER / name).read_text("utf-8"))]


def document(name: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in documents(name) if one["kind"] == kind]
    return found


ALL = {
    f"{name}-{one['kind']}": one for name in ("audit.yaml", "tail.yaml") for one in documents(name)
}


def refuse(manifest: dict[str, Any]) -> None:
    """Raise what is wrong with a manifest; names that a schema does not have are wrong, too."""
    if manifest["apiVersion"] == OPERATOR:
        model = SparkV1beta2SparkApplication.from_dict(manifest)
        assert model is not None
        # The models leave out what they do not know.
        assert manifest == without_empty(model.to_dict())
        return
    for version in VERSIONS:
        kubernetes_validate.validate(manifest, version, strict=True)


def without_empty(value: Any) -> Any:
    """The models write an empty list or table where there was none."""
    if isinstance(value, dict):
        kept = {name: without_empty(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in ({}, [])}
    return [without_empty(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("manifest", ALL.values(), ids=ALL)
def test_a_manifest_is_of_its_schema(manifest):
    """Nothing unknown, nothing missing, no wrong type."""
    refuse(manifest)


@pytest.mark.parametrize(
    ("name", "kind", "path", "value"),
    [
        ("audit.yaml", "SparkApplication", ("spec", "driver", "livenessProbe"), {}),
        ("audit.yaml", "SparkApplication", ("spec", "executor", "cores"), "1"),
        ("audit.yaml", "SparkApplication", ("spec", "mainApplicationFile"), None),
        ("tail.yaml", "Job", ("spec", "podReplacementPolicies"), "Failed"),
        ("tail.yaml", "Job", ("spec", "completions"), "many"),
        ("audit.yaml", "PersistentVolumeClaim", ("spec", "accessModes"), "ReadWriteMany"),
    ],
)
def test_what_is_wrong_is_refused(name, kind, path, value):
    """The check itself."""
    manifest = deepcopy(document(name, kind))
    *parents, last = path
    within = manifest
    for parent in parents:
        within = within[parent]
    within[last] = value
    with pytest.raises((ValueError, AssertionError, kubernetes_validate.ValidationError)):
        refuse(manifest)


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Security of each pod, of its container, and the container."""
    spark = document("audit.yaml", "SparkApplication")["spec"]
    for role in ("driver", "executor"):
        yield spark[role]["podSecurityContext"], spark[role]["securityContext"], spark[role]
    pod = document("tail.yaml", "Job")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    yield pod["securityContext"], container["securityContext"], container


def test_containers_have_no_rights_that_they_do_not_need():
    """Another user than root, which the image has, and a file system that cannot be changed."""
    image = (FOLDER / "Dockerfile").read_text("utf-8")
    (user,) = re.findall(r"^USER (\d+)$", image, re.MULTILINE)
    for pod, container, _ in pods():
        assert pod["runAsNonRoot"]
        assert int(user) == pod["runAsUser"] == pod["fsGroup"]
        assert container["readOnlyRootFilesystem"]
        assert not container["allowPrivilegeEscalation"]
        assert {"drop": ["ALL"]} == container["capabilities"]


def test_variables_are_settings_and_secrets_are_no_values(monkeypatch, tmp_path):
    """A name that is no setting would end the command; a value would be in the cluster's API."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TALLYSTICK_")]:
        monkeypatch.delenv(name)
    for _, _, container in pods():
        with monkeypatch.context() as inside:
            for variable in container["env"]:
                name = variable["name"]
                if name.endswith("_FILE"):
                    secret = tmp_path / name
                    secret.write_text("secret")
                    secret.chmod(0o440)
                    inside.setenv(name, str(secret))
                else:
                    is_secret = re.search("PASSWORD|JAAS", name) is not None
                    assert is_secret == ("secretKeyRef" in variable.get("valueFrom", {}))
                    inside.setenv(name, variable.get("value", "secret"))
            settings.load()


def mounted(mounts: list[dict[str, Any]], path: str) -> bool:
    return any(path.startswith(f"{mount['mountPath']}/") for mount in mounts)


def test_files_that_are_named_are_mounted():
    """A typing error in a path is seen here instead of in a pod."""
    for _, _, container in pods():
        for variable in container["env"]:
            if (path := variable.get("value", "")).startswith("/etc/"):
                assert mounted(container["volumeMounts"], path)
    spec = document("audit.yaml", "SparkApplication")["spec"]
    names = {volume["name"] for volume in spec["volumes"]}
    for role in ("driver", "executor"):
        assert {mount["name"] for mount in spec[role]["volumeMounts"]} <= names
    (state,) = [one for one in spec["driver"]["env"] if one["name"] == "TALLYSTICK_DIRECTORY"]
    # Spark's executors write the checkpoint, too.
    assert mounted(spec["executor"]["volumeMounts"], f"{state['value']}/checkpoint")


def test_the_driver_is_found_before_it_is_ready():
    """Executors resolve its Service, which Spark 4.0 makes without addresses that are not ready."""
    spec = document("audit.yaml", "SparkApplication")["spec"]
    (container,) = spec["driver"]["template"]["spec"]["containers"]
    assert "readinessProbe" not in container
    probe = container["livenessProbe"]["httpGet"]
    variables = {one["name"]: one.get("value") for one in spec["driver"]["env"]}
    assert ("/healthz", int(variables["TALLYSTICK_METRICS_PORT"])) == (probe["path"], probe["port"])
    # Kubelet does not probe the loopback address.
    assert ip_address(variables["TALLYSTICK_METRICS_HOST"]).is_unspecified


def test_the_job_runs_the_command_of_the_image():
    """Versions, files and partitions fit together."""
    spec = document("audit.yaml", "SparkApplication")["spec"]
    image = (FOLDER / "Dockerfile").read_text("utf-8")
    assert ("Python", "cluster") == (spec["type"], spec["mode"])
    assert {f"apache/spark:{spec['sparkVersion']}"} == set(re.findall(r"FROM ([^-]*)", image))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"pyspark=={spec['sparkVersion']}" in project["optional-dependencies"]["stream"]
    main = Path(spec["mainApplicationFile"].removeprefix("local://"))
    assert Path(spark_submit.__file__).name == main.name
    assert f"WORKDIR {main.parent}\n" in image
    assert f" {main.name}\n" in image
    for role in ("driver", "executor"):
        assert f"{main.parent}/jars/*" == spec["sparkConf"][f"spark.{role}.extraClassPath"]
    assert " jars " in image
    assert audit.__name__ == spec["arguments"][0]
    variables = {one["name"]: one.get("value") for one in spec["driver"]["env"]}
    assert spec["executor"]["instances"] == int(variables["TALLYSTICK_SPARK_PARTITIONS"])
    assert 1 == spec["executor"]["cores"]


def test_tail_is_not_started_beside_another_one():
    """Status 76 ends the job, and a pod begins when the one before has ended."""
    spec = document("tail.yaml", "Job")["spec"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    (container,) = spec["template"]["spec"]["containers"]
    assert ("FailJob", [ExitCode.SUPERSEDED]) == (rule["action"], rule["onExitCodes"]["values"])
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert ("Failed", 1) == (spec["podReplacementPolicy"], spec["parallelism"])
    assert "Never" == spec["template"]["spec"]["restartPolicy"]


def test_the_servers_of_tail_can_be_read(monkeypatch, tmp_path):
    """Their file is where the argument says."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", "secret")
    data = document("tail.yaml", "ConfigMap")["data"]
    (container,) = document("tail.yaml", "Job")["spec"]["template"]["spec"]["containers"]
    arguments = dict(one.removeprefix("--").split("=") for one in container["args"])
    config = arguments["config"]
    assert mounted(container["volumeMounts"], config)
    (tmp_path / Path(config).name).write_text(data[Path(config).name], "utf-8")
    servers = load_servers(tmp_path / Path(config).name, (), None)
    assert ["orders-source", "orders-replica"] == [server.name for server in servers]
