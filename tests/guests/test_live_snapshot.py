"""Live-snapshot sessions of a real guest: its changes are committed or discarded."""

import pytest

pytestmark = pytest.mark.guest


def run_session_action(lab, guest, action):
    answer = lab.call("POST", f"/api/instance/{guest['id']}/forge/{action}")
    lab.wait_for_task(answer["task_id"])
    return lab.call("GET", f"/api/instance/{guest['id']}/forge")


def test_discard_restores_content_and_commit_keeps_changes(lab, guest):
    """FRG-01, FRG-07, FRG-16, FRG-18: also over a stop and start during the session."""
    ip = guest["primary_public_ip"]["ip"]
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    run("echo before > /root/file; sync")
    boot = lab.read_boot_id(ip)
    answer = run_session_action(lab, guest, "enable")
    assert (answer["active"], answer["session"]["status"], answer["session"]["error"]) == (True, "active", None)
    run("echo after > /root/file; dd if=/dev/urandom of=/root/much bs=1M count=16; sync")
    answer = run_session_action(lab, guest, "discard")
    assert (answer["active"], answer["session"]["status"]) == (False, "discarded")
    assert run("cat /root/file; ls /root/much 2>&1 | grep -c 'No such'") == "before\n1"
    assert lab.read_boot_id(ip) != boot

    run_session_action(lab, guest, "enable")
    boot = lab.read_boot_id(ip)
    checksum = run("echo kept > /root/file; dd if=/dev/urandom of=/root/much bs=1M count=16; sync; md5sum /root/much")
    assert run_session_action(lab, guest, "commit")["session"]["status"] == "committed"
    assert lab.read_boot_id(ip) == boot

    run_session_action(lab, guest, "enable")
    run("echo changed > /root/file; sync")
    lab.run_power_action(guest, "poweroff")
    lab.run_power_action(guest, "start")
    assert run("cat /root/file; md5sum /root/much") == f"changed\n{checksum}"
    assert run_session_action(lab, guest, "discard")["session"]["status"] == "discarded"
    assert run("cat /root/file; md5sum /root/much") == f"kept\n{checksum}"
    assert [session["status"] for session in lab.get_instance(guest)["forges"]] == [
        "discarded",
        "committed",
        "discarded",
    ]


def test_destroy_during_session_leaves_no_files_on_node(lab, hypervisor):
    import libvirt

    instance = lab.create()
    lab.install(instance)
    run_session_action(lab, instance, "enable")
    lab.destroy(instance)
    connection = libvirt.open(hypervisor.uri)
    pool = connection.storagePoolLookupByName("default")
    pool.refresh()
    assert [volume for volume in pool.listVolumes() if volume.startswith(instance["name"])] == []
    connection.close()
