"""Faults during Docker tasks: in the guest, at the server of a compose file, in the worker."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Task
from panel.services.docker_deployments import compose_file
from panel.workflows import docker_support
from tests.docker_deployments.compose_file import COMPOSE_FILE
from worker.engine import runner as running
from worker.guest import background_job
from worker.nodes.simulated.docker import NO_PACKAGE_MANAGER


@pytest.fixture(autouse=True)
def short_agent_timeout(monkeypatch):
    """Give up at once when the guest agent does not answer."""
    monkeypatch.setattr(background_job, "AGENT_SILENCE_TIMEOUT_SECONDS", -1.0)


def get_latest_task():
    return session.scalars(
        select(Task).order_by(Task.id.desc()).limit(1).execution_options(populate_existing=True)
    ).one()


def test_failed_installation_shows_error_and_can_be_retried(docker_client):
    docker_client.request("POST", "/install")
    docker_client.node.fault("agent_run", "refuse", 1)
    docker_client.run_tasks()
    listed = docker_client.read_docker_state()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert listed["docker_error"] == "The hypervisor refused this."
    docker_client.install()
    assert docker_client.read_docker_state()["docker_error"] is None


def test_missing_image_fails_deployment(docker_ready, file_server):
    url = file_server.put("/compose.yaml", b"services: {web: {image: missing/app}}")
    failed = docker_ready.deploy_compose(url)
    assert failed["status"] == "failed"
    assert "pull access denied for missing/app" in failed["error_message"]
    assert get_latest_task().status == "failed"
    file_server.put("/compose.yaml", COMPOSE_FILE)
    assert docker_ready.request("POST", f"/{failed['id']}/retry").json["deployment"]["status"] == "pending"
    docker_ready.run_tasks()
    deployment = docker_ready.find_deployment(failed["id"])
    assert (deployment["status"], deployment["error_message"]) == ("running", None)
    assert deployment["project_name"] == failed["project_name"]


def test_crashing_container_sets_app_error(docker_ready, file_server):
    deployment = docker_ready.deploy_compose(
        file_server.put("/compose.yaml", b"services: {web: {image: crashing/app}}")
    )
    assert deployment["status"] == "error"
    assert deployment["error_message"] == "The container of web ended with exit code 1."


def send_response(handler, status, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def send_chunked(handler):
    """Send the file without Content-Length, as servers do for generated content."""
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


COMPOSE_FETCH_ERRORS = [
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


@pytest.mark.parametrize(("file", "sentence"), COMPOSE_FETCH_ERRORS)
def test_unusable_compose_file_fails_deployment(docker_ready, file_server, file, sentence):
    file_server.files["/compose.yaml"] = file
    failed = docker_ready.deploy_compose(file_server.url("/compose.yaml"))
    assert failed["status"] == "failed"
    assert sentence in failed["error_message"]


def test_chunked_and_redirected_compose_file_is_fetched(docker_ready, file_server):
    file_server.files["/pieces.yaml"], file_server.files["/moved.yaml"] = send_chunked, redirect_to("/pieces.yaml")
    assert docker_ready.deploy_compose(file_server.url("/moved.yaml"))["status"] == "running"


def test_slow_compose_server_fails_deployment(docker_ready, file_server, monkeypatch):
    monkeypatch.setattr(compose_file, "FETCH_TIMEOUT_SECONDS", -1.0)
    failed = docker_ready.deploy_compose(file_server.put("/compose.yaml", COMPOSE_FILE))
    assert (failed["status"], failed["error_message"]) == ("failed", "The server is too slow.")


def test_unresponsive_agent_fails_task(docker_ready):
    """A failed deployment is marked as failed; after a failed action the app keeps its status."""
    deployment = docker_ready.deploy()
    docker_ready.request("POST", f"/{deployment['id']}/stop")
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_ready.run_tasks()
    assert (get_latest_task().status, get_latest_task().error) == ("failed", "The guest agent does not answer.")
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"
    docker_ready.node.set_guest(docker_ready.id)
    docker_ready.request("POST", f"/{deployment['id']}/retry")
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_ready.run_tasks()
    failed = docker_ready.find_deployment(deployment["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", "The guest agent does not answer.")
    docker_ready.node.set_guest(docker_ready.id)
    docker_ready.request("POST", f"/{deployment['id']}/retry")
    docker_ready.run_tasks()
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"


def test_app_with_removed_files_cannot_be_started(docker_ready):
    deployment = docker_ready.deploy()
    docker_ready.guest.store_project(deployment["project_name"], None)
    docker_ready.request("POST", f"/{deployment['id']}/restart")
    docker_ready.run_tasks()
    broken = docker_ready.find_deployment(deployment["id"])
    assert broken["status"] == "error"
    assert "not in the machine any more" in broken["error_message"]


def resume_after_killed_worker(ready, kill_worker, reaper, number):
    """Run the queued task by a worker that is killed at that agent call, then by another one."""
    task = get_latest_task()
    kill_worker(task, number)
    assert session.get(Task, task.id, populate_existing=True).status == "running"
    reaper.advance(100)
    ready.run_tasks()
    return session.get(Task, task.id, populate_existing=True)


@pytest.fixture
def kill_worker_at_agent_call(fault_at):
    """Return a function that runs a task and kills its worker after that agent call."""

    def kill_worker(row, number):
        remaining = iter(range(number, 0, -1))

        def raise_killed():
            if next(remaining) == 1:
                raise AgentCallKilled

        with fault_at("agent_run", raise_killed, after=True), pytest.raises(AgentCallKilled):
            running.run(row.id, f"worker of call {number}")
        session.rollback()

    return kill_worker


class AgentCallKilled(BaseException):
    """Stands for SIGKILL: no code of the worker catches it."""


@pytest.mark.parametrize("call", [1, 2])
def test_installation_resumes_after_killed_worker(docker_client, kill_worker_at_agent_call, manual_reaper, call):
    docker_client.request("POST", "/install")
    assert (
        resume_after_killed_worker(docker_client, kill_worker_at_agent_call, manual_reaper, call).status == "completed"
    )
    assert docker_client.read_docker_state()["docker_enabled"] is True


@pytest.mark.parametrize("call", [1, 2, 3])
def test_deployment_resumes_after_killed_worker(
    docker_ready, file_server, kill_worker_at_agent_call, manual_reaper, call
):
    """The program in the guest is not started again, and the compose file is not fetched again."""
    url = file_server.put("/compose.yaml", COMPOSE_FILE)
    deployment = docker_ready.request("POST", "/custom", app_name="Shop", compose_url=url).json["deployment"]
    file_server.files["/other.yaml"] = 404
    done = resume_after_killed_worker(docker_ready, kill_worker_at_agent_call, manual_reaper, call)
    assert (done.status, done.attempt) == ("completed", 2)
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"
    assert file_server.requested_paths == ["/compose.yaml"]
    assert len(docker_ready.guest.project(deployment["project_name"])["logs"]) == 1


@pytest.mark.parametrize("call", [1, 2, 3])
def test_app_action_resumes_after_killed_worker(docker_ready, kill_worker_at_agent_call, manual_reaper, call):
    deployment = docker_ready.deploy()
    docker_ready.request("POST", f"/{deployment['id']}/restart")
    assert (
        resume_after_killed_worker(docker_ready, kill_worker_at_agent_call, manual_reaper, call).status == "completed"
    )
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"
    assert (
        len([line for line in docker_ready.guest.project(deployment["project_name"])["logs"] if "restart" in line]) == 1
    )


@pytest.mark.parametrize("call", [1, 2])
def test_app_removal_resumes_after_killed_worker(docker_ready, kill_worker_at_agent_call, manual_reaper, call):
    deployment = docker_ready.deploy()
    docker_ready.request("DELETE", f"/{deployment['id']}")
    assert (
        resume_after_killed_worker(docker_ready, kill_worker_at_agent_call, manual_reaper, call).status == "completed"
    )
    assert docker_ready.guest.project(deployment["project_name"]) is None


def test_cancelled_deployment_stops_guest_program(docker_ready, fault_at, monkeypatch):
    """The program in the guest is stopped."""
    answer = docker_ready.request("POST", app_slug="nginx").json

    def cancel():
        session.get(Task, answer["task_id"]).cancel_requested_at = session.get(Task, answer["task_id"]).created_at
        session.commit()

    stop_calls = []
    monkeypatch.setattr(background_job, "stop", lambda *arguments: stop_calls.append(arguments[1:]))
    with fault_at("agent_run", cancel, after=True):
        docker_ready.run_tasks()
    failed = docker_ready.find_deployment(answer["deployment"]["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", "The task was cancelled.")
    assert stop_calls == [(docker_ready.id, answer["task_id"])]
    docker_ready.request("POST", f"/{failed['id']}/retry")
    docker_ready.run_tasks()
    assert docker_ready.find_deployment(failed["id"])["status"] == "running"


def test_app_removal_during_deployment(docker_ready, fault_at):
    deployment = docker_ready.request("POST", app_slug="nginx").json["deployment"]
    checks = []

    def remove():
        if not checks:
            checks.append(True)
            checks.append(docker_ready.request("DELETE", f"/{deployment['id']}"))

    with fault_at("agent_run", remove, after=True):
        docker_ready.run_tasks()
    assert checks[1].status_code == 200
    docker_ready.run_tasks()
    assert docker_ready.read_docker_state()["deployments"] == []
    assert docker_ready.guest.project(deployment["project_name"]) is None


def test_guest_restart_fails_deployment(docker_ready, fault_at):
    deployment = docker_ready.request("POST", app_slug="nginx").json["deployment"]
    booted = []

    def restart():
        if not booted:
            booted.append(True)
            docker_ready.node.guest_restarts(docker_ready.id)

    with fault_at("agent_run", restart, after=True):
        docker_ready.run_tasks()
    failed = docker_ready.find_deployment(deployment["id"])
    assert failed["status"] == "failed"
    assert "the instance restarted" in failed["error_message"]


@pytest.mark.parametrize("path", ["/install", "", "/custom", "/{}/retry", "/{}/check-status", "/{}/stop"])
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_docker_request_fails_with_unreachable_agent_or_node(docker_client, docker_ready, file_server, path, caller):
    """ERR-10, E2, E3: the request fails at once, also before the node or the agent is marked as unreachable."""
    deployment = docker_ready.deploy()
    body = {} if path else {"app_slug": "nginx"}
    if path == "/custom":
        body = {"app_name": "Shop", "compose_url": file_server.put("/compose.yaml", COMPOSE_FILE)}
    before = get_latest_task().id
    docker_ready.node.set_guest(docker_ready.id, agent_hangs=True)
    answer = docker_ready.request("POST", path.format(deployment["id"]), caller=caller, **body)
    assert (answer.status_code, answer.json["reason"]) == (409, "agent_unavailable")
    docker_ready.node.set_guest(docker_ready.id)
    session.expire_all()
    options = docker_ready.node.options
    docker_ready.node.options = replace(options, deadline=0.01)
    docker_ready.node.fault("*", "silent")
    try:
        answer = docker_ready.request("POST", path.format(deployment["id"]), caller=caller, **body)
    finally:
        docker_ready.node.options = options
        docker_ready.node.clear()
        docker_ready.node.ping()
    assert (answer.status_code, answer.json["reason"]) == (503, "hypervisor_unreachable")
    assert get_latest_task().id == before


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_system_without_package_manager_is_refused(docker_client, caller):
    """C7: clients that wait for `docker_enabled` get the error at once."""
    docker_client.guest.write(NO_PACKAGE_MANAGER, "true")
    answer = docker_client.request("POST", "/install", caller=caller)
    assert (answer.status_code, answer.json["reason"]) == (422, "unsupported_system")
    assert "no package manager" in answer.json["message"]
    listed = docker_client.read_docker_state()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert get_latest_task().kind != "docker_install"
    docker_client.guest.write(NO_PACKAGE_MANAGER, "")
    docker_client.install()


def test_installation_is_attempted_when_support_is_unknown(docker_client, monkeypatch):
    """C7: if support is not known in advance, the failed installation shows the reason."""
    monkeypatch.setattr(docker_support, "SUPPORT_CHECK_TIMEOUT_SECONDS", 0)
    docker_client.node.fault("agent_run", "refuse", 2)
    assert docker_client.request("POST", "/install").status_code == 200
    docker_client.run_tasks()
    listed = docker_client.read_docker_state()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert listed["docker_error"] == "The hypervisor refused this."
