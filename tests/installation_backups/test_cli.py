"""`panel backup list` and `fetch`: archives in a destination, without the panel's database."""

import json

import pytest

from panel.backups import restore as backup_restore
from panel.cli import backup as backup_command
from panel.core import context
from panel.core.errors import Problem
from tests.installation_backups.archive_command import run
from tests.installation_backups.routes import PASSPHRASE
from worker.backups import archives
from worker.backups.targets import LocalTarget


@pytest.fixture
def description(tmp_path, folder):
    """A file that describes the destination."""
    file = tmp_path / "destination.json"
    file.write_text(json.dumps({"storage_type": "local", "config": {"path": str(folder)}}))
    return file


def test_archives_are_listed_and_fetched(back_up, destination, description, tmp_path, folder):
    assert run("list", description) == (1, backup_command.MISSING_PLACE_MESSAGE), (
        "a disk that is not mounted looks like this, too"
    )
    runs = [back_up(), back_up()]
    code, output = run("list", description)
    lines = [line.split("  ") for line in output.splitlines()]
    assert (code, [line[3] for line in lines]) == (0, [run["archive"] for run in runs])
    assert [int(line[1]) for line in lines] == [run["size"] for run in runs]
    for archive, row in (("latest", runs[1]), (runs[0]["archive"], runs[0])):
        file = tmp_path / archive.replace("/", "-")
        code, output = run("fetch", description, archive, file)
        assert (code, output.split(":")[0]) == (0, str(file))
        assert file.stat().st_size == row["size"]
        assert file.stat().st_mode & 0o777 == 0o600
        directory = tmp_path / f"unpacked-{file.name}"
        directory.mkdir()
        assert backup_restore.read(file, PASSPHRASE, directory).secret_key == context.current().config.secret_key
    code, output = run("fetch", description, "latest", tmp_path / "latest")
    assert (code, "exists already" in output) == (1, True)


def test_incomplete_archive_is_neither_listed_nor_fetched(description, folder, tmp_path):
    target = LocalTarget(folder / "installation")
    archives.mark_place(target)
    target.put("archives/run/attempt/part-00000", b"content")
    assert run("list", description) == (0, "")
    for archive in ("latest", "run/attempt"):
        code, output = run("fetch", description, archive, tmp_path / "file")
        assert (code, output) == (1, "The destination has no such archive.")
    assert not (tmp_path / "file").exists()


def test_archive_without_a_part_is_reported(back_up, destination, description, folder, tmp_path):
    row = back_up()
    (folder / "installation/objects/archives" / row["archive"] / "part-00000").unlink()
    code, output = run("fetch", description, "latest", tmp_path / "file")
    assert (code, "no object" in output) == (1, True)
    assert [path.name for path in tmp_path.iterdir() if "file" in path.name] == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "Expecting value"),
        ("[]", "Invalid input type"),
        ('{"storage_type": "rbs", "config": {}}', "storage_type: Must be one of"),
        ('{"storage_type": "s3", "config": {"bucket": "abc"}}', "config.access_key: Missing data for required field."),
    ],
)
def test_wrong_description_is_reported(tmp_path, content, text):
    file = tmp_path / "destination.json"
    file.write_text(content)
    with pytest.raises(Problem, match="does not describe a destination") as raised:
        backup_command.open_destination(file)
    assert text in str(raised.value)
    assert not {"{", "["} & set(str(raised.value))
