"""Files of a backup through the API: opening, folders, downloads, limits and the end."""

import io
import tarfile
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock, context
from panel.core.db import session
from panel.models import AuditEntry, BackupFileRequest, BackupFileSession, InstanceBackup, Task
from panel.services import backup_files
from panel.services.backup_files import downloads, requests, sessions
from tests.support.team import add_member  # noqa: F401  (fixture)
from worker.nodes.base import NotOnNode
from worker.tasks import backup_files as tasks

ROOT = "/disk-1-partition-1"


@pytest.fixture
def fetch(api_as, opened):
    """Return a function that requests a list or a download: `fetch("/etc", "/download")`."""

    def request(place, operation="", caller="owner", **query):
        return api_as(caller, "GET", f"{opened}{operation}", query_string={"filepath": f"{ROOT}{place}", **query})

    return request


def find_session():
    return session.scalar(select(BackupFileSession).execution_options(populate_existing=True))


def list_helper_disks(node):
    return [row["name"] for row in node.state.rows("SELECT name FROM disks WHERE name LIKE 'files-%'")]


def get_download_folder():
    return context.current().config.data_dir / backup_files.FOLDER


def test_files_are_listed(api_as, opened, fetch):
    volumes = api_as("owner", "GET", f"{opened}/session").json["session"]["volumes"]
    assert volumes == [{"name": "disk-1-partition-1", "kind": "ext4", "label": "root", "size": 2**30, "error": None}]
    answer = api_as("owner", "GET", opened)
    assert (answer.status_code, answer.json["next"]) == (200, None)
    assert [(row["filepath"], row["type"]) for row in answer.json["files"]] == [(ROOT, "d")]
    [row] = fetch("").json["files"]
    assert (row["filepath"], row["type"]) == (f"{ROOT}/etc", "d")
    [row] = fetch("/etc").json["files"]
    assert (row["filepath"], row["type"], row["size"]) == (f"{ROOT}/etc/hosts", "f", 20)


