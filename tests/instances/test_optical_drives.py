"""Mounting ISOs in instances and ejecting them."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Iso, MediaDownload, Task
from panel.services import isos
from tests.instances.optical_drives import instance, post_drive_action  # noqa: F401  (fixtures)
from tests.support.cast import UNKNOWN_ID
from tests.support.worker_faults import fault_at  # noqa: F401  (fixtures)

DRIVE_FIELDS = ("iso_id", "iso_url", "secondary_iso_id", "secondary_iso_url")
EMPTY_DRIVES = [None] * 4


@pytest.fixture
def iso(cast, file_server, run_tasks):
    """A platform ISO that the node has."""
    created_iso = isos.create(url=file_server.put(), actor="test")
    session.commit()
    run_tasks()
    return created_iso


@pytest.fixture
def get_drive_fields(api_as, instance):
    def fields():
        item = api_as("owner", "GET", f"/api/instance/{instance.id}").json
        return [item[name] for name in DRIVE_FIELDS]

    return fields


def get_loaded_media(node, instance):
    return [node.get_loaded_media(instance.id, slot) for slot in ("primary", "secondary")]


def test_mount_and_unmount_reach_running_guest(post_drive_action, get_drive_fields, node, instance, iso, run_tasks):
    """INS-15, INS-16, ISO-09, ISO-10, ISO-11, ISO-13"""
    assert get_drive_fields() == EMPTY_DRIVES
    answer = post_drive_action("mount", iso_id=iso.id)
    assert answer.status_code == 200
    task = session.get(Task, answer.json["task_id"])
    assert (task.kind, task.resource_id) == ("iso_mount", instance.id)
    run_tasks()
    volume = session.query(MediaDownload).one().volume
    assert get_loaded_media(node, instance) == [volume, None]
    assert get_drive_fields() == [iso.id, iso.url, None, None]
    post_drive_action("mount", "secondary", iso_id=iso.id)
    run_tasks()
    assert get_loaded_media(node, instance) == [volume, volume]
    assert get_drive_fields() == [iso.id, iso.url] * 2
    answer = post_drive_action("unmount")
    assert answer.json["task_id"]
    assert get_drive_fields() == [None, None, iso.id, iso.url], "cleared before the task has ended"
    run_tasks()
    assert get_loaded_media(node, instance) == [None, volume]
    answer = post_drive_action("unmount")
    assert (answer.status_code, "task_id" in answer.json) == (200, False)


@pytest.mark.parametrize(("put_in", "take_out"), [("mount", "unmount"), ("insert", "eject")])
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_drive_action_aliases_work_in_both_apis(
    post_drive_action, node, instance, iso, run_tasks, caller, put_in, take_out
):
    """ISO-14, ISO-15"""
    for verb, empty in ((put_in, False), (take_out, True)):
        answer = post_drive_action(verb, caller=caller, **({} if empty else {"iso_id": iso.id}))
        assert answer.status_code == 200
        assert (answer.json["data"] if caller == "admin" else answer.json)["task_id"]
        run_tasks()
        assert (get_loaded_media(node, instance)[0] is None) is empty


def test_mount_replaces_mounted_iso(post_drive_action, node, instance, iso, file_server, run_tasks):
    other = isos.create(url=file_server.put("/other.iso"), actor="test")
    session.commit()
    post_drive_action("mount", iso_id=iso.id)
    post_drive_action("mount", iso_id=other.id)
    run_tasks()
    assert get_loaded_media(node, instance)[0] == session.query(MediaDownload).filter_by(iso_id=other.id).one().volume


def test_mount_while_stopped_is_loaded_at_start(api_as, post_drive_action, node, instance, iso, run_tasks):
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/poweroff")
    run_tasks()
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/start")
    run_tasks()
    assert get_loaded_media(node, instance)[0] == session.query(MediaDownload).one().volume


def test_mount_before_deploy_is_loaded_at_deploy(api_as, cast, node, iso, run_tasks):
    fresh = cast.instance()
    answer = api_as("owner", "POST", f"/api/instance/{fresh.id}/iso/primary/mount", json={"iso_id": iso.id})
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "completed"
    api_as("owner", "POST", f"/api/instance/{fresh.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert node.get_loaded_media(fresh.id, "primary")


def test_mount_downloads_missing_file(post_drive_action, cast, node, instance, file_server, run_tasks):
    """The mount's task downloads the file, with one request."""
    own = Iso(account_id=cast.owner.id, name="own", filename="own.iso", url=file_server.put("/own.iso"))
    session.add(own)
    session.commit()
    answer = post_drive_action("mount", iso_id=own.id)
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "completed"
    assert file_server.requested_paths == ["/own.iso"]
    assert get_loaded_media(node, instance)[0] == session.query(MediaDownload).one().volume


