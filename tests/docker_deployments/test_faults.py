"""What goes wrong while workers are at it: in the guest, at the address of a compose file, with the workers."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Task
from panel.services.docker_deployments import compose_file
from panel.workflows import docker_support
from tests.docker_deployments.conftest import COMPOSE_FILE
from worker.engine import runner as running
from worker.guest import background_job
from worker.nodes.simulated.docker import NO_PACKAGE_MANAGER


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A guest that is silent is not asked for long."""
    monkeypatch.setattr(background_job, "AGENT_SILENCE_TIMEOUT_SECONDS", -1.0)


def latest_task():
    return session.scalars(
        select(Task).order_by(Task.id.desc()).limit(1).execution_options(populate_existing=True)
    ).one()


def test_an_installation_that_fails_says_why_and_is_tried_again(docker_client):
    docker_client.ask("POST", "/install")
    docker_client.node.fault("agent_run", "refuse", 1)
    docker_client.work()
    listed = docker_client.list_apps()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert listed["docker_error"] == "The hypervisor refused this."
    docker_client.install()
    assert docker_client.list_apps()["docker_error"] is None


def test_an_image_that_cannot_be_had(docker_ready, file_server):
    url = file_server.put("/compose.yaml", b"services: {web: {image: missing/app}}")
    failed = docker_ready.compose(url)
    assert failed["status"] == "failed"
    assert "pull access denied for missing/app" in failed["error_message"]
    assert latest_task().status == "failed"
    file_server.put("/compose.yaml", COMPOSE_FILE)
    assert docker_ready.ask("POST", f"/{failed['id']}/retry").json["deployment"]["status"] == "pending"
    docker_ready.work()
    found = docker_ready.find(failed["id"])
    assert (found["status"], found["error_message"]) == ("running", None)
    assert found["project_name"] == failed["project_name"]


def test_containers_that_end_at_once(docker_ready, file_server):
    found = docker_ready.compose(file_server.put("/compose.yaml", b"services: {web: {image: crashing/app}}"))
    assert found["status"] == "error"
    assert found["error_message"] == "The container of web ended with exit code 1."


