"""Compose files that are longer than one call of a guest's agent may bring (OTH-10)."""

import yaml

from tests.docker_deployments.conftest import COMPOSE_FILE


def test_a_long_file_arrives_whole(docker_ready, file_server):
    content = COMPOSE_FILE + b"".join(b"# %d\n" % number for number in range(30_000))
    app = docker_ready.compose(file_server.put("/compose.yaml", content))
    assert app["status"] == "running"
    assert docker_ready.guest.project(app["project_name"])["compose"] == content.decode()
    again = docker_ready.compose(
        file_server.put("/compose.yaml", content), port_mappings=[{"container_port": 80, "host_port": 81}]
    )
    found = yaml.safe_load(docker_ready.guest.project(again["project_name"])["compose"])
    assert found["services"]["web"]["ports"] == ["81:80/tcp"]
