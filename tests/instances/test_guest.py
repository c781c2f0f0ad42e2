"""Actions inside guests by the APIs and pages, and their refusal without an agent or a node."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

import worker.sync.reachability
from panel.core.db import session
from panel.models import GuestInfo, Hypervisor, Instance, Task
from panel.workflows import reachability
from worker.sync import guest_agents

RESET_PATHS = {"owner": "/api/instance/{}/reset-password", "admin": "/api/v1/instance/{}/resetPassword"}


@pytest.fixture(autouse=True)
def reset_node(node):
    """Restore the node's options and remove its faults after each test."""
    before = node.options
    yield
    node.options = before
    node.clear()
    node.ping()


@pytest.fixture
def running_instance(api_as, cast, run_tasks):
    """A deployed instance of the owner, whose agent answers."""
    instance = cast.instance(hostname="web.example.com")
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    poll_agent(instance)
    return instance


def poll_agent(instance):
    guest_agents.poll(instance.hypervisor_id)
    session.expire_all()


def reset_password(as_, caller, instance, **body):
    return as_(caller, "POST", RESET_PATHS[caller].format(instance.id), json=body)


@pytest.mark.parametrize("caller", RESET_PATHS)
def test_reset_password_generates_and_sets_password(api_as, running_instance, run_tasks, node, caller):
    """INS-62, INS-63"""
    answer = reset_password(api_as, caller, running_instance)
    assert answer.json.keys() == {"success", "message", "data"}
    assert answer.json["data"].keys() == {"password", "task_id"}
    password = answer.json["data"]["password"]
    assert len(password) > 12
    raw = session.connection().exec_driver_sql("select secret, arguments from tasks where secret is not null").one()
    assert password not in str(raw)
    run_tasks()
    assert node.can_sign_in(running_instance.id, "root", password)
    task = session.get(Task, answer.json["data"]["task_id"])
    assert (task.kind, task.lock, task.status, task.secret) == ("instance_reset_password", "light", "completed", None)


def test_reset_password_accepts_chosen_password(api_as, running_instance, run_tasks, node):
    assert reset_password(api_as, "owner", running_instance, password="short").status_code == 422
    assert (
        reset_password(api_as, "owner", running_instance, password="my own: password").json["data"]["password"]
        == "my own: password"
    )
    run_tasks()
    assert node.can_sign_in(running_instance.id, "root", "my own: password")


def test_reset_password_without_body_is_accepted(api_as, running_instance):
    assert api_as("owner", "POST", RESET_PATHS["owner"].format(running_instance.id)).status_code == 200


@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
@pytest.mark.parametrize("caller", RESET_PATHS)
def test_reset_password_without_agent_is_refused(api_as, running_instance, node, run_tasks, caller, fault):
    """INS-64, INS-66, E2: refused at once; nothing is sent to a hanging agent, which may continue later."""
    assert reset_password(api_as, caller, running_instance, password="the old one").status_code == 200
    run_tasks()
    node.set_guest(running_instance.id, **fault)
    assert_reset_refused(
        reset_password(api_as, caller, running_instance, password="a new one"), 409, "agent_unavailable", run_tasks
    )
    assert session.get(Instance, running_instance.id).agent_down
    node.set_guest(running_instance.id)
    assert node.can_sign_in(running_instance.id, "root", "the old one")
    assert reset_password(api_as, caller, running_instance).status_code == 200


def assert_reset_refused(answer, status, reason, work):
    """Check that the refusal has no password and left no task."""
    assert (answer.status_code, answer.json["reason"]) == (status, reason)
    assert "data" not in answer.json
    work()
    resets = select(Task.status).where(Task.kind == "instance_reset_password")
    assert set(session.scalars(resets)) <= {"completed"}
    assert session.scalar(select(func.count()).select_from(resets.subquery())) <= 1


@pytest.mark.parametrize("marked_down", [True, False])
@pytest.mark.parametrize("caller", RESET_PATHS)
def test_reset_password_with_unreachable_node_is_refused(
    api_as, running_instance, node, run_tasks, caller, marked_down
):
    """INS-65, INS-66, ERR-10, E3: also before the node is marked as down."""
    node.options = replace(node.options, deadline=0.01)
    if marked_down:
        session.scalar(select(Hypervisor)).status = "down"
        session.commit()
    else:
        node.fault("*", "silent")
    assert_reset_refused(reset_password(api_as, caller, running_instance), 503, "hypervisor_unreachable", run_tasks)


