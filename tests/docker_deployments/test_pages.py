"""Container apps at the pages of an instance, without JavaScript, on both sides."""

import pytest

from panel.core.db import session
from panel.models import DockerDeployment, SecurityGroupMember
from panel.services import security_groups
from tests.docker_deployments.conftest import COMPOSE_FILE

SIDES = [("owner", ""), ("admin", "/admin")]


def rows():
    return session.query(DockerDeployment).all()


@pytest.fixture(params=SIDES, ids=["customer", "operator"])
def pages(request, browser_as, docker_client):
    """Somebody's browser, and where the machine's apps are for them."""
    who, prefix = request.param
    return browser_as(who), f"{prefix}/instances/{docker_client.id}/apps"


def test_docker_pages_install_to_remove(pages, docker_client):
    person, path = pages
    assert "Run apps on this instance" in person.get(path).text
    assert person.post(f"{path}/install").status_code == 303
    assert "Installing Docker" in person.get(path).text
    docker_client.work()
    page = person.get(path).text
    assert "No app yet" in page
    catalog = person.get(f"{path}/catalog").text
    for words in ("WordPress", "PostgreSQL", "Nextcloud"):
        assert words in catalog
    found = person.get(f"{path}/catalog?search=wordpress").text
    assert "WordPress" in found
    assert "Nextcloud" not in found
    assert "No app matches" in person.get(f"{path}/catalog?search=nosuchthing").text
    assert 'value="80"' in person.get(f"{path}/new/nginx").text
    answer = person.post(f"{path}/new/nginx", data={"port_0": "8088"})
    assert (answer.status_code, answer.headers["Location"]) == (303, path)
    assert "Queued" in person.get(path).text
    docker_client.work()
    page = person.get(path).text
    assert f'href="http://{docker_client.row.ipv4}:8088"' in page
    assert "Running" in page
    [row] = rows()
    for action, words in (("stop", "Stopped"), ("start", "Running"), ("restart", "Running"), ("retry", "Running")):
        assert person.post(f"{path}/{row.id}/{action}").status_code == 303
        docker_client.work()
        assert words in person.get(path).text
    assert person.post(f"{path}/{row.id}/check").status_code == 303
    docker_client.work()
    assert person.post(f"{path}/{row.id}/remove").status_code == 303
    assert rows() == []
    docker_client.work()
    assert person.get(f"{path}/new/nosuch").status_code == 404


def test_secrets_that_were_made_up_are_shown_once(pages, docker_ready):
    person, path = pages
    answer = person.post(f"{path}/new/wordpress", data={"variable_WORDPRESS_DB_PASSWORD": "", "port_0": "80"})
    [row] = rows()
    assert answer.headers["Location"] == f"{path}/{row.id}/secrets"
    page = person.get(answer.headers["Location"]).text
    docker_ready.work()
    assert docker_ready.guest.project(row.project_name)["environment"]["WORDPRESS_DB_PASSWORD"] in page
    assert person.get(answer.headers["Location"]).status_code == 303


def test_what_is_wrong_stands_at_its_field(pages, docker_ready):
    person, path = pages
    wrong = person.post(f"{path}/new/grafana", data={"variable_GRAFANA_ADMIN_PASSWORD": "", "port_0": "99999"})
    assert (wrong.status_code, 'id="wrong-port_0"' in wrong.text) == (422, True)
    docker_ready.deploy()
    taken = person.post(f"{path}/new/wordpress", data={"port_0": "80"})
    assert (taken.status_code, "Port 80 of the instance is used by nginx" in taken.text) == (422, True)
    assert "is used by nginx. Choose another one" in person.get(f"{path}/new/wordpress").text
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
        answer = person.post(f"{path}/compose", data={**form, **more})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), more
    assert len(rows()) == 1


def test_a_compose_file_of_ones_own(pages, docker_ready, file_server):
    person, path = pages
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    assert person.get(f"{path}/compose").status_code == 200
    form = {"app_name": "Shop", "compose_url": url, "env_variables": "GREETING=a = b\n\n", "port_mappings": "81:80\r\n"}
    assert person.post(f"{path}/compose", data=form).status_code == 303
    docker_ready.work()
    [row] = rows()
    assert docker_ready.guest.project(row.project_name)["environment"] == {"GREETING": "a = b"}
    page = person.get(path).text
    assert "Shop" in page
    assert f"http://{docker_ready.row.ipv4}:81" in page
    file_server.files["/compose.yaml"] = 404
    assert person.post(f"{path}/{row.id}/retry").status_code == 303
    docker_ready.work()
    page = person.get(path).text
    assert "Not deployed" in page
    assert "The server answered with 404." in page


def test_logs_are_read_when_somebody_asks(pages, docker_ready, inline_workers):
    person, path = pages
    found = docker_ready.deploy()
    logs = f"{path}/{found['id']}/logs"
    assert "No logs read yet" in person.get(logs).text
    assert "web | started from nginx" in person.post(logs).text
    assert "web | started from nginx" in person.get(logs).text
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_ready.poll_agents()
    page = person.post(logs).text
    assert "The guest agent does not answer" in page
    assert "web | started from nginx" in page


def test_ports_that_nobody_may_reach_are_told(pages, docker_ready, cast):
    person, path = pages
    group = security_groups.create(cast.owner, name="shut")
    session.add(SecurityGroupMember(group_id=group.id, instance_id=docker_ready.id))
    session.commit()
    assert "No security group allows port 80" in person.get(f"{path}/new/nginx").text
    docker_ready.deploy()
    assert "No security group allows this port" in person.get(path).text
    rule = {"direction": "ingress", "ip_version": "ipv4", "protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
    security_groups.add_rule(group, actor="owner@example.com", **rule)
    session.commit()
    assert "No security group allows this port" not in person.get(path).text
    assert "No security group allows port" not in person.get(f"{path}/new/nginx").text


def test_databases_are_no_links(browser_as, docker_ready):
    docker_ready.deploy("redis", env_variables={"REDIS_PASSWORD": "secret word"})
    page = browser_as("owner").get(f"/instances/{docker_ready.id}/apps").text
    assert "port 6379" in page
    assert ":6379" not in page


def test_a_viewer_sees_the_apps_and_nothing_more(browser_as, docker_ready):
    docker_ready.deploy()
    viewer, path = browser_as("viewer"), f"/instances/{docker_ready.id}/apps"
    page = viewer.get(path).text
    assert "nginx" in page
    assert f"{path}/new" not in page
    [row] = rows()
    assert viewer.get(f"{path}/{row.id}/logs").status_code == 403
    assert viewer.post(f"{path}/{row.id}/stop").status_code == 403
    assert browser_as("outsider").get(path).status_code == 404


def test_a_machine_that_is_off_says_so(browser_as, docker_ready):
    docker_ready.deploy()
    docker_ready.power("poweroff")
    page = browser_as("owner").get(f"/instances/{docker_ready.id}/apps").text
    assert "The instance is not running. Start it first." in page
    assert "Instance is off" in page
    assert f"http://{docker_ready.row.ipv4}" not in page
