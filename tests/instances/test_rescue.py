"""Rescue, by both APIs."""

import pytest
import yaml
from sqlalchemy import text

from panel.core import clock
from panel.core.db import session
from panel.models import Image, Instance, Rescue, Task

PATHS = {"owner": "/api/instance", "admin": "/api/v1/instance"}
RESCUE_FILES = ("{}-rescue.qcow2", "{}-rescue.iso")


@pytest.fixture
def instance(api_as, cast, run_tasks):
    """The owner's, with a system and off."""
    made = cast.instance()
    api_as("owner", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id, "hostname": "web"})
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{made.id}/power/poweroff")
    run_tasks()
    return session.get(Instance, made.id)


@pytest.fixture
def rescue(api_as, instance):
    def switch(enable=True, who="owner"):
        return api_as(who, "POST", f"{PATHS[who]}/{instance.id}/rescue", json={"enable": enable})

    return switch


@pytest.fixture
def change_power(api_as, instance, run_tasks):
    def act(action):
        answer = api_as("owner", "POST", f"/api/instance/{instance.id}/power/{action}")
        run_tasks()
        return answer

    return act


@pytest.fixture
def shown_rescue(api_as, instance):
    def state(who="owner"):
        answer = api_as(who, "GET", f"{PATHS[who]}/{instance.id}/rescue")
        assert answer.status_code == 200
        return answer.json["data"] if who == "admin" else answer.json

    return state


def rescue_files(node, instance):
    names = {disk.name for disk in node.disks("default")}
    return [part.format(instance.name) in names for part in RESCUE_FILES]


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_a_stopped_instance_boots_the_rescue_system(api_as, rescue, shown_rescue, node, instance, run_tasks, who):
    """RSC-01, RSC-02, RSC-03, RSC-05, OP-22"""
    assert shown_rescue(who) == {"active": False, "since": None}
    before = clock.now()
    answer = rescue(who=who)
    assert answer.status_code == 200
    found = answer.json["data"] if who == "admin" else answer.json
    assert session.get(Task, found["task_id"]).kind == "instance_rescue_enable"
    assert "password" not in found
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "running"
    state = shown_rescue(who)
    assert (state["active"], state["username"]) == (True, "root")
    assert len(state["password"]) >= 12
    assert before <= session.get(Rescue, instance.id).since <= clock.now()
    own, system = f"{instance.name}-0.qcow2", RESCUE_FILES[0].format(instance.name)
    assert node.booted_disks(instance.id) == [system, own]
    seed = node.seed_of(instance.id)
    assert state["password"] in seed.user_data
    assert yaml.safe_load(seed.user_data)["ssh_pwauth"] is True
    assert instance.ipv4 in seed.network_config
    again = rescue(who=who)
    found = again.json["data"] if who == "admin" else again.json
    assert (again.status_code, found["password"]) == (200, state["password"])


def test_the_password_is_encrypted_at_rest_and_gone_afterwards(rescue, shown_rescue, instance, run_tasks):
    """RSC-04"""
    rescue()
    [kept] = session.execute(text("select secret from tasks where kind = 'instance_rescue_enable'")).scalars()
    run_tasks()
    password = shown_rescue()["password"]
    [row] = session.execute(text("select password from rescues")).scalars()
    assert password not in row
    assert password not in kept
    assert session.execute(text("select secret from tasks where kind = 'instance_rescue_enable'")).scalars().all() == [
        None
    ]
    rescue(False)
    run_tasks()
    assert shown_rescue() == {"active": False, "since": None}
    assert session.query(Rescue).count() == 0


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_it_ends_with_the_own_system_running_again(rescue, shown_rescue, node, instance, run_tasks, who):
    """RSC-04, RSC-07"""
    rescue(who=who)
    run_tasks()
    assert rescue(False, who).status_code == 200
    run_tasks()
    assert shown_rescue(who) == {"active": False, "since": None}
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]
    assert yaml.safe_load(node.seed_of(instance.id).meta_data)["local-hostname"] == "web"
    assert rescue_files(node, instance) == [False, False]
    answer = rescue(False, who)
    found = answer.json["data"] if who == "admin" else answer.json
    assert (answer.status_code, found.get("task_id")) == (200, None)


def test_one_that_was_turned_off_in_rescue_stays_off(rescue, change_power, node, instance, run_tasks):
    """RSC-07"""
    rescue()
    run_tasks()
    change_power("poweroff")
    rescue(False)
    run_tasks()
    assert session.get(Instance, instance.id).power == "off"
    change_power("start")
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]


def test_a_restart_in_rescue_stays_in_rescue(rescue, change_power, shown_rescue, node, instance, run_tasks):
    rescue()
    run_tasks()
    password = shown_rescue()["password"]
    change_power("stop")
    change_power("start")
    assert node.booted_disks(instance.id)[0] == RESCUE_FILES[0].format(instance.name)
    assert shown_rescue()["password"] == password


