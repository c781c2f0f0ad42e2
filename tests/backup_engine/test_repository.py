"""The chunk store: what was backed up is restored, whatever happens in between."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panel.core.config import ROOT
from tests.backup_engine.stored_images import ImageNode, back_up, make_noise, read_image
from worker.backups import garbage
from worker.backups.errors import Damaged, LeaseLost, StoreError, TargetFailed
from worker.backups.garbage import collect_garbage
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository, get_pack_object
from worker.backups.targets import LocalTarget
from worker.backups.verification import verify
from worker.backups.writer import open_writer

KiB, MiB = 1024, 1024**2
DISK_BYTES = 3 * MiB + 100 * KiB
"""Not a multiple of a chunk."""


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.processes)])
def target(request, tmp_path):
    """Each kind of target."""
    return LocalTarget(tmp_path / "repository") if request.param == "local" else request.getfixturevalue("s3_target")


@pytest.fixture
def local_target(tmp_path):
    return LocalTarget(tmp_path / "repository")


writes = st.lists(
    st.tuples(st.integers(0, DISK_BYTES - 1), st.integers(1, 400 * KiB), st.sampled_from(["zero", "noise", "text"])),
    max_size=4,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(st.tuples(writes, st.booleans(), st.booleans()), min_size=1, max_size=5), seed=st.integers(0, 99)
)
def test_points_have_the_content_of_their_moment(tmp_path_factory, rounds, seed):
    """Increments, full reads, deleted points and garbage collections in any order."""
    repository = Repository.create(LocalTarget(tmp_path_factory.mktemp("repository")), RepositoryKey.generate())
    node, contents, previous = ImageNode(DISK_BYTES), {}, None
    for number, (changes, is_incremental, deletes_first) in enumerate(rounds):
        for offset, size, kind in changes:
            size = min(size, DISK_BYTES - offset)
            content = {"zero": bytes(size), "noise": make_noise((seed, offset).__hash__(), size), "text": b"x" * size}
            node.write(offset, content[kind])
        previous = back_up(node, repository, f"point-{number}", previous if is_incremental else None)
        contents[previous.point] = bytes(node.image)
        if deletes_first:
            point = next(iter(contents))
            repository.delete_point(point)
            del contents[point]
            collect_garbage(repository, grace_seconds=0)
            collect_garbage(repository, grace_seconds=0)
    assert {point: read_image(repository, point) for point in repository.list_points()} == contents
    assert verify(repository).damaged_chunks == set()
    repository.close()


def test_increment_stores_changed_chunks_only(repository):
    """The statistics of a full read and of an increment."""
    node = ImageNode(4 * MiB)
    node.write(0, make_noise(1, 3 * MiB))
    full = back_up(node, repository, "full")
    assert (full.disks[0].read_mode, full.disks[0].full_read_reason) == ("full", "first_backup")
    assert (full.statistics.bytes_read, full.statistics.chunks_stored, full.statistics.chunks_reused) == (
        3 * MiB,
        12,
        0,
    )
    node.write(MiB, b"changed")
    increment = back_up(node, repository, "increment", full)
    assert (increment.disks[0].read_mode, increment.parent) == ("incremental", "full")
    assert (increment.statistics.bytes_read, increment.statistics.chunks_stored) == (64 * KiB, 1)
    assert increment.statistics.chunks_reused == 11
    assert increment.statistics.bytes_uploaded < 300 * KiB
    again = back_up(node, repository, "again")
    assert (again.statistics.chunks_stored, again.statistics.chunks_reused) == (0, 12)
    assert again.statistics.bytes_uploaded == 0


def test_grown_disk_is_backed_up(repository):
    node = ImageNode(MiB + 5 * KiB)
    node.write(MiB, make_noise(1, 5 * KiB))
    full = back_up(node, repository, "full")
    node.grow(3 * MiB)
    node.write(2 * MiB, b"behind the old end")
    back_up(node, repository, "grown", full)
    assert read_image(repository, "grown") == node.image


def test_interrupted_backup_leaves_complete_points_only(repository, target, monkeypatch):
    """A crash at every write: complete points can be read, incomplete ones do not exist."""
    node = ImageNode(2 * MiB)
    node.write(0, make_noise(1, MiB))
    full, before = back_up(node, repository, "full"), bytes(node.image)
    node.write(0, make_noise(2, 2 * MiB))
    kind, put = type(target), type(target).put

    class Crash(BaseException):
        pass

    crashes = 0
    for allowed in range(100):
        remaining = iter(range(allowed))

        def put_or_crash(self, name, data, remaining=remaining):
            if next(remaining, None) is None:
                raise Crash
            put(self, name, data)

        monkeypatch.setattr(kind, "put", put_or_crash)
        try:
            back_up(node, repository, "second", full)
        except Crash:
            crashes += 1
        else:
            break
        finally:
            monkeypatch.setattr(kind, "put", put)
        with_fresh_index = Repository(target, repository.key)
        assert with_fresh_index.list_points() == ["full"]
        assert read_image(with_fresh_index, "full") == before
        assert verify(with_fresh_index).damaged_chunks == set()
        with_fresh_index.close()
    assert crashes >= 5
    assert read_image(repository, "second") == node.image


def test_full_target_fails_the_backup(local_target, key, monkeypatch):
    repository = Repository.create(local_target, key)

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    node = ImageNode(MiB)
    node.write(0, make_noise(1, MiB))
    with pytest.raises(TargetFailed, match="No space left"):
        back_up(node, repository, "point")


def damage_chunk(repository, name):
    """Change a byte of the chunk in its pack."""
    location = repository.index.find(bytes.fromhex(name))
    pack = get_pack_object(location.pack)
    content = bytearray(repository.target.get(pack))
    content[location.start + location.length // 2] ^= 1
    repository.target.put(pack, bytes(content))


@pytest.mark.parametrize("part", ["chunk", "table"])
def test_damaged_chunk_is_found_and_stored_again(repository, part):
    """A damaged chunk is named with the points that use it. The next backup heals it for all of them."""
    node, contents = ImageNode(2 * MiB), {}
    node.write(0, make_noise(1, 2 * MiB))
    first = back_up(node, repository, "first")
    contents["first"] = bytes(node.image)
    node.write(0, make_noise(2, 100))
    second = back_up(node, repository, "second", first)
    contents["second"] = bytes(node.image)
    table = second.disks[0].tables[1]
    damaged = table if part == "table" else repository.read_table(table)[:32].hex()
    damage_chunk(repository, damaged)
    result = verify(repository)
    assert (result.damaged_chunks, result.damaged_points) == ({damaged}, {"first", "second"})
    with pytest.raises(Damaged):
        read_image(repository, "first")
    third = back_up(node, repository, "third", second)
    assert third.disks[0].full_read_reason == "missing_chunks"
    assert third.statistics.chunks_stored == (1 if part == "chunk" else 0)
    contents["third"] = bytes(node.image)
    assert {point: read_image(repository, point) for point in repository.list_points()} == contents
    assert verify(repository).damaged_chunks == set()
    collect_garbage(repository, 0)
    collect_garbage(repository, 0)
    assert {point: read_image(repository, point) for point in repository.list_points()} == contents


def test_neighbors_are_read_by_one_request(repository, monkeypatch):
    """Chunks of a batch that are in one pack, in any order and twice; those that were moved are read one by one."""
    node = ImageNode(4 * MiB)
    node.write(0, make_noise(1, 2 * MiB))
    node.write(2 * MiB, make_noise(1, MiB))
    [disk] = back_up(node, repository, "point").disks
    requests, kind, get = [], type(repository.target), type(repository.target).get

    def watch(self, name, offset=0, length=None):
        requests.append(name)
        return get(self, name, offset, length)

    monkeypatch.setattr(kind, "get", watch)
    assert read_image(repository, "point") == node.image
    tables = 2 * len(disk.tables)  # `read_image` lists the extents, too
    packs = len(set(requests))
    assert len(requests) - 1 - tables <= packs
    other = Repository(repository.target, repository.key)
    node = ImageNode(256 * KiB)
    node.write(0, make_noise(1, 256 * KiB))
    back_up(node, other, "small")
    other.delete_point("point")
    collect_garbage(other, 0)
    collect_garbage(other, 0)
    [disk] = other.read_manifest("small").disks
    [(_, name)] = other.list_chunks(disk)
    assert repository.read_chunks([name, name]) == [bytes(node.image)] * 2
    other.close()


def test_missing_pack_is_found(repository, target):
    node = ImageNode(MiB)
    node.write(0, make_noise(1, MiB))
    back_up(node, repository, "point")
    for name in list(target.list("packs")):
        target.delete(name)
    assert verify(repository).damaged_points == {"point"}
    with pytest.raises(Damaged):
        read_image(repository, "point")
    with pytest.raises(StoreError, match="Nothing was deleted"):
        collect_garbage(repository, 0)


def test_sample_verifies_part(repository):
    node = ImageNode(3 * MiB)
    node.write(0, make_noise(1, 3 * MiB))
    back_up(node, repository, "point")
    assert verify(repository, ratio=0.5).chunks_checked == 8
    assert verify(repository).chunks_checked == 15


def test_garbage_is_deleted_after_the_grace_period(repository, target):
    node = ImageNode(2 * MiB)
    node.write(0, make_noise(1, 2 * MiB))
    back_up(node, repository, "point")
    repository.delete_point("point")
    assert collect_garbage(repository, 3600).packs_announced > 0
    assert collect_garbage(repository, 3600).packs_deleted == 0
    assert list(target.list("packs"))
    assert collect_garbage(repository, 0).packs_deleted > 0
    assert list(target.list("packs")) == list(target.list("index")) == list(target.list("garbage")) == []


def test_garbage_collection_keeps_what_an_active_writer_uses(repository, target, key):
    """A writer that began before the announcement may use the chunks; one that begins later stores them again."""
    chunk = make_noise(1, 256 * KiB)
    node = ImageNode(256 * KiB)
    node.write(0, chunk)
    manifest = back_up(node, repository, "point")
    other = Repository(target, key)
    with open_writer(other) as writer:
        table = writer.add(writer.add(chunk) + bytes(96))
        assert writer.chunks_stored == 0
        repository.delete_point("point")
        for _ in range(3):
            assert collect_garbage(repository, 0).packs_deleted == 0
        late = Repository(target, key)
        with open_writer(late) as late_writer:
            late_writer.add(chunk)
            assert late_writer.chunks_stored == 1
        [disk] = manifest.disks
        assert table.hex() == disk.tables[0]
        writer.commit(manifest)
    collect_garbage(repository, 0)
    collect_garbage(repository, 0)
    assert read_image(Repository(target, key), "point") == chunk


def test_writer_without_lease_cannot_commit(repository, target):
    node = ImageNode(256 * KiB)
    node.write(0, b"x")
    manifest = back_up(node, repository, "point")
    with open_writer(repository) as writer:
        for lease in list(target.list("leases")):
            target.delete(lease)
        with pytest.raises(LeaseLost):
            writer.commit(manifest)


def test_sparse_packs_are_rewritten(repository, target, monkeypatch):
    """The space of deleted points is freed also where a pack holds chunks of others."""
    node = ImageNode(2 * MiB)
    node.write(0, make_noise(1, 2 * MiB))
    back_up(node, repository, "large")
    node = ImageNode(256 * KiB)
    node.write(0, make_noise(1, 2 * MiB)[: 256 * KiB])
    back_up(node, repository, "small")
    repository.delete_point("large")
    assert collect_garbage(repository, 0).packs_rewritten > 0
    collect_garbage(repository, 0)
    size = sum(target.stat(name).size for name in target.list("packs"))
    assert size < 400 * KiB
    assert read_image(repository, "small") == node.image


def test_small_packs_are_joined(repository, target, monkeypatch):
    monkeypatch.setattr(garbage, "MAX_SMALL_PACKS", 4)
    node, previous = ImageNode(256 * KiB), None
    for number in range(6):
        node.write(number, bytes([number + 1]))
        previous = back_up(node, repository, f"point-{number}", previous)
    collect_garbage(repository, 0)
    collect_garbage(repository, 0)
    assert len(list(target.list("packs"))) == 1
    assert verify(repository).damaged_chunks == set()


def test_wrong_key_is_refused(repository, target):
    with pytest.raises(Damaged):
        Repository(target, RepositoryKey.generate())
    with pytest.raises(StoreError):
        RepositoryKey.from_text("no key")


def test_objects_show_nothing_of_the_content(repository, target):
    node = ImageNode(MiB)
    node.write(0, b"a secret of the customer " * 1000)
    back_up(node, repository, "point", machine={"name": "customer-machine"})
    folders = ("packs", "index", "points")
    names = [name for folder in folders for name in target.list(folder)]
    assert len(names) >= len(folders)
    for name in names:
        blob = target.get(name)
        assert b"secret" not in blob
        assert b"customer-machine" not in blob


def test_manifest_of_another_point_is_refused(repository, target):
    """A target cannot show one point as another."""
    node = ImageNode(MiB)
    back_up(node, repository, "one")
    target.put("points/two", target.get("points/one"))
    with pytest.raises(Damaged):
        repository.read_manifest("two")


def test_index_cache_is_refreshed(target, key, tmp_path):
    cache = tmp_path / "index.db"
    repository = Repository.create(target, key, cache)
    node = ImageNode(MiB)
    node.write(0, make_noise(1, MiB))
    back_up(node, repository, "point")
    other = Repository(target, key)
    other.delete_point("point")
    collect_garbage(other, 0)
    collect_garbage(other, 0)
    repository.close()
    repository = Repository(target, key, cache)
    assert repository.index.list_packs() == set()
    assert back_up(node, repository, "again").statistics.chunks_stored == 4
    assert read_image(repository, "again") == node.image


def test_restore_command_needs_no_panel(local_target, key, tmp_path):
    """The command imports nothing of the panel, and restores with the exported key."""
    target, repository = local_target, Repository.create(local_target, key)
    node = ImageNode(DISK_BYTES)
    node.write(100 * KiB, make_noise(1, 2 * MiB))
    node.write(DISK_BYTES - 10, b"the end")
    back_up(node, repository, "point")
    key_file, output = tmp_path / "key", tmp_path / "disk.raw"
    key_file.write_text(key.to_text() + "\n")
    program = (
        "import sys; from worker.backups import repository, restore, manifests, stores; "
        "repository.TABLE_CHUNKS = manifests.TABLE_CHUNKS = stores.TABLE_CHUNKS = 4; error = restore.main(); "
        "imported = {name.split('.')[0] for name in sys.modules}; "
        "assert not imported & {'panel', 'flask', 'sqlalchemy', 'libvirt', 'structlog', 'botocore'}; "
        "sys.exit(error)"
    )

    def run(*arguments):
        command = [sys.executable, "-c", program, target.directory, "--key-file", key_file, *arguments]
        return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)

    listing = run()
    assert listing.returncode == 0, listing.stderr
    assert f"disk ({DISK_BYTES} bytes)" in listing.stdout
    assert '"consistency": "crash"' in run("--point", "point").stdout
    assert run("--point", "point", "--disk", "disk", "--output", output).returncode == 0
    assert output.read_bytes() == node.image
    assert "no disk other" in run("--point", "point", "--disk", "other", "--output", output).stderr


def test_space_of_labelled_points_is_counted_once(repository):
    """Chunks that points share count for the first label; points without a label do not count."""
    node, size = ImageNode(2 * MiB), {}
    node.write(0, make_noise(1, MiB))
    first = back_up(node, repository, "first")
    size["first"] = collect_garbage(repository, labels={"first": "a"}).bytes_by_label
    node.write(MiB, make_noise(2, MiB))
    back_up(node, repository, "second", first)
    back_up(node, repository, "own", first)
    size["both"] = collect_garbage(repository, labels={"first": "a", "second": "a"}).bytes_by_label
    size["each"] = collect_garbage(repository, labels={"first": "a", "second": "b"}).bytes_by_label
    size["second"] = collect_garbage(repository, labels={"second": "b"}).bytes_by_label
    assert MiB < size["first"]["a"] < size["both"]["a"] < 2.1 * MiB
    assert size["each"]["a"] == size["first"]["a"]
    assert size["each"]["a"] + size["each"]["b"] == size["both"]["a"]
    assert size["second"]["b"] > size["each"]["b"] > MiB, "the second one needs what it shares with the first"
    assert collect_garbage(repository).bytes_by_label == {}
