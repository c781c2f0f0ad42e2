"""What goes wrong while workers are at it: in the guest, at the address of a compose file, with the workers."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Task
from panel.services.docker_deployments import compose_file
from panel.workflows import docker_support
from tests.docker_deployments.conftest import COMPOSE
from worker.engine import runner as running
from worker.guest import background_job
from worker.nodes.simulated.docker import NO_PACKAGE_MANAGER


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A guest that is silent is not asked for long."""
    monkeypatch.setattr(background_job, "PATIENCE", -1.0)


def latest():
    return session.scalars(
        select(Task).order_by(Task.id.desc()).limit(1).execution_options(populate_existing=True)
    ).one()


def test_an_installation_that_fails_says_why_and_is_tried_again(dock):
    dock.ask("POST", "/install")
    dock.node.fault("agent_run", "refuse", 1)
    dock.work()
    listed = dock.listed()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert listed["docker_error"] == "The hypervisor refused this."
    dock.install()
    assert dock.listed()["docker_error"] is None


def test_an_image_that_cannot_be_had(ready, library):
    url = library.put("/compose.yaml", b"services: {web: {image: missing/app}}")
    failed = ready.compose(url)
    assert failed["status"] == "failed"
    assert "pull access denied for missing/app" in failed["error_message"]
    assert latest().status == "failed"
    library.put("/compose.yaml", COMPOSE)
    assert ready.ask("POST", f"/{failed['id']}/retry").json["deployment"]["status"] == "pending"
    ready.work()
    found = ready.find(failed["id"])
    assert (found["status"], found["error_message"]) == ("running", None)
    assert found["project_name"] == failed["project_name"]


def test_containers_that_end_at_once(ready, library):
    found = ready.compose(library.put("/compose.yaml", b"services: {web: {image: crashing/app}}"))
    assert found["status"] == "error"
    assert found["error_message"] == "The container of web ended with exit code 1."


