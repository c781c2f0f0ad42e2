"""A repository in a bucket: faults of the server, of its settings and of the network."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from panel.core.config import ROOT
from tests.backup_engine.stored_images import ImageNode, back_up, make_noise, read_image
from tests.support.ports import find_free_port
from tests.support.s3_server import LOCKED_BUCKET
from worker.backups import s3
from worker.backups.errors import Damaged, ObjectNotFound, TargetFailed
from worker.backups.garbage import collect_garbage
from worker.backups.repository import Repository
from worker.backups.s3 import S3Target
from worker.backups.verification import verify

pytestmark = pytest.mark.processes
KiB, MiB = 1024, 1024**2
LIMITS = {"read_timeout": 0.3, "attempts": 1}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(s3, "RETRY_SECONDS", 0)


@pytest.fixture
def repository(proxied_target, key):
    """A repository behind the proxy, with one point."""
    repository = Repository.create(proxied_target, key)
    yield repository
    repository.close()


@pytest.fixture
def node():
    node = ImageNode(2 * MiB)
    node.write(0, make_noise(1, MiB))
    return node


def list_calls(target):
    """Return calls of all methods, by name."""
    return {
        "put": lambda: target.put("points/one", b"content"),
        "get": lambda: target.get("points/one"),
        "get_range": lambda: target.get("points/one", 3, 2),
        "list": lambda: list(target.list("points")),
        "stat": lambda: target.stat("points/one"),
        "delete": lambda: target.delete("points/one"),
    }


def test_objects_are_stored_and_deleted(s3_target, s3_server, s3_folder):
    s3_target.put("points/one", b"first")
    s3_target.put("points/one", b"content")
    s3_server.operator.put_object(Bucket=s3_target.bucket, Key=f"{s3_folder}points/")  # as consoles create folders
    assert (s3_target.get("points/one"), s3_target.get("points/one", 3)) == (b"content", b"tent")
    assert (s3_target.get("points/one", 3, 2), s3_target.get("points/one", 5, 20)) == (b"te", b"nt")
    assert s3_target.get("points/one", 20, 2) == b""
    assert list(s3_target.list("points")) == ["points/one"]
    stat = s3_target.stat("points/one")
    assert (stat.size, abs(stat.modified_at - time.time()) < 60) == (7, True)
    for _ in range(2):
        s3_target.delete("points/one")
    assert list(s3_target.list("points")) == []
    for name in ("get", "get_range", "stat"):
        with pytest.raises(ObjectNotFound):
            list_calls(s3_target)[name]()


SETTINGS_FAULTS = {
    "missing bucket": {"bucket": "missing-backups"},
    "unknown key": {"access_key": "unknown-key"},
    "wrong secret": {"secret_key": "wrong-secret-text"},
    "no server": {"endpoint": f"http://127.0.0.1:{find_free_port()}"},
    "no TLS": {"endpoint": "https"},
    "invalid endpoint": {"endpoint": "http://a..b"},
}


@pytest.mark.parametrize("fault", SETTINGS_FAULTS)
def test_wrong_settings_fail_every_call(s3_server, s3_folder, key, fault):
    """No fault looks like an object that is missing, so no repository is created anew. Errors show no secret."""
    changes = SETTINGS_FAULTS[fault]
    if fault == "no TLS":
        changes = {"endpoint": s3_server.endpoint.replace("http:", "https:")}
    bucket = replace(s3_server.get_bucket(), **changes)
    assert bucket.secret_key not in repr(bucket)
    if fault == "invalid endpoint":
        with pytest.raises(TargetFailed, match="not a valid URL"):
            S3Target(bucket, s3_folder, **LIMITS)
        return
    target = S3Target(bucket, s3_folder, **LIMITS)
    for call in [*list_calls(target).values(), lambda: Repository.create(target, key)]:
        with pytest.raises(TargetFailed) as caught:
            call()
        for text in (bucket.secret_key, bucket.access_key, bucket.endpoint):
            assert text not in str(caught.value)


def test_certificates_are_verified(standalone_file_server, file_server_authority, s3_server, monkeypatch, tmp_path):
    """Also those of an operator's own authority, when the environment has it."""
    bucket = replace(s3_server.get_bucket(), endpoint=standalone_file_server.url(""))
    with pytest.raises(TargetFailed, match="certificate is not accepted"):
        S3Target(bucket, **LIMITS).check_bucket()
    (tmp_path / "ca.pem").write_text(file_server_authority.pem)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    s3.get_session.cache_clear()
    with pytest.raises(TargetFailed, match="404"):
        S3Target(bucket, read_timeout=10, attempts=1).check_bucket()
    s3.get_session.cache_clear()


@pytest.mark.parametrize(
    ("path_style", "url"),
    [
        (True, "https://s3.example.com/backups/folder/points/one"),
        (False, "https://backups.s3.example.com/folder/points/one"),
    ],
)
def test_bucket_is_named_in_path_or_host_name(s3_server, path_style, url):
    bucket = replace(s3_server.get_bucket(), endpoint="https://s3.example.com", path_style=path_style)
    target = S3Target(bucket, "folder/")
    signed = target.client.generate_presigned_url("get_object", target.get_arguments("points/one"))
    assert signed.partition("?")[0] == url


