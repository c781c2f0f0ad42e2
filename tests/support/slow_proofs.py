"""Slow proofs: tests that take minutes and are run when the files that they prove have changed since they passed.

`tests/slow_proofs.json` has the digest of these files for each proof, as of its last success. While it is the present
one, the tests marked `slow_proof(name)` are deselected, and the summary says so. `make slow-proofs` runs them all and
records their digests.
"""

import hashlib
import json
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD_PATH = ROOT / "tests" / "slow_proofs.json"
RUN_OPTION = "--run-slow-proofs"

PROVED_FILES = {
    "docker": (
        "tests/guests/test_docker.py",
        "tests/guests/package_archive.py",
        "worker/guest/background_job.py",
        "worker/guest/docker*.py",
        "worker/guest/docker_scripts/*",
        "worker/images/debian/**/*",
        "worker/nodes/libvirt/guest_agent*.py",
        "worker/sync/docker_polling.py",
        "worker/tasks/docker_deployments.py",
        "panel/services/docker_apps/*",
        "panel/services/docker_deployments/*.py",
        "panel/workflows/docker_*.py",
        "api/instances/docker_*.py",
    ),
    "benchmarks": (
        "tests/bench/*.py",
        "api/**/*.py",
        "consoles/*.py",
        "panel/core/*.py",
        "panel/models/**/*.py",
        "panel/pages/**/*.py",
        "panel/services/**/*.py",
        "panel/web/*.py",
        "worker/**/*.py",
    ),
    "databases": (
        "api/**/*.py",
        "panel/core/*.py",
        "panel/models/**/*.py",
        "panel/services/**/*.py",
        "panel/workflows/*.py",
        "worker/engine/*.py",
        "worker/sync/*.py",
        "worker/tasks/*.py",
    ),
    "debian": (
        "tests/guests/test_ssh_key_injection.py",
        "consoles/ssh.py",
        "worker/guest/ssh_keys.py",
        "worker/images/disk.py",
        "worker/images/packages.py",
        "worker/images/rootfs_overlay.py",
        "worker/images/debian/**/*",
        "worker/nodes/libvirt/guest_agent*.py",
        "worker/tasks/cloud_init.py",
    ),
    "malformed-input": (
        "tests/docs/test_schemathesis.py",
        "tests/input_validation/*.py",
        "tests/support/malformed_input.py",
        "api/**/*.py",
        "panel/core/*.py",
        "panel/pages/**/*.py",
        "panel/schemas/**/*.py",
        "panel/services/**/*.py",
        "panel/web/*.py",
        "panel/workflows/*.py",
    ),
    "new-resource": (
        "tests/support/new_resource.py",
        "tests/support/skeleton/**/*",
        "tests/support/skeleton_texts.py",
        "tests/test_new_resource.py",
        "tests/test_access.py",
        "tests/test_architecture.py",
        "api/kit.py",
        "panel/auth/browser_session.py",
        "panel/core/db.py",
        "panel/core/jobs.py",
        "panel/core/task_kinds.py",
        "panel/schemas/base.py",
        "panel/services/access.py",
        "panel/web/*.py",
        "worker/engine/registry.py",
    ),
    "secure-boot": (
        "tests/guests/test_secure_boot.py",
        "worker/images/disk.py",
        "worker/images/uefi.py",
        "worker/images/tiny/boot.py",
        "worker/images/tiny/initramfs/*",
        "worker/nodes/libvirt/chipset.py",
        "worker/nodes/libvirt/firmware*.py",
        "worker/nodes/libvirt/nvram.py",
        "worker/tasks/hardware_options.py",
    ),
    "first-boot": (
        "tests/guests/test_first_boot.py",
        "panel/services/instances/first_boot.py",
        "panel/services/instances/reinstall.py",
        "worker/images/tiny/overlay/**/*",
        "worker/tasks/cloud_init.py",
        "worker/tasks/reinstall.py",
    ),
    "backups": (
        "tests/bench/backup_latency.py",
        "tests/browser/test_backup_flow.py",
        "tests/guests/lab_backups.py",
        "tests/guests/test_backup_faults.py",
        "tests/guests/test_backups.py",
        "panel/pages/customer/backup_files.py",
        "panel/pages/customer/backup_policies.py",
        "panel/pages/customer/backups.py",
        "panel/services/backup_files/*.py",
        "panel/services/backup_policies/runs.py",
        "panel/services/backup_policies/schedule.py",
        "templates/customer/backup_files/*",
        "templates/customer/backup_policies/*",
        "worker/backup_guest/*.py",
        "worker/backups/*.py",
        "worker/nodes/libvirt/backups.py",
        "worker/nodes/libvirt/checkpoints.py",
        "worker/tasks/backup_files.py",
        "worker/tasks/backup_policies.py",
        "worker/tasks/backup_restores.py",
        "worker/tasks/instance_backups.py",
    ),
    "sandboxes": (
        "tests/guests/test_many_sandboxes.py",
        "tests/guests/sandbox_inventory.py",
        "panel/services/microvms/expiry.py",
        "panel/services/microvms/pool_members.py",
        "panel/services/microvms/state_reports.py",
        "worker/nodes/libvirt/channels.py",
        "worker/nodes/libvirt/microvm.py",
        "worker/nodes/libvirt/saved_state.py",
        "worker/nodes/libvirt/sandbox_network.py",
        "worker/sandbox_guest/channel.py",
        "worker/sandbox_guest/mux*.py",
        "worker/sandbox_router/*.py",
        "worker/sync/microvms.py",
        "worker/tasks/microvm_files.py",
        "worker/tasks/microvm_network.py",
        "worker/tasks/microvm_pools.py",
        "worker/tasks/microvms.py",
    ),
}
"""Proof → patterns of the files whose change makes it run again."""