@pytest.mark.parametrize("body", [{}, {"enable": "yes"}, {"enable": 1}, {"enable": None}, {"enable": "true"}])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_enable_is_a_boolean(api_as, instance, who, body):
    """RSC-08"""
    answer = api_as(who, "POST", f"{PATHS[who]}/{instance.id}/rescue", json=body)
    assert answer.status_code == 422
    assert answer.json["errors"].keys() == {"enable"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_states_in_which_there_is_no_rescue(api_as, cast, rescue, change_power, instance, who):
    """OP-10"""

    def refused(answer, reason):
        assert answer.status_code == 409
        if who == "owner":
            assert answer.json["reason"] == reason

    change_power("start")
    refused(rescue(who=who), "not_stopped")
    change_power("poweroff")
    instance = session.get(Instance, instance.id)
    instance.suspended_reason = "admin"
    session.commit()
    refused(rescue(who=who), "suspended")
    instance.suspended_reason = None
    session.commit()
    rescue(who=who)
    answer = rescue(False, who)
    refused(answer, "task_running")
    fresh = cast.instance()
    refused(api_as(who, "POST", f"{PATHS[who]}/{fresh.id}/rescue", json={"enable": True}), "not_deployed")


def test_without_a_rescue_system_there_is_no_rescue(rescue, cast):
    session.get(Image, cast.image.id).name = "other"
    session.commit()
    answer = rescue()
    assert (answer.status_code, answer.json["reason"]) == (409, "rescue_unavailable")


def test_others_see_nothing_of_it(api_as, rescue, instance, run_tasks):
    rescue()
    run_tasks()
    for method, body in (("GET", None), ("POST", {"enable": False})):
        assert api_as("outsider", method, f"/api/instance/{instance.id}/rescue", json=body).status_code == 404
        assert api_as("viewer", method, f"/api/instance/{instance.id}/rescue", json=body).status_code == 403


@pytest.mark.parametrize("step", ["create_disk", "create_seed", "define", "start"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_of_a_rescue_that_fails_nothing_is_left(
    rescue, shown_rescue, change_power, node, instance, run_tasks, step, kind
):
    node.fault(step, kind, count=1)
    answer = rescue()
    run_tasks()
    task = session.get(Task, answer.json["task_id"])
    assert task.status == "failed"
    assert shown_rescue() == {"active": False, "since": None}
    assert session.get(Task, task.id).secret is None
    node.clear()
    change_power("start")
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]
    assert rescue_files(node, instance) == [False, False]


@pytest.mark.parametrize("step", ["shutdown", "delete_disk", "define", "start"])
def test_an_end_that_fails_can_be_asked_for_again(rescue, shown_rescue, node, instance, run_tasks, step):
    rescue()
    run_tasks()
    node.fault(step, "refuse", count=1)
    answer = rescue(False)
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    node.clear()
    rescue(False)
    run_tasks()
    assert shown_rescue() == {"active": False, "since": None}
    assert rescue_files(node, instance) == [False, False]


def test_a_destroy_leaves_nothing(api_as, rescue, node, instance, run_tasks):
    rescue()
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    run_tasks()
    assert session.query(Rescue).count() == 0
    assert not [disk for disk in node.disks("default") if disk.name.startswith(instance.name)]


def test_suspension_ends_rescue(api_as, rescue, shown_rescue, node, instance, run_tasks):
    rescue()
    run_tasks()
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/suspend")
    run_tasks()
    assert shown_rescue() == {"active": False, "since": None}
    assert rescue_files(node, instance) == [False, False]
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/resume")
    run_tasks()
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_nothing_of_the_rescue_system_gets_into_snapshots(api_as, rescue, instance, run_tasks, who):
    """Such a snapshot would hold a disk that is gone soon, and could never be deleted."""

    def snapshot(method, path="", **body):
        return api_as("owner", method, f"/api/instance/{instance.id}/snapshot{path}", json=body)

    assert snapshot("POST", snapname="before").status_code == 200
    run_tasks()
    assert rescue(who=who).status_code == 200
    run_tasks()
    refused = [
        snapshot("POST", snapname="meanwhile"),
        snapshot("POST", "/rollback", snapname="before"),
        snapshot("DELETE", snapname="before"),
    ]
    assert [(answer.status_code, answer.json["reason"]) for answer in refused] == [(409, "rescue_active")] * 3
    rescue(False)
    run_tasks()
    assert snapshot("DELETE", snapname="before").status_code == 200
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}/snapshots").json["snapshots"] == []


def test_the_password_of_the_rescue_system_stays_the_one_that_is_shown(
    api_as, rescue, shown_rescue, instance, run_tasks
):
    """INS-66: a reset would change the rescue system's password, and not the instance's own."""
    rescue()
    run_tasks()
    password = shown_rescue()["password"]
    path = f"/api/instance/{instance.id}"
    key = api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "one", "algorithm": "ed25519"}).json["ssh_key"]
    refused = [
        api_as("owner", "POST", f"{path}/reset-password"),
        api_as("admin", "POST", f"/api/v1/instance/{instance.id}/resetPassword"),
        api_as("owner", "POST", f"{path}/ssh-keys", json={"ssh_keys": [key["id"]]}),
    ]
    assert [(answer.status_code, answer.json.get("reason")) for answer in refused] == [(409, "rescue_active")] * 3
    assert not any("password" in (answer.json.get("data") or {}) for answer in refused)
    assert shown_rescue()["password"] == password


@pytest.mark.parametrize(("who", "base"), [("owner", ""), ("admin", "/admin")])
def test_every_tab_says_that_it_is_the_rescue_system(browser_as, rescue, instance, run_tasks, who, base):
    browser, address = browser_as(who), f"{base}/instances/{instance.id}"
    assert "runs the rescue system" not in browser.get(address).text
    rescue()
    run_tasks()
    page = browser.get(address).text
    assert "This instance runs the rescue system" in page
    assert f'href="{address}/media"' in page
    assert browser.get(f"{address}/media").text.count("This instance runs the rescue system") == 1
    assert browser.get(f"{address}/snapshots").text.count("The rescue system is active. Turn it off first.</p>") == 1
