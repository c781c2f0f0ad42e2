"""Optical media of a simulated node, and copying and reading whole disks. Only the size of their content is stored."""

import orjson

from panel.core.messages import message
from worker.nodes.base import Disk, NotOnNode, Progress, Readable, Refused, Writable
from worker.nodes.simulated.storage import Storage

READ_CHUNK_BYTES = 2**18


class Media(Storage):
    def upload_media(
        self,
        pool: str,
        name: str,
        source: Readable,
        size: int,
        progress: Progress | None = None,
        *,
        is_kernel: bool = False,
    ) -> Disk:
        self._delete_stored(pool, name)
        done = 0
        with self.state.transaction() as db:
            self._store(db, Disk(pool, name, size), "partial image", allocated=size)
        try:
            while chunk := source.read(READ_CHUNK_BYTES):
                done += len(chunk)
                if progress:
                    progress(done, size)
        except BaseException:
            self._delete_stored(pool, name)
            raise
        with self.state.transaction() as db:
            self._store(db, Disk(pool, name, size), "medium")
        return Disk(pool, name, size)

    def copy_disk(self, source: Disk, target: Disk, progress: Progress | None = None) -> None:
        size = self._get_size(source)
        self._delete_stored(target.pool, target.name)
        with self.state.transaction() as db:
            self._store(db, Disk(target.pool, target.name, size), "disk")
            query = "SELECT ?, ?, path, text FROM written WHERE pool = ? AND disk = ?"
            db.execute(f"INSERT INTO written {query}", (target.pool, target.name, source.pool, source.name))
        if progress:
            progress(size, size)

    def read_disk(self, disk: Disk, target: Writable, progress: Progress | None = None) -> None:
        """Write a qcow2 file that is only a header with the disk's size."""
        target.write(b"QFI\xfb" + bytes(20) + self._get_size(disk).to_bytes(8, "big") + bytes(40))
        if progress:
            progress(72, 72)

    def set_media(self, machine_id: str, slot: str, disk: Disk | None) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            self._ensure_no_saved_state(db, machine_id)
            definition = orjson.loads(row["definition"])
            if definition.get("kernel") and slot not in definition["media"]:
                raise Refused(message("The machine has no drive for this medium."), f"no drive for the slot {slot}")
            for column in ("definition", "live"):
                if row[column]:
                    machine = orjson.loads(row[column])
                    machine["media"].pop(slot, None)
                    if disk:
                        machine["media"][slot] = {"pool": disk.pool, "name": disk.name, "size": disk.size}
                    self._ensure_disks(db, machine)
                    self._change(db, machine_id, **{column: orjson.dumps(machine)})

    def _get_size(self, disk: Disk) -> int:
        for (size,) in self.state.rows("SELECT size FROM disks WHERE pool = ? AND name = ?", disk.pool, disk.name):
            return size
        raise NotOnNode(message("The disk is not on the hypervisor."), f"disk {disk.name} in pool {disk.pool}")
