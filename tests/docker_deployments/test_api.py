"""Docker and its apps in an instance, in both APIs. OTH-10, ENV-23."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import DockerDeployment, Task
from panel.services import docker_apps
from tests.docker_deployments.compose_file import COMPOSE_FILE
from tests.support.cast import UNKNOWN_ID


def list_task_kinds(dock):
    return session.scalars(select(Task.kind).where(Task.resource_id == dock.id).order_by(Task.id)).all()


def test_catalog_app_install_and_deploy(docker_client):
    """Reference: docker. Clients poll the list until Docker is installed, then until the app runs."""
    before = docker_client.read_docker_state()
    assert before.keys() == {
        "success",
        "message",
        "docker_enabled",
        "docker_installing",
        "docker_error",
        "deployments",
    }
    assert (before["docker_enabled"], before["deployments"]) == (False, [])
    answer = docker_client.request("POST", "/install")
    assert (answer.status_code, answer.json["message"]) == (200, "Installation of Docker requested.")
    assert docker_client.read_docker_state()["docker_installing"] is True
    docker_client.run_tasks()
    assert (
        docker_client.read_docker_state()["docker_enabled"],
        docker_client.read_docker_state()["docker_installing"],
    ) == (
        True,
        False,
    )

    answer = docker_client.request("POST", app_slug="nginx", port_mappings=[{"container_port": 80, "host_port": 8080}])
    deployment = answer.json["deployment"]
    assert (answer.status_code, deployment["status"], deployment["task_id"]) == (200, "pending", answer.json["task_id"])
    docker_client.run_tasks()
    listed_deployment = docker_client.find_deployment(deployment["id"])
    assert listed_deployment["status"] == "running"
    assert (listed_deployment["instance_id"], listed_deployment["app_slug"], listed_deployment["app_name"]) == (
        docker_client.id,
        "nginx",
        "nginx",
    )
    assert listed_deployment["port_mappings"] == [{"container_port": 80, "host_port": 8080, "protocol": "tcp"}]
    assert listed_deployment["project_name"] == deployment["project_name"]
    assert listed_deployment["project_name"].startswith("nginx-")
    assert listed_deployment["deployed_at"]
    assert (listed_deployment["metadata"], listed_deployment["error_message"]) == ({}, None)
    assert docker_client.guest.project(listed_deployment["project_name"])["runs"] is True
    assert list_task_kinds(docker_client)[-2:] == ["docker_install", "docker_deploy"]


def test_custom_app_from_compose_url(docker_ready, file_server):
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    mappings = [{"container_port": 80, "host_port": 9000}]
    deployment = docker_ready.deploy_compose(url, env_variables={"GREETING": "hello"}, port_mappings=mappings)
    assert (deployment["status"], deployment["app_slug"], deployment["app_name"]) == ("running", "custom", "Shop")
    assert deployment["metadata"] == {"compose_url": url}
    assert deployment["port_mappings"] == [{"container_port": 80, "host_port": 9000, "protocol": "tcp"}]
    assert deployment["project_name"].startswith("custom-")
    assert "hello" not in str(docker_ready.read_docker_state())
    assert docker_ready.guest.project(deployment["project_name"])["environment"] == {"GREETING": "hello"}
    assert "9000:80" in docker_ready.guest.project(deployment["project_name"])["compose"]


def test_app_variables_are_encrypted_and_not_returned(docker_ready):
    """Generated values are returned once, in the answer of the request."""
    answer = docker_ready.request("POST", app_slug="wordpress")
    [password] = answer.json["generated"].values()
    docker_ready.run_tasks()
    row = session.get(DockerDeployment, answer.json["deployment"]["id"])
    assert docker_ready.guest.project(row.project_name)["environment"]["WORDPRESS_DB_PASSWORD"] == password
    raw = session.connection().exec_driver_sql("select environment, compose from docker_deployments").one()
    assert password not in str(raw)
    assert password not in str(session.connection().exec_driver_sql("select arguments, secret from tasks").all())
    assert password not in str(docker_ready.read_docker_state())
    own = {"MARIADB_ROOT_PASSWORD": "my own", "MARIADB_PASSWORD": "another"}
    given = docker_ready.request("POST", app_slug="mariadb", env_variables=own)
    assert (given.status_code, "generated" in given.json) == (200, False)


def test_number_and_boolean_variables_become_strings(docker_ready, file_server):
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    deployment = docker_ready.deploy_compose(url, env_variables={"GREETING": 8080, "DEBUG": True})
    assert docker_ready.guest.project(deployment["project_name"])["environment"] == {
        "GREETING": "8080",
        "DEBUG": "true",
    }


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_app_actions_change_status(docker_ready, caller):
    deployment = docker_ready.deploy()
    path = f"/{deployment['id']}"
    for action, status in (("stop", "stopped"), ("start", "running"), ("restart", "running")):
        answer = docker_ready.request("POST", f"{path}/{action}", caller)
        assert answer.status_code == 200
        docker_ready.run_tasks()
        assert docker_ready.find_deployment(deployment["id"])["status"] == status
        assert docker_ready.guest.project(deployment["project_name"])["runs"] is (status == "running")
    docker_ready.guest.control(deployment["project_name"], "stop")
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"
    assert docker_ready.request("POST", f"{path}/check-status", caller).status_code == 200
    docker_ready.run_tasks()
    assert docker_ready.find_deployment(deployment["id"])["status"] == "stopped"
    assert docker_ready.request("POST", f"{path}/restat", caller).status_code == 404
    assert docker_ready.request("POST", f"{path}/retry", caller).status_code == 200
    docker_ready.run_tasks()
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"


@pytest.mark.parametrize("caller", ["owner", "admin"])
@pytest.mark.parametrize(("method", "path"), [("DELETE", ""), ("POST", "/remove")])
def test_removed_app_disappears_before_its_containers(docker_ready, caller, method, path):
    deployment = docker_ready.deploy()
    answer = docker_ready.request(method, f"/{deployment['id']}{path}", caller)
    assert answer.status_code == 200
    assert "Deletion of its containers requested" in answer.json["message"]
    assert docker_ready.read_docker_state()["deployments"] == []
    assert docker_ready.guest.project(deployment["project_name"])["runs"] is True
    docker_ready.run_tasks()
    assert docker_ready.guest.project(deployment["project_name"]) is None
    assert docker_ready.request(method, f"/{deployment['id']}{path}", caller).status_code == 404


def test_app_logs_are_read_and_cached(docker_ready, inline_workers):
    """OTH-10, ENV-23: operators get them as `data.logs`."""
    deployment = docker_ready.deploy()
    for caller, cached in (("owner", False), ("admin", False), ("owner", True), ("admin", True)):
        answer = docker_ready.request("GET", f"/{deployment['id']}/{'cached-logs' if cached else 'logs'}", caller)
        assert answer.status_code == 200
        body = answer.json["data"] if caller == "admin" else answer.json
        assert "web | started from nginx" in body["logs"]
        assert (bool(body["logs_at"]), body["logs_error"]) == (True, None)
    raw = session.connection().exec_driver_sql("select logs from docker_deployments").scalar()
    assert "started" not in raw


def test_cached_logs_are_empty_before_first_read(docker_ready):
    deployment = docker_ready.deploy()
    cached = docker_ready.request("GET", f"/{deployment['id']}/cached-logs", "admin").json["data"]
    assert cached == {"logs": "", "logs_at": None, "logs_error": None}


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_docker_catalog_lists_apps(docker_client, caller):
    answer = docker_client.request("GET", "/apps", caller).json
    apps = answer["data"] if caller == "admin" else answer["apps"]
    assert len(apps) == len(docker_apps.listing()) >= 12
    wordpress = next(app for app in apps if app["slug"] == "wordpress")
    assert wordpress["ports"] == [{"container_port": 80, "host_port": 80, "protocol": "tcp"}]
    assert {"name", "label", "description", "required", "sensitive", "default"} == wordpress["variables"][0].keys()
    one = docker_client.request("GET", "/app/wordpress", caller).json
    assert (one["data"] if caller == "admin" else one["app"]) == wordpress
    assert docker_client.request("GET", "/app/nosuch", caller).status_code == 404


def test_operator_docker_routes(docker_ready, file_server):
    answer = docker_ready.request("POST", caller="admin", app_slug="nginx")
    assert answer.json["data"]["deployment"]["status"] == "pending"
    docker_ready.run_tasks()
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    answer = docker_ready.request("POST", "/custom", "admin", app_name="Shop", compose_url=url)
    assert answer.json["data"].keys() == {"deployment", "task_id"}
    docker_ready.run_tasks()
    docker_state = docker_ready.read_docker_state("admin")
    assert docker_state["docker_enabled"] is True
    assert [deployment["status"] for deployment in docker_state["deployments"]] == ["running", "running"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"app_slug": "nosuch"}, "app_slug"),
        ({}, "app_slug"),
        ({"app_slug": "nginx", "env_variables": {"NOSUCH": "1"}}, "env_variables"),
        ({"app_slug": "wordpress", "env_variables": {"a b": "1"}}, "env_variables"),
        ({"app_slug": "wordpress", "env_variables": {"WORDPRESS_DB_PASSWORD": "two\nlines"}}, "env_variables"),
        ({"app_slug": "wordpress", "env_variables": {"WORDPRESS_DB_PASSWORD": {"a": 1}}}, "env_variables"),
        ({"app_slug": "nginx", "port_mappings": [{"container_port": 80}]}, "port_mappings"),
        ({"app_slug": "nginx", "port_mappings": [{"container_port": 80, "host_port": 0}]}, "port_mappings"),
        (
            {
                "app_slug": "nginx",
                "port_mappings": [{"container_port": 80, "host_port": 1}, {"container_port": 81, "host_port": 1}],
            },
            "port_mappings",
        ),
    ],
)
def test_invalid_app_fields_are_refused(docker_ready, body, field):
    answer = (
        docker_ready.request("POST", **body)
        if body
        else docker_ready.api_as("owner", "POST", f"/api/instance/{docker_ready.id}/docker")
    )
    assert answer.status_code == 422
    assert next(iter(answer.json["errors"])).split(".")[0] == field
    assert docker_ready.read_docker_state()["deployments"] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/compose.yaml",
        "https://127.0.0.1/compose.yaml",
        "https://10.0.0.1/compose.yaml",
        "https://[::1]/compose.yaml",
        "https://user:word@example.com/compose.yaml",
        "https://localhost/compose.yaml",
        "file:///etc/passwd",
        "",
    ],
)
def test_compose_url_must_be_public_https(docker_ready, url):
    answer = docker_ready.request("POST", "/custom", app_name="Shop", compose_url=url)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["compose_url"])


def test_host_port_conflict_is_refused(docker_ready, file_server):
    docker_ready.deploy()
    answer = docker_ready.request("POST", app_slug="wordpress")
    assert (answer.status_code, answer.json["reason"]) == (422, "port_taken")
    assert "Port 80 of the instance is used by nginx" in answer.json["errors"]["port_mappings"][0]
    other = [{"container_port": 80, "host_port": 81}]
    assert docker_ready.deploy("wordpress", port_mappings=other)["status"] == "running"
    failed = docker_ready.deploy_compose(file_server.put("/compose.yaml", COMPOSE_FILE.replace(b"8080", b"81")))
    assert failed["status"] == "failed"
    assert "Port 81 of the instance is used by WordPress" in failed["error_message"]


@pytest.mark.parametrize("caller", ["member", "viewer", "outsider"])
def test_docker_routes_check_permissions(docker_ready, caller):
    """Logs need the permission to open consoles; a member without a grant for the instance gets 404."""
    deployment = docker_ready.deploy()
    path = f"/api/instance/{docker_ready.id}/docker"
    seen = 200 if caller == "viewer" else 404
    assert docker_ready.api_as(caller, "GET", path).status_code == seen
    assert docker_ready.api_as(caller, "GET", f"{path}/apps").status_code == seen
    for method, suffix in (("GET", "/logs"), ("GET", "/cached-logs"), ("POST", "/stop"), ("DELETE", "")):
        answer = docker_ready.api_as(caller, method, f"{path}/{deployment['id']}{suffix}")
        assert answer.status_code == (403 if caller == "viewer" else 404), suffix


def test_app_of_other_instance_is_not_found(docker_ready, cast):
    deployment, other = docker_ready.deploy(), cast.instance()
    for method, suffix in (("DELETE", ""), ("POST", "/stop"), ("POST", "/retry"), ("GET", "/logs")):
        answer = docker_ready.api_as("owner", method, f"/api/instance/{other.id}/docker/{deployment['id']}{suffix}")
        assert answer.status_code == 404
    assert docker_ready.request("POST", f"/{UNKNOWN_ID}/stop").status_code == 404


def test_app_list_query_count_is_constant(docker_ready, queries):
    def count_queries():
        queries.clear()
        docker_ready.read_docker_state()
        return len(queries)

    docker_ready.deploy()
    one = count_queries()
    for port in range(81, 86):
        docker_ready.deploy(port_mappings=[{"container_port": 80, "host_port": port}])
    assert len(docker_ready.read_docker_state()["deployments"]) == 6
    assert count_queries() == one