def send_response(handler, status, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def send_chunked(handler):
    """Without its length, as many servers send what they make."""
    send_response(handler, 200, Transfer_Encoding="chunked")
    for piece in (COMPOSE_FILE[:20], COMPOSE_FILE[20:]):
        handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")


def send_truncated(handler):
    send_response(handler, 200, Content_Length="1000")
    handler.wfile.write(COMPOSE_FILE)
    handler.close_connection = True


def send_endless(handler):
    send_response(handler, 200, Transfer_Encoding="chunked")
    piece = b"#" * 65536
    for _ in range(8):
        handler.wfile.write(b"10000\r\n" + piece + b"\r\n")
    handler.close_connection = True


def redirect_to(address):
    return lambda handler: send_response(handler, 302, Location=address, Content_Length="0")


FILES = [
    (404, "The server answered with 404."),
    (b" \n", "The compose file is empty."),
    (b"\xff\xfe", "The compose file is not text in UTF-8."),
    (b"<html></html>", "This is not a compose file."),
    (b"services: [", "This is not a compose file."),
    (b"version: '3'", "This is not a compose file"),
    (b"services: {web: 1}", "This is not a compose file"),
    (b"#" * (256 * 1024 + 1), "The compose file is larger than 256 KiB."),
    (send_truncated, "The connection broke"),
    (send_endless, "The compose file is larger than 256 KiB."),
    (redirect_to("https://10.0.0.1/compose.yaml"), "which is not a public address"),
    (redirect_to("http://127.0.0.1/compose.yaml"), "without https"),
    (redirect_to("/compose.yaml"), "redirects too many times"),
]


@pytest.mark.parametrize(("file", "sentence"), FILES)
def test_a_compose_file_that_cannot_be_used(docker_ready, file_server, file, sentence):
    file_server.files["/compose.yaml"] = file
    failed = docker_ready.compose(file_server.url("/compose.yaml"))
    assert failed["status"] == "failed"
    assert sentence in failed["error_message"]


def test_a_compose_file_without_a_length_or_elsewhere(docker_ready, file_server):
    file_server.files["/pieces.yaml"], file_server.files["/moved.yaml"] = send_chunked, redirect_to("/pieces.yaml")
    assert docker_ready.compose(file_server.url("/moved.yaml"))["status"] == "running"


def test_a_server_that_takes_its_time(docker_ready, file_server, monkeypatch):
    monkeypatch.setattr(compose_file, "FETCH_TIMEOUT_SECONDS", -1.0)
    failed = docker_ready.compose(file_server.put("/compose.yaml", COMPOSE_FILE))
    assert (failed["status"], failed["error_message"]) == ("failed", "The server is too slow.")


def test_an_agent_that_falls_silent(docker_ready):
    """What was not deployed is said to be; an app that is only told something is as it was."""
    found = docker_ready.deploy()
    docker_ready.ask("POST", f"/{found['id']}/stop")
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_ready.work()
    assert (latest_task().status, latest_task().error) == ("failed", "The guest agent does not answer.")
    assert docker_ready.find(found["id"])["status"] == "running"
    docker_ready.node.set_guest(docker_ready.id)
    docker_ready.ask("POST", f"/{found['id']}/retry")
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_ready.work()
    failed = docker_ready.find(found["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", "The guest agent does not answer.")
    docker_ready.node.set_guest(docker_ready.id)
    docker_ready.ask("POST", f"/{found['id']}/retry")
    docker_ready.work()
    assert docker_ready.find(found["id"])["status"] == "running"


def test_an_app_whose_files_somebody_removed_cannot_be_started(docker_ready):
    found = docker_ready.deploy()
    docker_ready.guest.store_project(found["project_name"], None)
    docker_ready.ask("POST", f"/{found['id']}/restart")
    docker_ready.work()
    broken = docker_ready.find(found["id"])
    assert broken["status"] == "error"
    assert "not in the machine any more" in broken["error_message"]


def run_killed_then_again(ready, die_at, sweeping, number):
    """The task that waits gets a worker that is killed at that call of the guest's agent, and then another one."""
    asked = latest_task()
    die_at(asked, number)
    assert session.get(Task, asked.id, populate_existing=True).status == "running"
    sweeping.advance(100)
    ready.work()
    return session.get(Task, asked.id, populate_existing=True)


@pytest.fixture
def kill_worker_at_agent_call(fault_at):
    """Kills the worker of a task at that call of the agent, after it had its effect."""

    def die_at(row, number):
        left = iter(range(number, 0, -1))

        def then():
            if next(left) == 1:
                raise AgentCallKilled

        with fault_at("agent_run", then, after=True), pytest.raises(AgentCallKilled):
            running.run(row.id, f"worker of call {number}")
        session.rollback()

    return die_at


class AgentCallKilled(BaseException):
    """As SIGKILL."""


@pytest.mark.parametrize("call", [1, 2])
def test_another_worker_goes_on_with_an_installation(docker_client, kill_worker_at_agent_call, manual_reaper, call):
    docker_client.ask("POST", "/install")
    assert run_killed_then_again(docker_client, kill_worker_at_agent_call, manual_reaper, call).status == "completed"
    assert docker_client.list_apps()["docker_enabled"] is True


@pytest.mark.parametrize("call", [1, 2, 3])
def test_another_worker_goes_on_with_a_deploy(
    docker_ready, file_server, kill_worker_at_agent_call, manual_reaper, call
):
    """What began in the guest is not begun again, and its compose file is not fetched again."""
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    made = docker_ready.ask("POST", "/custom", app_name="Shop", compose_url=url).json["deployment"]
    file_server.files["/other.yaml"] = 404
    done = run_killed_then_again(docker_ready, kill_worker_at_agent_call, manual_reaper, call)
    assert (done.status, done.attempt) == ("completed", 2)
    assert docker_ready.find(made["id"])["status"] == "running"
    assert file_server.asked == ["/compose.yaml"]
    assert len(docker_ready.guest.project(made["project_name"])["logs"]) == 1


@pytest.mark.parametrize("call", [1, 2, 3])
def test_another_worker_goes_on_with_an_action(docker_ready, kill_worker_at_agent_call, manual_reaper, call):
    found = docker_ready.deploy()
    docker_ready.ask("POST", f"/{found['id']}/restart")
    assert run_killed_then_again(docker_ready, kill_worker_at_agent_call, manual_reaper, call).status == "completed"
    assert docker_ready.find(found["id"])["status"] == "running"
    assert len([line for line in docker_ready.guest.project(found["project_name"])["logs"] if "restart" in line]) == 1


@pytest.mark.parametrize("call", [1, 2])
def test_another_worker_goes_on_with_a_removal(docker_ready, kill_worker_at_agent_call, manual_reaper, call):
    found = docker_ready.deploy()
    docker_ready.ask("DELETE", f"/{found['id']}")
    assert run_killed_then_again(docker_ready, kill_worker_at_agent_call, manual_reaper, call).status == "completed"
    assert docker_ready.guest.project(found["project_name"]) is None


def test_a_deploy_that_is_cancelled(docker_ready, fault_at, monkeypatch):
    """The program in the guest is stopped, too."""
    made = docker_ready.ask("POST", app_slug="nginx").json

    def cancel():
        session.get(Task, made["task_id"]).cancel_requested_at = session.get(Task, made["task_id"]).created_at
        session.commit()

    told = []
    monkeypatch.setattr(background_job, "stop", lambda *words: told.append(words[1:]))
    with fault_at("agent_run", cancel, after=True):
        docker_ready.work()
    failed = docker_ready.find(made["deployment"]["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", "The task was cancelled.")
    assert told == [(docker_ready.id, made["task_id"])]
    docker_ready.ask("POST", f"/{failed['id']}/retry")
    docker_ready.work()
    assert docker_ready.find(failed["id"])["status"] == "running"


def test_an_app_that_is_removed_while_it_is_deployed(docker_ready, fault_at):
    made = docker_ready.ask("POST", app_slug="nginx").json["deployment"]
    asked = []

    def remove():
        if not asked:
            asked.append(True)
            asked.append(docker_ready.ask("DELETE", f"/{made['id']}"))

    with fault_at("agent_run", remove, after=True):
        docker_ready.work()
    assert asked[1].status_code == 200
    docker_ready.work()
    assert docker_ready.list_apps()["deployments"] == []
    assert docker_ready.guest.project(made["project_name"]) is None


def test_a_guest_that_restarts_meanwhile(docker_ready, fault_at):
    made = docker_ready.ask("POST", app_slug="nginx").json["deployment"]
    booted = []

    def restart():
        if not booted:
            booted.append(True)
            docker_ready.node.guest_restarts(docker_ready.id)

    with fault_at("agent_run", restart, after=True):
        docker_ready.work()
    failed = docker_ready.find(made["id"])
    assert failed["status"] == "failed"
    assert "the instance restarted" in failed["error_message"]


@pytest.mark.parametrize("path", ["/install", "", "/custom", "/{}/retry", "/{}/check-status", "/{}/stop"])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_nobody_answers_in_the_guest_or_on_its_node(docker_client, docker_ready, file_server, path, who):
    """ERR-10, E2, E3: who asks is told so at once, also before the node or the agent is marked as away."""
    found = docker_ready.deploy()
    body = {} if path else {"app_slug": "nginx"}
    if path == "/custom":
        body = {"app_name": "Shop", "compose_url": file_server.put("/compose.yaml", COMPOSE_FILE)}
    before = latest_task().id
    docker_ready.node.set_guest(docker_ready.id, agent_hangs=True)
    answer = docker_ready.ask("POST", path.format(found["id"]), who=who, **body)
    assert (answer.status_code, answer.json["reason"]) == (409, "agent_unavailable")
    docker_ready.node.set_guest(docker_ready.id)
    session.expire_all()
    options = docker_ready.node.options
    docker_ready.node.options = replace(options, deadline=0.01)
    docker_ready.node.fault("*", "silent")
    try:
        answer = docker_ready.ask("POST", path.format(found["id"]), who=who, **body)
    finally:
        docker_ready.node.options = options
        docker_ready.node.clear()
        docker_ready.node.ping()
    assert (answer.status_code, answer.json["reason"]) == (503, "hypervisor_unreachable")
    assert latest_task().id == before


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_a_system_without_a_package_manager_is_refused(docker_client, who):
    """C7: clients that wait for `docker_enabled` are told at once that it never comes."""
    docker_client.guest.write(NO_PACKAGE_MANAGER, "true")
    answer = docker_client.ask("POST", "/install", who=who)
    assert (answer.status_code, answer.json["reason"]) == (422, "unsupported_system")
    assert "no package manager" in answer.json["message"]
    listed = docker_client.list_apps()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert latest_task().kind != "docker_install"
    docker_client.guest.write(NO_PACKAGE_MANAGER, "")
    docker_client.install()


def test_a_guest_that_does_not_say_what_it_has_is_tried(docker_client, monkeypatch):
    """C7: where it is not known in advance, the failed installation says why."""
    monkeypatch.setattr(docker_support, "SUPPORT_CHECK_TIMEOUT_SECONDS", 0)
    docker_client.node.fault("agent_run", "refuse", 2)
    assert docker_client.ask("POST", "/install").status_code == 200
    docker_client.work()
    listed = docker_client.list_apps()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert listed["docker_error"] == "The hypervisor refused this."
