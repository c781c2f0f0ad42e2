"""A repository in a directory, with small packs and tables so that small disks have several."""

import pytest

from worker.backups import backup, garbage, manifests, stores, writer
from worker.backups import repository as repository_module
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.backups.targets import LocalTarget


@pytest.fixture(autouse=True)
def small_packs_and_tables(monkeypatch):
    for module in (manifests, repository_module, stores, backup):
        monkeypatch.setattr(module, "TABLE_CHUNKS", 4)
    for module in (writer, garbage):
        monkeypatch.setattr(module, "PACK_BYTES", 600 * 1024)


@pytest.fixture
def key():
    return RepositoryKey.generate()


@pytest.fixture
def target(tmp_path):
    return LocalTarget(tmp_path / "repository")


@pytest.fixture
def repository(target, key):
    repository = Repository.create(target, key)
    yield repository
    repository.close()
