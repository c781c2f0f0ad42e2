"""Reinstalling by the APIs: what it takes, what it refuses, and that nothing of the earlier first boot comes back."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Disk, Event, Instance, Member, ResourceGrant, Task
from worker.nodes import base

OLD = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0x7dLSNbO8zpWt/5mYUZrqkMRYBDzSRHwLnmRLQIAw old"


@pytest.fixture
def running(api_as, cast, run_tasks):
    """A deployed instance of the owner, whose first boot had a key, a script, a time zone and configuration."""
    key = api_as("owner", "POST", "/api/ssh-keys", json={"name": "old", "public_key": OLD}).json["ssh_key"]["id"]
    script = {"name": "old", "type": "sh", "content": "echo old script"}
    script = api_as("owner", "POST", "/api/user-scripts", json=script).json["script"]["id"]
    instance = cast.instance(hostname="web.example.com")
    body = {"image_id": cast.image.id, "ssh_keys": [key], "user_scripts": [script]}
    body |= {"cloudcfg": "motd: old words", "timezone": "Asia/Tokyo"}
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body).status_code == 200
    run_tasks()
    return instance


def reinstall(as_, instance, who="owner", **body):
    return as_(who, "POST", f"/api{'/v1' if who == 'admin' else ''}/instance/{instance.id}/reinstall", json=body)


def seed_of(node, instance):
    return json.loads(node.seed_of(instance.id).user_data.split("\n", 1)[1])


def test_it_is_pending_meanwhile_and_then_the_new_system_runs(api_as, running, run_tasks, node):
    """INS-46, INS-55"""
    answer = reinstall(api_as, running)
    assert answer.json.keys() == {"success", "message", "task_id", "password"}
    shown = api_as("owner", "GET", f"/api/instance/{running.id}").json
    assert (shown["state"], shown["task_running"]) == ("pending", True)
    assert [(task["kind"], task["status"]) for task in shown["tasks"][:1]] == [("instance_reinstall", "queued")]
    run_tasks()
    shown = api_as("owner", "GET", f"/api/instance/{running.id}").json
    assert (shown["state"], shown["last_error"], shown["deployed"]) == ("running", None, True)
    assert shown["image_id"] == running.image_id
    [machine] = node.machines()
    assert (machine.id, machine.power) == (running.id, "on")
    names = {disk.name for disk in node.disks("default") if disk.name.startswith("h")}
    assert names == {running.disks[0].name, running.disks[0].name.replace("-0-", "-seed-")[:-6] + ".iso"}
    assert session.scalars(select(Disk.name)).all() == [running.disks[0].name]


def test_nothing_of_the_earlier_first_boot_comes_back(api_as, running, run_tasks, node):
    """INS-59"""
    running.ssh_host_key = running.presented_host_key = "ssh-ed25519 AAAA"
    session.commit()
    before = json.loads(node.seed_of(running.id).meta_data)["instance-id"]
    assert "old" in node.seed_of(running.id).user_data
    reinstall(api_as, running, password="a new password")
    run_tasks()
    seed = node.seed_of(running.id)
    assert json.loads(seed.meta_data)["instance-id"] != before
    assert "old" not in seed.user_data
    made = seed_of(node, running)
    assert (made.get("timezone"), made.get("motd"), made.get("write_files")) == (None, None, None)
    assert made["users"][0]["ssh_authorized_keys"] == []
    row = session.get(Instance, running.id)
    assert (row.ssh_host_key, row.presented_host_key, row.timezone) == (None, None, None)


def test_keys_without_a_password_make_none(api_as, running, run_tasks, node):
    """INS-47, INS-54"""
    key = api_as("owner", "GET", "/api/ssh-keys").json["data"][0]["id"]
    answer = reinstall(api_as, running, ssh_key_id=key, timezone="Europe/Berlin", hostname="new.example.com")
    assert "password" not in answer.json
    run_tasks()
    made = seed_of(node, running)
    assert (made["ssh_pwauth"], made["users"][0]["lock_passwd"]) == (False, True)
    assert "chpasswd" not in made
    row = session.get(Instance, running.id)
    assert (row.hostname, row.timezone) == ("new.example.com", "Europe/Berlin")


def test_the_admin_route_answers_in_its_envelope(api_as, running, run_tasks):
    """INS-61, INS-51"""
    made = reinstall(api_as, running, "admin").json["data"]
    assert made.keys() == {"task_id", "password"}
    run_tasks()
    foreign = {"name": "b", "algorithm": "ed25519"}
    foreign = api_as("outsider", "POST", "/api/ssh-key/generate", json=foreign).json["ssh_key"]["id"]
    assert reinstall(api_as, running, "admin", ssh_keys=[foreign]).json["data"].keys() == {"task_id"}


def test_foreign_keys_are_refused(api_as, running):
    """INS-48"""
    foreign = {"name": "b", "algorithm": "ed25519"}
    foreign = api_as("outsider", "POST", "/api/ssh-key/generate", json=foreign).json["ssh_key"]["id"]
    answer = reinstall(api_as, running, ssh_keys=[foreign])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ssh_keys"])


def test_a_member_may_use_the_owners_keys_and_scripts(api_as, running, cast, run_tasks):
    """INS-50: the machine was chosen for the member."""
    [key] = api_as("owner", "GET", "/api/ssh-keys").json["data"]
    [script] = api_as("owner", "GET", "/api/user-scripts").json["data"]
    member = session.scalar(select(Member).where(Member.account_id == cast.member.id))
    assert reinstall(api_as, running, "member").status_code == 404
    session.add(ResourceGrant(member_id=member.id, resource_id=running.id, resource_type="instance"))
    session.commit()
    chosen = {"ssh_keys": [key["id"]], "user_scripts": [script["id"]]}
    assert reinstall(api_as, running, "member", **chosen).status_code == 200
    run_tasks()
    assert session.get(Instance, running.id).state == "running"


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_protection_refuses_it_and_the_disk_is_untouched(api_as, running, run_tasks, node, who):
    """INS-20, INS-22, OP-10"""
    before = node.disks("default")
    patch = f"/api/instance/{running.id}"
    api_as("owner", "PATCH", patch, json={"protection_enabled": True})
    answer = reinstall(api_as, running, who)
    assert (answer.status_code, answer.json["reason"]) == (409, "protection_enabled")
    run_tasks()
    assert node.disks("default") == before
    assert session.scalar(select(Task).where(Task.kind == "instance_reinstall")) is None
    api_as("owner", "PATCH", patch, json={"protection_enabled": False})
    assert reinstall(api_as, running, who).status_code == 200
    run_tasks()
    assert session.get(Instance, running.id).state == "running"


def test_reinstall_refused_by_state(api_as, running, cast):
    new = cast.instance()
    assert reinstall(api_as, new).json["reason"] == "not_deployed"
    assert reinstall(api_as, running).status_code == 200
    again = reinstall(api_as, running)
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    assert api_as("owner", "POST", f"/api/instance/{running.id}/power/start").json["reason"] == "task_running"


def test_a_suspended_instance_refuses(api_as, running):
    running.suspended_reason = "admin"
    session.commit()
    for who in ("owner", "admin"):
        answer = reinstall(api_as, running, who)
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")


def test_an_image_that_was_removed_has_to_be_chosen(api_as, running):
    running.image_id = None
    session.commit()
    answer = reinstall(api_as, running)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["image_id"])


@pytest.mark.parametrize("who", ["owner", "admin"])
@pytest.mark.parametrize("call", ["deploy", "reinstall"])
def test_the_cloudcfg_limit_counts_characters(api_as, running, cast, run_tasks, who, call):
    """INS-52, INS-53"""
    instance = cast.instance() if call == "deploy" else running
    path = f"/api{'/v1' if who == 'admin' else ''}/instance/{instance.id}/{call}"
    body = {"image_id": cast.image.id}
    refused = api_as(who, "POST", path, json={**body, "cloudcfg": "#" + "é" * 65536})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["cloudcfg"])
    assert api_as(who, "POST", path, json={**body, "cloudcfg": "#" + "é" * 65535}).status_code == 200
    run_tasks()
    assert session.get(Instance, instance.id).state == "running"


@pytest.mark.parametrize("days", [1, 8])
def test_the_event_says_reinstalled_for_a_week(api_as, running, run_tasks, days):
    deployed = session.scalars(select(Event).where(Event.kind == "instance.deployed")).one()
    deployed.created_at = clock.now() - timedelta(days=days)
    session.commit()
    reinstall(api_as, running)
    run_tasks()
    kinds = session.scalars(select(Event.kind).where(Event.resource_id == running.id).order_by(Event.id)).all()
    assert kinds[-1] == ("instance.reinstalled" if days == 1 else "instance.deployed")


def test_further_disks_stay(api_as, running, run_tasks, node):
    name = f"{running.name}-1.qcow2"
    session.add(Disk(instance_id=running.id, storage_id=running.disks[0].storage_id, name=name, position=1, size=1))
    session.commit()
    node.create_disk(base.Disk("default", name, base.GiB))
    reinstall(api_as, running)
    run_tasks()
    assert session.get(Instance, running.id).state == "running"
    assert name in {disk.name for disk in node.disks("default")}
    assert [disk.position for disk in session.get(Instance, running.id).disks] == [0, 1]


def test_reinstall_pages(browser_as, running, run_tasks):
    browser = browser_as("owner")
    assert f"/instances/{running.id}/reinstall" in browser.get(f"/instances/{running.id}/settings").text
    address = f"/instances/{running.id}/reinstall"
    assert f'value="{running.image_id}" checked' in browser.get(address).text
    refused = browser.post(address, data={"typed": "wrong"})
    assert refused.status_code == 422
    assert "The name does not match." in refused.text
    assert session.scalar(select(Task).where(Task.kind == "instance_reinstall")) is None
    answer = browser.post(address, data={"typed": running.display_name, "hostname": "web.example.com"})
    assert answer.headers["Location"] == f"/instances/{running.id}"
    assert 'id="password"' in browser.get(f"/instances/{running.id}").text
    run_tasks()
    assert session.get(Instance, running.id).state == "running"
    session.get(Instance, running.id).protection_enabled = True
    session.commit()
    assert browser.get(address).status_code == 409
    assert "Turn it off first" in browser.get(f"/instances/{running.id}/settings").text
