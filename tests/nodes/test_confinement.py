"""How far QEMU of the local hypervisor is kept apart from the machine (issue 12, 2 and 7; acceptance E1)."""

import os
import pwd
import subprocess
import uuid
from pathlib import Path

import libvirt
import pytest

from panel.cli import doctor_hypervisor
from panel.core import data_files
from tests.support.local_hypervisor import claim_network
from worker.nodes.base import Disk, Machine, NodeSpec, Power
from worker.nodes.libvirt import LibvirtNode, confinement, private_daemon, xml
from worker.nodes.libvirt.confinement import Confinement, Level, QemuUser

NOBODY = QemuUser("nobody", 65534, 65534)
MiB = 1024**2


def test_a_directory_that_qemu_cannot_search_is_covered(tmp_path):
    """Only the storage stays visible; what everybody can reach needs no cover."""
    tmp_path.chmod(0o755)
    closed, disks = tmp_path / "data", tmp_path / "data" / "hypervisor"
    disks.mkdir(parents=True)
    first = next(parent for parent in [*reversed(disks.parents)] if not NOBODY.can_search(parent) or parent == closed)
    closed.chmod(0o700)
    assert confinement.directories_to_cover([disks, Path("/usr/lib")], NOBODY) == {first: [disks]}
    assert confinement.directories_to_cover([disks], confinement.ROOT_USER) == {}


def test_pools_elsewhere_stay_visible(tmp_path):
    """Existing installations have theirs in the data directory, beside the hypervisor's."""
    directory, old = tmp_path / "hypervisor", tmp_path / "disks"
    (directory / "etc/storage").mkdir(parents=True)
    (directory / "disks").mkdir()
    old.mkdir()
    for name, path in (("old", old), ("new", directory / "disks"), ("gone", tmp_path / "gone")):
        (directory / f"etc/storage/{name}.xml").write_text(xml.pool(name, str(path)))
    (directory / "etc/storage/broken.xml").write_text("<pool>")
    assert confinement.storage_paths(directory) == [directory, old]


def test_levels_begin_with_the_strictest_and_end_with_root(monkeypatch):
    monkeypatch.setattr(confinement, "ensure_user", lambda: NOBODY)
    monkeypatch.setattr(confinement, "security_module", lambda: "apparmor")
    found = confinement.list_levels()
    assert found[0] == Level(NOBODY, True, "")
    assert found[-1] == Level(confinement.ROOT_USER, False, "none")
    assert "security_driver" not in found[0].settings()
    assert 'namespaces = ["mount"]' in found[0].settings()
    monkeypatch.setattr(confinement, "security_module", lambda: "")
    assert {level.security_driver for level in confinement.list_levels()} == {"none"}


def test_what_was_found_holds_for_one_boot(tmp_path, monkeypatch):
    found = Confinement("libvirt-qemu", True, "none")
    assert confinement.find_saved_confinement(tmp_path) is None
    confinement.save_confinement(tmp_path, found)
    assert confinement.find_saved_confinement(tmp_path) == found
    monkeypatch.setattr(confinement.kvm, "read_boot_id", lambda: "another")
    assert confinement.find_saved_confinement(tmp_path) is None


@pytest.fixture
def installed(tmp_path):
    """The directory of a hypervisor with a pool, as it should be."""
    pool = tmp_path / "disks"
    (tmp_path / "etc/storage").mkdir(parents=True)
    (tmp_path / "etc/storage/disks.xml").write_text(xml.pool("disks", str(pool)))
    pool.mkdir(mode=0o711)
    (pool / "disk").touch(mode=0o600)
    tmp_path.chmod(0o711)
    confinement.save_confinement(tmp_path, Confinement("libvirt-qemu", True, "apparmor"))
    return tmp_path


def test_the_doctor_says_which_of_the_three_hold(installed, monkeypatch):
    assert doctor_hypervisor.inspect_hypervisor(installed) == (
        ["QEMU runs as libvirt-qemu", "each machine has a mount namespace", "confined by apparmor"],
        [],
    )
    confinement.save_confinement(installed, Confinement("root", False, "none"))
    holds, [wrong] = doctor_hypervisor.inspect_hypervisor(installed)
    assert "runs as root" in wrong
    assert [text.partition(" (")[0] for text in holds] == ["no mount namespaces", "no security driver"]
    (installed / confinement.CONFINEMENT_FILE).unlink()
    assert "panel setup" in doctor_hypervisor.inspect_hypervisor(installed)[0][0]


def test_the_doctor_finds_storage_that_others_can_read(installed):
    (installed / "disks").chmod(0o755)
    (installed / "disks/disk").chmod(0o644)
    os.chown(installed / "disks/disk", 1234, 1234)
    _, wrong = doctor_hypervisor.inspect_hypervisor(installed)
    assert [sentence.partition(". Run ")[2] for sentence in wrong] == ["chmod 600 on them.", "chown root:root on them."]
    installed.chmod(0o755)
    assert f"chmod 711 {installed}" in doctor_hypervisor.inspect_hypervisor(installed)[1][0]


