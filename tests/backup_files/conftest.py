"""A running machine with a backup. The machine that reads it is the guest's program on a tree of files."""

import json
import os
import shutil
import socket

import pytest

from panel.core import context
from panel.services.backup_files import sessions
from tests.support.backups import (  # noqa: F401  (fixtures)
    back_up,
    destination,
    folder,
    inline_workers,
    path,
)
from tests.support.running_machine import guest, machine  # noqa: F401  (fixtures)
from tests.support.worker_faults import fault_at, kill_worker_at  # noqa: F401  (fixtures)
from worker.backup_guest.errors import Refused
from worker.backup_guest.transfer import Port, serve
from worker.backup_guest.tree import list_folder
from worker.guest import backup_files as guest_files
from worker.images import helper_image
from worker.nodes.base import CommandResult
from worker.nodes.simulated import SimulatedNode
from worker.tasks import backup_files as tasks

VOLUME = {"name": "disk-1-partition-1", "kind": "ext4", "label": "root", "size": 2**30, "error": None}


@pytest.fixture
def tree(tmp_path):
    """The mounted file systems: one folder for each."""
    volumes = tmp_path / "volumes"
    root = volumes / "disk-1-partition-1"
    (root / "etc").mkdir(parents=True)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    return root


@pytest.fixture
def helper(tree, monkeypatch):
    """Make the simulated node run the program of the guest."""
    (data_dir := context.current().config.data_dir).joinpath("images").mkdir(exist_ok=True)
    shutil.rmtree(data_dir / sessions.FOLDER, ignore_errors=True)
    files = {}
    for kind in ("disk", "kernel", "initrd"):
        files |= {f"{kind}_path": f"images/backup-files.{kind}", f"{kind}_size": 4}
        (data_dir / f"images/backup-files.{kind}").write_bytes(b"file")
    image = helper_image.HelperImage("Reader", "f" * 32, **files, kernel_options="quiet")
    (data_dir / sessions.IMAGE_DESCRIPTION_FILE).touch()
    monkeypatch.setattr(helper_image, "read_description", lambda data_dir: image)
    monkeypatch.setattr(sessions, "UNSUPPORTED_DRIVERS", ())
    monkeypatch.setattr(tasks, "TASK_WAIT_INTERVAL_SECONDS", 0)
    run = SimulatedNode.agent_run
    volumes = [VOLUME]

    def agent_run(self, machine_id, command, stdin="", deadline=30):
        name, *arguments = command
        if name != guest_files.COMMAND:
            return run(self, machine_id, command, stdin, deadline)
        return CommandResult(0, json.dumps(answer(tree.parent, volumes, *arguments)))

    def serve_channel(guest_end: socket.socket):
        serve(Port(os.dup(guest_end.fileno()), ends=True), tree.parent)

    monkeypatch.setattr(SimulatedNode, "agent_run", agent_run)
    monkeypatch.setattr(SimulatedNode, "serve_channel", staticmethod(serve_channel))
    return volumes


def answer(root, volumes, command, *arguments):
    if command == "status":
        return {"ready": True, "volumes": volumes}
    place, after, limit = arguments
    try:
        return list_folder(root, place, after, int(limit))
    except Refused as refusal:
        return {"error": refusal.code}


@pytest.fixture(autouse=True)
def run_tasks_while_waiting(inline_workers):
    """Run queued tasks while a request waits for a result."""


@pytest.fixture
def backup(back_up, helper):
    return back_up()


@pytest.fixture
def files_path(path, backup):
    return f"{path}/backup/{backup['id']}/files"


@pytest.fixture
def opened(api_as, files_path, run_tasks):
    """Open the files; the path of their list."""
    answer = api_as("owner", "POST", f"{files_path}/session")
    assert (answer.status_code, answer.json["session"]["state"]) == (200, "preparing"), answer.text
    run_tasks()
    session = api_as("owner", "GET", f"{files_path}/session").json["session"]
    assert (session["state"], session["error"]) == ("ready", None)
    return files_path