def test_mount_downloads_lost_file_again(post_drive_action, node, instance, iso, file_server, run_tasks):
    node.delete_disk("default", session.query(MediaDownload).one().volume)
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    assert len(file_server.requested_paths) == 2
    assert get_loaded_media(node, instance)[0] == session.query(MediaDownload).one().volume


def test_mount_by_url_creates_private_iso(post_drive_action, get_drive_fields, cast, file_server, run_tasks):
    """The request that public clients send."""
    url = file_server.put("/mine.iso")
    assert post_drive_action("insert", iso_url=url, custom_iso=1).status_code == 200
    run_tasks()
    own = session.query(Iso).one()
    assert (own.account_id, own.public, own.url) == (cast.owner.id, False, url)
    assert get_drive_fields()[:2] == [own.id, url]
    post_drive_action("insert", "secondary", iso_url=url, custom_iso=1)
    assert session.query(Iso).count() == 1, "the ISO exists already"
    answer = post_drive_action("insert", iso_url="https://10.0.0.1/x.iso", custom_iso=1)
    assert answer.status_code == 422


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_mount_of_unavailable_iso_is_refused(post_drive_action, get_drive_fields, cast, file_server, iso, caller):
    """ISO-17"""
    foreign = isos.create(cast.outsider, url=file_server.url("/foreign.iso"), actor="test")
    off = Iso(name="off", filename="off.iso", url=file_server.url("/off.iso"), public=True, enabled=False)
    session.add(off)
    session.commit()
    bodies = [{}, {"iso_id": None}, {"iso_id": UNKNOWN_ID}, {"iso_id": 1}]
    if caller == "owner":
        bodies += [{"iso_id": foreign.id}, {"iso_id": off.id}]
    for body in bodies:
        answer = post_drive_action("mount", caller=caller, **body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"iso_id"}), body
    assert get_drive_fields() == EMPTY_DRIVES
    assert post_drive_action("mount", "tertiary", caller, iso_id=iso.id).status_code == 404
    assert post_drive_action("swallow", "primary", caller, iso_id=iso.id).status_code == 404


def test_drives_of_other_account_are_not_found(api_as, instance, iso):
    for path, body in (("mount", {"iso_id": iso.id}), ("unmount", {}), ("insert", {"iso_id": iso.id}), ("eject", {})):
        answer = api_as("outsider", "POST", f"/api/instance/{instance.id}/iso/primary/{path}", json=body)
        assert answer.status_code == 404


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_iso_without_https_is_not_mounted(post_drive_action, get_drive_fields, caller):
    """ISO-16"""
    old = Iso(name="old", filename="old.iso", url="http://example.com/old.iso", public=True)
    session.add(old)
    session.commit()
    answer = post_drive_action("mount", caller=caller, iso_id=old.id)
    assert answer.status_code == 422
    if caller == "owner":
        assert answer.json["reason"] == "iso_url_not_https"
    assert get_drive_fields() == EMPTY_DRIVES


@pytest.mark.parametrize("marked_down", [True, False])
def test_drive_action_with_unreachable_node_changes_nothing(
    post_drive_action, get_drive_fields, instance, iso, run_tasks, short_deadline_node, marked_down
):
    """ISO-12, ERR-10, E3: also before the node is marked as down."""
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    if marked_down:
        session.get(Hypervisor, instance.hypervisor_id).status = "down"
        session.commit()
    else:
        short_deadline_node.fault("*", "silent")
    before = session.query(Task).count()
    for verb, body in (("unmount", {}), ("mount", {"iso_id": iso.id})):
        answer = post_drive_action(verb, **body)
        assert (answer.status_code, answer.json["reason"]) == (503, "hypervisor_unreachable")
    assert get_drive_fields()[:2] == [iso.id, iso.url]
    assert session.query(Task).count() == before


@pytest.mark.parametrize("kind", ["refuse", "silent"])
def test_failed_drive_action_restores_drive_fields(
    post_drive_action, get_drive_fields, node, instance, iso, run_tasks, kind
):
    """ISO-12"""
    node.fault("set_media", kind, count=1)
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    assert get_drive_fields() == EMPTY_DRIVES
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    node.fault("set_media", kind, count=1)
    answer = post_drive_action("unmount")
    assert get_drive_fields() == EMPTY_DRIVES
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    assert get_drive_fields()[:2] == [iso.id, iso.url]
    assert get_loaded_media(node, instance)[0]


