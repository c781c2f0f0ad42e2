"""The state of an instance's firmware and TPM is part of its backups."""

import pytest

from panel.core.db import session
from panel.models import Task


@pytest.fixture
def power(api_as, path, run_tasks):
    def change(action):
        assert api_as("owner", "POST", f"{path}/power/{action}").status_code == 200
        run_tasks()

    return change


@pytest.fixture
def secure_machine(machine, power):
    """The running machine, with a TPM and secure boot."""
    power("poweroff")
    machine.tpm_enabled = machine.secure_boot_enabled = True
    session.commit()
    power("start")
    return machine


@pytest.fixture
def replace_state(node, secure_machine, power):
    """Return a function that gives the machine another state, as its guest does."""

    def replace(text):
        power("poweroff")
        node.write_firmware_state(secure_machine.id, {"nvram": b"nvram " + text, "tpm": b"tpm " + text})
        power("start")

    return replace


@pytest.fixture
def restore(api_as, path, run_tasks):
    def request(backup, **body):
        answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore", json=body)
        assert answer.status_code == 200, answer.text
        run_tasks()
        return session.get(Task, answer.json["task_id"], populate_existing=True)

    return request


@pytest.mark.parametrize("is_on", [True, False])
def test_state_is_restored_with_the_first_disk(back_up, node, secure_machine, restore, replace_state, power, is_on):
    replace_state(b"before")
    stored = node.read_firmware_state(secure_machine.id)
    assert stored == {"nvram": b"nvram before", "tpm": b"tpm before"}
    backup = back_up()
    replace_state(b"after")
    if not is_on:
        power("poweroff")
    task = restore(backup)
    assert (task.status, task.secret) == ("completed", None)
    assert node.read_firmware_state(secure_machine.id) == stored


def test_state_stays_when_another_disk_is_restored(back_up, node, secure_machine, restore, replace_state, second_disk):
    backup = back_up()
    replace_state(b"after")
    assert restore(backup, target_disk_id=second_disk.id).status == "completed"
    assert node.read_firmware_state(secure_machine.id)["tpm"] == b"tpm after"


@pytest.mark.parametrize("operation", ["write_firmware_state", "start"])
def test_failed_restore_returns_to_the_earlier_state(
    back_up, node, secure_machine, restore, replace_state, guest, operation
):
    replace_state(b"before")
    backup = back_up()
    replace_state(b"after")
    guest.write("after")
    node.fault(operation, "lost-answer", 1)
    assert restore(backup).status == "failed"
    assert node.read_firmware_state(secure_machine.id) == {"nvram": b"nvram after", "tpm": b"tpm after"}
    assert guest.read() == "after"
