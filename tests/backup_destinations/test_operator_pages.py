"""Operators' pages of backup destinations."""

import shutil

import pytest
from markupsafe import escape

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository, InstanceBackup
from panel.pages.admin.destination_kinds import DESTINATION_KINDS, get_kind
from panel.schemas.backup_destinations import BACKUP_STORAGE_TYPES
from panel.services import backup_destinations
from panel.services.backup_destination_settings import OPTIONAL_SETTINGS, REQUIRED_SETTINGS, UNUSED_SETTINGS
from tests.support.backups import inline_workers  # noqa: F401  (fixture)
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS, find_attention_items

LIST_PATH = "/admin/backup-destinations"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "stored-here"


@pytest.fixture
def browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def fill_in(folder):
    """Return a function that returns the fields of the form."""

    def fill(**changes):
        fields = {"name": "backups-1", "storage_type": "local", "path": str(folder), "bandwidth_limit": "50"}
        return fields | {"enabled": "true", "hypervisor_ids": ""} | changes

    return fill


@pytest.fixture
def destination(browser, fill_in, run_tasks):
    """A destination that was added by the form and checked."""
    answer = browser.post(f"{LIST_PATH}/new", data=fill_in())
    assert answer.status_code == 303, answer.text
    run_tasks()
    return session.query(BackupDestination).one()


@pytest.fixture
def page(browser, destination):
    """Return a function that loads the destination's page."""
    return lambda: browser.get(f"{LIST_PATH}/{destination.id}").text


@pytest.fixture
def add_backup(destination, cast):
    """Return a function that adds a backup of an account to the destination."""

    def add(account, size):
        repository = session.query(BackupRepository).filter_by(account_id=account.id).one_or_none()
        repository = repository or BackupRepository(destination=destination, account_id=account.id, key="key")
        names = {"name": "nightly", "recorded_name": "Shop", "recorded_hostname": "shop", "backup_type": "full"}
        backup = InstanceBackup(account_id=account.id, instance_id=UNKNOWN_ID, size=size, **names)
        backup.repository, backup.destination = repository, destination
        session.add(backup)
        session.commit()
        return backup

    return add


def test_destination_is_added_and_shown(browser, destination, page, folder, cast):
    assert "No matching" not in browser.get(LIST_PATH).text
    assert (destination.config, destination.bandwidth_limit, destination.enabled) == ({"path": str(folder)}, 50, True)
    for text in (browser.get(LIST_PATH).text, page()):
        assert "backups-1" in text
        assert "Available" in text
        assert "All hypervisors" in text
        assert " free" in text
    assert "Reach the storage" in page()
    assert "Write, read and delete an object" in page()
    assert "50 MiB/s" in page()


def test_settings_are_never_shown(browser, destination, page, folder, fill_in):
    addresses = [LIST_PATH, f"{LIST_PATH}/{destination.id}", f"{LIST_PATH}/{destination.id}/edit", "/admin/audit"]
    for address in addresses:
        assert str(folder) not in browser.get(address).text, address
    refused = browser.post(f"{LIST_PATH}/{destination.id}/edit", data=fill_in(bandwidth_limit="-1", path=""))
    assert refused.status_code == 422
    assert str(folder) not in refused.text


def test_edit_keeps_the_settings_that_are_left_empty(browser, destination, fill_in, folder, run_tasks, tmp_path, cast):
    path = f"{LIST_PATH}/{destination.id}/edit"
    form = browser.get(path).text
    assert 'name="storage_type"' not in form
    assert 'name="path" required' not in form
    changes = {"name": "second", "path": "", "enabled": "false", "hypervisor_ids": ["", cast.node.id]}
    assert browser.post(path, data=fill_in(**changes)).status_code == 303
    session.refresh(destination)
    assert (destination.name, destination.config, destination.enabled) == ("second", {"path": str(folder)}, False)
    assert (destination.hypervisor_ids, destination.status) == ([cast.node.id], "available")
    assert browser.post(path, data=fill_in(path=str(tmp_path / "other"))).status_code == 303
    session.refresh(destination)
    assert (destination.config, destination.all_hypervisors) == ({"path": str(tmp_path / "other")}, True)
    assert destination.status == "unknown", "it is checked again"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": ""}, "This field is required."),
        ({"path": ""}, "This field is required."),
        ({"path": "relative"}, "must"),
        ({"bandwidth_limit": "-1"}, "Enter a number from 0 to 100000."),
        ({"hypervisor_ids": UNKNOWN_ID}, "No such hypervisor."),
    ],
)
def test_wrong_fields_are_refused_by_name(browser, fill_in, changes, text):
    answer = browser.post(f"{LIST_PATH}/new", data=fill_in(**changes))
    assert answer.status_code == 422
    [name] = changes
    assert f'id="wrong-{name}"' in answer.text
    assert text.lower() in answer.text.lower()
    assert session.query(BackupDestination).count() == 0