@pytest.mark.parametrize(
    ("seen_by_worker", "status", "reason", "message"),
    [
        (None, 503, "hypervisor_unreachable", "All workers are busy"),
        ("node", 409, "agent_unavailable", "The guest agent"),
    ],
)
def test_reset_password_poll_timeout_is_refused(
    api_as, running_instance, run_tasks, monkeypatch, seen_by_worker, status, reason, message
):
    """INS-64, INS-65: the request waits for a worker's poll for a limited time."""
    monkeypatch.setattr(reachability, "REACHABILITY_TIMEOUT_SECONDS", 0)

    def record_partial_poll(function, *args):
        assert function == "worker.sync.reachability.poll"
        if seen_by_worker:
            worker.sync.reachability.record_node_answer(running_instance.hypervisor_id)

    with monkeypatch.context() as patched:
        patched.setattr(reachability.jobs, "enqueue_call", record_partial_poll)
        answer = reset_password(api_as, "owner", running_instance)
    assert answer.json["message"].startswith(message)
    assert_reset_refused(answer, status, reason, run_tasks)


def test_concurrent_password_resets_accept_only_one(api_as, running_instance, run_tasks, monkeypatch):
    """E10: the second is refused while the first runs, also when both were requested before the first started."""
    first = reset_password(api_as, "owner", running_instance)
    assert first.status_code == 200
    assert (
        reset_password(api_as, "admin", running_instance).json["reason"],
        reset_password(api_as, "owner", running_instance).status_code,
    ) == (
        "task_running",
        409,
    )
    run_tasks()
    real, inner = reachability.wait_for_poll, []

    def reset_after_poll(*args, **options):
        real(*args, **options)
        if not inner:
            inner.append(None)
            inner.append(reset_password(api_as, "owner", running_instance))
            run_tasks()

    monkeypatch.setattr(reachability, "wait_for_poll", reset_after_poll)
    outer = reset_password(api_as, "owner", running_instance)
    assert (inner[1].status_code, outer.status_code, outer.json["reason"]) == (200, 409, "task_running")
    assert "data" not in outer.json
    assert reset_password(api_as, "owner", running_instance).status_code == 200


@pytest.mark.parametrize("fault", ["lost-answer", "silent"])
def test_reset_password_with_lost_answer_reports_unknown_outcome(api_as, running_instance, node, run_tasks, fault):
    """INS-63: either password may be valid, and the task reports that."""
    node.options = replace(node.options, deadline=0.01)
    task = reset_password(api_as, "owner", running_instance).json["data"]["task_id"]
    node.fault("agent_set_password", fault, 1)
    run_tasks()
    row = session.get(Task, task)
    assert (row.status, row.secret) == ("failed", None)
    assert row.error == "The outcome is unknown: the old or the new password is valid."


def test_reset_password_refused_by_state(api_as, running_instance, cast, run_tasks):
    assert reset_password(api_as, "owner", cast.instance()).json["reason"] == "not_deployed"
    api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/poweroff")
    run_tasks()
    assert reset_password(api_as, "owner", running_instance).json["reason"] == "not_running"
    session.get(Instance, running_instance.id).suspended_reason = "admin"
    session.commit()
    assert reset_password(api_as, "owner", running_instance).json["reason"] == "suspended"


def test_reset_password_ignores_stale_agent_state(api_as, running_instance, cast, node):
    """An agent that came back after the last poll is not refused."""
    row = session.get(Instance, running_instance.id)
    row.agent_seen_at, row.agent_checked_at = None, row.power_reported_at + timedelta(microseconds=1)
    session.commit()
    assert row.agent_down
    assert reset_password(api_as, "owner", running_instance).status_code == 200


def test_agent_lost_before_password_reset_fails_task(api_as, running_instance, run_tasks, node):
    """E2: the agent is polled again before the password is sent."""
    task = reset_password(api_as, "owner", running_instance, password="a new one").json["data"]["task_id"]
    node.set_guest(running_instance.id, agent_hangs=True)
    run_tasks()
    assert not node.can_sign_in(running_instance.id, "root", "a new one")
    row = session.get(Task, task)
    assert (row.status, row.error, row.secret) == ("failed", "The guest agent does not answer.", None)
    assert session.get(Instance, running_instance.id).state == "running"


def test_ssh_keys_are_injected_into_running_guest(api_as, running_instance, run_tasks, node):
    created_instances = [
        api_as("owner", "POST", "/api/ssh-key/generate", json={"name": name, "algorithm": "ed25519"}).json["ssh_key"]
        for name in ("a", "b")
    ]
    path = f"/api/instance/{running_instance.id}/ssh-keys"
    answer = api_as("owner", "POST", path, json={"ssh_keys": [key["id"] for key in created_instances]})
    assert answer.json.keys() == {"success", "message", "task_id"}
    run_tasks()
    assert sorted(node.list_authorized_keys(running_instance.id)) == sorted(
        key["public_key"] for key in created_instances
    )
    assert session.get(Task, answer.json["task_id"]).kind == "instance_ssh_key_inject"
    assert api_as("owner", "POST", path, json={"ssh_key_id": created_instances[0]["id"]}).status_code == 200
    foreign = {"name": "c", "algorithm": "ed25519"}
    foreign = api_as("outsider", "POST", "/api/ssh-key/generate", json=foreign).json["ssh_key"]["id"]
    for body, field in (
        ({"ssh_keys": [foreign]}, "ssh_keys"),
        ({"ssh_key_id": foreign}, "ssh_key_id"),
        ({}, "ssh_keys"),
    ):
        refused = api_as("owner", "POST", path, json=body)
        assert (refused.status_code, list(refused.json["errors"])) == (422, [field])
    node.set_guest(running_instance.id, agent=False)
    assert (
        api_as("owner", "POST", path, json={"ssh_key_id": created_instances[0]["id"]}).json["reason"]
        == "agent_unavailable"
    )
    node.options = replace(node.options, deadline=0.01)
    node.fault("*", "silent")
    assert (
        api_as("owner", "POST", path, json={"ssh_key_id": created_instances[0]["id"]}).json["reason"]
        == "hypervisor_unreachable"
    )


