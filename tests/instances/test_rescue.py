"""Rescue, by both APIs."""

import pytest
import yaml
from sqlalchemy import text

from panel.core import clock
from panel.core.db import session
from panel.models import Image, Instance, Rescue, Task

PATHS = {"owner": "/api/instance", "admin": "/api/v1/instance"}
PARTS = ("{}-rescue.qcow2", "{}-rescue.iso")


@pytest.fixture
def instance(as_, cast, work):
    """The owner's, with a system and off."""
    made = cast.instance()
    as_("owner", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id, "hostname": "web"})
    work()
    as_("owner", "POST", f"/api/instance/{made.id}/power/poweroff")
    work()
    return session.get(Instance, made.id)


@pytest.fixture
def rescue(as_, instance):
    def switch(enable=True, who="owner"):
        return as_(who, "POST", f"{PATHS[who]}/{instance.id}/rescue", json={"enable": enable})

    return switch


@pytest.fixture
def power(as_, instance, work):
    def act(action):
        answer = as_("owner", "POST", f"/api/instance/{instance.id}/power/{action}")
        work()
        return answer

    return act


@pytest.fixture
def shown(as_, instance):
    def state(who="owner"):
        answer = as_(who, "GET", f"{PATHS[who]}/{instance.id}/rescue")
        assert answer.status_code == 200
        return answer.json["data"] if who == "admin" else answer.json

    return state


def things(node, instance):
    names = {disk.name for disk in node.disks("default")}
    return [part.format(instance.name) in names for part in PARTS]


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_a_stopped_instance_boots_the_rescue_system(as_, rescue, shown, node, instance, work, who):
    """RSC-01, RSC-02, RSC-03, RSC-05, OP-22"""
    assert shown(who) == {"active": False, "since": None}
    before = clock.now()
    answer = rescue(who=who)
    assert answer.status_code == 200
    found = answer.json["data"] if who == "admin" else answer.json
    assert session.get(Task, found["task_id"]).kind == "instance_rescue_enable"
    assert "password" not in found
    work()
    assert as_("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "running"
    state = shown(who)
    assert (state["active"], state["username"]) == (True, "root")
    assert len(state["password"]) >= 12
    assert before <= session.get(Rescue, instance.id).since <= clock.now()
    own, system = f"{instance.name}-0.qcow2", PARTS[0].format(instance.name)
    assert node.booted_disks(instance.id) == [system, own]
    seed = node.seed_of(instance.id)
    assert state["password"] in seed.user_data
    assert yaml.safe_load(seed.user_data)["ssh_pwauth"] is True
    assert instance.ipv4 in seed.network_config
    again = rescue(who=who)
    found = again.json["data"] if who == "admin" else again.json
    assert (again.status_code, found["password"]) == (200, state["password"])


def test_the_password_is_encrypted_at_rest_and_gone_afterwards(rescue, shown, instance, work):
    """RSC-04"""
    rescue()
    [kept] = session.execute(text("select secret from tasks where kind = 'instance_rescue_enable'")).scalars()
    work()
    password = shown()["password"]
    [row] = session.execute(text("select password from rescues")).scalars()
    assert password not in row
    assert password not in kept
    assert session.execute(text("select secret from tasks where kind = 'instance_rescue_enable'")).scalars().all() == [
        None
    ]
    rescue(False)
    work()
    assert shown() == {"active": False, "since": None}
    assert session.query(Rescue).count() == 0


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_it_ends_with_the_own_system_running_again(rescue, shown, node, instance, work, who):
    """RSC-04, RSC-07"""
    rescue(who=who)
    work()
    assert rescue(False, who).status_code == 200
    work()
    assert shown(who) == {"active": False, "since": None}
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]
    assert yaml.safe_load(node.seed_of(instance.id).meta_data)["local-hostname"] == "web"
    assert things(node, instance) == [False, False]
    answer = rescue(False, who)
    found = answer.json["data"] if who == "admin" else answer.json
    assert (answer.status_code, found.get("task_id")) == (200, None)


def test_one_that_was_turned_off_in_rescue_stays_off(rescue, power, node, instance, work):
    """RSC-07"""
    rescue()
    work()
    power("poweroff")
    rescue(False)
    work()
    assert session.get(Instance, instance.id).power == "off"
    power("start")
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]


def test_a_restart_in_rescue_stays_in_rescue(rescue, power, shown, node, instance, work):
    rescue()
    work()
    password = shown()["password"]
    power("stop")
    power("start")
    assert node.booted_disks(instance.id)[0] == PARTS[0].format(instance.name)
    assert shown()["password"] == password


