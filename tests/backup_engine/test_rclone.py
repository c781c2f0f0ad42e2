"""A repository in a remote of rclone: an OpenSSH server."""

import tempfile
import time

import pytest

from tests.backup_engine.stored_images import ImageNode, back_up, make_noise, read_image
from worker.backups.errors import ObjectNotFound, TargetFailed
from worker.backups.rclone import RcloneTarget
from worker.backups.repository import Repository

pytestmark = pytest.mark.processes
KiB, MiB = 1024, 1024**2


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "remote"


@pytest.fixture
def target(rclone_remotes, folder):
    return RcloneTarget("server", str(folder))


def test_objects_are_stored_and_deleted(target, folder):
    assert list(target.list("points")) == []
    target.delete_incomplete(0)
    for name in ("get", "stat"):
        with pytest.raises(ObjectNotFound):
            getattr(target, name)("points/one")
    target.put("points/one", b"first--")
    target.put("points/one", b"content")
    assert (target.get("points/one"), target.get("points/one", 3)) == (b"content", b"tent")
    assert (target.get("points/one", 3, 2), target.get("points/one", 5, 20)) == (b"te", b"nt")
    stat = target.stat("points/one")
    assert (stat.size, abs(stat.modified_at - time.time()) < 60) == (7, True)
    with pytest.raises(ObjectNotFound):
        target.get("points/two")
    (folder / "objects" / "points" / "two.1234.partial").write_bytes(b"cont")
    assert list(target.list("points")) == ["points/one"]
    target.delete_incomplete(3600)
    assert (folder / "objects" / "points" / "two.1234.partial").exists()
    target.delete_incomplete(0)
    assert [file.name for file in (folder / "objects" / "points").iterdir()] == ["one"]
    for _ in range(2):
        target.delete("points/one")
    assert list(target.list("points")) == []


def test_points_are_restored(target, key):
    repository, node = Repository.create(target, key), ImageNode(MiB)
    node.write(0, make_noise(1, 300 * KiB))
    first = back_up(node, repository, "first")
    node.write(0, make_noise(2, 200 * KiB))
    back_up(node, repository, "second", first)
    assert read_image(repository, "second") == node.image
    repository.delete_point("first")
    assert repository.list_points() == ["second"]
    repository.close()


def list_calls(target):
    return [
        lambda: target.put("points/one", b"content"),
        lambda: target.get("points/one"),
        lambda: list(target.list("points")),
        lambda: target.stat("points/one"),
        lambda: target.delete("points/one"),
        lambda: target.delete_incomplete(0),
        target.check_access,
    ]


def test_server_out_of_reach_fails_every_call(target, key, rclone_remotes):
    """No fault looks like an object that is missing, so no repository is created anew."""
    rclone_remotes.stop()
    try:
        for call in [*list_calls(target), lambda: Repository.create(target, key)]:
            with pytest.raises(TargetFailed, match="code 1") as caught:
                call()
            assert "127.0.0.1" not in str(caught.value)
    finally:
        rclone_remotes.start()


def test_unknown_remote_fails(rclone_remotes, folder):
    with pytest.raises(TargetFailed):
        RcloneTarget("unknown", str(folder)).get("points/one")


@pytest.mark.parametrize(("version", "is_accepted"), [("1.62.2", False), ("1.63.0", True), ("2.0.0", True)])
def test_old_version_is_refused(target, monkeypatch, tmp_path, version, is_accepted):
    """Debian 12 has 1.60."""
    program = tmp_path / "bin" / "rclone"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho rclone v{version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    if is_accepted:
        target.check_access()
        return
    with pytest.raises(TargetFailed, match=r"must be version 1\.63"):
        target.check_access()


def test_missing_program_fails(target, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TargetFailed, match="cannot be started"):
        target.get("points/one")


def test_full_worker_fails(target, monkeypatch):
    """The temporary file cannot be written."""

    def fail(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", fail)
    with pytest.raises(TargetFailed, match="temporary file"):
        target.put("points/one", b"content")


def test_server_without_answer_fails(rclone_remotes, folder):
    target = RcloneTarget("server", str(folder), command_timeout=0.01)
    with pytest.raises(TargetFailed, match="no answer in time"):
        target.get("points/one")


def test_full_server_fails_the_backup(target, key, folder):
    """The point before stays, and nothing incomplete is listed."""
    repository, node = Repository.create(target, key), ImageNode(MiB)
    node.write(0, make_noise(1, 300 * KiB))
    full = back_up(node, repository, "full")
    (folder / "objects" / "packs").rename(folder / "away")
    (folder / "objects" / "packs").write_text("a file, so that nothing can be stored below")
    node.write(0, make_noise(2, 300 * KiB))
    with pytest.raises(TargetFailed):
        back_up(node, repository, "second", full)
    (folder / "objects" / "packs").unlink()
    (folder / "away").rename(folder / "objects" / "packs")
    assert repository.list_points() == ["full"]
    repository.close()
