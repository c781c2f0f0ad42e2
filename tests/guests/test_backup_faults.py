"""Faults during backups and restores of a real guest in a bucket of a real S3 server, which the panel reaches by TLS.

After each fault the guest is backed up again, and the points from before and after it are restored byte for byte. The
same faults at every step are in tests/instance_backups, with a simulated node.
"""

import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from tests.guests import lab_backups
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.installation import run_installation
from tests.support.local_hypervisor import LocalHypervisor
from tests.support.panel_commands import start_script
from tests.support.redis_server import RedisServer
from tests.support.s3_server import BUCKET, FaultProxy
from tests.support.two_hypervisors import run_hypervisors
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import CertificateAuthority

pytestmark = [pytest.mark.guest, pytest.mark.slow_proof("backups")]

MEBIBYTE = 1024**2
STORAGE_ERROR = "The backup storage cannot be used now."
CONNECTION_ERROR = "The connection to the hypervisor was lost."
LOST_WORKER_LOG = "The worker was lost. Another one starts again."
READ_ONLY_COMMAND = """
mount -o remount,rw /
dd if=/dev/urandom of=/root/random bs=1M count={mebibytes} 2>/dev/null; sync; echo u > /proc/sysrq-trigger
"""
"""Writes random content and makes the file systems read-only, so that the disk stays as it is."""

VERIFY_SCRIPT = """
from datetime import timedelta
from panel.core import clock
from panel.core.config import load
from panel.core.db import session
from panel.models import BackupRepository
from worker.engine import main
from worker.tasks import backup_verification
with main.prepare_app(load()).app_context():
    values = dict.fromkeys(("initialized_at", "sampled_at", "verified_at"), clock.now() - timedelta(days=31))
    session.query(BackupRepository).update(values)
    session.commit()
    backup_verification.verify_due()
"""
"""Enqueues the verification of everything, as a month after the last one."""


