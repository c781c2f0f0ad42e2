"""Mounting ISOs in instances and ejecting them."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Iso, MediaDownload, Task
from panel.services import isos
from tests.worker.conftest import fault_at  # noqa: F401  (fixture)

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
DRIVE_FIELDS = ("iso_id", "iso_url", "secondary_iso_id", "secondary_iso_url")
EMPTY_DRIVES = [None] * 4


@pytest.fixture
def instance(api_as, cast, run_tasks):
    """The owner's, running."""
    made = cast.instance()
    api_as("owner", "POST", f"/api/instance/{made.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    return session.get(Instance, made.id)


@pytest.fixture
def iso(cast, file_server, run_tasks):
    """One of the platform's that the node has."""
    made = isos.create(url=file_server.put(), actor="test")
    session.commit()
    run_tasks()
    return made


@pytest.fixture
def drive(api_as, instance):
    """Does something with a drive: `drive("mount", iso_id=…)`."""

    def act(verb, slot="primary", who="owner", **body):
        base = "/api/v1" if who == "admin" else "/api"
        return api_as(who, "POST", f"{base}/instance/{instance.id}/iso/{slot}/{verb}", json=body)

    return act


@pytest.fixture
def shown_drives(api_as, instance):
    def fields():
        item = api_as("owner", "GET", f"/api/instance/{instance.id}").json
        return [item[name] for name in DRIVE_FIELDS]

    return fields


def loaded_media(node, instance):
    return [node.loaded_media(instance.id, slot) for slot in ("primary", "secondary")]


def test_a_mount_is_seen_by_the_running_guest_and_an_unmount_too(drive, shown_drives, node, instance, iso, run_tasks):
    """INS-15, INS-16, ISO-09, ISO-10, ISO-11, ISO-13"""
    assert shown_drives() == EMPTY_DRIVES
    answer = drive("mount", iso_id=iso.id)
    assert answer.status_code == 200
    task = session.get(Task, answer.json["task_id"])
    assert (task.kind, task.resource_id) == ("iso_mount", instance.id)
    run_tasks()
    volume = session.query(MediaDownload).one().volume
    assert loaded_media(node, instance) == [volume, None]
    assert shown_drives() == [iso.id, iso.url, None, None]
    drive("mount", "secondary", iso_id=iso.id)
    run_tasks()
    assert loaded_media(node, instance) == [volume, volume]
    assert shown_drives() == [iso.id, iso.url] * 2
    answer = drive("unmount")
    assert answer.json["task_id"]
    assert shown_drives() == [None, None, iso.id, iso.url], "cleared before the task has ended"
    run_tasks()
    assert loaded_media(node, instance) == [None, volume]
    answer = drive("unmount")
    assert (answer.status_code, "task_id" in answer.json) == (200, False)


@pytest.mark.parametrize(("put_in", "take_out"), [("mount", "unmount"), ("insert", "eject")])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_both_words_and_both_apis(drive, node, instance, iso, run_tasks, who, put_in, take_out):
    """ISO-14, ISO-15"""
    for verb, empty in ((put_in, False), (take_out, True)):
        answer = drive(verb, who=who, **({} if empty else {"iso_id": iso.id}))
        assert answer.status_code == 200
        assert (answer.json["data"] if who == "admin" else answer.json)["task_id"]
        run_tasks()
        assert (loaded_media(node, instance)[0] is None) is empty


def test_another_iso_is_swapped_in(drive, node, instance, iso, file_server, run_tasks):
    other = isos.create(url=file_server.put("/other.iso"), actor="test")
    session.commit()
    drive("mount", iso_id=iso.id)
    drive("mount", iso_id=other.id)
    run_tasks()
    assert loaded_media(node, instance)[0] == session.query(MediaDownload).filter_by(iso_id=other.id).one().volume


def test_it_is_kept_for_the_next_start(api_as, drive, node, instance, iso, run_tasks):
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/poweroff")
    run_tasks()
    drive("mount", iso_id=iso.id)
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/start")
    run_tasks()
    assert loaded_media(node, instance)[0] == session.query(MediaDownload).one().volume


def test_a_drive_is_filled_before_the_system_is_installed(api_as, cast, node, iso, run_tasks):
    fresh = cast.instance()
    answer = api_as("owner", "POST", f"/api/instance/{fresh.id}/iso/primary/mount", json={"iso_id": iso.id})
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "completed"
    api_as("owner", "POST", f"/api/instance/{fresh.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert node.loaded_media(fresh.id, "primary")


def test_a_node_that_lacks_the_file_fetches_it_first(drive, cast, node, instance, file_server, run_tasks):
    """The mount's own task downloads; no other address is asked twice."""
    own = Iso(account_id=cast.owner.id, name="own", filename="own.iso", url=file_server.put("/own.iso"))
    session.add(own)
    session.commit()
    answer = drive("mount", iso_id=own.id)
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "completed"
    assert file_server.asked == ["/own.iso"]
    assert loaded_media(node, instance)[0] == session.query(MediaDownload).one().volume


def test_a_file_that_the_node_lost_is_fetched_again(drive, node, instance, iso, file_server, run_tasks):
    node.delete_disk("default", session.query(MediaDownload).one().volume)
    drive("mount", iso_id=iso.id)
    run_tasks()
    assert len(file_server.asked) == 2
    assert loaded_media(node, instance)[0] == session.query(MediaDownload).one().volume


def test_a_mount_by_address(drive, shown_drives, cast, file_server, run_tasks):
    """What public clients send."""
    url = file_server.put("/mine.iso")
    assert drive("insert", iso_url=url, custom_iso=1).status_code == 200
    run_tasks()
    own = session.query(Iso).one()
    assert (own.account_id, own.public, own.url) == (cast.owner.id, False, url)
    assert shown_drives()[:2] == [own.id, url]
    drive("insert", "secondary", iso_url=url, custom_iso=1)
    assert session.query(Iso).count() == 1, "known by now"
    answer = drive("insert", iso_url="https://10.0.0.1/x.iso", custom_iso=1)
    assert answer.status_code == 422


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_what_cannot_be_mounted_is_refused(drive, shown_drives, cast, file_server, iso, who):
    """ISO-17"""
    foreign = isos.create(cast.outsider, url=file_server.url("/foreign.iso"), actor="test")
    off = Iso(name="off", filename="off.iso", url=file_server.url("/off.iso"), public=True, enabled=False)
    session.add(off)
    session.commit()
    bodies = [{}, {"iso_id": None}, {"iso_id": UNKNOWN_ID}, {"iso_id": 1}]
    if who == "owner":
        bodies += [{"iso_id": foreign.id}, {"iso_id": off.id}]
    for body in bodies:
        answer = drive("mount", who=who, **body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"iso_id"}), body
    assert shown_drives() == EMPTY_DRIVES
    assert drive("mount", "tertiary", who, iso_id=iso.id).status_code == 404
    assert drive("swallow", "primary", who, iso_id=iso.id).status_code == 404


def test_foreign_instances_are_not_there(api_as, instance, iso):
    for path, body in (("mount", {"iso_id": iso.id}), ("unmount", {}), ("insert", {"iso_id": iso.id}), ("eject", {})):
        answer = api_as("outsider", "POST", f"/api/instance/{instance.id}/iso/primary/{path}", json=body)
        assert answer.status_code == 404


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_an_old_iso_without_https_is_refused(drive, shown_drives, who):
    """ISO-16"""
    old = Iso(name="old", filename="old.iso", url="http://example.com/old.iso", public=True)
    session.add(old)
    session.commit()
    answer = drive("mount", who=who, iso_id=old.id)
    assert answer.status_code == 422
    if who == "owner":
        assert answer.json["reason"] == "iso_url_not_https"
    assert shown_drives() == EMPTY_DRIVES


@pytest.mark.parametrize("marked_down", [True, False])
def test_an_eject_that_cannot_be_dispatched_changes_nothing(
    drive, shown_drives, instance, iso, run_tasks, short_deadline_node, marked_down
):
    """ISO-12, ERR-10, E3: also before the node is marked as down."""
    drive("mount", iso_id=iso.id)
    run_tasks()
    if marked_down:
        session.get(Hypervisor, instance.hypervisor_id).status = "down"
        session.commit()
    else:
        short_deadline_node.fault("*", "silent")
    before = session.query(Task).count()
    for verb, body in (("unmount", {}), ("mount", {"iso_id": iso.id})):
        answer = drive(verb, **body)
        assert (answer.status_code, answer.json["reason"]) == (503, "hypervisor_unreachable")
    assert shown_drives()[:2] == [iso.id, iso.url]
    assert session.query(Task).count() == before


@pytest.mark.parametrize("kind", ["refuse", "silent"])
def test_the_row_tells_what_is_in_the_drive_when_the_node_says_no(
    drive, shown_drives, node, instance, iso, run_tasks, kind
):
    """ISO-12"""
    node.fault("set_media", kind, count=1)
    drive("mount", iso_id=iso.id)
    run_tasks()
    assert shown_drives() == EMPTY_DRIVES
    drive("mount", iso_id=iso.id)
    run_tasks()
    node.fault("set_media", kind, count=1)
    answer = drive("unmount")
    assert shown_drives() == EMPTY_DRIVES
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    assert shown_drives()[:2] == [iso.id, iso.url]
    assert loaded_media(node, instance)[0]


def test_a_mount_whose_download_fails_puts_back_what_was_there(
    drive, shown_drives, instance, iso, file_server, run_tasks
):
    drive("mount", iso_id=iso.id)
    run_tasks()
    bad = Iso(name="bad", filename="bad.iso", url=file_server.url("/bad.iso"), public=True)
    session.add(bad)
    session.commit()
    answer = drive("mount", iso_id=bad.id)
    run_tasks()
    assert "404" in session.get(Task, answer.json["task_id"]).error
    assert shown_drives()[:2] == [iso.id, iso.url]
    assert "404" in session.get(Iso, bad.id).download_error


def test_states_in_which_drives_are_shut(drive, instance, iso):
    instance.suspended_reason = "admin"
    session.commit()
    answer = drive("mount", iso_id=iso.id)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert drive("mount", who="admin", iso_id=iso.id).status_code == 200
    instance.suspended_reason, instance.migrating = None, True
    session.commit()
    for who in ("owner", "admin"):
        assert drive("mount", who=who, iso_id=iso.id).status_code == 409


def test_what_lies_in_a_drive_is_not_removed(api_as, drive, iso, run_tasks):
    drive("mount", iso_id=iso.id)
    answer = api_as("admin", "DELETE", f"/api/v1/iso/{iso.id}")
    assert answer.status_code == 409
    run_tasks()
    drive("unmount")
    run_tasks()
    assert api_as("admin", "DELETE", f"/api/v1/iso/{iso.id}").status_code == 200


def test_a_destroyed_instance_leaves_the_library_alone(api_as, drive, node, instance, iso, run_tasks):
    drive("mount", iso_id=iso.id)
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    run_tasks()
    assert session.query(MediaDownload).one().volume in [disk.name for disk in node.disks("default")]


@pytest.fixture
def missing_isos(file_server):
    """ISOs whose address has nothing."""

    def make(name):
        bad = Iso(name=name, filename=f"{name}.iso", url=file_server.url(f"/{name}.iso"), public=True)
        session.add(bad)
        session.commit()
        return bad

    return make


def test_several_that_fail_put_back_what_the_drive_holds(
    drive, shown_drives, node, instance, iso, missing_isos, run_tasks
):
    """ISO-12: and not one that never was in it."""
    drive("mount", iso_id=iso.id)
    run_tasks()
    for name in ("one", "two", "three"):
        drive("mount", iso_id=missing_isos(name).id)
    run_tasks()
    assert shown_drives()[:2] == [iso.id, iso.url]
    assert loaded_media(node, instance)[0] == session.query(MediaDownload).filter_by(iso_id=iso.id).one().volume
    drive("unmount")
    drive("mount", iso_id=missing_isos("four").id)
    run_tasks()
    assert shown_drives()[:2] == [iso.id, iso.url], "the unmount was taken over by what came after it"
    assert loaded_media(node, instance)[0]


def test_what_was_carried_out_meanwhile_counts(
    drive, shown_drives, node, instance, iso, missing_isos, run_tasks, fault_at
):
    """ISO-12: a mount that came true after the next one was asked for is what a failure of that one goes back to."""
    bad, asked = missing_isos("bad"), []
    with fault_at("set_media", then=lambda: asked or asked.append(drive("mount", iso_id=bad.id))):
        drive("mount", iso_id=iso.id)
        run_tasks()
    assert session.get(Task, asked[0].json["task_id"]).status == "failed"
    assert loaded_media(node, instance)[0]
    assert shown_drives()[:2] == [iso.id, iso.url]


def test_an_iso_that_was_removed_is_not_put_back(
    api_as, drive, shown_drives, cast, node, instance, iso, missing_isos, run_tasks
):
    drive("mount", iso_id=iso.id)
    run_tasks()
    answer = drive("mount", iso_id=missing_isos("bad").id)
    assert api_as("admin", "DELETE", f"/api/v1/iso/{iso.id}").status_code == 200
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).status == "failed"
    assert shown_drives() == EMPTY_DRIVES
