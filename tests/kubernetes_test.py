"""The manifest for Kubernetes: what its schemas say of it, and that its commands are ours."""

import copy
import json
import pathlib

import jsonschema
import pytest
import yaml

from tf_dynacomm import cluster_config

_ROOT = pathlib.Path(__file__).parents[1]
_SCHEMAS = _ROOT / "testdata" / "kubernetes"
_POLICY, _JOB = yaml.safe_load_all((_ROOT / "docs" / "kubernetes" / "tfjob.yaml").read_text())
_REPLICAS = _JOB["spec"]["tfReplicaSpecs"]
_LABEL = "training.kubeflow.org/job-name"  # The operator gives it to the job's pods.
_PORT = 2222


def _check(manifest, kind: str) -> None:
    schema = yaml.safe_load((_SCHEMAS / f"{kind}.schema.yaml").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(manifest, schema, jsonschema.Draft202012Validator)


def _container(replica: str) -> dict:
    (container,) = _REPLICAS[replica]["template"]["spec"]["containers"]
    return container


def test_job_is_as_its_schema_says():
    _check(_JOB, "tfjob")


def test_network_policy_is_as_its_schema_says():
    _check(_POLICY, "network_policy")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "runPolicy", "cleanPodPolicy"), "Sometimes"),
        (("spec", "tfReplicaSpecs", "Servers"), {"template": {"spec": {"containers": []}}}),
        (("spec", "tfReplicaSpecs", "PS", "replicas"), "1"),
        (("spec", "tfReplicaSpecs", "PS", "template", "spec", "containers", 0, "name"), "main"),
        (("spec", "tfReplicaSpecs", "PS", "template", "spec", "containers", 0, "cmd"), ["sh"]),
    ],
)
def test_the_schema_refuses_what_the_operator_does(path, value):
    job = copy.deepcopy(_JOB)
    *parents, key = path
    inside = job
    for parent in parents:
        inside = inside[parent]
    inside[key] = value
    with pytest.raises(jsonschema.ValidationError):
        _check(job, "tfjob")


def test_every_task_of_a_cluster_is_there_and_runs_the_same_command():
    assert _REPLICAS.keys() == {"Chief", "Worker", "PS"}
    commands = [_container(replica)["command"] for replica in _REPLICAS]
    assert commands[0][:2] == ["dynacomm-train", "--cluster=tf_config"]
    assert commands.count(commands[0]) == 3


def test_flags_of_the_command_are_known():
    source = (_ROOT / "tf_dynacomm/tools/train.py").read_text()
    source += (_ROOT / "tf_dynacomm/flags.py").read_text()
    for flag in _container("Chief")["command"][1:]:
        name = flag.removeprefix("--").partition("=")[0]
        assert f'"{name}"' in source or f'f"{{prefix}}{name}"' in source


@pytest.mark.parametrize("replica", _REPLICAS)
def test_what_the_operator_tells_a_task_is_a_cluster(replica):
    cluster = {
        job.lower(): [
            f"{_JOB['metadata']['name']}-{job.lower()}-{index}.default.svc:{_PORT}"
            for index in range(content["replicas"])
        ]
        for job, content in _REPLICAS.items()
    }
    task = {"type": replica.lower(), "index": 0}
    text = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
    config = cluster_config.ClusterConfig.from_tf_config(text)
    assert config.address == cluster[replica.lower()][0]


def test_only_pods_of_the_job_reach_its_port():
    pods = {"matchLabels": {_LABEL: _JOB["metadata"]["name"]}}
    assert _POLICY["spec"]["podSelector"] == pods
    (rule,) = _POLICY["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": pods}]
    assert rule["ports"] == [{"protocol": "TCP", "port": _PORT}]
    assert all(_container(r)["ports"][0]["containerPort"] == _PORT for r in _REPLICAS)


@pytest.mark.parametrize("replica", _REPLICAS)
def test_pods_have_no_rights_that_training_does_not_need(replica):
    pod = _REPLICAS[replica]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert _container(replica)["securityContext"]["capabilities"] == {"drop": ["ALL"]}
