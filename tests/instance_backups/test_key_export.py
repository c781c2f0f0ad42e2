"""The exported key, and the restore without the panel and its database."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from panel.cli import backup_key
from panel.core.config import ROOT
from panel.core.db import session
from panel.models import AuditEntry, BackupRepository, InstanceBackup
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.backups.targets import LocalTarget


@pytest.fixture
def run(rolled_back_app, monkeypatch):
    """Return a function that runs `panel backup-key` in this test's transaction."""
    monkeypatch.setattr(backup_key, "app_context", contextlib.nullcontext)
    return lambda *arguments, **options: CliRunner().invoke(backup_key.command, list(map(str, arguments)), **options)


@pytest.fixture
def backup(back_up, guest):
    guest.write("content of the guest" * 1000)
    return back_up()


@pytest.fixture
def repository(backup):
    return session.query(BackupRepository).one()


def count_entries():
    return session.query(AuditEntry).filter_by(action="panel.backup_key.export").count()


def restore_alone(tmp_path, *arguments):
    """Run the restore command with nothing of the product but its folder."""
    source = tmp_path / "source"
    if not source.exists():
        shutil.copytree(
            ROOT / "worker/backups", source / "worker/backups", ignore=shutil.ignore_patterns("__pycache__")
        )
    environment = {"PATH": os.environ["PATH"], "PYTHONSAFEPATH": "1", "PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "worker.backups.restore", *map(str, arguments)]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)


def test_backup_is_restored_without_panel_byte_for_byte(run, repository, backup, folder, tmp_path):
    key = tmp_path / "key"
    answer = run("export", repository.id, key, "--yes")
    assert answer.exit_code == 0, answer.output
    assert repository.id in answer.output
    assert (key.stat().st_mode & 0o777, key.read_text().strip()) == (0o600, repository.key)
    assert repository.key not in answer.output
    directory = folder / repository.id
    listing = restore_alone(tmp_path, directory, "--key-file", key)
    assert backup["id"] in listing.stdout, listing.stderr
    stored = session.get(InstanceBackup, backup["id"]).disks[0]
    image = tmp_path / "disk.raw"
    done = restore_alone(
        tmp_path, directory, "--key-file", key, "--point", backup["id"], "--disk", stored["name"], "--output", image
    )
    assert done.returncode == 0, done.stderr
    content = read_stored_disk(directory, repository.key, backup["id"], stored["name"])
    assert image.stat().st_size == stored["size"]
    with image.open("rb") as file:
        for offset, data in content:
            file.seek(offset)
            assert file.read(len(data)) == data
    used = sum(len(data) for _, data in content)
    assert b"content of the guest" in b"".join(data for _, data in content)
    assert image.stat().st_blocks * 512 <= used, "everything else is a hole"


def read_stored_disk(directory, key, point, name):
    opened = Repository(LocalTarget(directory), RepositoryKey.from_text(key))
    disk = opened.read_manifest(point).find_disk(name)
    chunks = [(offset, opened.read_chunk(chunk)) for offset, chunk in opened.list_chunks(disk)]
    opened.close()
    return [(offset, data[: disk.size - offset]) for offset, data in chunks]


def test_wrong_key_is_refused(repository, backup, folder, tmp_path):
    key = tmp_path / "key"
    key.write_text(RepositoryKey.generate().to_text())
    done = restore_alone(tmp_path, folder / repository.id, "--key-file", key)
    assert done.returncode == 1
    assert "belongs to another key" in done.stderr


def test_export_asks_and_is_recorded(run, repository, tmp_path, cast):
    assert run("export", repository.id, tmp_path / "key", input="n\n").exit_code == 1
    assert (count_entries(), (tmp_path / "key").exists()) == (0, False)
    answer = run("export", repository.id, tmp_path / "key", input="y\n")
    assert f"all backups of {cast.owner.email} in backups-1?" in answer.output
    assert answer.exit_code == 0
    entry = session.query(AuditEntry).filter_by(action="panel.backup_key.export").one()
    assert (entry.object_id, entry.account_id, entry.person) == (repository.id, cast.owner.id, "command line")


def test_export_never_overwrites(run, repository, tmp_path):
    (tmp_path / "key").write_text("mine")
    answer = run("export", repository.id, tmp_path / "key", "--yes")
    assert (answer.exit_code, (tmp_path / "key").read_text(), count_entries()) == (1, "mine", 0)
    assert run("export", "unknown", tmp_path / "other", "--yes").exit_code == 1


def test_repositories_are_listed(run, repository, cast):
    assert run("list").output.split() == [repository.id, cast.owner.email, "backups-1", "local"]
