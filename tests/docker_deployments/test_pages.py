"""Container apps on the pages of an instance, without JavaScript, in both areas."""

import pytest

from panel.core.db import session
from panel.models import DockerDeployment, SecurityGroupMember
from panel.services import security_groups
from tests.docker_deployments.compose_file import COMPOSE_FILE

AREAS = [("owner", ""), ("admin", "/admin")]


def list_deployments():
    return session.query(DockerDeployment).all()


@pytest.fixture(params=AREAS, ids=["customer", "operator"])
def browser_and_path(request, browser_as, docker_client):
    """A signed-in browser, and the path of the instance's apps in its area."""
    caller, prefix = request.param
    return browser_as(caller), f"{prefix}/instances/{docker_client.id}/apps"


def test_docker_pages_install_to_remove(browser_and_path, docker_client):
    browser, path = browser_and_path
    assert "Run apps on this instance" in browser.get(path).text
    assert browser.post(f"{path}/install").status_code == 303
    assert "Installing Docker" in browser.get(path).text
    docker_client.run_tasks()
    page = browser.get(path).text
    assert "No app yet" in page
    catalog = browser.get(f"{path}/catalog").text
    for expected_text in ("WordPress", "PostgreSQL", "Nextcloud"):
        assert expected_text in catalog
    text = browser.get(f"{path}/catalog?search=wordpress").text
    assert "WordPress" in text
    assert "Nextcloud" not in text
    assert "No app matches" in browser.get(f"{path}/catalog?search=nosuchthing").text
    assert 'value="80"' in browser.get(f"{path}/new/nginx").text
    answer = browser.post(f"{path}/new/nginx", data={"port_0": "8088"})
    assert (answer.status_code, answer.headers["Location"]) == (303, path)
    assert "Queued" in browser.get(path).text
    docker_client.run_tasks()
    page = browser.get(path).text
    assert f'href="http://{docker_client.instance.ipv4}:8088"' in page
    assert "Running" in page
    [row] = list_deployments()
    for action, expected_text in (
        ("stop", "Stopped"),
        ("start", "Running"),
        ("restart", "Running"),
        ("retry", "Running"),
    ):
        assert browser.post(f"{path}/{row.id}/{action}").status_code == 303
        docker_client.run_tasks()
        assert expected_text in browser.get(path).text
    assert browser.post(f"{path}/{row.id}/check").status_code == 303
    docker_client.run_tasks()
    assert browser.post(f"{path}/{row.id}/remove").status_code == 303
    assert list_deployments() == []
    docker_client.run_tasks()
    assert browser.get(f"{path}/new/nosuch").status_code == 404


def test_generated_secrets_are_shown_once(browser_and_path, docker_ready):
    browser, path = browser_and_path
    answer = browser.post(f"{path}/new/wordpress", data={"variable_WORDPRESS_DB_PASSWORD": "", "port_0": "80"})
    [row] = list_deployments()
    assert answer.headers["Location"] == f"{path}/{row.id}/secrets"
    page = browser.get(answer.headers["Location"]).text
    docker_ready.run_tasks()
    assert docker_ready.guest.project(row.project_name)["environment"]["WORDPRESS_DB_PASSWORD"] in page
    assert browser.get(answer.headers["Location"]).status_code == 303


def test_form_errors_appear_at_fields(browser_and_path, docker_ready):
    browser, path = browser_and_path
    wrong = browser.post(f"{path}/new/grafana", data={"variable_GRAFANA_ADMIN_PASSWORD": "", "port_0": "99999"})
    assert (wrong.status_code, 'id="wrong-port_0"' in wrong.text) == (422, True)
    docker_ready.deploy()
    taken = browser.post(f"{path}/new/wordpress", data={"port_0": "80"})
    assert (taken.status_code, "Port 80 of the instance is used by nginx" in taken.text) == (422, True)
    assert "is used by nginx. Choose another one" in browser.get(f"{path}/new/wordpress").text
    form = {"app_name": "Shop", "compose_url": "https://10.0.0.1/a.yaml"}
    for more, field in (
        ({}, "compose_url"),
        ({"compose_url": "http://example.com/a.yaml"}, "compose_url"),
        ({"env_variables": "A b"}, "env_variables"),
        ({"env_variables": "1A=b"}, "env_variables"),
        ({"port_mappings": "80"}, "port_mappings"),
        ({"port_mappings": "80:80\n80:81"}, "port_mappings"),
        ({"port_mappings": "80:70000"}, "port_mappings"),
    ):
        answer = browser.post(f"{path}/compose", data={**form, **more})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), more
    assert len(list_deployments()) == 1