def test_guest_addresses_and_filesystems_are_listed(api_as, running_instance):
    ips = api_as("owner", "GET", f"/api/instance/{running_instance.id}/guest-ips").json
    assert [(row["ip"], row["family"]) for row in ips["data"]] == [("10.9.0.2", 4), ("fd99::2", 6)]
    assert {row["mac"] for row in ips["data"]} == {running_instance.interfaces[0].mac}
    assert [(row["type"], row["nic"]) for row in ips["data"]] == [("ipv4", "net0"), ("ipv6", "net0")]
    assert (ips["total"], ips["last_page"]) == (2, 1)
    second = api_as("owner", "GET", f"/api/instance/{running_instance.id}/guest-ips?per_page=1&page=2").json
    assert ([row["ip"] for row in second["data"]], second["from"], second["last_page"]) == (["fd99::2"], 2, 2)
    [root] = api_as("owner", "GET", f"/api/instance/{running_instance.id}/guest-filesystems").json["data"]
    assert (root["mountpoint"], root["kind"], root["size"]) == ("/", "ext4", 10 * 1024**3)
    assert 0 < root["used"] < root["size"]
    assert root["reported_at"]


def test_guest_report_is_polled_after_boot(api_as, cast, run_tasks, node, monkeypatch):
    """C11: addresses are shown as soon as the agent answers, not only after the next poll of all guests."""
    monkeypatch.setattr(reachability, "GUEST_REPORT_TIMEOUT_SECONDS", 0)
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    paths = [f"/api/instance/{instance.id}/guest-{what}" for what in ("ips", "filesystems")]
    node.set_guest(instance.id, agent=False)
    assert [api_as("owner", "GET", path).json["total"] for path in paths] == [0, 0]
    node.set_guest(instance.id)
    assert [api_as("owner", "GET", path).json["total"] for path in paths] == [2, 1]
    node.set_guest(instance.id, agent=False)
    assert api_as("owner", "GET", paths[0]).json["total"] == 2


def test_guest_ips_without_report_are_empty(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/guest-ips"
    empty = api_as("owner", "GET", path).json
    assert (empty["data"], empty["total"], empty["from"]) == ([], 0, None)
    assert api_as("outsider", "GET", path).status_code == 404


def test_reinstall_deletes_guest_info(api_as, running_instance, run_tasks):
    api_as("owner", "POST", f"/api/instance/{running_instance.id}/reinstall", json={})
    run_tasks()
    assert session.get(GuestInfo, running_instance.id) is None


def test_guest_access_pages(browser_as, running_instance, run_tasks, node, cast, api_as):
    key = {"name": "laptop", "algorithm": "ed25519"}
    key = api_as("owner", "POST", "/api/ssh-key/generate", json=key).json["ssh_key"]
    browser = browser_as("owner")
    overview = browser.get(f"/instances/{running_instance.id}").text
    assert "Inside the guest" in overview
    assert "of 10" in overview
    settings = f"/instances/{running_instance.id}/settings"
    assert "Reset password" in browser.get(settings).text
    answer = browser.post(f"/instances/{running_instance.id}/reset-password")
    assert answer.status_code == 303
    shown = browser.get(answer.headers["Location"]).text
    password = shown.split('id="password"')[1].split('data-copy="')[1].split('"')[0]
    run_tasks()
    assert node.can_sign_in(running_instance.id, "root", password)
    assert password not in browser.get(answer.headers["Location"]).text
    assert (
        browser.post(f"/instances/{running_instance.id}/ssh-keys", data={"ssh_keys": [key["id"], ""]}).status_code
        == 303
    )
    run_tasks()
    assert node.list_authorized_keys(running_instance.id) == [key["public_key"]]
    refused = browser.post(f"/instances/{running_instance.id}/ssh-keys", data={"ssh_keys": ""})
    assert (refused.status_code, "Choose at least one." in refused.text) == (422, True)
    node.set_guest(running_instance.id, agent=False)
    assert browser.post(f"/instances/{running_instance.id}/reset-password").status_code == 409
    assert "The guest agent does not answer" in browser.get(settings).text