PROOF_TIMEOUT_SECONDS = 3600

deselected_key = pytest.StashKey[list[str]]()


@cache
def compute_digest(name):
    """Return the digest of the names and contents of the files that a proof is about."""
    digest = hashlib.sha256()
    for pattern in PROVED_FILES[name]:
        paths = [path for path in sorted(ROOT.glob(pattern)) if path.is_file() and "__pycache__" not in path.parts]
        assert paths, f"The pattern {pattern} of the proof {name} matches no file."
        for path in paths:
            digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def has_passed(name):
    """Return whether the proof has passed with the files as they are."""
    return json.loads(RECORD_PATH.read_text()).get(name) == compute_digest(name)


def pytest_addoption(parser):
    parser.addoption(RUN_OPTION, action="store_true", help="run slow proofs also while their files are unchanged")


def pytest_collection_modifyitems(config, items):
    deselected = []
    for item in items:
        marker = item.get_closest_marker("slow_proof")
        if marker and has_passed(marker.args[0]) and not config.getoption(RUN_OPTION):
            deselected.append(item)
        elif marker:
            item.add_marker(pytest.mark.timeout(PROOF_TIMEOUT_SECONDS))
    if deselected:
        items[:] = [item for item in items if item not in deselected]
        config.hook.pytest_deselected(items=deselected)
        config.stash[deselected_key] = sorted({item.get_closest_marker("slow_proof").args[0] for item in deselected})


def pytest_sessionfinish(session, exitstatus):
    """Succeed when all selected tests are proofs that need not run."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and deselected_key in session.config.stash:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter, config):
    for name in config.stash.get(deselected_key, ()):
        report_not_run(terminalreporter, name)


def report_not_run(terminalreporter, name):
    terminalreporter.write_line(f"Slow proof {name}: not run, its files are unchanged since it passed.")


def main(names):
    """Record that the proofs with these names, or all, have passed with the files as they are."""
    recorded = json.loads(RECORD_PATH.read_text()) | {name: compute_digest(name) for name in names or PROVED_FILES}
    RECORD_PATH.write_text(json.dumps(recorded, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
