"""The encrypted archive of a backup: only complete and unmodified ones are opened (F3)."""

import io
import os

import pytest

from panel.backups import archive
from panel.core.errors import Problem

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def fast_key_derivation(monkeypatch):
    monkeypatch.setattr(archive, "SCRYPT_COST", {"n": 2**14, "r": 8, "p": 1})
    monkeypatch.setattr(archive, "CHUNK_BYTES", 1000)


def seal_archive(content):
    file = io.BytesIO()
    writer = archive.Writer(file, PASSPHRASE)
    for start in range(0, len(content), 777):
        writer.write(content[start : start + 777])
    writer.finish()
    return file.getvalue()


def open_archive(data, passphrase=PASSPHRASE):
    reader = io.BufferedReader(archive.Reader(io.BytesIO(data), passphrase))
    return reader.read()


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000, 5432])
def test_archive_round_trip(size):
    content = os.urandom(size)
    data = seal_archive(content)
    assert open_archive(data) == content
    assert content not in data or size < 2


def test_modified_archive_is_refused():
    data = seal_archive(os.urandom(3500))
    begin = data.index(b"\n", len(archive.ARCHIVE_MAGIC)) + 1
    chunk = 1000 + archive.TAG_BYTES
    changed = bytearray(data)
    changed[begin + 1500] ^= 1
    swapped = (
        data[:begin] + data[begin + chunk : begin + 2 * chunk] + data[begin : begin + chunk] + data[begin + 2 * chunk :]
    )
    header = data.replace(b'"p": 1', b'"p":  1')
    for broken in (changed, swapped, header, data[:-1], data[: begin + 2 * chunk], data[:begin], data + b"x"):
        with pytest.raises(Problem):
            open_archive(bytes(broken))


def test_wrong_passphrase_is_refused():
    with pytest.raises(Problem, match="passphrase"):
        open_archive(seal_archive(b"secret"), "wrong horse battery")


def test_excessive_key_derivation_cost_is_refused():
    data = seal_archive(b"secret").replace(b'"n": 16384', b'"n": 1073741824')
    with pytest.raises(Problem, match="key derivation"):
        open_archive(data)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"SQLite format 3\0",
        archive.ARCHIVE_MAGIC,
        archive.ARCHIVE_MAGIC + b"{}\n",
        archive.ARCHIVE_MAGIC + b"[]\n",
    ],
)
def test_file_that_is_no_archive_is_refused(junk):
    with pytest.raises(Problem):
        open_archive(junk)


def test_short_passphrase_is_refused():
    with pytest.raises(Problem, match="at least 12"):
        archive.Writer(io.BytesIO(), "short")