def test_failed_download_restores_mounted_iso(
    post_drive_action, get_drive_fields, instance, iso, file_server, run_tasks
):
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    bad = Iso(name="bad", filename="bad.iso", url=file_server.url("/bad.iso"), public=True)
    session.add(bad)
    session.commit()
    answer = post_drive_action("mount", iso_id=bad.id)
    run_tasks()
    assert "404" in session.get(Task, answer.json["task_id"]).error
    assert get_drive_fields()[:2] == [iso.id, iso.url]
    assert "404" in session.get(Iso, bad.id).download_error


def test_drive_action_refused_by_state(post_drive_action, instance, iso):
    instance.suspended_reason = "admin"
    session.commit()
    answer = post_drive_action("mount", iso_id=iso.id)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert post_drive_action("mount", caller="admin", iso_id=iso.id).status_code == 200
    instance.suspended_reason, instance.migrating = None, True
    session.commit()
    for caller in ("owner", "admin"):
        assert post_drive_action("mount", caller=caller, iso_id=iso.id).status_code == 409


def test_mounted_iso_cannot_be_deleted(api_as, post_drive_action, iso, run_tasks):
    post_drive_action("mount", iso_id=iso.id)
    answer = api_as("admin", "DELETE", f"/api/v1/iso/{iso.id}")
    assert answer.status_code == 409
    run_tasks()
    post_drive_action("unmount")
    run_tasks()
    assert api_as("admin", "DELETE", f"/api/v1/iso/{iso.id}").status_code == 200


def test_destroy_keeps_file_of_mounted_iso(api_as, post_drive_action, node, instance, iso, run_tasks):
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    run_tasks()
    assert session.query(MediaDownload).one().volume in [disk.name for disk in node.disks("default")]


@pytest.fixture
def create_missing_iso(file_server):
    """Return a function that creates an ISO whose URL answers 404."""

    def make(name):
        bad = Iso(name=name, filename=f"{name}.iso", url=file_server.url(f"/{name}.iso"), public=True)
        session.add(bad)
        session.commit()
        return bad

    return make


def test_consecutive_failed_mounts_restore_loaded_iso(
    post_drive_action, get_drive_fields, node, instance, iso, create_missing_iso, run_tasks
):
    """ISO-12: not an ISO that never was in the drive."""
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    for name in ("one", "two", "three"):
        post_drive_action("mount", iso_id=create_missing_iso(name).id)
    run_tasks()
    assert get_drive_fields()[:2] == [iso.id, iso.url]
    assert get_loaded_media(node, instance)[0] == session.query(MediaDownload).filter_by(iso_id=iso.id).one().volume
    post_drive_action("unmount")
    post_drive_action("mount", iso_id=create_missing_iso("four").id)
    run_tasks()
    assert get_drive_fields()[:2] == [iso.id, iso.url], "the later mount replaced the unmount"
    assert get_loaded_media(node, instance)[0]


def test_failed_mount_restores_iso_mounted_meanwhile(
    post_drive_action, get_drive_fields, node, instance, iso, create_missing_iso, run_tasks, fault_at
):
    """ISO-12: a failed mount restores the ISO whose mount completed after the failed one was requested."""
    bad, mount_answers = create_missing_iso("bad"), []
    with fault_at(
        "set_media", then=lambda: mount_answers or mount_answers.append(post_drive_action("mount", iso_id=bad.id))
    ):
        post_drive_action("mount", iso_id=iso.id)
        run_tasks()
    assert session.get(Task, mount_answers[0].json["task_id"]).status == "failed"
    assert get_loaded_media(node, instance)[0]
    assert get_drive_fields()[:2] == [iso.id, iso.url]


def test_failed_mount_does_not_restore_deleted_iso(
    api_as, post_drive_action, get_drive_fields, cast, node, instance, iso, create_missing_iso, run_tasks
):
    post_drive_action("mount", iso_id=iso.id)
    run_tasks()
    answer = post_drive_action("mount", iso_id=create_missing_iso("bad").id)
    assert api_as("admin", "DELETE", f"/api/v1/iso/{iso.id}").status_code == 200
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    assert get_drive_fields() == EMPTY_DRIVES
