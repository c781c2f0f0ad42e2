"""An image of a real machine that has a TPM."""

import pytest

from tests.guests.test_firmware import TABLES, tpm_state
from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest


def test_an_image_of_a_machine_with_a_tpm_boots(lab, hypervisor):
    """What the TPM holds stays the machine's: an image is a disk. One made of it boots without a TPM and with one."""
    made = lab.create()
    lab.install(made, ssh_keys=[lab.key_id])
    ip = lab.show(made)["primary_public_ip"]["ip"]
    lab.ssh(ip, "echo kept > /root/kept; sync")
    lab.power(made, "poweroff")
    lab.finished(lab.call("POST", f"/api/instance/{made['id']}/tpm/enable")["task_id"])
    lab.power(made, "start")
    assert "TPM2" in lab.ssh(ip, f"ls {TABLES}")
    lab.power(made, "poweroff")
    image = lab.call("POST", "/api/images", {"instance_id": made["id"], "name": "with a TPM"})["image"]["id"]
    find = lambda: next(each for each in lab.call("GET", "/api/images")["data"] if each["id"] == image)  # noqa: E731
    wait_until(lambda: find()["status"] == "available", "the image")
    other = lab.create()
    answer = lab.call("POST", f"/api/instance/{other['id']}/deploy", {"image_id": image, "ssh_keys": [lab.key_id]})
    lab.finished(answer["task_id"])
    other_ip = lab.show(other)["primary_public_ip"]["ip"]
    assert lab.ssh(other_ip, "cat /root/kept").strip() == "kept"
    assert "TPM2" not in lab.ssh(other_ip, f"ls {TABLES}")
    lab.power(other, "poweroff")
    lab.finished(lab.call("POST", f"/api/instance/{other['id']}/tpm/enable")["task_id"])
    lab.power(other, "start")
    assert "TPM2" in lab.ssh(other_ip, f"ls {TABLES}")
    held = [(tpm_state(hypervisor, each["id"]) / "tpm2" / "tpm2-00.permall").read_bytes() for each in (made, other)]
    assert held[0] != held[1]
    for each in (made, other):
        lab.destroy(each)
