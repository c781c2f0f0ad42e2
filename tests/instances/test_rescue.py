"""Rescue mode in both APIs."""

import pytest
import yaml
from sqlalchemy import text

from panel.core import clock
from panel.core.db import session
from panel.models import Image, Instance, Rescue, Task

INSTANCE_PATHS = {"owner": "/api/instance", "admin": "/api/v1/instance"}
RESCUE_FILES = ("{}-rescue.qcow2", "{}-rescue.iso")


@pytest.fixture
def instance(api_as, cast, run_tasks):
    """A deployed, stopped instance of the owner."""
    created_instance = cast.instance()
    api_as(
        "owner",
        "POST",
        f"/api/instance/{created_instance.id}/deploy",
        json={"image_id": cast.image.id, "hostname": "web"},
    )
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{created_instance.id}/power/poweroff")
    run_tasks()
    return session.get(Instance, created_instance.id)


@pytest.fixture
def switch_rescue(api_as, instance):
    def switch(enable=True, caller="owner"):
        return api_as(caller, "POST", f"{INSTANCE_PATHS[caller]}/{instance.id}/rescue", json={"enable": enable})

    return switch


@pytest.fixture
def change_power(api_as, instance, run_tasks):
    def act(action):
        answer = api_as("owner", "POST", f"/api/instance/{instance.id}/power/{action}")
        run_tasks()
        return answer

    return act


@pytest.fixture
def get_rescue_state(api_as, instance):
    def state(caller="owner"):
        answer = api_as(caller, "GET", f"{INSTANCE_PATHS[caller]}/{instance.id}/rescue")
        assert answer.status_code == 200
        return answer.json["data"] if caller == "admin" else answer.json

    return state


def has_rescue_files(node, instance):
    names = {disk.name for disk in node.disks("default")}
    return [part.format(instance.name) in names for part in RESCUE_FILES]


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_stopped_instance_boots_rescue_system(
    api_as, switch_rescue, get_rescue_state, node, instance, run_tasks, caller
):
    """RSC-01, RSC-02, RSC-03, RSC-05, OP-22"""
    assert get_rescue_state(caller) == {"active": False, "since": None}
    before = clock.now()
    answer = switch_rescue(caller=caller)
    assert answer.status_code == 200
    rescue = answer.json["data"] if caller == "admin" else answer.json
    assert session.get(Task, rescue["task_id"]).kind == "instance_rescue_enable"
    assert "password" not in rescue
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "running"
    state = get_rescue_state(caller)
    assert (state["active"], state["username"]) == (True, "root")
    assert len(state["password"]) >= 12
    assert before <= session.get(Rescue, instance.id).since <= clock.now()
    own, system = f"{instance.name}-0.qcow2", RESCUE_FILES[0].format(instance.name)
    assert node.list_booted_disks(instance.id) == [system, own]
    seed = node.seed_of(instance.id)
    assert state["password"] in seed.user_data
    assert yaml.safe_load(seed.user_data)["ssh_pwauth"] is True
    assert instance.ipv4 in seed.network_config
    again = switch_rescue(caller=caller)
    rescue = again.json["data"] if caller == "admin" else again.json
    assert (again.status_code, rescue["password"]) == (200, state["password"])


def test_rescue_password_is_encrypted_and_deleted_afterwards(switch_rescue, get_rescue_state, instance, run_tasks):
    """RSC-04"""
    switch_rescue()
    [secret] = session.execute(text("select secret from tasks where kind = 'instance_rescue_enable'")).scalars()
    run_tasks()
    password = get_rescue_state()["password"]
    [row] = session.execute(text("select password from rescues")).scalars()
    assert password not in row
    assert password not in secret
    assert session.execute(text("select secret from tasks where kind = 'instance_rescue_enable'")).scalars().all() == [
        None
    ]
    switch_rescue(False)
    run_tasks()
    assert get_rescue_state() == {"active": False, "since": None}
    assert session.query(Rescue).count() == 0


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_rescue_disable_boots_own_system(switch_rescue, get_rescue_state, node, instance, run_tasks, caller):
    """RSC-04, RSC-07"""
    switch_rescue(caller=caller)
    run_tasks()
    assert switch_rescue(False, caller).status_code == 200
    run_tasks()
    assert get_rescue_state(caller) == {"active": False, "since": None}
    assert node.list_booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]
    assert yaml.safe_load(node.seed_of(instance.id).meta_data)["local-hostname"] == "web"
    assert has_rescue_files(node, instance) == [False, False]
    answer = switch_rescue(False, caller)
    rescue = answer.json["data"] if caller == "admin" else answer.json
    assert (answer.status_code, rescue.get("task_id")) == (200, None)


