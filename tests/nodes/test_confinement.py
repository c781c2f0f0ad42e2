"""Confinement of the local hypervisor's QEMU."""

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


def test_directory_closed_to_qemu_is_covered(tmp_path):
    """Only the storage stays visible; directories that everybody can search need no cover."""
    tmp_path.chmod(0o755)
    closed, disks = tmp_path / "data", tmp_path / "data" / "hypervisor"
    disks.mkdir(parents=True)
    first = next(parent for parent in [*reversed(disks.parents)] if not NOBODY.can_search(parent) or parent == closed)
    closed.chmod(0o700)
    assert confinement.list_directories_to_cover([disks, Path("/usr/lib")], NOBODY) == {first: [disks]}
    assert confinement.list_directories_to_cover([disks], confinement.ROOT_USER) == {}


def test_pools_outside_hypervisor_directory_stay_visible(tmp_path):
    """Existing installations have theirs in the data directory, beside the hypervisor's."""
    directory, old = tmp_path / "hypervisor", tmp_path / "disks"
    (directory / "etc/storage").mkdir(parents=True)
    (directory / "disks").mkdir()
    old.mkdir()
    for name, path in (("old", old), ("new", directory / "disks"), ("gone", tmp_path / "gone")):
        (directory / f"etc/storage/{name}.xml").write_text(xml.build_pool_xml(name, str(path)))
    (directory / "etc/storage/broken.xml").write_text("<pool>")
    assert confinement.list_storage_paths(directory) == [directory, old]


def test_confinement_levels_go_from_strictest_to_root(monkeypatch):
    monkeypatch.setattr(confinement, "ensure_user", lambda: NOBODY)
    monkeypatch.setattr(confinement, "find_security_module", lambda: "apparmor")
    levels = confinement.list_levels()
    assert levels[0] == Level(NOBODY, True, "")
    assert levels[-1] == Level(confinement.ROOT_USER, False, "none")
    assert "security_driver" not in levels[0].settings()
    assert 'namespaces = ["mount"]' in levels[0].settings()
    monkeypatch.setattr(confinement, "find_security_module", lambda: "")
    assert {level.security_driver for level in confinement.list_levels()} == {"none"}


def test_saved_confinement_is_valid_for_one_boot(tmp_path, monkeypatch):
    saved = Confinement("libvirt-qemu", True, "none")
    assert confinement.find_saved_confinement(tmp_path) is None
    confinement.save_confinement(tmp_path, saved)
    assert confinement.find_saved_confinement(tmp_path) == saved
    monkeypatch.setattr(confinement.kvm, "read_boot_id", lambda: "another")
    assert confinement.find_saved_confinement(tmp_path) is None


@pytest.fixture
def confined_directory(tmp_path):
    """The directory of a hypervisor with a pool and complete confinement."""
    pool = tmp_path / "disks"
    (tmp_path / "etc/storage").mkdir(parents=True)
    (tmp_path / "etc/storage/disks.xml").write_text(xml.build_pool_xml("disks", str(pool)))
    pool.mkdir(mode=0o711)
    (pool / "disk").touch(mode=0o600)
    tmp_path.chmod(0o711)
    confinement.save_confinement(tmp_path, Confinement("libvirt-qemu", True, "apparmor"))
    return tmp_path


def test_doctor_reports_confinement(confined_directory, monkeypatch):
    assert doctor_hypervisor.inspect_hypervisor(confined_directory) == (
        ["QEMU runs as libvirt-qemu", "each machine has a mount namespace", "confined by apparmor"],
        [],
    )
    confinement.save_confinement(confined_directory, Confinement("root", False, "none"))
    holds, [wrong] = doctor_hypervisor.inspect_hypervisor(confined_directory)
    assert "runs as root" in wrong
    assert [text.partition(" (")[0] for text in holds] == ["no mount namespaces", "no security driver"]
    (confined_directory / confinement.CONFINEMENT_FILE).unlink()
    assert "panel setup" in doctor_hypervisor.inspect_hypervisor(confined_directory)[0][0]


