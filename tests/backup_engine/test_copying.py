"""Copying points to a second repository, and its garbage collection where the storage locks objects."""

import time

import pytest

from tests.backup_engine.stored_images import ImageNode, back_up, make_noise, read_image
from worker.backups.copying import VerifiedTarget, copy_point
from worker.backups.errors import Damaged, TargetFailed
from worker.backups.garbage import collect_garbage
from worker.backups.repository import Repository, get_pack_object
from worker.backups.targets import LocalTarget
from worker.backups.verification import verify

MiB = 1024**2


class LockingTarget(LocalTarget):
    """Keeps objects as a bucket with object lock does: a lock is never shortened."""

    def __init__(self, directory):
        super().__init__(directory)
        self.locks, self.now = {}, time.time()

    def has_object_lock(self):
        return True

    def lock(self, name, until):
        self.stat(name)
        self.locks[name] = max(until, self.locks.get(name, 0.0))
        return self.locks[name]

    def is_locked(self, name):
        return self.locks.get(name, 0.0) > self.now

    def delete(self, name):
        if self.is_locked(name):
            raise TargetFailed(f"The target failed at {name}: it is locked")
        super().delete(name)


@pytest.fixture
def second_target(tmp_path):
    return LockingTarget(tmp_path / "second")


@pytest.fixture
def copy(second_target, key):
    copy = Repository.create(VerifiedTarget(second_target), key)
    yield copy
    copy.close()


@pytest.fixture
def node():
    node = ImageNode(4 * MiB)
    node.write(0, make_noise(1, 3 * MiB))
    return node


def test_copies_have_the_content_whatever_happens_to_the_packs_of_either(repository, copy, node):
    """Points are deleted and packs rewritten in both repositories, independently of each other."""
    first = back_up(node, repository, "first")
    contents = {"first": bytes(node.image)}
    assert copy_point(repository, copy, "first") > 3 * MiB
    node.write(MiB, make_noise(2, MiB))
    back_up(node, repository, "second", first)
    contents["second"] = bytes(node.image)
    repository.delete_point("first")
    for _ in range(2):
        collect_garbage(repository, grace_seconds=0)
    assert copy_point(repository, copy, "second") < 1.5 * MiB, "only what the copy lacks"
    assert copy_point(repository, copy, "second") == 0
    assert {point: read_image(copy, point) for point in copy.list_points()} == contents
    copy.delete_point("first")
    for _ in range(2):
        collect_garbage(copy, grace_seconds=0)
    assert read_image(copy, "second") == contents["second"]
    assert verify(copy).damaged_points == set()


def test_interrupted_copy_is_continued(repository, copy, node, second_target, monkeypatch):
    back_up(node, repository, "point")
    stored, put = [], LockingTarget.put

    def fail_at_third_pack(target, name, data):
        if name.startswith("packs"):
            if len(stored) == 2:
                raise TargetFailed("No space left on device")
            stored.append(name)
        put(target, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(LockingTarget, "put", fail_at_third_pack)
        with pytest.raises(TargetFailed):
            copy_point(repository, copy, "point")
    assert copy.list_points() == []
    assert 0 < copy_point(repository, copy, "point") < 2.5 * MiB, "without the two packs of the first attempt"
    assert read_image(copy, "point") == node.image


def test_damaged_chunk_is_not_copied_and_is_named(repository, copy, node, target):
    back_up(node, repository, "point")
    pack = next(target.list("packs"))
    data = bytearray(target.get(pack))
    data[-1] ^= 1
    target.put(pack, bytes(data))
    with pytest.raises(Damaged):
        copy_point(repository, copy, "point")
    assert copy.list_points() == []
    assert list(target.list("damaged")) != []


def test_everything_that_a_point_needs_is_locked_until_the_date(repository, copy, node, second_target):
    until = second_target.now + 1000
    first = back_up(node, repository, "first")
    copy_point(repository, copy, "first", locked_until=until)
    needed_names = {name for folder in ("packs", "index", "points") for name in second_target.list(folder)} | {
        "repository"
    }
    assert set(second_target.locks) == needed_names
    assert min(second_target.locks.values()) >= until
    node.write(3 * MiB, b"changed")
    back_up(node, repository, "second", first)
    copy_point(repository, copy, "second", locked_until=until + 100)
    assert second_target.locks["points/first"] == until
    needed = {name for name in second_target.locks if name != "points/first"}
    assert min(second_target.locks[name] for name in needed) >= until + 100, "also what the first point stored"


def test_garbage_collection_leaves_what_is_locked(repository, copy, node, second_target):
    first = back_up(node, repository, "first")
    copy_point(repository, copy, "first", locked_until=second_target.now + 1000)
    node.write(0, make_noise(2, 2 * MiB))
    back_up(node, repository, "second", first)
    copy_point(repository, copy, "second", locked_until=second_target.now + 2000)
    packs = set(second_target.list("packs"))
    second_target.now += 1300
    copy.delete_point("first")
    for _ in range(3):
        collect_garbage(copy, grace_seconds=0)
    locked = {name for name in packs if second_target.is_locked(name)}
    assert locked < packs, "packs that only the first point used are unlocked"
    assert set(second_target.list("packs")) == locked
    second_target.now += 10_000
    copy.delete_point("second")
    for _ in range(3):
        collect_garbage(copy, grace_seconds=0)
    assert list(second_target.list("packs")) == []


def test_chunks_are_read_from_the_copy_when_they_cannot_be_read(repository, copy, node, target, monkeypatch):
    back_up(node, repository, "point")
    copy_point(repository, copy, "point")
    damaged = next(iter(repository.index.list_packs()))
    target.put(get_pack_object(damaged), b"")
    with pytest.raises(Damaged):
        read_image(repository, "point")
    opened = []
    repository.open_copy = lambda: opened.append(1) or copy
    assert read_image(repository, "point") == node.image
    assert opened != []

    def fail(target, *_):
        if target is repository.target:
            raise TargetFailed("no answer in time")
        return get(target, *_)

    get = LocalTarget.get
    manifest_disks = repository.read_manifest("point")
    monkeypatch.setattr(LocalTarget, "get", fail)
    monkeypatch.setattr(repository, "read_manifest", lambda _: manifest_disks)
    assert read_image(repository, "point") == node.image
    assert repository.is_target_failed, "the failed target is not asked for each chunk"