def test_instance_powered_off_in_rescue_stays_off(switch_rescue, change_power, node, instance, run_tasks):
    """RSC-07"""
    switch_rescue()
    run_tasks()
    change_power("poweroff")
    switch_rescue(False)
    run_tasks()
    assert session.get(Instance, instance.id).power == "off"
    change_power("start")
    assert node.list_booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]


def test_restart_in_rescue_stays_in_rescue(switch_rescue, change_power, get_rescue_state, node, instance, run_tasks):
    switch_rescue()
    run_tasks()
    password = get_rescue_state()["password"]
    change_power("stop")
    change_power("start")
    assert node.list_booted_disks(instance.id)[0] == RESCUE_FILES[0].format(instance.name)
    assert get_rescue_state()["password"] == password


@pytest.mark.parametrize("body", [{}, {"enable": "yes"}, {"enable": 1}, {"enable": None}, {"enable": "true"}])
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_rescue_enable_accepts_only_booleans(api_as, instance, caller, body):
    """RSC-08"""
    answer = api_as(caller, "POST", f"{INSTANCE_PATHS[caller]}/{instance.id}/rescue", json=body)
    assert answer.status_code == 422
    assert answer.json["errors"].keys() == {"enable"}


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_rescue_refused_by_state(api_as, cast, switch_rescue, change_power, instance, caller):
    """OP-10"""

    def assert_refused(answer, reason):
        assert answer.status_code == 409
        if caller == "owner":
            assert answer.json["reason"] == reason

    change_power("start")
    assert_refused(switch_rescue(caller=caller), "not_stopped")
    change_power("poweroff")
    instance = session.get(Instance, instance.id)
    instance.suspended_reason = "admin"
    session.commit()
    assert_refused(switch_rescue(caller=caller), "suspended")
    instance.suspended_reason = None
    session.commit()
    switch_rescue(caller=caller)
    answer = switch_rescue(False, caller)
    assert_refused(answer, "task_running")
    fresh = cast.instance()
    assert_refused(
        api_as(caller, "POST", f"{INSTANCE_PATHS[caller]}/{fresh.id}/rescue", json={"enable": True}), "not_deployed"
    )


def test_rescue_without_rescue_image_is_refused(switch_rescue, cast):
    session.get(Image, cast.image.id).name = "other"
    session.commit()
    answer = switch_rescue()
    assert (answer.status_code, answer.json["reason"]) == (409, "rescue_unavailable")


def test_rescue_requires_permission(api_as, switch_rescue, instance, run_tasks):
    switch_rescue()
    run_tasks()
    for method, body in (("GET", None), ("POST", {"enable": False})):
        assert api_as("outsider", method, f"/api/instance/{instance.id}/rescue", json=body).status_code == 404
        assert api_as("viewer", method, f"/api/instance/{instance.id}/rescue", json=body).status_code == 403


