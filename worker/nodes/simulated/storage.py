"""Pools, images, disks and seeds of a simulated node.

A disk uses its whole size of the node's storage at once (a real one may grow into it), so that tests can reach
`NoCapacity`.
"""

import sqlite3
from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson

from panel.core.messages import message
from worker.nodes.base import Disk, GiB, Image, NoCapacity, NotOnNode, Pool, Progress, Refused, Seed
from worker.nodes.simulated.machines import Machines

if TYPE_CHECKING:
    from worker.nodes.simulated.state import State

SEED_BLOCK_BYTES = 2048


class Storage(Machines):
    def prepare_pool(self, name: str, path: str) -> Pool:
        with self.state.transaction() as db:
            db.execute("INSERT INTO pools VALUES (?, ?) ON CONFLICT DO UPDATE SET path = excluded.path", (name, path))
            return self._describe_pool(db, name)

    def has_image(self, pool: str, image: Image) -> bool:
        self._get_pool_path(pool)
        return self._has_image(pool, image)

    def put_image(self, pool: str, image: Image, progress: Progress | None = None) -> None:
        if self._has_image(pool, image):
            return
        virtual = read_virtual_size(image)
        with self.state.transaction() as db:
            self._store(db, Disk(pool, image.name, virtual), "partial image", allocated=image.size)
        try:
            report_in_tenths(progress, image.size)
        except BaseException:
            with self.state.transaction() as db:
                cleanup = "DELETE FROM disks WHERE pool = ? AND name = ? AND kind = 'partial image'"
                db.execute(cleanup, (pool, image.name))
            raise
        with self.state.transaction() as db:
            self._store(db, Disk(pool, image.name, virtual), "image", allocated=image.size)

    def delete_image(self, pool: str, name: str) -> None:
        children = self.state.rows("SELECT name FROM disks WHERE pool = ? AND parent = ?", pool, name)
        if children:
            raise Refused(message("Disks are based on the image."), f"{children[0]['name']} is based on {name}")
        self._delete_stored(pool, name)

    def create_disk(self, disk: Disk, image: Image | None = None, progress: Progress | None = None) -> None:
        self._delete_stored(disk.pool, disk.name)
        with self.state.transaction() as db:
            if image and not self._has_image(disk.pool, image):
                raise NotOnNode(
                    message("The image is not on the hypervisor."), f"image {image.name} in pool {disk.pool}"
                )
            self._store(db, disk, "disk", parent=image.name if image else None)

    def grow_disk(self, disk: Disk, machine_id: str | None = None) -> None:
        with self.state.transaction() as db:
            if machine_id:
                self._get_machine(db, machine_id)
            row = db.execute("SELECT size FROM disks WHERE pool = ? AND name = ?", (disk.pool, disk.name)).fetchone()
            if row is None:
                raise NotOnNode(message("The disk is not on the hypervisor."), f"disk {disk.name} in pool {disk.pool}")
            if disk.size > row["size"]:
                self._ensure_capacity(db, disk, disk.size)
                statement = "UPDATE disks SET size = :size, allocated = :size WHERE pool = :pool AND name = :name"
                db.execute(statement, asdict(disk))

    def delete_disk(self, pool: str, name: str) -> None:
        self._delete_stored(pool, name)

    def disks(self, pool: str) -> list[Disk]:
        self._get_pool_path(pool)
        query = "SELECT pool, name, size FROM disks WHERE pool = ? AND kind <> 'partial image'"
        return [Disk(*row) for row in self.state.rows(query, pool)]

    def create_seed(self, pool: str, name: str, seed: Seed) -> Disk:
        content = orjson.dumps(seed)
        disk = Disk(pool, name, -(-len(content) // SEED_BLOCK_BYTES) * SEED_BLOCK_BYTES)
        with self.state.transaction() as db:
            self._store(db, disk, "seed", content=content)
        return disk

    def _has_image(self, pool: str, image: Image) -> bool:
        image_query = "SELECT 1 FROM disks WHERE pool = ? AND name = ? AND kind = 'image'"
        return bool(self.state.rows(image_query, pool, image.name))

    def _store(
        self,
        db: sqlite3.Connection,
        disk: Disk,
        kind: str,
        allocated: int | None = None,
        parent: str | None = None,
        content: bytes | None = None,
    ) -> None:
        """Add the volume to the pool, or replace the one of that name."""
        allocated = disk.size if allocated is None else allocated
        self._ensure_capacity(db, disk, allocated)
        row = (disk.pool, disk.name, kind, disk.size, allocated, parent, content)
        db.execute("INSERT OR REPLACE INTO disks VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _ensure_capacity(self, db: sqlite3.Connection, disk: Disk, allocated: int) -> None:
        """Raise `NoCapacity` when the pool has too little space; a volume of the same name counts as free, because it
        is replaced."""
        free = self._describe_pool(db, disk.pool).free
        size_query = "SELECT coalesce(sum(allocated), 0) FROM disks WHERE pool = ? AND name = ?"
        if allocated > free + db.execute(size_query, (disk.pool, disk.name)).fetchone()[0]:
            detail = f"{disk.name} needs {allocated} bytes in pool {disk.pool}, {free} are free"
            raise NoCapacity(message("There is not enough storage on the hypervisor."), detail)

    def _delete_stored(self, pool: str, name: str) -> None:
        self._get_pool_path(pool)
        with self.state.transaction() as db:
            db.execute("DELETE FROM disks WHERE pool = ? AND name = ?", (pool, name))

    def _get_pool_path(self, name: str) -> str:
        """Return the path of the pool; raise `NotOnNode` if it was never prepared."""
        for (path,) in self.state.rows("SELECT path FROM pools WHERE name = ?", name):
            return path
        raise NotOnNode(message("The storage pool is not on the hypervisor."), f"pool {name}")

    def _describe_pool(self, db: sqlite3.Connection, name: str) -> Pool:
        path = self._get_pool_path(name)
        capacity = self.options.storage_gb * GiB
        used = db.execute("SELECT coalesce(sum(allocated), 0) FROM disks").fetchone()[0]
        return Pool(name, path, capacity, max(0, capacity - used))


def report_in_tenths(progress: Progress | None, total: int) -> None:
    if progress:
        for tenth in range(1, 11):
            progress(total * tenth // 10, total)


def find_seed(state: "State", pool: str, name: str) -> Seed | None:
    """Return the seed of that name, or None."""
    query = "SELECT content FROM disks WHERE pool = ? AND name = ? AND kind = 'seed'"
    for (content,) in state.rows(query, pool, name):
        return Seed(**orjson.loads(content))
    return None


def read_virtual_size(image: Image) -> int:
    """Return the size that a guest sees, from the header of a qcow2 file."""
    try:
        with image.path.open("rb") as file:
            header = file.read(32)
    except FileNotFoundError:
        raise NotOnNode(message("The file of the image is missing."), f"no file {image.path}") from None
    return int.from_bytes(header[24:32], "big") if header.startswith(b"QFI\xfb") else image.size
