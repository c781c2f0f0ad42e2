"""First boots of real guests: scripts, keys, passwords, and reinstalls."""

import paramiko
import pytest

from tests.support.waiting import wait_until

pytestmark = [pytest.mark.guest, pytest.mark.slow_proof("first-boot")]

SCRIPTS = ("#!/bin/sh\necho one >>/order\n", "#!/bin/sh\necho two >>/order\n")


def create_script(lab, name, content):
    body = {"name": name, "type": "sh", "content": content}
    return lab.call("POST", "/api/user-scripts", body)["script"]["id"]


def can_sign_in(ip, password=None, key=None):
    """Return whether root can sign in with nothing else."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    try:
        options = {"password": password, "key_filename": key, "look_for_keys": False, "allow_agent": False}
        client.connect(ip, username="root", timeout=10, **options)
    except paramiko.AuthenticationException:
        return False
    finally:
        client.close()
    return True


def is_answering(ip):
    try:
        return can_sign_in(ip, password="surely not this") in (True, False)
    except (OSError, paramiko.SSHException):
        return False


def reinstall(lab, instance, **body):
    answer = lab.call("POST", f"/api/instance/{instance['id']}/reinstall", body)
    lab.wait_for_task(answer["task_id"])
    ip = instance["primary_public_ip"]["ip"]
    wait_until(lambda: is_answering(ip), "the guest's SSH server")
    return answer


@pytest.fixture(scope="module")
def guest(lab):
    """An instance that was deployed with a key, a time zone, configuration and two scripts."""
    instance = lab.create(hostname="web.example.com")
    scripts = [create_script(lab, f"s{number}", content) for number, content in enumerate(SCRIPTS)]
    options = {"user_scripts": scripts, "timezone": "Asia/Tokyo", "cloudcfg": "runcmd:\n- echo own >>/order"}
    assert "password" not in lab.install(instance, ssh_keys=[lab.key_id], **options)
    yield lab.get_instance(instance)
    lab.destroy(instance)


def test_scripts_run_once_in_order_after_runcmd(lab, guest):
    """INS-46, INS-60"""
    ip = guest["primary_public_ip"]["ip"]
    lab.wait_until_booted(guest)
    assert lab.ssh(ip, "cat /order").split() == ["own", "one", "two"]
    assert lab.ssh(ip, "date +%Z").strip() == "JST"
    before = lab.read_boot_id(ip)
    lab.run_power_action(guest, "restart")
    wait_until(lambda: lab.read_boot_id(ip) != before, "another boot")
    assert lab.ssh(ip, "cat /order").split() == ["own", "one", "two"]


def test_reinstall_keeps_nothing_of_first_boot(lab, guest, hypervisor, tmp_path):
    """INS-20, INS-22, INS-46, INS-47, INS-54, INS-59"""
    import libvirt

    ip, path = guest["primary_public_ip"]["ip"], f"/api/instance/{guest['id']}"
    lab.ssh(ip, "touch /mine; sync")
    lab.call("PATCH", path, {"protection_enabled": True})
    status, refused = lab.installation.call("POST", f"{path}/reinstall", {}, lab.token)
    assert (status, refused["reason"]) == (409, "protection_enabled")
    assert lab.ssh(ip, "ls /mine").strip() == "/mine"
    lab.call("PATCH", path, {"protection_enabled": False})
    old_key = lab.ssh(ip, "cat /root/.ssh/authorized_keys").strip()
    host_key = lab.ssh(ip, "dropbearkey -y -f /etc/dropbear/ed25519 | grep ssh-")

    key_pair = lab.call("POST", "/api/ssh-key/generate", {"name": "second", "algorithm": "ed25519"})
    second = tmp_path / "second"
    second.write_text(key_pair["private_key"])
    second.chmod(0o600)
    assert "password" not in reinstall(lab, guest, ssh_key_id=key_pair["ssh_key"]["id"], hostname="new.example.com")
    shown = lab.get_instance(guest)
    assert (shown["state"], shown["hostname"], shown["last_error"]) == ("running", "new.example.com", None)
    assert (can_sign_in(ip, key=str(second)), can_sign_in(ip, key=str(lab.key))) == (True, False)
    first, lab.key = lab.key, second
    try:
        keys = lab.ssh(ip, "cat /root/.ssh/authorized_keys").strip()
        assert keys == key_pair["ssh_key"]["public_key"]
        assert keys != old_key
        lab.wait_until_booted(guest)
        assert lab.ssh(ip, "ls /order /mine 2>/dev/null; hostname; date +%Z").split() == ["new.example.com", "UTC"]
        assert lab.ssh(ip, "dropbearkey -y -f /etc/dropbear/ed25519 | grep ssh-") != host_key
    finally:
        lab.key = first

    connection = libvirt.open(hypervisor.uri)
    pool = connection.storagePoolLookupByName("default")
    pool.refresh()
    volume_names = [volume for volume in pool.listVolumes() if volume.startswith(guest["name"])]
    connection.close()
    assert sorted(name.split("-")[1] for name in volume_names) == ["0", "seed"]


def test_reinstall_password_yields_to_custom_cloud_config(lab, guest):
    """INS-55, INS-56, INS-57, INS-58, INS-61. tests/worker/test_cloud_init.py and test_images.py check each setting."""
    ip = guest["primary_public_ip"]["ip"]
    assert can_sign_in(ip, password=reinstall(lab, guest)["password"])
    chosen = "a password of mine"
    assert "password" not in reinstall(lab, guest, password=chosen, cloudcfg="disable_root: true")
    assert not can_sign_in(ip, password=chosen)
    answer = lab.call_admin(
        "POST", f"/instance/{guest['id']}/reinstall", {"password": chosen, "timezone": "Asia/Tokyo"}
    )
    lab.wait_for_task(answer["task_id"])
    wait_until(lambda: is_answering(ip), "the guest's SSH server")
    assert can_sign_in(ip, password=chosen)