@pytest.fixture
def own_hypervisor(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data") / "hypervisor"
    directory.mkdir()
    yield directory
    private_daemon.stop(directory)


@pytest.mark.guest
def test_qemu_is_an_unprivileged_user_that_sees_its_disks_and_not_the_panel(own_hypervisor):
    """The panel's files lie beside the hypervisor's, in a directory that only its owner can search."""
    own_hypervisor.parent.chmod(0o700)
    (own_hypervisor.parent / "panel.db").write_text("secret")
    node = LibvirtNode(
        NodeSpec("node", "node", "libvirt", private_daemon.start(own_hypervisor, claim_network())), own_hypervisor
    )
    node.prepare_pool("pool", str(own_hypervisor / "disks"))
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, (Disk("pool", "d", MiB),))
    node.create_disk(machine.disks[0])
    node.define(machine)
    node.start(machine.id)
    guest = (own_hypervisor / "run/qemu/m.pid").read_text()
    user, disk = confinement.find_user(), own_hypervisor / "disks" / "d"
    assert os.stat(f"/proc/{guest}").st_uid == user.uid != 0
    assert os.readlink(f"/proc/{guest}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    found = confinement.find_saved_confinement(own_hypervisor)
    assert (found.user, found.namespaces) == (pwd.getpwuid(user.uid).pw_name, True)
    as_the_guest = ["nsenter", "--target", guest, "--mount", "setpriv", f"--reuid={user.uid}", f"--regid={user.gid}"]
    reads = lambda path: subprocess.run([*as_the_guest, "--clear-groups", "head", "-c1", path]).returncode == 0  # noqa: E731
    assert reads(str(disk))
    assert not reads(str(own_hypervisor.parent / "panel.db"))
    assert (disk.stat().st_uid, disk.stat().st_mode & 0o777) == (user.uid, 0o600)
    assert doctor_hypervisor.inspect_hypervisor(own_hypervisor)[1] == []
    with (
        pytest.raises(libvirt.libvirtError),
        node.connections.borrow() as connection,
    ):  # what is covered takes no storage
        connection.storagePoolDefineXML(xml.pool("beside", str(own_hypervisor.parent / "x"))).create(
            libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD
        )
    node.power_off(machine.id)
    assert disk.stat().st_uid == 0
    node.close()


@pytest.mark.guest
def test_machines_of_an_installation_of_before_go_on_and_are_found_again(own_hypervisor):
    """Its pool lies in the data directory, its daemon knew no confinement, its guest ran as root."""
    old = Level(confinement.ROOT_USER, False, "none")
    network = claim_network()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confinement, "list_levels", lambda: [old])
        node = LibvirtNode(
            NodeSpec("node", "node", "libvirt", private_daemon.start(own_hypervisor, network)), own_hypervisor
        )
        node.prepare_pool("pool", str(own_hypervisor.parent / "disks"))
        machine = Machine(str(uuid.uuid4()), "m", 1, 64, (Disk("pool", "d", MiB),))
        node.create_disk(machine.disks[0])
        node.define(machine)
        node.start(machine.id)
    (own_hypervisor / confinement.CONFINEMENT_FILE).unlink()
    guest = (own_hypervisor / "run/qemu/m.pid").read_text()
    own_hypervisor.parent.chmod(0o700)
    private_daemon.start(own_hypervisor, network)
    assert node.power(machine.id) is Power.on
    assert (own_hypervisor / "run/qemu/m.pid").read_text() == guest
    node.power_off(machine.id)
    node.start(machine.id)
    guest = (own_hypervisor / "run/qemu/m.pid").read_text()
    assert os.stat(f"/proc/{guest}").st_uid == confinement.find_user().uid
    node.close()


def test_the_data_directory_is_closed_also_where_disks_lie_in_it(tmp_path):
    """Issue 12, 7: the panel's own files in 0700 directories; the hypervisor's folders keep their modes."""
    (tmp_path / "hypervisor").mkdir()
    (tmp_path / "hypervisor").chmod(0o711)  # not by `mkdir`: an earlier test may have set another umask
    (tmp_path / "panel.db").touch()
    (tmp_path / "panel.db").chmod(0o644)
    tmp_path.chmod(0o711)
    assert data_files.find_exposed(tmp_path) == [tmp_path, tmp_path / "panel.db"]
    before = os.umask(0o022)
    try:
        data_files.protect(tmp_path)
    finally:
        os.umask(before)
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "hypervisor").stat().st_mode & 0o777 == 0o711
