"""Points on a remote backup server: its protocols, its formats, and faults."""

import json

import pytest

from panel.core import clock
from tests.backup_engine.stored_images import ImageNode, back_up, make_noise, read_image
from tests.support.rbs_datastore import MemorySnapshots, decode_blob
from tests.support.rbs_server import AUTH_ID, SECRET, rbs_server  # noqa: F401  (fixture)
from worker.backups.errors import Damaged, ObjectNotFound
from worker.backups.keys import RepositoryKey
from worker.backups.rbs import writer
from worker.backups.rbs.api import Server
from worker.backups.rbs.blobs import FINGERPRINT_INPUT, BlobKey, encode_plain
from worker.backups.rbs.errors import FingerprintMismatch, ServerFailed
from worker.backups.rbs.store import RbsStore

MiB = 1024**2
CHUNK = 4 * MiB


@pytest.fixture
def server(rbs_server):
    return rbs_server


@pytest.fixture
def snapshots():
    return MemorySnapshots()


@pytest.fixture
def open_store(server, snapshots, key, request):
    """Return a function that opens the store; settings replace those of the server."""

    def open_store(key=key, **changes):
        store = RbsStore(Server(**server.config | {"timeout": 10.0} | changes), key, snapshots)
        request.addfinalizer(store.close)
        return store

    return open_store


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def node():
    """24 MiB, of which 13 are used, in three chunks and the half of another."""
    node = ImageNode(24 * MiB)
    node.write(0, make_noise(1, 9 * MiB))
    node.write(16 * MiB, make_noise(2, 4 * MiB))
    return node


def test_disk_is_restored(server, store, open_store, node):
    manifest = back_up(node, store, "first")
    image = bytes(node.image)
    assert manifest.disks[0].read_mode == "full"
    assert server.datastore.uploads == 5, "four chunks with content, and one of zeros for all others"
    assert 13 * MiB < manifest.statistics.bytes_uploaded < 14 * MiB
    assert (manifest.statistics.chunks_stored, manifest.statistics.chunks_reused) == (4, 0)
    assert open_store().list_points() == ["first"]
    assert read_image(open_store(), "first") == image
    [key] = server.datastore.snapshots
    assert key[:3] == ("", "vm", "machine-1")
    server.datastore.pending_verifications.append(key)
    server.datastore.run_verifications()
    assert server.datastore.snapshots[key].verification == "ok", "the server finds all that the manifest lists"


def test_increment_reads_and_uploads_changes_only(server, store, open_store, node):
    first = back_up(node, store, "first")
    images, uploads = [bytes(node.image)], server.datastore.uploads
    node.write(5 * MiB, make_noise(3, 64 * 1024))
    images.append(bytes(node.image))
    store = open_store()
    second = back_up(node, store, "second", store.read_manifest("first"))
    assert (second.disks[0].read_mode, second.parent) == ("incremental", "first")
    assert second.statistics.bytes_read == 64 * 1024, "the rest of the chunk comes from the server"
    assert (second.statistics.chunks_stored, second.statistics.chunks_reused) == (1, 3)
    assert server.datastore.uploads == uploads + 1
    assert first.statistics.bytes_uploaded > second.statistics.bytes_uploaded > 3 * MiB
    assert [read_image(open_store(), point) for point in ("first", "second")] == images


def test_unchanged_chunks_are_not_uploaded_again_after_a_full_read(server, store, open_store, node):
    back_up(node, store, "first")
    uploads = server.datastore.uploads
    second = back_up(node, open_store(), "second")
    assert second.disks[0].read_mode == "full"
    assert server.datastore.uploads == uploads
    assert (second.statistics.chunks_stored, second.statistics.chunks_reused) == (0, 4)


def test_disk_with_a_part_of_a_chunk_is_restored(store, open_store):
    node = ImageNode(6 * MiB)
    node.write(0, make_noise(1, 6 * MiB))
    back_up(node, store, "first")
    assert read_image(open_store(), "first") == bytes(node.image)


def test_snapshots_are_in_the_namespace(server, store, snapshots, open_store, node):
    snapshots.namespace = "panel"
    back_up(node, store, "first")
    [key] = server.datastore.snapshots
    assert key[0] == "panel"
    assert read_image(open_store(), "first") == bytes(node.image)


def test_server_has_neither_content_nor_names(server, store, node):
    node.write(0, b"a secret of the customer" * 1000)
    back_up(node, store, "first", machine={"hostname": "secret.example.com"})
    [snapshot] = server.datastore.snapshots.values()
    stored = [*server.datastore.chunks.values(), *snapshot.files.values()]
    assert not any(b"secret" in blob for blob in stored)
    manifest = json.loads(decode_blob(snapshot.files["index.json.blob"]))
    assert {file["crypt-mode"] for file in manifest["files"]} == {"encrypt"}


def test_chunks_are_not_shared_between_accounts(server, open_store, node):
    back_up(node, open_store(), "first")
    uploads = server.datastore.uploads
    back_up(node, open_store(key=RepositoryKey.generate()), "second")
    assert server.datastore.uploads == 2 * uploads


def test_point_of_another_key_is_not_read(open_store, store, node):
    back_up(node, store, "first")
    with pytest.raises(Damaged, match="another key"):
        open_store(key=RepositoryKey.generate()).read_manifest("first")


