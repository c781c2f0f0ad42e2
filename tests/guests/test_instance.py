"""A customer's instance on a real machine: deploy, sign-in, power actions, removal."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def guest(lab):
    """A deployed instance with the installation's key."""
    instance = lab.create(hostname="web.example.com")
    answer = lab.install(instance, ssh_keys=[lab.key_id], timezone="Asia/Tokyo", cloudcfg="runcmd:\n- touch /ran")
    assert "password" not in answer
    yield lab.get_instance(instance)
    lab.destroy(instance)


def test_deployed_guest_has_ordered_settings(lab, guest):
    """INS-08, INS-46, INS-54, INS-60"""
    assert (guest["state"], guest["status"]) == ("running", 1)
    ip = guest["primary_public_ip"]["ip"]
    assert lab.ssh(ip, "hostname").strip() == "web.example.com"
    assert lab.ssh(ip, "date +%Z").strip() == "JST"
    addresses = lab.ssh(ip, "ip -o addr")
    assert ip in addresses
    assert guest["primary_public_ipv6"]["ip"] in addresses
    assert lab.ssh(ip, "ls /ran").strip() == "/ran"
    size = int(lab.ssh(ip, "cat /sys/block/vda/size"))
    assert size * 512 == guest["storage"] * 1024**3


def test_guest_answers_over_ipv4_and_ipv6(lab, guest):
    assert lab.ssh(guest["primary_public_ip"]["ip"], "echo four").strip() == "four"
    assert lab.ssh(guest["primary_public_ipv6"]["ip"], "echo six").strip() == "six"


def test_restart_reboots_guest(lab, guest):
    ip = guest["primary_public_ip"]["ip"]
    before = lab.read_boot_id(ip)
    lab.run_power_action(guest, "restart")
    wait_until(lambda: lab.read_boot_id(ip) != before, "another boot")
    assert lab.get_instance(guest)["state"] == "running"


def test_shutdown_from_inside_guest_is_noticed(lab, guest):
    lab.ssh(guest["primary_public_ip"]["ip"], "poweroff")
    lab.wait_for_state(guest, "stopped")
    lab.run_power_action(guest, "start")
    assert lab.get_instance(guest)["state"] == "running"


def test_shutdown_and_poweroff_keep_files(lab, guest):
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "touch /kept; sync")
    lab.run_power_action(guest, "shutdown")
    assert lab.get_instance(guest)["state"] == "stopped"
    lab.run_power_action(guest, "start")
    assert lab.ssh(ip, "ls /kept").strip() == "/kept"
    lab.run_power_action(guest, "poweroff")
    assert lab.get_instance(guest)["state"] == "stopped"


def test_domain_removed_outside_panel_is_reported(lab, hypervisor):
    import libvirt

    instance = lab.create()
    lab.install(instance)
    connection = libvirt.open(hypervisor.uri)
    domain = connection.lookupByUUIDString(instance["id"])
    domain.destroy()
    domain.undefine()
    connection.close()
    wait_until(lambda: lab.get_instance(instance)["last_error"], "the panel to notice")
    assert "missing" in lab.get_instance(instance)["last_error"]
    assert lab.get_instance(instance)["state"] == "stopped"
    lab.destroy(instance)
    assert lab.installation.call("GET", f"/api/instance/{instance['id']}", token=lab.token)[0] == 404


def test_destroy_leaves_nothing_on_node(lab, hypervisor):
    import libvirt

    instance = lab.create()
    answer = lab.install(instance)
    assert answer["password"]
    assert lab.get_instance(instance)["state"] == "running"
    name = instance["name"]
    lab.destroy(instance)
    connection = libvirt.open(hypervisor.uri)
    assert name not in [domain.name() for domain in connection.listAllDomains()]
    pool = connection.storagePoolLookupByName("default")
    pool.refresh()
    assert [volume for volume in pool.listVolumes() if volume.startswith(name)] == []
    connection.close()