@pytest.mark.parametrize("body", [{}, {"enable": "yes"}, {"enable": 1}, {"enable": None}, {"enable": "true"}])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_enable_is_a_boolean(as_, instance, who, body):
    """RSC-08"""
    answer = as_(who, "POST", f"{PATHS[who]}/{instance.id}/rescue", json=body)
    assert answer.status_code == 422
    assert answer.json["errors"].keys() == {"enable"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_states_in_which_there_is_no_rescue(as_, cast, rescue, power, instance, who):
    """OP-10"""

    def refused(answer, reason):
        assert answer.status_code == 409
        if who == "owner":
            assert answer.json["reason"] == reason

    power("start")
    refused(rescue(who=who), "not_stopped")
    power("poweroff")
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
    refused(as_(who, "POST", f"{PATHS[who]}/{fresh.id}/rescue", json={"enable": True}), "not_deployed")


def test_without_a_rescue_system_there_is_no_rescue(rescue, cast):
    session.get(Image, cast.image.id).name = "other"
    session.commit()
    answer = rescue()
    assert (answer.status_code, answer.json["reason"]) == (409, "rescue_unavailable")


def test_others_see_nothing_of_it(as_, rescue, instance, work):
    rescue()
    work()
    for method, body in (("GET", None), ("POST", {"enable": False})):
        assert as_("outsider", method, f"/api/instance/{instance.id}/rescue", json=body).status_code == 404
        assert as_("viewer", method, f"/api/instance/{instance.id}/rescue", json=body).status_code == 403


@pytest.mark.parametrize("step", ["create_disk", "write_seed", "define", "start"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_of_a_rescue_that_fails_nothing_is_left(rescue, shown, power, node, instance, work, step, kind):
    node.fault(step, kind, count=1)
    answer = rescue()
    work()
    task = session.get(Task, answer.json["task_id"])
    assert task.status == "failed"
    assert shown() == {"active": False, "since": None}
    assert session.get(Task, task.id).secret is None
    node.clear()
    power("start")
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]
    assert things(node, instance) == [False, False]


@pytest.mark.parametrize("step", ["shutdown", "delete_disk", "define", "start"])
def test_an_end_that_fails_can_be_asked_for_again(rescue, shown, node, instance, work, step):
    rescue()
    work()
    node.fault(step, "refuse", count=1)
    answer = rescue(False)
    work()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    node.clear()
    rescue(False)
    work()
    assert shown() == {"active": False, "since": None}
    assert things(node, instance) == [False, False]


def test_a_destroy_leaves_nothing(as_, rescue, node, instance, work):
    rescue()
    work()
    as_("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    work()
    assert session.query(Rescue).count() == 0
    assert not [disk for disk in node.disks("default") if disk.name.startswith(instance.name)]


def test_a_suspension_ends_it(as_, rescue, shown, node, instance, work):
    rescue()
    work()
    as_("admin", "POST", f"/api/v1/instance/{instance.id}/state/suspend")
    work()
    assert shown() == {"active": False, "since": None}
    assert things(node, instance) == [False, False]
    as_("admin", "POST", f"/api/v1/instance/{instance.id}/state/resume")
    work()
    assert node.booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_nothing_of_the_rescue_system_gets_into_snapshots(as_, rescue, instance, work, who):
    """Such a snapshot would hold a disk that is gone soon, and could never be deleted."""

    def snapshot(method, path="", **body):
        return as_("owner", method, f"/api/instance/{instance.id}/snapshot{path}", json=body)

    assert snapshot("POST", snapname="before").status_code == 200
    work()
    assert rescue(who=who).status_code == 200
    work()
    refused = [
        snapshot("POST", snapname="meanwhile"),
        snapshot("POST", "/rollback", snapname="before"),
        snapshot("DELETE", snapname="before"),
    ]
    assert [(answer.status_code, answer.json["reason"]) for answer in refused] == [(409, "rescue_active")] * 3
    rescue(False)
    work()
    assert snapshot("DELETE", snapname="before").status_code == 200
    work()
    assert as_("owner", "GET", f"/api/instance/{instance.id}/snapshots").json["snapshots"] == []


def test_the_password_of_the_rescue_system_stays_the_one_that_is_shown(as_, rescue, shown, instance, work):
    """INS-66: a reset would change the rescue system's password, and not the instance's own."""
    rescue()
    work()
    password = shown()["password"]
    path = f"/api/instance/{instance.id}"
    key = as_("owner", "POST", "/api/ssh-key/generate", json={"name": "one", "algorithm": "ed25519"}).json["ssh_key"]
    refused = [
        as_("owner", "POST", f"{path}/reset-password"),
        as_("admin", "POST", f"/api/v1/instance/{instance.id}/resetPassword"),
        as_("owner", "POST", f"{path}/ssh-keys", json={"ssh_keys": [key["id"]]}),
    ]
    assert [(answer.status_code, answer.json.get("reason")) for answer in refused] == [(409, "rescue_active")] * 3
    assert not any("password" in (answer.json.get("data") or {}) for answer in refused)
    assert shown()["password"] == password


@pytest.mark.parametrize(("who", "base"), [("owner", ""), ("admin", "/admin")])
def test_every_tab_says_that_it_is_the_rescue_system(browse, rescue, instance, work, who, base):
    browser, address = browse(who), f"{base}/instances/{instance.id}"
    assert "runs the rescue system" not in browser.get(address).text
    rescue()
    work()
    page = browser.get(address).text
    assert "The instance runs the rescue system" in page
    assert f'href="{address}/media"' in page
    assert browser.get(f"{address}/media").text.count("The instance runs the rescue system") == 1
    assert browser.get(f"{address}/snapshots").text.count("The rescue system is active. End it first.</p>") == 1