def test_doctor_finds_storage_readable_by_others(confined_directory):
    (confined_directory / "disks").chmod(0o755)
    (confined_directory / "disks/image.kernel").touch(0o644)
    assert doctor_hypervisor.inspect_hypervisor(confined_directory)[1] == [], "machines share it"
    (confined_directory / "disks/disk").chmod(0o644)
    os.chown(confined_directory / "disks/disk", 1234, 1234)
    _, wrong = doctor_hypervisor.inspect_hypervisor(confined_directory)
    assert [sentence.partition(". Run ")[2] for sentence in wrong] == ["chmod 600 on them.", "chown root:root on them."]
    confined_directory.chmod(0o755)
    assert f"chmod 711 {confined_directory}" in doctor_hypervisor.inspect_hypervisor(confined_directory)[1][0]


@pytest.mark.guest
def test_qemu_runs_unprivileged_and_cannot_read_panel_files(hypervisor_directory):
    """The panel's files lie beside the hypervisor's, in a directory that only its owner can search."""
    hypervisor_directory.parent.chmod(0o700)
    (hypervisor_directory.parent / "panel.db").write_text("secret")
    uri = private_daemon.start(hypervisor_directory, claim_network())
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", uri), hypervisor_directory)
    node.prepare_pool("pool", str(hypervisor_directory / "disks"))
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, (Disk("pool", "d", MiB),))
    node.create_disk(machine.disks[0])
    node.define(machine)
    node.start(machine.id)
    guest = (hypervisor_directory / "run/qemu/m.pid").read_text()
    user, disk = confinement.find_user(), hypervisor_directory / "disks" / "d"
    assert os.stat(f"/proc/{guest}").st_uid == user.uid != 0
    assert os.readlink(f"/proc/{guest}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    saved = confinement.find_saved_confinement(hypervisor_directory)
    assert (saved.user, saved.namespaces) == (pwd.getpwuid(user.uid).pw_name, True)
    as_qemu = ["nsenter", "--target", guest, "--mount", "setpriv", f"--reuid={user.uid}", f"--regid={user.gid}"]

    def can_read(path):
        return subprocess.run([*as_qemu, "--clear-groups", "head", "-c1", path]).returncode == 0

    assert can_read(disk)
    assert not can_read(hypervisor_directory.parent / "panel.db")
    assert (disk.stat().st_uid, disk.stat().st_mode & 0o777) == (user.uid, 0o600)
    assert doctor_hypervisor.inspect_hypervisor(hypervisor_directory)[1] == []
    with (
        pytest.raises(libvirt.libvirtError),
        node.connections.borrow() as connection,
    ):  # what is covered takes no storage
        connection.storagePoolDefineXML(xml.build_pool_xml("beside", str(hypervisor_directory.parent / "x"))).create(
            libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD
        )
    node.power_off(machine.id)
    assert disk.stat().st_uid == 0
    node.close()


@pytest.mark.guest
def test_machine_of_unconfined_installation_keeps_running_after_upgrade(hypervisor_directory):
    """Its pool is in the data directory, its daemon had no confinement, its guest ran as root."""
    old = Level(confinement.ROOT_USER, False, "none")
    network = claim_network()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confinement, "list_levels", lambda: [old])
        uri = private_daemon.start(hypervisor_directory, network)
        node = LibvirtNode(NodeSpec("node", "node", "libvirt", uri), hypervisor_directory)
        node.prepare_pool("pool", str(hypervisor_directory.parent / "disks"))
        machine = Machine(str(uuid.uuid4()), "m", 1, 64, (Disk("pool", "d", MiB),))
        node.create_disk(machine.disks[0])
        node.define(machine)
        node.start(machine.id)
    (hypervisor_directory / confinement.CONFINEMENT_FILE).unlink()
    guest = (hypervisor_directory / "run/qemu/m.pid").read_text()
    hypervisor_directory.parent.chmod(0o700)
    private_daemon.start(hypervisor_directory, network)
    assert node.power(machine.id) is Power.on
    assert (hypervisor_directory / "run/qemu/m.pid").read_text() == guest
    node.power_off(machine.id)
    node.start(machine.id)
    guest = (hypervisor_directory / "run/qemu/m.pid").read_text()
    assert os.stat(f"/proc/{guest}").st_uid == confinement.find_user().uid
    node.close()


def test_data_directory_is_closed_with_disks_inside(tmp_path):
    """The panel's own files in 0700 directories; the hypervisor's folders keep their modes."""
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
