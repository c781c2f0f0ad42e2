"""Compose files that are longer than one call of a guest's agent may bring (OTH-10)."""

import yaml

from tests.docker_deployments.conftest import COMPOSE


def test_a_long_file_arrives_whole(ready, library):
    content = COMPOSE + b"".join(b"# %d\n" % number for number in range(30_000))
    app = ready.compose(library.put("/compose.yaml", content))
    assert app["status"] == "running"
    assert ready.guest.project(app["project_name"])["compose"] == content.decode()
    again = ready.compose(
        library.put("/compose.yaml", content), port_mappings=[{"container_port": 80, "host_port": 81}]
    )
    found = yaml.safe_load(ready.guest.project(again["project_name"])["compose"])
    assert found["services"]["web"]["ports"] == ["81:80/tcp"]