def test_unknown_kind_is_refused(browser, fill_in):
    answer = browser.post(f"{LIST_PATH}/new", data=fill_in(storage_type="tape"))
    assert answer.status_code == 422
    assert 'id="wrong-storage_type"' in answer.text


def test_form_has_the_settings_of_each_kind(browser):
    assert tuple(DESTINATION_KINDS) == BACKUP_STORAGE_TYPES
    for name, kind in DESTINATION_KINDS.items():
        required = REQUIRED_SETTINGS[name]
        assert {field.name for field in kind.fields} == {*required, *OPTIONAL_SETTINGS[name]} - {*UNUSED_SETTINGS}
        form = browser.get(f"{LIST_PATH}/new?storage_type={name}&name=same", headers=PARTIAL_HEADERS).text
        assert 'value="same"' in form
        assert 'hx-include="#form [name=storage_type], ' in form, "a change of the kind sends it"
        for field in kind.fields:
            assert f'name="{field.name}"{" required" if field.name in required else ""}' in form


def test_destination_of_a_kind_without_form_can_be_edited(browser, destination, fill_in):
    destination.storage_type = "tape"
    session.commit()
    path = f"{LIST_PATH}/{destination.id}"
    assert "tape" in browser.get(path).text
    assert browser.get(f"{path}/edit").status_code == 200
    assert browser.post(f"{path}/edit", data=fill_in(name="renamed")).status_code == 303
    assert "renamed" in browser.get(LIST_PATH).text


def test_test_shows_each_step(browser, destination, page, folder, inline_workers):
    path = f"{LIST_PATH}/{destination.id}"
    browser.post(f"{path}/test")
    assert "backups-1 is available." in page()
    shutil.rmtree(folder)
    folder.touch()
    answer = browser.post(f"{path}/test", headers=PARTIAL_HEADERS)
    assert "backups-1 is not available: The directory cannot be used" in answer.text
    text = page()
    assert "Backups cannot be stored or restored" in text
    assert "Unavailable" in text
    assert "Write, read and delete" not in text
    assert escape(destination.status_detail) in text
    assert "Backup destination backups-1 is unavailable" in find_attention_items(browser.get("/admin").text)


def test_destination_is_disabled_and_enabled(browser, destination, page):
    path = f"{LIST_PATH}/{destination.id}"
    browser.post(f"{path}/disable")
    assert "Disabled" in page()
    assert (session.get(BackupDestination, destination.id).enabled, browser.get(LIST_PATH).status_code) == (False, 200)
    browser.post(f"{path}/enable")
    assert session.get(BackupDestination, destination.id).enabled


def test_contents_are_counted(browser, page, destination, add_backup, cast):
    add_backup(cast.owner, 1024)
    add_backup(cast.owner, 1024)
    add_backup(cast.outsider, 2048)
    assert backup_destinations.count_contents([destination.id])[destination.id] == (2, 3, 4096, 0)
    text = page()
    assert "3 backups" in text
    assert "2 accounts" in text
    assert "4 KiB" in text
    assert f"/admin/backups?backup_storage_id={destination.id}" in text


def test_destination_is_removed_when_its_backups_are_deleted(browser, page, destination, add_backup, cast, folder):
    backup, path = add_backup(cast.owner, 1), f"{LIST_PATH}/{destination.id}/delete"
    assert "1 backup is stored here. Delete it first." in page()
    answer = browser.post(path, headers=PARTIAL_HEADERS)
    assert "Backups are stored there. Delete them first." in answer.text
    session.delete(backup)
    session.commit()
    assert "The files in its storage stay" in page()
    assert browser.post(path).status_code == 303
    assert session.query(BackupRepository).count() == session.query(BackupDestination).count() == 0
    assert folder.exists()
    text = browser.get(LIST_PATH).text
    assert "Destination backups-1 removed from the panel." in text
    assert "No backup destinations yet" in text


