"""Operators' pages of a destination on a remote backup server."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination
from tests.support.backups import inline_workers  # noqa: F401  (fixture)
from tests.support.ports import find_free_port
from tests.support.rbs_server import SECRET, rbs_server  # noqa: F401  (fixture)

LIST_PATH = "/admin/backup-destinations"


@pytest.fixture
def browser(browser_as, inline_workers):
    return browser_as("admin")


@pytest.fixture
def fields(rbs_server):
    names = {"name": "pbs-1", "storage_type": "rbs", "bandwidth_limit": "0", "enabled": "true", "hypervisor_ids": ""}
    return names | {name: str(value) for name, value in rbs_server.config.items()}


@pytest.fixture
def destination(browser, fields, run_tasks):
    answer = browser.post(f"{LIST_PATH}/new", data=fields | {"verify_after_backup": "true"})
    assert answer.status_code == 303, answer.text
    run_tasks()
    return session.query(BackupDestination).one()


def test_destination_is_added_and_checked(browser, destination):
    """DST-04, DST-11, DST-20"""
    assert destination.config["verify_after_backup"] is True
    page = browser.get(f"{LIST_PATH}/{destination.id}").text
    for text in ("Proxmox Backup Server", "Find the datastore and namespace", "Check the privileges of the token"):
        assert text in page
    assert "600 GiB" in page
    edit = browser.get(f"{LIST_PATH}/{destination.id}/edit").text
    for value in (SECRET, destination.config["fingerprint"], destination.config["auth_id"]):
        assert value not in edit


def test_other_token_requires_its_secret(browser, destination):
    """DST-12"""
    answer = browser.post(f"{LIST_PATH}/{destination.id}/edit", data={"auth_id": "other@pbs!t", "token_secret": ""})
    assert answer.status_code == 422
    assert 'id="wrong-token_secret"' in answer.text


def test_fingerprint_is_filled_in(browser, fields, rbs_server):
    """DST-19"""
    answer = browser.post(f"{LIST_PATH}/fingerprint", data=fields | {"fingerprint": ""})
    assert answer.status_code == 200, answer.text
    assert f'value="{rbs_server.fingerprint}"' in answer.text
    assert f'value="{fields["host"]}"' in answer.text, "the other fields stay"
    assert SECRET not in answer.text
    assert rbs_server.requests == []
    assert session.query(BackupDestination).count() == 0


def test_fingerprint_of_the_stored_server_is_filled_in(browser, destination, rbs_server):
    rbs_server.replace_certificate()
    answer = browser.post(f"{LIST_PATH}/fingerprint?destination_id={destination.id}", data={"host": "", "port": ""})
    assert f'value="{rbs_server.fingerprint}"' in answer.text


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("127.0.0.1", None, "cannot be reached"),
        ("", "8007", "This field is required."),
        ("https://x", "8007", "host name or an IP address"),
        ("127.0.0.1", "99999", "Enter a number from 1 to 65535."),
        ("127.0.0.1", "x", "Must be a whole number."),
    ],
)
def test_fingerprint_that_cannot_be_read_is_refused(browser, fields, host, port, text):
    answer = browser.post(
        f"{LIST_PATH}/fingerprint", data=fields | {"host": host, "port": port or str(find_free_port())}
    )
    assert answer.status_code == 422
    assert 'id="wrong-fingerprint"' in answer.text
    assert text in answer.text


def test_fingerprint_requires_the_permission_to_write(browser_as, fields):
    assert browser_as("owner").post(f"{LIST_PATH}/fingerprint", data=fields).status_code in (403, 404)