@pytest.mark.parametrize("step", ["create_disk", "create_seed", "define", "start"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_failed_rescue_enable_leaves_nothing(
    switch_rescue, get_rescue_state, change_power, node, instance, run_tasks, step, kind
):
    node.fault(step, kind, count=1)
    answer = switch_rescue()
    run_tasks()
    task = session.get(Task, answer.json["task_id"])
    assert task.status == "failed"
    assert get_rescue_state() == {"active": False, "since": None}
    assert session.get(Task, task.id).secret is None
    node.clear()
    change_power("start")
    assert node.list_booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]
    assert has_rescue_files(node, instance) == [False, False]


@pytest.mark.parametrize("step", ["shutdown", "delete_disk", "define", "start"])
def test_failed_rescue_disable_can_be_retried(switch_rescue, get_rescue_state, node, instance, run_tasks, step):
    switch_rescue()
    run_tasks()
    node.fault(step, "refuse", count=1)
    answer = switch_rescue(False)
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    node.clear()
    switch_rescue(False)
    run_tasks()
    assert get_rescue_state() == {"active": False, "since": None}
    assert has_rescue_files(node, instance) == [False, False]


def test_destroy_in_rescue_leaves_nothing(api_as, switch_rescue, node, instance, run_tasks):
    switch_rescue()
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    run_tasks()
    assert session.query(Rescue).count() == 0
    assert not [disk for disk in node.disks("default") if disk.name.startswith(instance.name)]


def test_suspension_ends_rescue(api_as, switch_rescue, get_rescue_state, node, instance, run_tasks):
    switch_rescue()
    run_tasks()
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/suspend")
    run_tasks()
    assert get_rescue_state() == {"active": False, "since": None}
    assert has_rescue_files(node, instance) == [False, False]
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/state/resume")
    run_tasks()
    assert node.list_booted_disks(instance.id) == [f"{instance.name}-0.qcow2"]


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_snapshot_actions_in_rescue_are_refused(api_as, switch_rescue, instance, run_tasks, caller):
    """Such a snapshot would contain the temporary rescue disk and could never be deleted."""

    def call_snapshot_api(method, path="", **body):
        return api_as("owner", method, f"/api/instance/{instance.id}/snapshot{path}", json=body)

    assert call_snapshot_api("POST", snapname="before").status_code == 200
    run_tasks()
    assert switch_rescue(caller=caller).status_code == 200
    run_tasks()
    refused = [
        call_snapshot_api("POST", snapname="meanwhile"),
        call_snapshot_api("POST", "/rollback", snapname="before"),
        call_snapshot_api("DELETE", snapname="before"),
    ]
    assert [(answer.status_code, answer.json["reason"]) for answer in refused] == [(409, "rescue_active")] * 3
    switch_rescue(False)
    run_tasks()
    assert call_snapshot_api("DELETE", snapname="before").status_code == 200
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}/snapshots").json["snapshots"] == []


def test_reset_password_in_rescue_is_refused(api_as, switch_rescue, get_rescue_state, instance, run_tasks):
    """INS-66: a reset would change the password of the rescue system, not of the instance."""
    switch_rescue()
    run_tasks()
    password = get_rescue_state()["password"]
    path = f"/api/instance/{instance.id}"
    key = api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "one", "algorithm": "ed25519"}).json["ssh_key"]
    refused = [
        api_as("owner", "POST", f"{path}/reset-password"),
        api_as("admin", "POST", f"/api/v1/instance/{instance.id}/resetPassword"),
        api_as("owner", "POST", f"{path}/ssh-keys", json={"ssh_keys": [key["id"]]}),
    ]
    assert [(answer.status_code, answer.json.get("reason")) for answer in refused] == [(409, "rescue_active")] * 3
    assert not any("password" in (answer.json.get("data") or {}) for answer in refused)
    assert get_rescue_state()["password"] == password


@pytest.mark.parametrize(("caller", "base"), [("owner", ""), ("admin", "/admin")])
def test_tabs_show_active_rescue_system(browser_as, switch_rescue, instance, run_tasks, caller, base):
    browser, address = browser_as(caller), f"{base}/instances/{instance.id}"
    assert "runs the rescue system" not in browser.get(address).text
    switch_rescue()
    run_tasks()
    page = browser.get(address).text
    assert "This instance runs the rescue system" in page
    assert f'href="{address}/media"' in page
    assert browser.get(f"{address}/media").text.count("This instance runs the rescue system") == 1
    assert browser.get(f"{address}/snapshots").text.count("The rescue system is active. Turn it off first.</p>") == 1