@pytest.mark.parametrize("fault", [500, 503, 507, 403, "slow", "lost"])
def test_failing_server_fails_the_backup(repository, s3_proxy, node, fault):
    """The earlier point stays, and the next backup is right."""
    full, before = back_up(node, repository, "full"), bytes(node.image)
    node.write(MiB, make_noise(2, 300 * KiB))
    s3_proxy.set_fault(fault, "PUT", "/packs/")
    began_at = time.monotonic()
    with pytest.raises(TargetFailed):
        back_up(node, repository, "second", full)
    assert time.monotonic() - began_at < 10
    s3_proxy.clear()
    assert repository.list_points() == ["full"]
    assert read_image(repository, "full") == before
    back_up(node, repository, "second", full)
    assert read_image(repository, "second") == node.image
    assert verify(repository).damaged_chunks == set()
    collect_garbage(repository, 0)
    collect_garbage(repository, 0)
    names = {name.rpartition("/")[2] for name in repository.target.list("packs")}
    assert names == {name.rpartition("/")[2] for name in repository.target.list("index")}
    assert read_image(repository, "second") == node.image


@pytest.mark.parametrize("part", ["/packs/", "/index/", "/points/", "/leases/"])
def test_lost_answer_is_repeated(repository, s3_proxy, node, part):
    """The object was stored; that it is stored again is harmless."""
    s3_proxy.set_fault("lost", "PUT", part, count=1)
    back_up(node, repository, "point")
    assert s3_proxy.remaining == 0
    assert read_image(repository, "point") == node.image
    assert verify(repository).damaged_chunks == set()


def test_point_whose_answers_were_lost_can_be_deleted(repository, s3_proxy, node):
    """The backup failed although its point exists. Deleting it, as for any failed backup, leaves nothing."""
    s3_proxy.set_fault("lost", "PUT", "/points/")
    with pytest.raises(TargetFailed):
        back_up(node, repository, "point")
    s3_proxy.clear()
    assert repository.list_points() == ["point"]
    repository.delete_point("point")
    collect_garbage(repository, 0)
    collect_garbage(repository, 0)
    assert list(repository.target.list("packs")) == []


def test_changed_content_is_noticed(repository, s3_proxy, node):
    back_up(node, repository, "point")
    s3_proxy.set_fault("changed", "GET", "/packs/")
    with pytest.raises(Damaged):
        read_image(repository, "point")
    s3_proxy.set_fault("changed", "GET", "/points/")
    with pytest.raises(Damaged):
        repository.read_manifest("point")


def test_short_answer_is_requested_again(repository, s3_proxy, node):
    back_up(node, repository, "point")
    s3_proxy.set_fault("short", "GET", "/packs/", count=1)
    assert read_image(repository, "point") == node.image
    s3_proxy.set_fault("short", "GET", "/packs/")
    with pytest.raises(TargetFailed, match="ended early"):
        read_image(repository, "point")


def test_object_lock_is_known(s3_server, s3_target, s3_folder, s3_proxy, proxied_target):
    """Where old versions are kept, an object that was deleted is gone for the repository."""
    target = S3Target(s3_server.get_bucket("operator", LOCKED_BUCKET), s3_folder)
    assert (target.has_object_lock(), s3_target.has_object_lock()) == (True, False)
    s3_proxy.set_fault(503)
    with pytest.raises(TargetFailed):
        proxied_target.has_object_lock()
    target.put("points/one", b"content")
    target.delete("points/one")
    with pytest.raises(ObjectNotFound):
        target.stat("points/one")
    assert list(target.list("points")) == []


def test_restore_command_reads_a_bucket(s3_target, s3_folder, key, tmp_path):
    repository = Repository.create(s3_target, key)
    node = ImageNode(512 * KiB)
    node.write(0, make_noise(1, 256 * KiB))
    back_up(node, repository, "point")
    repository.close()
    (tmp_path / "key").write_text(key.to_text())
    program = (
        "import sys; from worker.backups import repository, restore, manifests; "
        "repository.TABLE_CHUNKS = manifests.TABLE_CHUNKS = 4; sys.exit(restore.main())"
    )
    location = [f"s3://{s3_target.bucket}/{s3_folder}", "--endpoint", s3_target.client.meta.endpoint_url]
    options = ["--key-file", tmp_path / "key", "--point", "point", "--disk", "disk", "--output", tmp_path / "disk.raw"]
    keys = {"AWS_ACCESS_KEY_ID": "backups", "AWS_SECRET_ACCESS_KEY": "backups-secret"}

    def run(environment):
        command = [sys.executable, "-c", program, *map(str, [*location, *options])]
        return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)

    answer = run(keys)
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "disk.raw").read_bytes() == node.image
    assert "AWS_ACCESS_KEY_ID" in run({}).stderr
