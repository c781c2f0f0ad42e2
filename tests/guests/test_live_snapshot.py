"""Live-snapshot sessions on a real guest: what it wrote is kept or is gone."""

import pytest

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def guest(lab):
    instance = lab.create(hostname="forge.example.com")
    lab.install(instance, ssh_keys=[lab.key_id])
    yield lab.show(instance)
    lab.destroy(instance)


def run_session_action(lab, guest, action):
    answer = lab.call("POST", f"/api/instance/{guest['id']}/forge/{action}")
    lab.finished(answer["task_id"])
    return lab.call("GET", f"/api/instance/{guest['id']}/forge")


def test_discard_returns_the_content_and_commit_keeps_the_changes(lab, guest):
    """FRG-01, FRG-07, FRG-16, FRG-18"""
    ip = guest["primary_public_ip"]["ip"]
    say = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    say("echo before > /root/file; sync")
    boot = say("cat /proc/sys/kernel/random/boot_id")
    found = run_session_action(lab, guest, "enable")
    assert (found["active"], found["session"]["status"], found["session"]["error"]) == (True, "active", None)
    say("echo after > /root/file; dd if=/dev/urandom of=/root/much bs=1M count=16; sync")
    found = run_session_action(lab, guest, "discard")
    assert (found["active"], found["session"]["status"]) == (False, "discarded")
    assert say("cat /root/file; ls /root/much 2>&1 | grep -c 'No such'") == "before\n1"
    assert say("cat /proc/sys/kernel/random/boot_id") != boot
    run_session_action(lab, guest, "enable")
    boot = say("cat /proc/sys/kernel/random/boot_id")
    summed = say("echo kept > /root/file; dd if=/dev/urandom of=/root/much bs=1M count=16; sync; md5sum /root/much")
    assert run_session_action(lab, guest, "commit")["session"]["status"] == "committed"
    assert say("cat /proc/sys/kernel/random/boot_id") == boot
    lab.power(guest, "poweroff")
    lab.power(guest, "start")
    assert say("cat /root/file") == "kept"
    assert say("md5sum /root/much") == summed
    assert [each["status"] for each in lab.show(guest)["forges"]] == ["committed", "discarded"]


def test_a_stop_and_start_in_between_keeps_the_session(lab, guest):
    ip = guest["primary_public_ip"]["ip"]
    say = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    say("echo one > /root/file; sync")
    run_session_action(lab, guest, "enable")
    say("echo two > /root/file; sync")
    lab.power(guest, "poweroff")
    lab.power(guest, "start")
    assert say("cat /root/file") == "two"
    assert run_session_action(lab, guest, "discard")["session"]["status"] == "discarded"
    assert say("cat /root/file") == "one"


def test_nothing_is_left_on_the_node(lab, guest, hypervisor):
    import libvirt

    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    run_session_action(lab, instance, "enable")
    lab.destroy(instance)
    connection = libvirt.open(hypervisor.uri)
    pool = connection.storagePoolLookupByName("default")
    pool.refresh()
    assert [volume for volume in pool.listVolumes() if volume.startswith(instance["name"])] == []
    connection.close()
