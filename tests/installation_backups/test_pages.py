"""Operators' pages of backups of the installation."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination, InstallationBackup, InstallationBackupSettings
from tests.installation_backups.routes import PASSPHRASE
from tests.support.cast import UNKNOWN_ID

PATH = "/admin/installation-backups"


@pytest.fixture
def browser(browser_as):
    return browser_as("admin")


def test_backups_are_set_up_made_and_deleted(browser, folder, run_tasks, inline_workers):
    page = browser.get(PATH).text
    assert "The panel is not backed up on a schedule" in page
    assert "Back up now" not in page
    assert "Customers' backups never go there" in browser.get(f"{PATH}/destinations").text
    form = {"name": "offsite", "storage_type": "local", "path": str(folder), "enabled": "true"}
    assert browser.post(f"{PATH}/destinations/new", data=form).status_code == 303
    run_tasks()
    destination = session.query(BackupDestination).one()
    assert (destination.purpose, destination.config) == ("installation", {"path": str(folder)})
    assert "Available" in browser.get(f"{PATH}/destinations").text
    assert "offsite" not in browser.get("/admin/backup-destinations").text

    values = {"enabled": "true", "destination_id": destination.id, "frequency": "weekly", "day": "1", "time": "03:00"}
    answer = browser.post(f"{PATH}/settings", data=values | {"retention_count": "5", "passphrase": ""})
    assert answer.status_code == 422
    assert "Set a passphrase before you turn backups on." in answer.text
    answer = browser.post(f"{PATH}/settings", data=values | {"retention_count": "5", "passphrase": PASSPHRASE})
    assert answer.status_code == 303
    answer = browser.post(f"{PATH}/settings", data=values | {"retention_count": "6", "passphrase": ""})
    assert answer.status_code == 303
    settings = session.get(InstallationBackupSettings, "installation")
    assert (settings.passphrase, settings.retention_count) == (PASSPHRASE, 6), "an empty passphrase stays"
    page = browser.get(f"{PATH}/settings").text
    assert PASSPHRASE not in page
    assert 'value="03:00"' in page

    page = browser.get(PATH).text
    assert "Mondays at 03:00" in page
    assert "No backups yet" in page
    assert browser.post(f"{PATH}/run").status_code == 303
    assert "Queued" in browser.get(PATH).text
    run_tasks()
    page = browser.get(PATH).text
    assert "Complete" in page
    assert "On request" in page
    run = session.query(InstallationBackup).one()
    assert run.archive in page
    assert browser.post(f"{PATH}/{run.id}/delete").status_code == 303
    run_tasks()
    assert "No backups yet" in browser.get(PATH).text


def test_destination_is_edited_tested_and_removed(browser, destination, folder, tmp_path, call, inline_workers):
    path = f"{PATH}/destinations/{destination['id']}"
    page = browser.get(f"{path}/edit").text
    assert str(folder) not in page
    assert browser.post(f"{path}/edit", data={"name": "second", "path": "", "enabled": "true"}).status_code == 303
    row = session.query(BackupDestination).one()
    assert (row.name, row.config) == ("second", {"path": str(folder)})
    answer = browser.post(f"{path}/edit", data={"name": "second", "path": "relative", "enabled": "true"})
    assert answer.status_code == 422
    assert browser.post(f"{path}/test").status_code == 303
    assert "second is available." in browser.get(f"{PATH}/destinations").text
    browser.post(f"{path}/delete")
    assert session.query(BackupDestination).count() == 1, "the settings name it"
    call("PUT", "/api/v1/backups/settings", destination_id=None)
    browser.post(f"{path}/delete")
    assert session.query(BackupDestination).count() == 0


def test_form_offers_kinds_that_store_archives(browser):
    page = browser.get(f"{PATH}/destinations/new").text
    assert 'value="s3"' in page
    assert "Proxmox" not in page
    assert 'name="bucket"' in browser.get(f"{PATH}/destinations/new?storage_type=s3").text
    assert 'name="fingerprint"' not in browser.get(f"{PATH}/destinations/new?storage_type=rbs").text


def test_destination_of_instances_has_no_page_here(browser, call):
    body = {"name": "b", "storage_type": "local", "config": {"path": "/srv/backups"}}
    other = call("POST", "/api/v1/hypervisor/backup-storages", **body)["storage_id"]
    for destination_id in (other, UNKNOWN_ID):
        path = f"{PATH}/destinations/{destination_id}"
        answers = [browser.get(f"{path}/edit"), *(browser.post(f"{path}/{end}") for end in ("edit", "test", "delete"))]
        assert [answer.status_code for answer in answers] == [404] * 4