def sent(handler, status, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def in_pieces(handler):
    """Without its length, as many servers send what they make."""
    sent(handler, 200, Transfer_Encoding="chunked")
    for piece in (COMPOSE[:20], COMPOSE[20:]):
        handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")


def cut_off(handler):
    sent(handler, 200, Content_Length="1000")
    handler.wfile.write(COMPOSE)
    handler.close_connection = True


def without_end(handler):
    sent(handler, 200, Transfer_Encoding="chunked")
    piece = b"#" * 65536
    for _ in range(8):
        handler.wfile.write(b"10000\r\n" + piece + b"\r\n")
    handler.close_connection = True


def to(address):
    return lambda handler: sent(handler, 302, Location=address, Content_Length="0")


FILES = [
    (404, "The server answered with 404."),
    (b" \n", "The compose file is empty."),
    (b"\xff\xfe", "The compose file is not text in UTF-8."),
    (b"<html></html>", "This is no compose file."),
    (b"services: [", "This is no compose file."),
    (b"version: '3'", "This is no compose file"),
    (b"services: {web: 1}", "This is no compose file"),
    (b"#" * (256 * 1024 + 1), "The compose file is larger than 256 KiB."),
    (cut_off, "The connection broke"),
    (without_end, "The compose file is larger than 256 KiB."),
    (to("https://10.0.0.1/compose.yaml"), "which is not a public address"),
    (to("http://127.0.0.1/compose.yaml"), "without https"),
    (to("/compose.yaml"), "from one address to the next without an end"),
]


@pytest.mark.parametrize(("file", "sentence"), FILES)
def test_a_compose_file_that_cannot_be_used(ready, library, file, sentence):
    library.files["/compose.yaml"] = file
    failed = ready.compose(library.url("/compose.yaml"))
    assert failed["status"] == "failed"
    assert sentence in failed["error_message"]


def test_a_compose_file_without_a_length_or_elsewhere(ready, library):
    library.files["/pieces.yaml"], library.files["/moved.yaml"] = in_pieces, to("/pieces.yaml")
    assert ready.compose(library.url("/moved.yaml"))["status"] == "running"


def test_a_server_that_takes_its_time(ready, library, monkeypatch):
    monkeypatch.setattr(compose_file, "LONGEST", -1.0)
    failed = ready.compose(library.put("/compose.yaml", COMPOSE))
    assert (failed["status"], failed["error_message"]) == ("failed", "The server is too slow.")


def test_an_agent_that_falls_silent(ready):
    """What was not deployed is said to be; an app that is only told something is as it was."""
    found = ready.deploy()
    ready.ask("POST", f"/{found['id']}/stop")
    ready.node.set_guest(ready.id, agent=False)
    ready.work()
    assert (latest().status, latest().error) == ("failed", "The guest agent does not answer.")
    assert ready.find(found["id"])["status"] == "running"
    ready.node.set_guest(ready.id)
    ready.ask("POST", f"/{found['id']}/retry")
    ready.node.set_guest(ready.id, agent=False)
    ready.work()
    failed = ready.find(found["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", "The guest agent does not answer.")
    ready.node.set_guest(ready.id)
    ready.ask("POST", f"/{found['id']}/retry")
    ready.work()
    assert ready.find(found["id"])["status"] == "running"


def test_an_app_whose_files_somebody_removed_cannot_be_started(ready):
    found = ready.deploy()
    ready.guest.keep(found["project_name"], None)
    ready.ask("POST", f"/{found['id']}/restart")
    ready.work()
    broken = ready.find(found["id"])
    assert broken["status"] == "error"
    assert "not in the machine any more" in broken["error_message"]


def killed(ready, die_at, sweeping, number):
    """The task that waits gets a worker that is killed at that call of the guest's agent, and then another one."""
    asked = latest()
    die_at(asked, number)
    assert session.get(Task, asked.id, populate_existing=True).status == "running"
    sweeping.passes(100)
    ready.work()
    return session.get(Task, asked.id, populate_existing=True)


@pytest.fixture
def die_at(at):
    """Kills the worker of a task at that call of the agent, after it had its effect."""

    def die_at(row, number):
        left = iter(range(number, 0, -1))

        def then():
            if next(left) == 1:
                raise KilledAt

        with at("agent_run", then, after=True), pytest.raises(KilledAt):
            running.run(row.id, f"worker of call {number}")
        session.rollback()

    return die_at


class KilledAt(BaseException):
    """As SIGKILL."""


@pytest.mark.parametrize("call", [1, 2])
def test_another_worker_goes_on_with_an_installation(dock, die_at, sweeping, call):
    dock.ask("POST", "/install")
    assert killed(dock, die_at, sweeping, call).status == "completed"
    assert dock.listed()["docker_enabled"] is True


@pytest.mark.parametrize("call", [1, 2, 3])
def test_another_worker_goes_on_with_a_deploy(ready, library, die_at, sweeping, call):
    """What began in the guest is not begun again, and its compose file is not fetched again."""
    url = library.put("/compose.yaml", COMPOSE)
    made = ready.ask("POST", "/custom", app_name="Shop", compose_url=url).json["deployment"]
    library.files["/other.yaml"] = 404
    done = killed(ready, die_at, sweeping, call)
    assert (done.status, done.attempt) == ("completed", 2)
    assert ready.find(made["id"])["status"] == "running"
    assert library.asked == ["/compose.yaml"]
    assert len(ready.guest.project(made["project_name"])["logs"]) == 1


@pytest.mark.parametrize("call", [1, 2, 3])
def test_another_worker_goes_on_with_an_action(ready, die_at, sweeping, call):
    found = ready.deploy()
    ready.ask("POST", f"/{found['id']}/restart")
    assert killed(ready, die_at, sweeping, call).status == "completed"
    assert ready.find(found["id"])["status"] == "running"
    assert len([line for line in ready.guest.project(found["project_name"])["logs"] if "restart" in line]) == 1


@pytest.mark.parametrize("call", [1, 2])
def test_another_worker_goes_on_with_a_removal(ready, die_at, sweeping, call):
    found = ready.deploy()
    ready.ask("DELETE", f"/{found['id']}")
    assert killed(ready, die_at, sweeping, call).status == "completed"
    assert ready.guest.project(found["project_name"]) is None


def test_a_deploy_that_is_cancelled(ready, at, monkeypatch):
    """The program in the guest is stopped, too."""
    made = ready.ask("POST", app_slug="nginx").json

    def cancel():
        session.get(Task, made["task_id"]).cancel_requested_at = session.get(Task, made["task_id"]).created_at
        session.commit()

    told = []
    monkeypatch.setattr(background_job, "stop", lambda *words: told.append(words[1:]))
    with at("agent_run", cancel, after=True):
        ready.work()
    failed = ready.find(made["deployment"]["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", "It was cancelled.")
    assert told == [(ready.id, made["task_id"])]
    ready.ask("POST", f"/{failed['id']}/retry")
    ready.work()
    assert ready.find(failed["id"])["status"] == "running"


def test_an_app_that_is_removed_while_it_is_deployed(ready, at):
    made = ready.ask("POST", app_slug="nginx").json["deployment"]
    asked = []

    def remove():
        if not asked:
            asked.append(True)
            asked.append(ready.ask("DELETE", f"/{made['id']}"))

    with at("agent_run", remove, after=True):
        ready.work()
    assert asked[1].status_code == 200
    ready.work()
    assert ready.listed()["deployments"] == []
    assert ready.guest.project(made["project_name"]) is None


def test_a_guest_that_restarts_meanwhile(ready, at):
    made = ready.ask("POST", app_slug="nginx").json["deployment"]
    booted = []

    def restart():
        if not booted:
            booted.append(True)
            ready.node.guest_restarts(ready.id)

    with at("agent_run", restart, after=True):
        ready.work()
    failed = ready.find(made["id"])
    assert failed["status"] == "failed"
    assert "the machine restarted meanwhile" in failed["error_message"]


@pytest.mark.parametrize("path", ["/install", "", "/custom", "/{}/retry", "/{}/check-status", "/{}/stop"])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_nobody_answers_in_the_guest_or_on_its_node(dock, ready, library, path, who):
    """ERR-10, E2, E3: who asks is told so at once, also before the node or the agent is marked as away."""
    found = ready.deploy()
    body = {} if path else {"app_slug": "nginx"}
    if path == "/custom":
        body = {"app_name": "Shop", "compose_url": library.put("/compose.yaml", COMPOSE)}
    before = latest().id
    ready.node.set_guest(ready.id, agent_hangs=True)
    answer = ready.ask("POST", path.format(found["id"]), who=who, **body)
    assert (answer.status_code, answer.json["reason"]) == (409, "agent_unavailable")
    ready.node.set_guest(ready.id)
    session.expire_all()
    options = ready.node.options
    ready.node.options = replace(options, deadline=0.01)
    ready.node.fault("*", "silent")
    try:
        answer = ready.ask("POST", path.format(found["id"]), who=who, **body)
    finally:
        ready.node.options = options
        ready.node.clear()
        ready.node.ping()
    assert (answer.status_code, answer.json["reason"]) == (503, "hypervisor_unreachable")
    assert latest().id == before


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_a_system_without_a_package_manager_is_refused(dock, who):
    """C7: clients that wait for `docker_enabled` are told at once that it never comes."""
    dock.guest.write(NO_PACKAGE_MANAGER, "true")
    answer = dock.ask("POST", "/install", who=who)
    assert (answer.status_code, answer.json["reason"]) == (422, "unsupported_system")
    assert "no package manager" in answer.json["message"]
    listed = dock.listed()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert latest().kind != "docker_install"
    dock.guest.write(NO_PACKAGE_MANAGER, "")
    dock.install()


def test_a_guest_that_does_not_say_what_it_has_is_tried(dock, monkeypatch):
    """C7: where it is not known in advance, the failed installation says why."""
    monkeypatch.setattr(docker_support, "CHECK_SECONDS", 0)
    dock.node.fault("agent_run", "refuse", 2)
    assert dock.ask("POST", "/install").status_code == 200
    dock.work()
    listed = dock.listed()
    assert (listed["docker_enabled"], listed["docker_installing"]) == (False, False)
    assert listed["docker_error"] == "The hypervisor refused this."