class FaultLab:
    """An installation with one guest, and what lies between its parts: `storage`, `node` and `redis`."""

    def __init__(self, lab, directory, storage, node, redis):
        self.lab, self.directory, self.storage, self.node, self.redis = lab, directory, storage, node, redis
        self.call, self.call_admin = lab.call, lab.call_admin
        config = {
            "endpoint": storage.endpoint,
            "bucket": BUCKET,
            "path_prefix": "faults",
            "access_key": "backups",
            "secret_key": "backups-secret",
        }
        body = {"name": "bucket", "storage_type": "s3", "config": config}
        self.destination = self.call_admin("POST", "/hypervisor/backup-storages", body)["storage_id"]
        self.guest = lab.create(display_name="Faults", hostname="faults")
        lab.install(self.guest, ssh_keys=[lab.key_id])
        lab.wait_until_booted(self.guest)
        self.guest = lab.get_instance(self.guest)
        self.ip, self.path = self.guest["primary_public_ip"]["ip"], f"/api/instance/{self.guest['id']}"
        self.points = []
        """The complete points with an image of what the disk had at that time, oldest first."""

    def change_disk(self, mebibytes=8):
        """Let the guest write random content, then keep its disk as it is. Return an image."""
        self.lab.ssh(self.ip, READ_ONLY_COMMAND.format(mebibytes=mebibytes))
        wait_until(lambda: " ro," in self.lab.ssh(self.ip, "grep ' / ' /proc/mounts"), "the read-only file system")
        image = self.directory / f"image{len(self.points)}.qcow2"
        run_qemu_img("convert", "-U", "-O", "qcow2", self.find_disk(), image)
        return image

    def find_disk(self):
        """Return the file of the guest's disk, once it is the only one: nothing is left of a restore or a backup."""
        folder = self.directory / "host1" / "disks"
        wait_until(lambda: len(list(folder.glob(f"{self.guest['name']}-*.qcow2*"))) == 1, "the only disk")
        return next(folder.glob(f"{self.guest['name']}-*.qcow2"))

    def ensure_running(self, image, boot_id, disk):
        """Check that the guest runs as before, and that its disk has the same content."""
        assert self.lab.get_instance(self.guest)["state"] == "running"
        assert self.lab.read_boot_id(self.ip) == boot_id
        run_qemu_img("compare", "-U", disk, image)

    def ensure_unchanged(self, image, boot_id, disk):
        """Check the same, and that nothing is left beside the disk."""
        self.ensure_running(image, boot_id, disk)
        assert self.find_disk() == disk

    def request_backup(self, **body):
        """Request a backup and return its task."""
        self.call("POST", f"{self.path}/backups", {"backup_type": "incremental", **body})
        return self.find_task("backup_create")

    def request_restore(self, row):
        """Request the restore of a backup in place and return its task."""
        return self.call("POST", f"{self.path}/backup/{row['id']}/restore", {})["task_id"]

    def find_task(self, kind):
        """Return the id of the newest task of that kind."""
        return self.call_admin("GET", f"/tasks?kind={kind}")[0]["id"]

    def get_task(self, task):
        return self.call_admin("GET", f"/task/{task}")

    def wait_for_end(self, task):
        """Return the task when it has ended."""
        wait_until(lambda: self.get_task(task)["status"] not in ("queued", "running"), "the end of the task")
        return self.get_task(task)

    def ensure_failed(self, task, error, detail=""):
        """Check that the task failed with that error, and what operators see of its reason."""
        row = self.wait_for_end(task)
        assert (row["status"], row["error"]) == ("failed", error), row
        assert detail in (row["error_detail"] or ""), row

    def ensure_repeated(self, task):
        """Check that the task completed in another worker."""
        row = self.wait_for_end(task)
        assert (row["status"], row["attempt"]) == ("completed", 2), row
        assert LOST_WORKER_LOG in [entry["message"] for entry in self.call_admin("GET", f"/task/{task}/logs")["logs"]]

    def list_backups(self):
        return self.call("GET", f"{self.path}/backups?per_page=100")["data"]

    def hold(self, method):
        """Let the storage not answer the transfer of packs by this method, until `clear`."""
        self.storage.set_fault("held", method, "/packs/")

    def wait_until_held(self):
        wait_until(self.storage.held.is_set, "the transfer of a pack")

    def kill_workers(self):
        workers = self.lab.installation.list_children("worker")
        assert workers
        for worker in workers:
            worker.kill()
        psutil.wait_procs(workers)

    def verify_all(self):
        """Verify everything that is stored, and return the backups that are damaged."""
        installation = self.lab.installation
        assert start_script(VERIFY_SCRIPT, [], installation.env, installation.data_dir / "verify.log").wait(60) == 0
        self.wait_for_verification()
        return [row["id"] for row in self.list_backups() if row["damaged"]]

    def wait_for_verification(self):
        row = self.wait_for_end(self.find_task("backup_verify"))
        assert row["status"] == "completed", row

    def list_named_damage(self):
        """Return the log's entries that name damaged chunks and backups."""
        return [line for line in self.lab.installation.read_log().splitlines() if "backups_damaged" in line]

    def add_point(self, image, **body):
        """Back the guest up, whose disk has the content of the image. Return the row."""
        row = lab_backups.back_up(self.lab, self.guest, **body)
        self.points.append((row, image))
        return row

    def adopt_points(self, image):
        """Add the complete points that are not known yet: the disk had the content of the image."""
        known = {row["id"] for row, _ in self.points}
        rows = [row for row in self.list_backups() if row["status"] == "complete" and row["id"] not in known]
        assert rows
        self.points += [(row, image) for row in reversed(rows)]

    def check_destination(self):
        return self.call_admin("POST", f"/hypervisor/backup-storage/{self.destination}/test")

    def prove(self, image):
        """Check that nothing is claimed or locked: a backup succeeds. Then restore the last two points."""
        assert self.call_admin("GET", "/tasks?status=open&kind=backup_create") == []
        assert self.call_admin("GET", "/tasks?status=open&kind=backup_restore") == []
        row = self.add_point(image)
        self.prove_points()
        return row

    def prove_points(self):
        """Check that exactly the known points are listed as complete, and restore the last two byte for byte."""
        rows = self.list_backups()
        complete = [row["id"] for row in rows if row["status"] == "complete" and not row["damaged"]]
        assert sorted(complete) == sorted(row["id"] for row, _ in self.points)
        assert {row["status"] for row in rows} <= {"complete", "failed"}
        assert self.call("GET", "/api/backups?claim=claimed")["data"] == []
        self.lab.run_power_action(self.guest, "poweroff")
        self.lab.wait_for_state(self.guest, "stopped")
        for row, image in self.points[-2:]:
            lab_backups.restore(self.lab, self.guest, row)
            run_qemu_img("compare", self.find_disk(), image)
        self.lab.wait_for_state(self.guest, "stopped")
        self.lab.run_power_action(self.guest, "start")