def test_list_takes_constant_number_of_queries(browser, destination, add_backup, cast, queries):
    def count():
        queries.clear()
        browser.get(LIST_PATH)
        return len(queries)

    add_backup(cast.owner, 1)
    before = count()
    for number in range(3):
        values = {"storage_type": "local", "config": {"path": "/nowhere"}, "hypervisor_ids": [cast.node.id]}
        backup_destinations.create(name=f"n{number}", **values)
    session.commit()
    assert count() == before


def test_pages_need_permission(browser_as, destination):
    path = f"{LIST_PATH}/{destination.id}"
    assert browser_as("owner").get(LIST_PATH).status_code in (303, 403, 404)
    assert browser_as("owner").post(f"{path}/delete").status_code in (303, 403, 404)
    assert session.query(BackupDestination).count() == 1


BUCKET = {"storage_type": "s3", "endpoint": "https://s3.example.com", "bucket": "panel-backups", "path_style": ""}
BUCKET |= {"access_key": "BACKUPS7EXAMPLE", "secret_key": "wJalrXUtnFEMI7EXAMPLEKEY"}


@pytest.fixture
def bucket(browser, fill_in):
    """A destination in a bucket that was added by the form."""
    assert browser.post(f"{LIST_PATH}/new", data=fill_in(**BUCKET)).status_code == 303
    return session.query(BackupDestination).one()


def test_bucket_is_added_and_its_keys_are_not_shown(browser, bucket):
    names = ("endpoint", "bucket", "access_key", "secret_key")
    assert bucket.config == {name: BUCKET[name] for name in names}
    assert "S3 bucket" in browser.get(LIST_PATH).text
    refused = browser.post(f"{LIST_PATH}/new", data=BUCKET | {"name": ""})
    assert refused.status_code == 422
    assert BUCKET["secret_key"] not in refused.text
    for address in (LIST_PATH, f"{LIST_PATH}/{bucket.id}", f"{LIST_PATH}/{bucket.id}/edit", "/admin/audit"):
        text = browser.get(address).text
        assert [name for name in names if BUCKET[name] in text] == [], address


@pytest.mark.parametrize("name", ["endpoint", "bucket", "access_key", "secret_key"])
def test_bucket_needs_its_settings(browser, fill_in, name):
    answer = browser.post(f"{LIST_PATH}/new", data=fill_in(**BUCKET | {name: ""}))
    assert answer.status_code == 422
    assert f'id="wrong-{name}">This field is required.' in answer.text


def test_new_access_key_of_a_bucket_needs_its_secret(browser, bucket, fill_in):
    path, unchanged = f"{LIST_PATH}/{bucket.id}/edit", dict.fromkeys(BUCKET, "")
    answer = browser.post(path, data=fill_in(**unchanged | {"access_key": "ANOTHER7EXAMPLE"}))
    assert (answer.status_code, 'id="wrong-secret_key"' in answer.text) == (422, True)
    assert browser.post(path, data=fill_in(**unchanged | {"name": "second", "path_style": "false"})).status_code == 303
    session.refresh(bucket)
    assert (bucket.name, bucket.config["path_style"], bucket.config["secret_key"]) == (
        "second",
        False,
        BUCKET["secret_key"],
    )


def test_remote_of_rclone_is_added(browser, fill_in):
    assert browser.post(f"{LIST_PATH}/new", data=fill_in(storage_type="rclone", remote="offsite")).status_code == 303
    assert session.query(BackupDestination).one().config == {"remote": "offsite"}
    refused = browser.post(f"{LIST_PATH}/new", data=fill_in(storage_type="rclone", remote="", name="second"))
    assert 'id="wrong-remote">This field is required.' in refused.text


@pytest.mark.parametrize("kind", [{"storage_type": "rclone", "remote": "offsite"}, BUCKET])
def test_optional_setting_is_removed(browser, fill_in, kind):
    assert browser.post(f"{LIST_PATH}/new", data=fill_in(**kind, path_prefix="backups")).status_code == 303
    destination = session.query(BackupDestination).one()
    path, unchanged = f"{LIST_PATH}/{destination.id}/edit", dict.fromkeys(kind, "")
    assert 'name="clear_path_prefix"' in browser.get(path).text
    for is_cleared, prefix in (("false", "backups"), ("true", "")):
        assert browser.post(path, data=fill_in(**unchanged, clear_path_prefix=is_cleared)).status_code == 303
        session.refresh(destination)
        assert destination.config["path_prefix"] == prefix


def test_namespace_of_a_backup_server_can_be_removed():
    assert [field.name for field in get_kind("rbs").fields if field.is_clearable] == ["namespace"]