def test_blobs_have_the_public_format():
    """Values that other clients compute from the same key and content."""
    key = BlobKey(RepositoryKey(bytes(range(32))))
    assert FINGERPRINT_INPUT[:8] == bytes((110, 208, 239, 119, 71, 31, 255, 77))
    blob = key.encode(b"x" * 1000)
    assert blob[:8] == bytes((230, 89, 27, 191, 11, 191, 216, 11))
    assert key.decode(blob) == b"x" * 1000
    incompressible = make_noise(1, 100)
    assert key.encode(incompressible)[:8] == bytes((123, 103, 133, 190, 34, 45, 76, 240))
    assert len(key.encode(incompressible)) == 44 + 100
    assert key.decode(encode_plain(b"{}")) == b"{}"
    assert encode_plain(b"{}")[:8] == bytes((66, 171, 56, 7, 190, 131, 112, 161))


# --- faults


def test_other_certificate_is_refused(server, store, node):
    """DST-10"""
    server.replace_certificate()
    with pytest.raises(FingerprintMismatch):
        back_up(node, store, "first")
    assert server.requests == [], "the token was not sent"


def test_cut_connection_leaves_no_snapshot(server, store, open_store, node):
    server.chunks_until_cut = 2
    with pytest.raises(ServerFailed):
        back_up(node, store, "first")
    assert open_store().list_points() == []
    server.chunks_until_cut = None
    back_up(node, open_store(), "first")
    assert read_image(open_store(), "first") == bytes(node.image)


def test_full_server_is_named(server, store, node):
    server.datastore.is_full = True
    with pytest.raises(ServerFailed, match="No space left"):
        back_up(node, store, "first")
    assert server.datastore.list_group(("", "vm", "machine-1")) == []


def test_server_that_does_not_answer_fails_the_backup(server, open_store, node):
    server.delay = 2
    with pytest.raises(ServerFailed, match="timed out"):
        back_up(node, open_store(timeout=0.3), "first")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"token_secret": "wrong"}, 401),
        ({"datastore": "other"}, 403),
        ({"auth_id": "panel@pbs!other"}, 401),
    ],
)
def test_refused_token_is_named(open_store, node, change, status):
    with pytest.raises(ServerFailed) as error:
        back_up(node, open_store(**change), "first")
    assert error.value.status == status


def test_secret_is_in_no_text(server):
    assert SECRET not in repr(Server(**server.config))
    assert AUTH_ID in repr(Server(**server.config))


def test_damaged_chunk_is_uploaded_again(server, store, open_store, node):
    """The server removes chunks that its verification finds damaged."""
    back_up(node, store, "first")
    [key] = server.datastore.snapshots
    store = open_store()
    previous = store.read_manifest("first")
    names = [name for _, name in store.list_chunks(previous.disks[0])]
    del server.datastore.chunks[names[1]]
    with pytest.raises(Damaged):
        read_image(open_store(), "first")
    server.datastore.pending_verifications.append(key)
    server.datastore.run_verifications()
    assert server.datastore.snapshots[key].verification == "failed"
    node.write(5 * MiB, b"change")
    second = back_up(node, store, "second", previous)
    assert second.disks[0].full_read_reason == "missing_chunks"
    assert read_image(open_store(), "second") == bytes(node.image)


def test_full_read_without_previous_snapshot(server, store, open_store, node):
    back_up(node, store, "first")
    store = open_store()
    previous = store.read_manifest("first")
    server.datastore.snapshots.clear()
    second = back_up(node, store, "second", previous)
    assert second.disks[0].full_read_reason == "missing_chunks"
    assert read_image(open_store(), "second") == bytes(node.image)


def test_deleted_point_is_gone(server, store, node):
    back_up(node, store, "first")
    assert store.has_point("first")
    store.delete_point("first")
    assert (store.has_point("first"), store.list_points()) == (False, [])
    store.delete_point("first")
    store.delete_point("unknown")
    with pytest.raises(ObjectNotFound):
        store.read_manifest("first")


def test_protected_point_is_not_deleted(store, node):
    back_up(node, store, "first")
    store.set_protected("first", True)
    assert store.fetch_snapshot_states()["first"].is_protected
    with pytest.raises(ServerFailed, match="protected"):
        store.delete_point("first")
    store.set_protected("first", False)
    store.delete_point("first")


def test_backup_waits_for_the_end_of_another_connection(server, store, node, monkeypatch):
    """As after a lost worker: the server notices the end of its connection later."""
    group = ("", "vm", "machine-1")
    server.datastore.open_groups.add(group)

    def wait(seconds):
        server.datastore.open_groups.discard(group)

    monkeypatch.setattr(writer.time, "sleep", wait)
    back_up(node, store, "first")
    assert store.list_points() == ["first"]


def test_times_of_snapshots_ascend(server, store, open_store, node, monkeypatch):
    moment = clock.now()
    monkeypatch.setattr(clock, "now", lambda: moment)
    for point in ("first", "second", "third"):
        back_up(node, open_store(), point)
    assert len(open_store().list_points()) == 3
    assert max(key[3] for key in server.datastore.snapshots) == int(moment.timestamp()) + 2
