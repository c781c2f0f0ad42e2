"""What is done inside guests by the APIs and pages, and what is refused while nobody can."""

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
def mend_node(node):
    """What is broken in a test is mended after it."""
    before = node.options
    yield
    node.options = before
    node.clear()
    node.ping()


@pytest.fixture
def running(api_as, cast, run_tasks):
    """A deployed instance of the owner, whose agent is there."""
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


def reset_password(as_, who, instance, **body):
    return as_(who, "POST", RESET_PATHS[who].format(instance.id), json=body)


@pytest.mark.parametrize("who", RESET_PATHS)
def test_a_password_is_made_and_set(api_as, running, run_tasks, node, who):
    """INS-62, INS-63"""
    answer = reset_password(api_as, who, running)
    assert answer.json.keys() == {"success", "message", "data"}
    assert answer.json["data"].keys() == {"password", "task_id"}
    password = answer.json["data"]["password"]
    assert len(password) > 12
    raw = session.connection().exec_driver_sql("select secret, arguments from tasks where secret is not null").one()
    assert password not in str(raw)
    run_tasks()
    assert node.can_sign_in(running.id, "root", password)
    task = session.get(Task, answer.json["data"]["task_id"])
    assert (task.kind, task.lock, task.status, task.secret) == ("instance_reset_password", "light", "completed", None)


def test_a_password_may_be_chosen(api_as, running, run_tasks, node):
    assert reset_password(api_as, "owner", running, password="short").status_code == 422
    assert (
        reset_password(api_as, "owner", running, password="my own: password").json["data"]["password"]
        == "my own: password"
    )
    run_tasks()
    assert node.can_sign_in(running.id, "root", "my own: password")


def test_the_route_may_be_called_without_a_body(api_as, running):
    assert api_as("owner", "POST", RESET_PATHS["owner"].format(running.id)).status_code == 200


@pytest.mark.parametrize("fault", [{"agent": False}, {"agent_hangs": True}])
@pytest.mark.parametrize("who", RESET_PATHS)
def test_an_agent_that_is_away_refuses(api_as, running, node, run_tasks, who, fault):
    """INS-64, INS-66, E2: at once, and nothing reaches an agent that hangs and may go on later."""
    assert reset_password(api_as, who, running, password="the old one").status_code == 200
    run_tasks()
    node.set_guest(running.id, **fault)
    assert_reset_refused(
        reset_password(api_as, who, running, password="a new one"), 409, "agent_unavailable", run_tasks
    )
    assert session.get(Instance, running.id).agent_down
    node.set_guest(running.id)
    assert node.can_sign_in(running.id, "root", "the old one")
    assert reset_password(api_as, who, running).status_code == 200


def assert_reset_refused(answer, status, reason, work):
    """The refusal has no password, and left no task."""
    assert (answer.status_code, answer.json["reason"]) == (status, reason)
    assert "data" not in answer.json
    work()
    resets = select(Task.status).where(Task.kind == "instance_reset_password")
    assert set(session.scalars(resets)) <= {"completed"}
    assert session.scalar(select(func.count()).select_from(resets.subquery())) <= 1


@pytest.mark.parametrize("marked_down", [True, False])
@pytest.mark.parametrize("who", RESET_PATHS)
def test_a_node_that_does_not_answer_refuses(api_as, running, node, run_tasks, who, marked_down):
    """INS-65, INS-66, ERR-10, E3: also before anybody has marked it as down."""
    node.options = replace(node.options, deadline=0.01)
    if marked_down:
        session.scalar(select(Hypervisor)).status = "down"
        session.commit()
    else:
        node.fault("*", "silent")
    assert_reset_refused(reset_password(api_as, who, running), 503, "hypervisor_unreachable", run_tasks)


@pytest.mark.parametrize(
    ("seen_by_worker", "status", "reason", "said"),
    [
        (None, 503, "hypervisor_unreachable", "All workers are busy"),
        ("node", 409, "agent_unavailable", "The guest agent"),
    ],
)
def test_who_does_not_answer_in_time_counts_as_silent(
    api_as, running, run_tasks, monkeypatch, seen_by_worker, status, reason, said
):
    """INS-64, INS-65: the request waits for workers and for what they look at, for a while."""
    monkeypatch.setattr(reachability, "REACHABILITY_TIMEOUT_SECONDS", 0)

    def look(function, *args):
        assert function == "worker.sync.reachability.poll"
        if seen_by_worker:
            worker.sync.reachability.record_node_answer(running.hypervisor_id)

    with monkeypatch.context() as patched:
        patched.setattr(reachability.jobs, "enqueue_call", look)
        answer = reset_password(api_as, "owner", running)
    assert answer.json["message"].startswith(said)
    assert_reset_refused(answer, status, reason, run_tasks)


