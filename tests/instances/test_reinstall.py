"""Reinstalling in the APIs: accepted and refused bodies, and no leftovers of the earlier first boot."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Disk, Event, Instance, Member, ResourceGrant, Task
from worker.nodes import base

OLD_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0x7dLSNbO8zpWt/5mYUZrqkMRYBDzSRHwLnmRLQIAw old"


@pytest.fixture
def running_instance(api_as, cast, run_tasks):
    """A deployed instance of the owner, whose first boot had a key, a script, a time zone and configuration."""
    key = api_as("owner", "POST", "/api/ssh-keys", json={"name": "old", "public_key": OLD_PUBLIC_KEY}).json["ssh_key"][
        "id"
    ]
    script = {"name": "old", "type": "sh", "content": "echo old script"}
    script = api_as("owner", "POST", "/api/user-scripts", json=script).json["script"]["id"]
    instance = cast.instance(hostname="web.example.com")
    body = {"image_id": cast.image.id, "ssh_keys": [key], "user_scripts": [script]}
    body |= {"cloudcfg": "motd: old words", "timezone": "Asia/Tokyo"}
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body).status_code == 200
    run_tasks()
    return instance


def reinstall(as_, instance, caller="owner", **body):
    return as_(caller, "POST", f"/api{'/v1' if caller == 'admin' else ''}/instance/{instance.id}/reinstall", json=body)


def get_user_data(node, instance):
    return json.loads(node.seed_of(instance.id).user_data.split("\n", 1)[1])


def test_reinstall_is_pending_until_new_system_runs(api_as, running_instance, run_tasks, node):
    """INS-46, INS-55"""
    answer = reinstall(api_as, running_instance)
    assert answer.json.keys() == {"success", "message", "task_id", "password"}
    shown = api_as("owner", "GET", f"/api/instance/{running_instance.id}").json
    assert (shown["state"], shown["task_running"]) == ("pending", True)
    assert [(task["kind"], task["status"]) for task in shown["tasks"][:1]] == [("instance_reinstall", "queued")]
    run_tasks()
    shown = api_as("owner", "GET", f"/api/instance/{running_instance.id}").json
    assert (shown["state"], shown["last_error"], shown["deployed"]) == ("running", None, True)
    assert shown["image_id"] == running_instance.image_id
    [machine] = node.machines()
    assert (machine.id, machine.power) == (running_instance.id, "on")
    names = {disk.name for disk in node.disks("default") if disk.name.startswith("h")}
    assert names == {
        running_instance.disks[0].name,
        running_instance.disks[0].name.replace("-0-", "-seed-")[:-6] + ".iso",
    }
    assert session.scalars(select(Disk.name)).all() == [running_instance.disks[0].name]


def test_reinstall_drops_earlier_first_boot_configuration(api_as, running_instance, run_tasks, node):
    """INS-59"""
    running_instance.ssh_host_key = running_instance.presented_host_key = "ssh-ed25519 AAAA"
    session.commit()
    before = json.loads(node.seed_of(running_instance.id).meta_data)["instance-id"]
    assert "old" in node.seed_of(running_instance.id).user_data
    reinstall(api_as, running_instance, password="a new password")
    run_tasks()
    seed = node.seed_of(running_instance.id)
    assert json.loads(seed.meta_data)["instance-id"] != before
    assert "old" not in seed.user_data
    user_data = get_user_data(node, running_instance)
    assert (user_data.get("timezone"), user_data.get("motd"), user_data.get("write_files")) == (None, None, None)
    assert user_data["users"][0]["ssh_authorized_keys"] == []
    row = session.get(Instance, running_instance.id)
    assert (row.ssh_host_key, row.presented_host_key, row.timezone) == (None, None, None)


def test_reinstall_with_keys_only_sets_no_password(api_as, running_instance, run_tasks, node):
    """INS-47, INS-54"""
    key = api_as("owner", "GET", "/api/ssh-keys").json["data"][0]["id"]
    answer = reinstall(api_as, running_instance, ssh_key_id=key, timezone="Europe/Berlin", hostname="new.example.com")
    assert "password" not in answer.json
    run_tasks()
    user_data = get_user_data(node, running_instance)
    assert (user_data["ssh_pwauth"], user_data["users"][0]["lock_passwd"]) == (False, True)
    assert "chpasswd" not in user_data
    row = session.get(Instance, running_instance.id)
    assert (row.hostname, row.timezone) == ("new.example.com", "Europe/Berlin")


def test_admin_reinstall_answers_in_data_envelope(api_as, running_instance, run_tasks):
    """INS-61, INS-51"""
    instance = reinstall(api_as, running_instance, "admin").json["data"]
    assert instance.keys() == {"task_id", "password"}
    run_tasks()
    foreign = {"name": "b", "algorithm": "ed25519"}
    foreign = api_as("outsider", "POST", "/api/ssh-key/generate", json=foreign).json["ssh_key"]["id"]
    assert reinstall(api_as, running_instance, "admin", ssh_keys=[foreign]).json["data"].keys() == {"task_id"}


def test_reinstall_with_foreign_keys_is_refused(api_as, running_instance):
    """INS-48"""
    foreign = {"name": "b", "algorithm": "ed25519"}
    foreign = api_as("outsider", "POST", "/api/ssh-key/generate", json=foreign).json["ssh_key"]["id"]
    answer = reinstall(api_as, running_instance, ssh_keys=[foreign])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ssh_keys"])


def test_member_reinstalls_with_owner_keys_and_scripts(api_as, running_instance, cast, run_tasks):
    """INS-50: after the instance was granted to the member."""
    [key] = api_as("owner", "GET", "/api/ssh-keys").json["data"]
    [script] = api_as("owner", "GET", "/api/user-scripts").json["data"]
    member = session.scalar(select(Member).where(Member.account_id == cast.member.id))
    assert reinstall(api_as, running_instance, "member").status_code == 404
    session.add(ResourceGrant(member_id=member.id, resource_id=running_instance.id, resource_type="instance"))
    session.commit()
    chosen = {"ssh_keys": [key["id"]], "user_scripts": [script["id"]]}
    assert reinstall(api_as, running_instance, "member", **chosen).status_code == 200
    run_tasks()
    assert session.get(Instance, running_instance.id).state == "running"


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_protected_instance_is_not_reinstalled(api_as, running_instance, run_tasks, node, caller):
    """INS-20, INS-22, OP-10"""
    before = node.disks("default")
    patch = f"/api/instance/{running_instance.id}"
    api_as("owner", "PATCH", patch, json={"protection_enabled": True})
    answer = reinstall(api_as, running_instance, caller)
    assert (answer.status_code, answer.json["reason"]) == (409, "protection_enabled")
    run_tasks()
    assert node.disks("default") == before
    assert session.scalar(select(Task).where(Task.kind == "instance_reinstall")) is None
    api_as("owner", "PATCH", patch, json={"protection_enabled": False})
    assert reinstall(api_as, running_instance, caller).status_code == 200
    run_tasks()
    assert session.get(Instance, running_instance.id).state == "running"


def test_reinstall_refused_by_state(api_as, running_instance, cast):
    new = cast.instance()
    assert reinstall(api_as, new).json["reason"] == "not_deployed"
    assert reinstall(api_as, running_instance).status_code == 200
    again = reinstall(api_as, running_instance)
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    assert api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/start").json["reason"] == "task_running"


def test_suspended_instance_is_not_reinstalled(api_as, running_instance):
    running_instance.suspended_reason = "admin"
    session.commit()
    for caller in ("owner", "admin"):
        answer = reinstall(api_as, running_instance, caller)
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")


def test_reinstall_after_image_removal_requires_image(api_as, running_instance):
    running_instance.image_id = None
    session.commit()
    answer = reinstall(api_as, running_instance)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["image_id"])


@pytest.mark.parametrize("caller", ["owner", "admin"])
@pytest.mark.parametrize("call", ["deploy", "reinstall"])
def test_cloudcfg_limit_counts_characters(api_as, running_instance, cast, run_tasks, caller, call):
    """INS-52, INS-53"""
    instance = cast.instance() if call == "deploy" else running_instance
    path = f"/api{'/v1' if caller == 'admin' else ''}/instance/{instance.id}/{call}"
    body = {"image_id": cast.image.id}
    refused = api_as(caller, "POST", path, json={**body, "cloudcfg": "#" + "é" * 65536})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["cloudcfg"])
    assert api_as(caller, "POST", path, json={**body, "cloudcfg": "#" + "é" * 65535}).status_code == 200
    run_tasks()
    assert session.get(Instance, instance.id).state == "running"


@pytest.mark.parametrize("days", [1, 8])
def test_reinstalled_event_is_used_within_week_of_deploy(api_as, running_instance, run_tasks, days):
    deployed = session.scalars(select(Event).where(Event.kind == "instance.deployed")).one()
    deployed.created_at = clock.now() - timedelta(days=days)
    session.commit()
    reinstall(api_as, running_instance)
    run_tasks()
    kinds = session.scalars(select(Event.kind).where(Event.resource_id == running_instance.id).order_by(Event.id)).all()
    assert kinds[-1] == ("instance.reinstalled" if days == 1 else "instance.deployed")


def test_reinstall_keeps_additional_disks(api_as, running_instance, run_tasks, node):
    name = f"{running_instance.name}-1.qcow2"
    session.add(
        Disk(
            instance_id=running_instance.id,
            storage_id=running_instance.disks[0].storage_id,
            name=name,
            position=1,
            size=1,
        )
    )
    session.commit()
    node.create_disk(base.Disk("default", name, base.GiB))
    reinstall(api_as, running_instance)
    run_tasks()
    assert session.get(Instance, running_instance.id).state == "running"
    assert name in {disk.name for disk in node.disks("default")}
    assert [disk.position for disk in session.get(Instance, running_instance.id).disks] == [0, 1]


def test_reinstall_pages(browser_as, running_instance, run_tasks):
    browser = browser_as("owner")
    assert (
        f"/instances/{running_instance.id}/reinstall" in browser.get(f"/instances/{running_instance.id}/settings").text
    )
    address = f"/instances/{running_instance.id}/reinstall"
    assert f'value="{running_instance.image_id}" checked' in browser.get(address).text
    refused = browser.post(address, data={"typed": "wrong"})
    assert refused.status_code == 422
    assert "The name does not match." in refused.text
    assert session.scalar(select(Task).where(Task.kind == "instance_reinstall")) is None
    answer = browser.post(address, data={"typed": running_instance.display_name, "hostname": "web.example.com"})
    assert answer.headers["Location"] == f"/instances/{running_instance.id}"
    assert 'id="password"' in browser.get(f"/instances/{running_instance.id}").text
    run_tasks()
    assert session.get(Instance, running_instance.id).state == "running"
    session.get(Instance, running_instance.id).protection_enabled = True
    session.commit()
    assert browser.get(address).status_code == 409
    assert "Turn it off first" in browser.get(f"/instances/{running_instance.id}/settings").text
