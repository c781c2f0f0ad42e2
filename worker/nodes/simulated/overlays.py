"""Overlays of a simulated node, and the files that its guests write: enough to see what a disk holds."""

from worker.nodes.base import Power, Refused, overlay_name

OVERLAY_SCHEMA = """
CREATE TABLE IF NOT EXISTS written (
    pool TEXT NOT NULL, disk TEXT NOT NULL, path TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (pool, disk, path)
);
CREATE TRIGGER IF NOT EXISTS disk_gone AFTER DELETE ON disks
    BEGIN DELETE FROM written WHERE pool = old.pool AND disk = old.name; END;
"""


class Overlays:
    def create_overlays(self, machine_id, disks):
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            if row["power"] == Power.off:
                raise Refused("The machine is off.", f"machine {machine_id}")
            for disk in disks:
                self._ensure_disks(db, {"disks": [{"pool": disk.pool, "name": disk.name}], "media": {}})
                put = "INSERT OR IGNORE INTO disks VALUES (?, ?, 'overlay', ?, 0, NULL, NULL)"
                db.execute(put, (disk.pool, overlay_name(disk.name), disk.size))

    def thaw_guest(self, machine_id):
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)

    def merge_overlay(self, machine_id, pool, name, progress=None):
        with self.state.transaction() as db:
            if self._find_overlay(db, pool, name):
                self._get_machine(db, machine_id)
                moved = (
                    "INSERT OR REPLACE INTO written SELECT pool, ?, path, text FROM written WHERE pool = ? AND disk = ?"
                )
                db.execute(moved, (name, pool, overlay_name(name)))
                db.execute("DELETE FROM disks WHERE pool = ? AND name = ?", (pool, overlay_name(name)))

    def drop_overlay(self, machine_id, pool, name):
        with self.state.transaction() as db:
            if self._find_overlay(db, pool, name):
                if self._get_machine(db, machine_id)["power"] != Power.off:
                    raise Refused("The machine is on.", f"machine {machine_id}")
                db.execute("DELETE FROM disks WHERE pool = ? AND name = ?", (pool, overlay_name(name)))

    def _find_overlay(self, db, pool, name):
        self._get_pool_path(pool)
        found = "SELECT 1 FROM disks WHERE pool = ? AND name = ? AND kind = 'overlay'"
        return db.execute(found, (pool, overlay_name(name))).fetchone()


def disk_layers(state, disk):
    """The names of what a guest reads of a disk, the topmost last."""
    return [disk["name"], overlay_name(disk["name"])]


def write_file(state, disk, path, text):
    """What a guest writes goes into the overlay, if there is one."""
    with state.transaction() as db:
        there = "SELECT name FROM disks WHERE pool = ? AND name IN (?, ?) ORDER BY length(name) DESC LIMIT 1"
        (top,) = db.execute(there, (disk["pool"], *disk_layers(state, disk))).fetchone()
        db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?)", (disk["pool"], top, path, text))


def read_files(state, disk):
    """What a guest finds on the disk: path to text."""
    found = "SELECT path, text FROM written WHERE pool = ? AND disk IN (?, ?) ORDER BY length(disk)"
    return dict(map(tuple, state.rows(found, disk["pool"], *disk_layers(state, disk))))