def test_custom_compose_file_pages(browser_and_path, docker_ready, file_server):
    browser, path = browser_and_path
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    assert browser.get(f"{path}/compose").status_code == 200
    form = {"app_name": "Shop", "compose_url": url, "env_variables": "GREETING=a = b\n\n", "port_mappings": "81:80\r\n"}
    assert browser.post(f"{path}/compose", data=form).status_code == 303
    docker_ready.run_tasks()
    [row] = list_deployments()
    assert docker_ready.guest.project(row.project_name)["environment"] == {"GREETING": "a = b"}
    page = browser.get(path).text
    assert "Shop" in page
    assert f"http://{docker_ready.instance.ipv4}:81" in page
    file_server.files["/compose.yaml"] = 404
    assert browser.post(f"{path}/{row.id}/retry").status_code == 303
    docker_ready.run_tasks()
    page = browser.get(path).text
    assert "Not deployed" in page
    assert "The server answered with 404." in page


def test_logs_page_reads_logs_on_demand(browser_and_path, docker_ready, inline_workers):
    browser, path = browser_and_path
    deployment = docker_ready.deploy()
    logs = f"{path}/{deployment['id']}/logs"
    assert "No logs read yet" in browser.get(logs).text
    assert "web | started from nginx" in browser.post(logs).text
    assert "web | started from nginx" in browser.get(logs).text
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_ready.poll_agents()
    page = browser.post(logs).text
    assert "The guest agent does not answer" in page
    assert "web | started from nginx" in page


def test_pages_warn_of_blocked_ports(browser_and_path, docker_ready, cast):
    browser, path = browser_and_path
    group = security_groups.create(cast.owner, name="shut")
    session.add(SecurityGroupMember(group_id=group.id, instance_id=docker_ready.id))
    session.commit()
    assert "No security group allows port 80" in browser.get(f"{path}/new/nginx").text
    docker_ready.deploy()
    assert "No security group allows this port" in browser.get(path).text
    rule = {"direction": "ingress", "ip_version": "ipv4", "protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
    security_groups.add_rule(group, actor="owner@example.com", **rule)
    session.commit()
    assert "No security group allows this port" not in browser.get(path).text
    assert "No security group allows port" not in browser.get(f"{path}/new/nginx").text


def test_database_ports_are_not_linked(browser_as, docker_ready):
    docker_ready.deploy("redis", env_variables={"REDIS_PASSWORD": "secret word"})
    page = browser_as("owner").get(f"/instances/{docker_ready.id}/apps").text
    assert "port 6379" in page
    assert ":6379" not in page


def test_viewer_cannot_read_logs_or_control_apps(browser_as, docker_ready):
    docker_ready.deploy()
    viewer, path = browser_as("viewer"), f"/instances/{docker_ready.id}/apps"
    page = viewer.get(path).text
    assert "nginx" in page
    assert f"{path}/new" not in page
    [row] = list_deployments()
    assert viewer.get(f"{path}/{row.id}/logs").status_code == 403
    assert viewer.post(f"{path}/{row.id}/stop").status_code == 403
    assert browser_as("outsider").get(path).status_code == 404


def test_apps_page_of_stopped_instance(browser_as, docker_ready):
    docker_ready.deploy()
    docker_ready.power("poweroff")
    page = browser_as("owner").get(f"/instances/{docker_ready.id}/apps").text
    assert "The instance is not running. Start it first." in page
    assert "Instance is off" in page
    assert f"http://{docker_ready.instance.ipv4}" not in page
