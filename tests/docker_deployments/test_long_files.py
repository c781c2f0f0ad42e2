"""Compose files that are longer than the maximum input of one agent call (OTH-10)."""

import yaml

from tests.docker_deployments.compose_file import COMPOSE_FILE


def test_long_compose_file_is_transferred_completely(docker_ready, file_server):
    content = COMPOSE_FILE + b"".join(b"# %d\n" % number for number in range(30_000))
    app = docker_ready.deploy_compose(file_server.put("/compose.yaml", content))
    assert app["status"] == "running"
    assert docker_ready.guest.project(app["project_name"])["compose"] == content.decode()
    again = docker_ready.deploy_compose(
        file_server.put("/compose.yaml", content), port_mappings=[{"container_port": 80, "host_port": 81}]
    )
    compose = yaml.safe_load(docker_ready.guest.project(again["project_name"])["compose"])
    assert compose["services"]["web"]["ports"] == ["81:80/tcp"]