def test_of_two_resets_one_is_accepted(api_as, running, run_tasks, monkeypatch):
    """E10: the second is refused while the first is under way, and when it was asked for before the first began."""
    first = reset_password(api_as, "owner", running)
    assert first.status_code == 200
    assert (
        reset_password(api_as, "admin", running).json["reason"],
        reset_password(api_as, "owner", running).status_code,
    ) == (
        "task_running",
        409,
    )
    run_tasks()
    real, inner = reachability.wait_for_poll, []

    def look(*args, **options):
        real(*args, **options)
        if not inner:
            inner.append(None)
            inner.append(reset_password(api_as, "owner", running))
            run_tasks()

    monkeypatch.setattr(reachability, "wait_for_poll", look)
    outer = reset_password(api_as, "owner", running)
    assert (inner[1].status_code, outer.status_code, outer.json["reason"]) == (200, 409, "task_running")
    assert "data" not in outer.json
    assert reset_password(api_as, "owner", running).status_code == 200


@pytest.mark.parametrize("fault", ["lost-answer", "silent"])
def test_a_change_whose_answer_is_lost_says_so(api_as, running, node, run_tasks, fault):
    """INS-63: nobody knows which password is valid, and the task says that."""
    node.options = replace(node.options, deadline=0.01)
    task = reset_password(api_as, "owner", running).json["data"]["task_id"]
    node.fault("agent_set_password", fault, 1)
    run_tasks()
    row = session.get(Task, task)
    assert (row.status, row.secret) == ("failed", None)
    assert row.error == "The outcome is unknown: the old or the new password is valid."


def test_reset_password_refused_by_state(api_as, running, cast, run_tasks):
    assert reset_password(api_as, "owner", cast.instance()).json["reason"] == "not_deployed"
    api_as("owner", "POST", f"/api/instance/{running.id}/power/poweroff")
    run_tasks()
    assert reset_password(api_as, "owner", running).json["reason"] == "not_running"
    session.get(Instance, running.id).suspended_reason = "admin"
    session.commit()
    assert reset_password(api_as, "owner", running).json["reason"] == "suspended"


def test_what_was_seen_earlier_does_not_count(api_as, running, cast, node):
    """An agent that came back since somebody looked is not refused for that."""
    row = session.get(Instance, running.id)
    row.agent_seen_at, row.agent_checked_at = None, row.power_reported_at + timedelta(microseconds=1)
    session.commit()
    assert row.agent_down
    assert reset_password(api_as, "owner", running).status_code == 200


def test_an_agent_that_falls_silent_meanwhile_fails_the_task(api_as, running, run_tasks, node):
    """E2: it is asked once more before the password is sent."""
    task = reset_password(api_as, "owner", running, password="a new one").json["data"]["task_id"]
    node.set_guest(running.id, agent_hangs=True)
    run_tasks()
    assert not node.can_sign_in(running.id, "root", "a new one")
    row = session.get(Task, task)
    assert (row.status, row.error, row.secret) == ("failed", "The guest agent does not answer.", None)
    assert session.get(Instance, running.id).state == "running"


def test_keys_are_put_into_the_running_guest(api_as, running, run_tasks, node):
    made = [
        api_as("owner", "POST", "/api/ssh-key/generate", json={"name": name, "algorithm": "ed25519"}).json["ssh_key"]
        for name in ("a", "b")
    ]
    path = f"/api/instance/{running.id}/ssh-keys"
    answer = api_as("owner", "POST", path, json={"ssh_keys": [key["id"] for key in made]})
    assert answer.json.keys() == {"success", "message", "task_id"}
    run_tasks()
    assert sorted(node.authorized_keys(running.id)) == sorted(key["public_key"] for key in made)
    assert session.get(Task, answer.json["task_id"]).kind == "instance_ssh_key_inject"
    assert api_as("owner", "POST", path, json={"ssh_key_id": made[0]["id"]}).status_code == 200
    foreign = {"name": "c", "algorithm": "ed25519"}
    foreign = api_as("outsider", "POST", "/api/ssh-key/generate", json=foreign).json["ssh_key"]["id"]
    for body, field in (
        ({"ssh_keys": [foreign]}, "ssh_keys"),
        ({"ssh_key_id": foreign}, "ssh_key_id"),
        ({}, "ssh_keys"),
    ):
        refused = api_as("owner", "POST", path, json=body)
        assert (refused.status_code, list(refused.json["errors"])) == (422, [field])
    node.set_guest(running.id, agent=False)
    assert api_as("owner", "POST", path, json={"ssh_key_id": made[0]["id"]}).json["reason"] == "agent_unavailable"
    node.options = replace(node.options, deadline=0.01)
    node.fault("*", "silent")
    assert api_as("owner", "POST", path, json={"ssh_key_id": made[0]["id"]}).json["reason"] == "hypervisor_unreachable"


