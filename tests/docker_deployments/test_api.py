"""Docker and its apps in a customer's machine, by both APIs. OTH-10, ENV-23."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import DockerDeployment, Task
from panel.services import docker_apps
from tests.docker_deployments.conftest import COMPOSE

UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"


def kinds(dock):
    return session.scalars(select(Task.kind).where(Task.resource_id == dock.id).order_by(Task.id)).all()


def test_the_whole_way_from_the_catalog(dock):
    """Reference: docker. Poll the list until Docker is there, then until the app runs."""
    before = dock.listed()
    assert before.keys() == {
        "success",
        "message",
        "docker_enabled",
        "docker_installing",
        "docker_error",
        "deployments",
    }
    assert (before["docker_enabled"], before["deployments"]) == (False, [])
    answer = dock.ask("POST", "/install")
    assert (answer.status_code, answer.json["message"]) == (200, "Docker is being installed.")
    assert dock.listed()["docker_installing"] is True
    dock.work()
    assert (dock.listed()["docker_enabled"], dock.listed()["docker_installing"]) == (True, False)

    answer = dock.ask("POST", app_slug="nginx", port_mappings=[{"container_port": 80, "host_port": 8080}])
    made = answer.json["deployment"]
    assert (answer.status_code, made["status"], made["task_id"]) == (200, "pending", answer.json["task_id"])
    dock.work()
    found = dock.find(made["id"])
    assert found["status"] == "running"
    assert (found["instance_id"], found["app_slug"], found["app_name"]) == (dock.id, "nginx", "nginx")
    assert found["port_mappings"] == [{"container_port": 80, "host_port": 8080, "protocol": "tcp"}]
    assert found["project_name"] == made["project_name"]
    assert found["project_name"].startswith("nginx-")
    assert found["deployed_at"]
    assert (found["metadata"], found["error_message"]) == ({}, None)
    assert dock.guest.project(found["project_name"])["runs"] is True
    assert kinds(dock)[-2:] == ["docker_install", "docker_deploy"]


def test_a_compose_file_at_an_address(ready, library):
    url = library.put("/compose.yaml", COMPOSE)
    mappings = [{"container_port": 80, "host_port": 9000}]
    found = ready.compose(url, env_variables={"GREETING": "hello"}, port_mappings=mappings)
    assert (found["status"], found["app_slug"], found["app_name"]) == ("running", "custom", "Shop")
    assert found["metadata"] == {"compose_url": url}
    assert found["port_mappings"] == [{"container_port": 80, "host_port": 9000, "protocol": "tcp"}]
    assert found["project_name"].startswith("custom-")
    assert "hello" not in str(ready.listed())
    assert ready.guest.project(found["project_name"])["environment"] == {"GREETING": "hello"}
    assert "9000:80" in ready.guest.project(found["project_name"])["compose"]


def test_variables_are_kept_encrypted_and_not_shown(ready):
    """What was made up is shown once, to whoever asked for it."""
    answer = ready.ask("POST", app_slug="wordpress")
    [password] = answer.json["generated"].values()
    ready.work()
    row = session.get(DockerDeployment, answer.json["deployment"]["id"])
    assert ready.guest.project(row.project_name)["environment"]["WORDPRESS_DB_PASSWORD"] == password
    raw = session.connection().exec_driver_sql("select environment, compose from docker_deployments").one()
    assert password not in str(raw)
    assert password not in str(session.connection().exec_driver_sql("select arguments, secret from tasks").all())
    assert password not in str(ready.listed())
    own = {"MARIADB_ROOT_PASSWORD": "my own", "MARIADB_PASSWORD": "another"}
    given = ready.ask("POST", app_slug="mariadb", env_variables=own)
    assert (given.status_code, "generated" in given.json) == (200, False)


def test_numbers_and_truths_are_what_they_look_like(ready, library):
    url = library.put("/compose.yaml", COMPOSE)
    found = ready.compose(url, env_variables={"GREETING": 8080, "DEBUG": True})
    assert ready.guest.project(found["project_name"])["environment"] == {"GREETING": "8080", "DEBUG": "true"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_an_app_is_stopped_started_restarted_and_looked_at(ready, who):
    found = ready.deploy()
    path = f"/{found['id']}"
    for action, status in (("stop", "stopped"), ("start", "running"), ("restart", "running")):
        answer = ready.ask("POST", f"{path}/{action}", who)
        assert answer.status_code == 200
        ready.work()
        assert ready.find(found["id"])["status"] == status
        assert ready.guest.project(found["project_name"])["runs"] is (status == "running")
    ready.guest.control(found["project_name"], "stop")
    assert ready.find(found["id"])["status"] == "running"
    assert ready.ask("POST", f"{path}/check-status", who).status_code == 200
    ready.work()
    assert ready.find(found["id"])["status"] == "stopped"
    assert ready.ask("POST", f"{path}/restat", who).status_code == 404
    assert ready.ask("POST", f"{path}/retry", who).status_code == 200
    ready.work()
    assert ready.find(found["id"])["status"] == "running"


@pytest.mark.parametrize("who", ["owner", "admin"])
@pytest.mark.parametrize(("method", "path"), [("DELETE", ""), ("POST", "/remove")])
def test_an_app_is_gone_at_once_and_its_containers_then(ready, who, method, path):
    found = ready.deploy()
    answer = ready.ask(method, f"/{found['id']}{path}", who)
    assert answer.status_code == 200
    assert "are being removed from the machine" in answer.json["message"]
    assert ready.listed()["deployments"] == []
    assert ready.guest.project(found["project_name"])["runs"] is True
    ready.work()
    assert ready.guest.project(found["project_name"]) is None
    assert ready.ask(method, f"/{found['id']}{path}", who).status_code == 404


def test_what_containers_wrote(ready, workers):
    """OTH-10, ENV-23: operators get it as `data.logs`."""
    found = ready.deploy()
    for who, cached in (("owner", False), ("admin", False), ("owner", True), ("admin", True)):
        answer = ready.ask("GET", f"/{found['id']}/{'cached-logs' if cached else 'logs'}", who)
        assert answer.status_code == 200
        body = answer.json["data"] if who == "admin" else answer.json
        assert "web | started from nginx" in body["logs"]
        assert (bool(body["logs_at"]), body["logs_error"]) == (True, None)
    raw = session.connection().exec_driver_sql("select logs from docker_deployments").scalar()
    assert "started" not in raw


def test_nobody_read_logs_yet(ready):
    found = ready.deploy()
    cached = ready.ask("GET", f"/{found['id']}/cached-logs", "admin").json["data"]
    assert cached == {"logs": "", "logs_at": None, "logs_error": None}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_the_catalog(dock, who):
    answer = dock.ask("GET", "/apps", who).json
    found = answer["data"] if who == "admin" else answer["apps"]
    assert len(found) == len(docker_apps.listing()) >= 12
    wordpress = next(each for each in found if each["slug"] == "wordpress")
    assert wordpress["ports"] == [{"container_port": 80, "host_port": 80, "protocol": "tcp"}]
    assert {"name", "label", "description", "required", "sensitive", "default"} == wordpress["variables"][0].keys()
    one = dock.ask("GET", "/app/wordpress", who).json
    assert (one["data"] if who == "admin" else one["app"]) == wordpress
    assert dock.ask("GET", "/app/nosuch", who).status_code == 404


def test_operators_do_the_same(ready, library):
    answer = ready.ask("POST", who="admin", app_slug="nginx")
    assert answer.json["data"]["deployment"]["status"] == "pending"
    ready.work()
    url = library.put("/compose.yaml", COMPOSE)
    answer = ready.ask("POST", "/custom", "admin", app_name="Shop", compose_url=url)
    assert answer.json["data"].keys() == {"deployment", "task_id"}
    ready.work()
    found = ready.listed("admin")
    assert found["docker_enabled"] is True
    assert [each["status"] for each in found["deployments"]] == ["running", "running"]


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
def test_a_wrong_field_is_named(ready, body, field):
    answer = ready.ask("POST", **body) if body else ready.as_("owner", "POST", f"/api/instance/{ready.id}/docker")
    assert answer.status_code == 422
    assert next(iter(answer.json["errors"])).split(".")[0] == field
    assert ready.listed()["deployments"] == []


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
def test_a_compose_file_lies_on_public_addresses(ready, url):
    answer = ready.ask("POST", "/custom", app_name="Shop", compose_url=url)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["compose_url"])


def test_two_apps_do_not_take_the_same_port(ready, library):
    ready.deploy()
    answer = ready.ask("POST", app_slug="wordpress")
    assert (answer.status_code, answer.json["reason"]) == (422, "port_taken")
    assert "Port 80 of the machine is taken by nginx" in answer.json["errors"]["port_mappings"][0]
    other = [{"container_port": 80, "host_port": 81}]
    assert ready.deploy("wordpress", port_mappings=other)["status"] == "running"
    failed = ready.compose(library.put("/compose.yaml", COMPOSE.replace(b"8080", b"81")))
    assert failed["status"] == "failed"
    assert "Port 81 of the machine is taken by WordPress" in failed["error_message"]


@pytest.mark.parametrize("who", ["member", "viewer", "outsider"])
def test_others_see_what_their_role_lets_them(ready, who):
    """What containers wrote takes the right to open consoles; a member that was not let in to the machine sees
    nothing."""
    found = ready.deploy()
    path = f"/api/instance/{ready.id}/docker"
    seen = 200 if who == "viewer" else 404
    assert ready.as_(who, "GET", path).status_code == seen
    assert ready.as_(who, "GET", f"{path}/apps").status_code == seen
    for method, rest in (("GET", "/logs"), ("GET", "/cached-logs"), ("POST", "/stop"), ("DELETE", "")):
        answer = ready.as_(who, method, f"{path}/{found['id']}{rest}")
        assert answer.status_code == (403 if who == "viewer" else 404), rest


def test_the_app_of_another_machine_is_not_found(ready, cast):
    found, other = ready.deploy(), cast.instance()
    for method, rest in (("DELETE", ""), ("POST", "/stop"), ("POST", "/retry"), ("GET", "/logs")):
        answer = ready.as_("owner", method, f"/api/instance/{other.id}/docker/{found['id']}{rest}")
        assert answer.status_code == 404
    assert ready.ask("POST", f"/{UNKNOWN}/stop").status_code == 404


def test_the_list_takes_the_same_number_of_queries(ready, queries):
    def counted():
        queries.clear()
        ready.listed()
        return len(queries)

    ready.deploy()
    one = counted()
    for port in range(81, 86):
        ready.deploy(port_mappings=[{"container_port": 80, "host_port": port}])
    assert len(ready.listed()["deployments"]) == 6
    assert counted() == one