def test_file_and_folder_are_downloaded(fetch, opened):
    answer = fetch("/etc/hosts", "/download")
    assert (answer.status_code, answer.data) == (200, b"127.0.0.1 localhost\n")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''hosts"
    assert (answer.mimetype, answer.headers["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    answer = fetch("/etc", "/download")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''etc.tar"
    with tarfile.open(fileobj=io.BytesIO(answer.data)) as archive:
        assert archive.getnames() == ["etc", "etc/hosts"]
    entries = select(AuditEntry.object_name).where(AuditEntry.action == "user.instance.download_backup_file")
    assert session.scalars(entries).all() == ["disk-1-partition-1/etc/hosts", "disk-1-partition-1/etc"]


@pytest.mark.parametrize(
    ("place", "status", "reason"),
    [("/missing", 404, "not_found"), ("/etc/hosts", 422, "not_a_folder"), ("/../..", 404, "not_found")],
)
def test_wrong_folder_is_refused(fetch, place, status, reason):
    answer = fetch(place)
    assert (answer.status_code, answer.json["reason"]) == (status, reason)


def test_links_are_shown_and_not_followed(fetch, tree):
    (tree / "etc/link").symlink_to("/etc/passwd")
    rows = {row["filepath"].rpartition("/")[2]: row for row in fetch("/etc").json["files"]}
    assert (rows["link"]["kind"], rows["link"]["type"], rows["link"]["target"]) == ("link", "f", "/etc/passwd")
    answer = fetch("/etc/link", "/download")
    assert (answer.status_code, answer.json["reason"]) == (422, "is_a_link")


def test_large_folder_has_parts(fetch, tree):
    for number in range(600):
        (tree / "etc" / f"{number:04}").touch()
    answer = fetch("/etc").json
    assert (len(answer["files"]), answer["next"]) == (500, "0499")
    remaining = fetch("/etc", after=answer["next"]).json
    assert (len(remaining["files"]), remaining["next"]) == (101, None)


def test_too_large_download_is_refused(fetch, tree, monkeypatch):
    (tree / "large").write_bytes(bytes(1000))
    monkeypatch.setattr(backup_files, "MAX_DOWNLOAD_BYTES", 999)
    answer = fetch("/large", "/download")
    assert (answer.status_code, answer.json["reason"]) == (422, "too_large")
    assert list(get_download_folder().glob("*/*")) == []
    monkeypatch.setattr(downloads, "MAX_SESSION_BYTES", 20)
    assert fetch("/etc/hosts", "/download").status_code == 200
    answer = fetch("/etc", "/download")
    assert (answer.status_code, answer.json["reason"]) == (409, "download_limit_reached")


def test_closing_removes_everything(api_as, opened, fetch, node, run_tasks):
    fetch("/etc/hosts", "/download")
    row = find_session()
    assert len(list_helper_disks(node)) == 2
    assert node.power(row.id)
    assert len(list(get_download_folder().glob("*/*"))) == 1
    assert api_as("owner", "DELETE", f"{opened}/session").status_code == 200
    assert fetch("").json["reason"] == "files_not_open"
    run_tasks()
    assert list_helper_disks(node) == []
    with pytest.raises(NotOnNode):
        node.power(row.id)
    assert session.query(BackupFileSession).count() == session.query(BackupFileRequest).count() == 0
    assert list(get_download_folder().iterdir()) == []
    assert api_as("owner", "GET", f"{opened}/session").json["reason"] == "files_not_open"
    assert api_as("owner", "DELETE", f"{opened}/session").status_code == 200


@pytest.mark.parametrize("case", ["idle", "deleted", "suspended", "transferred"])
def test_session_ends_by_itself(opened, machine, cast, run_tasks, case):
    row, backup = find_session(), session.query(InstanceBackup).one()
    if case == "idle":
        row.expires_at = clock.now() - timedelta(seconds=1)
    elif case == "deleted":
        backup.delete_claimed_at = clock.now()
    elif case == "suspended":
        machine.suspended_reason = "admin"
    else:
        machine.account_id = cast.outsider.id
    session.commit()
    tasks.close_due()
    run_tasks()
    assert find_session() is None


def test_use_postpones_end_up_to_limit(opened, fetch):
    row = find_session()
    row.expires_at = clock.now() + timedelta(seconds=5)
    session.commit()
    fetch("")
    assert find_session().expires_at > clock.now() + timedelta(minutes=29)
    row.ends_at = clock.now() + timedelta(minutes=1)
    session.commit()
    fetch("")
    assert find_session().expires_at == row.ends_at
    tasks.close_due()
    assert find_session().state == "ready"


def test_opening_twice_makes_one_machine(api_as, opened):
    answer = api_as("owner", "POST", f"{opened}/session")
    assert (answer.status_code, answer.json["session"]["state"]) == (200, "ready")
    assert session.query(Task).filter_by(kind="backup_files_open").count() == 1


def refuse(api_as, files_path):
    answer = api_as("owner", "POST", f"{files_path}/session")
    assert session.query(BackupFileSession).count() == 0
    return answer.status_code, answer.json["reason"]


def test_opening_is_refused(api_as, files_path, machine, monkeypatch):
    backup = session.query(InstanceBackup).one()
    cases = [
        (sessions, "UNSUPPORTED_DRIVERS", ("simulated",), (422, "not_supported")),
        (sessions, "MAX_COPIED_GIB", 0, (422, "backup_too_large")),
        (sessions, "MIN_FREE_GIB", 10**9, (422, "storage_not_sufficient")),
        (sessions, "MAX_SESSIONS_PER_ACCOUNT", 0, (409, "session_limit_reached")),
        (sessions, "MAX_SESSIONS_PER_HYPERVISOR", 0, (409, "session_limit_reached")),
        (backup, "status", "creating", (422, "backup_not_complete")),
        (backup, "missing_confirmed_at", clock.now(), (404, "backup_not_found")),
        (backup, "delete_claimed_at", clock.now(), (409, "backup_being_deleted")),
        (machine, "suspended_reason", "admin", (409, "suspended")),
        (machine.hypervisor, "status", "down", (503, "hypervisor_unreachable")),
    ]
    for target, name, value, expected in cases:
        before = getattr(target, name)
        setattr(target, name, value)
        session.commit()
        assert refuse(api_as, files_path) == expected, name
        setattr(target, name, before)
        session.commit()


def test_files_cannot_be_opened_without_the_image(api_as, browser_as, backup, files_path):
    """The page says so before anything is requested."""
    (context.current().config.data_dir / sessions.IMAGE_DESCRIPTION_FILE).unlink()
    assert refuse(api_as, files_path) == (409, "image_not_available")
    assert "The operator has to add an image" in browser_as("owner").get(f"/backups/{backup['id']}/files").text


def test_missing_image_is_explained(api_as, files_path, run_tasks, monkeypatch):
    monkeypatch.setattr(tasks.helper_image, "read_description", lambda data_dir: None)
    api_as("owner", "POST", f"{files_path}/session")
    run_tasks()
    row = api_as("owner", "GET", f"{files_path}/session").json["session"]
    assert row["state"] == "failed"
    assert "The operator has to add an image" in row["error"]
    assert (
        "panel image build backup-files" in session.query(Task).filter_by(kind="backup_files_open").one().error_detail
    )


def test_list_before_opening_is_refused(api_as, files_path):
    for path in (files_path, f"{files_path}/download?filepath=/x"):
        answer = api_as("owner", "GET", path)
        assert (answer.status_code, answer.json["reason"]) == (409, "files_not_open")
    api_as("owner", "POST", f"{files_path}/session")
    answer = api_as("owner", "GET", files_path)
    assert (answer.status_code, answer.json["reason"]) == (409, "files_not_ready")


def test_others_do_not_see_files(api_as, opened, fetch):
    for caller in ("outsider", "viewer"):
        expected = {"outsider": 404, "viewer": 403}[caller]
        for method, operation in (("GET", ""), ("GET", "/session"), ("POST", "/session"), ("DELETE", "/session")):
            assert api_as(caller, method, f"{opened}{operation}").status_code == expected, (caller, method, operation)
        assert fetch("/etc/hosts", "/download", caller).status_code == expected


def test_oldest_lists_are_forgotten(fetch, monkeypatch):
    monkeypatch.setattr(requests, "MAX_LISTS", 2)
    for place in ("", "/etc", "/missing", ""):
        fetch(place)
    assert {row.path for row in session.query(BackupFileRequest)} == {
        "disk-1-partition-1",
        "disk-1-partition-1/missing",
    }


def test_limited_member_reaches_files_of_own_instances_only(
    api_as, browser_as, add_member, cast, opened, fetch, machine
):
    """A member with other instances, one without the permission to restore, and one with both."""
    other = cast.instance(display_name="Payroll")
    add_member("elsewhere", ["instances.view", "instances.restore"], "chosen", grants=[other])
    add_member("looker", ["instances.view", "instances.backups", "instances.console"], "chosen", grants=[machine])
    add_member("restorer", ["instances.view", "instances.restore"], "chosen", grants=[machine])
    page = f"/backups/{opened.split('/')[-2]}/files"
    for caller, status in (("elsewhere", 404), ("looker", 403), ("restorer", 200)):
        assert fetch("/etc", caller=caller).status_code == status, caller
        assert fetch("/etc/hosts", "/download", caller).status_code == status, caller
        assert browser_as(caller).get(page).status_code == status, caller
    [download] = session.query(BackupFileRequest).filter_by(kind="download")
    assert browser_as("elsewhere").get(f"{page}/downloads/{download.id}").status_code == 404
    assert browser_as("looker").get(f"{page}/downloads/{download.id}").status_code == 403
    assert browser_as("restorer").get(f"{page}/downloads/{download.id}").data == b"127.0.0.1 localhost\n"