def test_what_the_guest_says_is_shown_with_its_time(api_as, running):
    ips = api_as("owner", "GET", f"/api/instance/{running.id}/guest-ips").json
    assert [(row["ip"], row["family"]) for row in ips["data"]] == [("10.9.0.2", 4), ("fd99::2", 6)]
    assert {row["mac"] for row in ips["data"]} == {running.interfaces[0].mac}
    assert [(row["type"], row["nic"]) for row in ips["data"]] == [("ipv4", "net0"), ("ipv6", "net0")]
    assert (ips["total"], ips["last_page"]) == (2, 1)
    second = api_as("owner", "GET", f"/api/instance/{running.id}/guest-ips?per_page=1&page=2").json
    assert ([row["ip"] for row in second["data"]], second["from"], second["last_page"]) == (["fd99::2"], 2, 2)
    [root] = api_as("owner", "GET", f"/api/instance/{running.id}/guest-filesystems").json["data"]
    assert (root["mountpoint"], root["kind"], root["size"]) == ("/", "ext4", 10 * 1024**3)
    assert 0 < root["used"] < root["size"]
    assert root["reported_at"]


def test_a_guest_that_has_just_booted_is_asked(api_as, cast, run_tasks, node, monkeypatch):
    """C11: its addresses are told as soon as its agent answers, not only after the next look at all guests."""
    monkeypatch.setattr(reachability, "GUEST_REPORT_TIMEOUT_SECONDS", 0)
    made = cast.instance()
    api_as("owner", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    paths = [f"/api/instance/{made.id}/guest-{what}" for what in ("ips", "filesystems")]
    node.set_guest(made.id, agent=False)
    assert [api_as("owner", "GET", path).json["total"] for path in paths] == [0, 0]
    node.set_guest(made.id)
    assert [api_as("owner", "GET", path).json["total"] for path in paths] == [2, 1]
    node.set_guest(made.id, agent=False)
    assert api_as("owner", "GET", paths[0]).json["total"] == 2


def test_a_guest_that_never_said_anything(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/guest-ips"
    empty = api_as("owner", "GET", path).json
    assert (empty["data"], empty["total"], empty["from"]) == ([], 0, None)
    assert api_as("outsider", "GET", path).status_code == 404


def test_a_reinstall_forgets_what_the_old_system_said(api_as, running, run_tasks):
    api_as("owner", "POST", f"/api/instance/{running.id}/reinstall", json={})
    run_tasks()
    assert session.get(GuestInfo, running.id) is None


def test_guest_access_pages(browser_as, running, run_tasks, node, cast, api_as):
    key = {"name": "laptop", "algorithm": "ed25519"}
    key = api_as("owner", "POST", "/api/ssh-key/generate", json=key).json["ssh_key"]
    browser = browser_as("owner")
    overview = browser.get(f"/instances/{running.id}").text
    assert "Inside the guest" in overview
    assert "of 10" in overview
    settings = f"/instances/{running.id}/settings"
    assert "Reset password" in browser.get(settings).text
    answer = browser.post(f"/instances/{running.id}/reset-password")
    assert answer.status_code == 303
    shown = browser.get(answer.headers["Location"]).text
    password = shown.split('id="password"')[1].split('data-copy="')[1].split('"')[0]
    run_tasks()
    assert node.can_sign_in(running.id, "root", password)
    assert password not in browser.get(answer.headers["Location"]).text
    assert browser.post(f"/instances/{running.id}/ssh-keys", data={"ssh_keys": [key["id"], ""]}).status_code == 303
    run_tasks()
    assert node.authorized_keys(running.id) == [key["public_key"]]
    refused = browser.post(f"/instances/{running.id}/ssh-keys", data={"ssh_keys": ""})
    assert (refused.status_code, "Choose at least one." in refused.text) == (422, True)
    node.set_guest(running.id, agent=False)
    assert browser.post(f"/instances/{running.id}/reset-password").status_code == 409
    assert "The guest agent does not answer" in browser.get(settings).text