def run_qemu_img(*arguments):
    done = subprocess.run(["qemu-img", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def list_objects(s3_server):
    """Return the names of the stored objects."""
    return {entry["Key"] for entry in s3_server.operator.list_objects_v2(Bucket=BUCKET, Prefix="faults/")["Contents"]}


def list_packs(s3_server):
    return {key for key in list_objects(s3_server) if "/packs/" in key}


@pytest.fixture(scope="module")
def authority():
    """The authority whose certificates the panel accepts."""
    return CertificateAuthority()


@pytest.fixture(scope="module")
def fault_lab(tmp_path_factory, installation_template, s3_server, authority):
    directory = tmp_path_factory.mktemp("faults")
    (directory / "ca.pem").write_text(authority.pem)
    storage = FaultProxy(s3_server)
    storage.use_certificate(authority.issue(directory))
    redis = RedisServer(directory)
    settings = {"PANEL_WORKERS": "1", "PANEL_REDIS_URL": redis.url, "AWS_CA_BUNDLE": str(directory / "ca.pem")}
    with run_hypervisors(directory, count=1) as [hypervisor]:
        node = CuttableProxy(str(hypervisor.directory / "run" / "libvirt-sock"))
        proxied = LocalHypervisor(node.uri, hypervisor.directory, hypervisor.network)
        try:
            with run_installation(directory / "lab", proxied, installation_template, **settings) as lab:
                fault_lab = FaultLab(lab, directory, storage, node, redis)
                fault_lab.add_point(fault_lab.change_disk())
                fault_lab.prove_points()
                yield fault_lab
        finally:
            node.end()
            redis.kill()
            with suppress(OSError):
                storage.close()


@pytest.fixture(autouse=True)
def end_faults(fault_lab):
    """End the fault of a test that failed, so that the next one has none."""
    yield
    fault_lab.storage.clear()
    fault_lab.storage.bytes_per_second = 0


@pytest.fixture
def changed(fault_lab):
    """The image of the changed disk, the boot and the disk's file: what a fault must not change."""
    image = fault_lab.change_disk()
    return image, fault_lab.lab.read_boot_id(fault_lab.ip), fault_lab.find_disk()


def test_destination_is_gone(fault_lab, changed):
    """Connections end and are refused in the middle of the upload, and of the download."""
    point = fault_lab.points[-1][0]
    for method, request in (("PUT", fault_lab.request_backup), ("GET", lambda: fault_lab.request_restore(point))):
        fault_lab.hold(method)
        task = request()
        fault_lab.wait_until_held()
        fault_lab.storage.refuse()
        fault_lab.ensure_failed(task, STORAGE_ERROR, "no connection")
        fault_lab.storage.listen()
        assert fault_lab.check_destination()["passed"]
    fault_lab.ensure_unchanged(*changed)
    fault_lab.prove(changed[0])


def test_destination_is_full(fault_lab, changed):
    """Packs are not accepted; restores need no space."""
    fault_lab.storage.set_fault(507, "PUT", "/packs/")
    fault_lab.ensure_failed(fault_lab.request_backup(), STORAGE_ERROR, ": 507")
    fault_lab.ensure_unchanged(*changed)
    fault_lab.lab.wait_for_task(fault_lab.request_restore(fault_lab.points[-1][0]))
    fault_lab.storage.clear()
    fault_lab.prove(fault_lab.change_disk())


def test_slow_destination_delays_the_backup(fault_lab):
    """Packs take seconds each. The backup goes on and completes."""
    image = fault_lab.change_disk(mebibytes=40)
    fault_lab.storage.bytes_per_second = 4 * MEBIBYTE
    began_at, task, rows = time.monotonic(), fault_lab.request_backup(), []

    def has_ended():
        rows.append(fault_lab.get_task(task))
        return rows[-1]["status"] not in ("queued", "running")

    wait_until(has_ended, "the end of the task")
    fault_lab.storage.bytes_per_second = 0
    assert rows[-1]["status"] == "completed", rows[-1]
    assert time.monotonic() - began_at > 40 / 4
    assert len({row["bytes_done"] for row in rows if row["bytes_done"]}) > 1, rows
    fault_lab.adopt_points(image)
    fault_lab.prove(image)


def test_destination_that_lies_is_noticed_at_restore(fault_lab, changed):
    """It accepts packs and stores none. The restore fails, a verification names what is missing, and the next backup
    stores it, so that both can be restored."""
    image, known = changed[0], len(fault_lab.list_named_damage())
    fault_lab.storage.set_fault(200, "PUT", "/packs/")
    row = fault_lab.add_point(image)
    fault_lab.storage.clear()
    fault_lab.ensure_failed(fault_lab.request_restore(row), STORAGE_ERROR, "is missing")
    fault_lab.ensure_unchanged(*changed)
    fault_lab.wait_for_verification()
    assert [backup["id"] for backup in fault_lab.list_backups() if backup["damaged"]] == [row["id"]]
    [entry] = fault_lab.list_named_damage()[known:]
    assert row["id"] in entry
    fault_lab.add_point(image)
    assert fault_lab.verify_all() == []
    fault_lab.prove_points()


def test_damaged_chunk_is_named_and_healed(fault_lab, changed, s3_server):
    """One byte changes in the bucket. A verification names the chunk, no restore uses it, and the next backup stores it
    again, so that both can be restored."""
    known, before = len(fault_lab.list_named_damage()), list_packs(s3_server)
    row = fault_lab.add_point(changed[0])
    for key in list_packs(s3_server) - before:
        content = bytearray(s3_server.operator.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        content[len(content) // 2] ^= 1
        s3_server.operator.put_object(Bucket=BUCKET, Key=key, Body=bytes(content))
    assert fault_lab.verify_all() == [row["id"]]
    [entry] = fault_lab.list_named_damage()[known:]
    assert row["id"] in entry
    fault_lab.ensure_failed(fault_lab.request_restore(row), STORAGE_ERROR, "is missing")
    fault_lab.ensure_unchanged(*changed)
    fault_lab.wait_for_verification()
    assert fault_lab.add_point(changed[0])["chain_reason"] == "missing_chunks"
    assert fault_lab.verify_all() == []
    fault_lab.prove_points()


def test_certificate_of_another_authority_is_refused(fault_lab, changed, authority, s3_server):
    """Nothing is sent to such a server. A backup server is recognized by its fingerprint instead: see
    tests/instance_backups/test_rbs_faults.py."""
    before, point = list_objects(s3_server), fault_lab.points[-1][0]
    fault_lab.storage.use_certificate(CertificateAuthority().issue(fault_lab.directory))
    try:
        for task in (fault_lab.request_backup(), fault_lab.request_restore(point)):
            fault_lab.ensure_failed(task, STORAGE_ERROR, "its certificate is not accepted")
        check = fault_lab.check_destination()
        assert not check["passed"]
        assert "its certificate is not accepted" in check["steps"][0]["message"]
        assert list_objects(s3_server) == before
        fault_lab.ensure_unchanged(*changed)
    finally:
        fault_lab.storage.use_certificate(authority.issue(fault_lab.directory))
    assert fault_lab.check_destination()["passed"]
    fault_lab.prove(changed[0])


def test_node_is_cut_off(fault_lab):
    """The connections to the node end in the middle of a backup, and of a restore."""
    image = fault_lab.change_disk(mebibytes=64)
    unchanged = image, fault_lab.lab.read_boot_id(fault_lab.ip), fault_lab.find_disk()
    point = fault_lab.points[-1][0]
    for method, request in (("PUT", fault_lab.request_backup), ("GET", lambda: fault_lab.request_restore(point))):
        fault_lab.hold(method)
        task = request()
        fault_lab.wait_until_held()
        fault_lab.node.refuse()
        fault_lab.storage.clear()
        fault_lab.ensure_failed(task, CONNECTION_ERROR)
        fault_lab.node.accept()
        fault_lab.lab.wait_for_hypervisor(fault_lab.lab.node)
        fault_lab.find_disk()
    fault_lab.ensure_unchanged(*unchanged)
    fault_lab.prove(image)


def test_redis_restarts_empty(fault_lab, changed):
    """In the middle of a backup, which completes, and before the notification of the next one, which is repeated."""
    fault_lab.hold("PUT")
    task = fault_lab.request_backup()
    fault_lab.wait_until_held()
    fault_lab.redis.kill()
    fault_lab.redis.start()
    fault_lab.storage.clear()
    assert fault_lab.wait_for_end(task)["status"] == "completed"
    fault_lab.redis.kill()
    task = fault_lab.request_backup()
    fault_lab.redis.start()
    assert fault_lab.wait_for_end(task)["status"] == "completed"
    fault_lab.adopt_points(changed[0])
    fault_lab.prove(changed[0])


def test_worker_is_killed_in_the_middle_of_the_upload(fault_lab, changed):
    """Another worker begins again, and the guest does not notice."""
    fault_lab.hold("PUT")
    task = fault_lab.request_backup()
    fault_lab.wait_until_held()
    fault_lab.kill_workers()
    fault_lab.storage.clear()
    fault_lab.ensure_repeated(task)
    fault_lab.ensure_unchanged(*changed)
    fault_lab.adopt_points(changed[0])
    fault_lab.prove(changed[0])


def test_worker_is_killed_in_the_middle_of_a_restore(fault_lab, changed):
    """The guest runs on with its disk until another worker has restored the backup."""
    row = fault_lab.points[-1][0]
    fault_lab.hold("GET")
    task = fault_lab.request_restore(row)
    fault_lab.wait_until_held()
    fault_lab.kill_workers()
    fault_lab.ensure_running(*changed)
    fault_lab.storage.clear()
    fault_lab.ensure_repeated(task)
    fault_lab.prove(fault_lab.change_disk())
