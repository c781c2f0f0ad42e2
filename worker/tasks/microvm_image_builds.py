"""The task that builds a micro VM image: commands on a machine of the source, then its disk is read back.

The disk is only copied. The panel never mounts it, because its content is the customer's.
"""

import asyncio
import os
import re
import shutil
import time
from dataclasses import replace

from sqlalchemy import update

from panel.core import context
from panel.core.db import count_changed, session
from panel.core.errors import NotFound, Problem
from panel.core.messages import message
from panel.models import MicrovmImageBuild
from panel.services.media.image_files import read_virtual_size
from panel.services.microvms import image_builds, images, network
from worker.engine.registry import task_handler
from worker.guest import sandbox_commands
from worker.nodes.base import GiB, NodeError
from worker.tasks import microvm_files, microvm_network
from worker.tasks.image_captures import HashingWriter
from worker.tasks.media_downloads import temporary_file
from worker.tasks.microvms import build_disk, build_spec, turn_off

LOG_INTERVAL_SECONDS = 1.5
"""Seconds between two writes of the log; as often the task looks whether it was cancelled."""
SHUTDOWN_SECONDS = 60
MAX_ERROR_CHARACTERS = 400
"""Characters of a command's output that are part of the error."""
ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")

CLEANUP_COMMAND = """
rm -rf /root/.*history /home/*/.*history /root/.python_history /var/lib/dbus/machine-id \
    /var/lib/systemd/random-seed /var/lib/urandom/random-seed
[ ! -e /etc/machine-id ] || : >/etc/machine-id
echo sandbox >/etc/hostname
sed -i '/^127\\.0\\.1\\.1[[:space:]]/d' /etc/hosts
sync
"""
"""Removes what would make the machines of the image look like one. /run is in memory, and identities are only there."""


def on_build_failed(row, error):
    image_builds.record_failure(row.resource_id, error)


@task_handler("microvm_image_build", on_failure=on_build_failed)
def build(work):
    """Build the image. Everything on the node is removed in every case."""
    row = get_build(work)
    if row.source is None:
        raise NotFound(message("The image that it is built from was deleted."))
    source, pool = row.source, row.storage.name
    row.log, row.command_number, row.exit_code = "", None, None
    row.boot = {"key": source.files_key, "options": source.kernel_options}
    work.step(message("Preparing"), 2)
    copy_boot_files(row)
    microvm_files.ensure_files(work, source, pool)
    disk = build_disk(row)
    work.step(message("Creating the disk"), 20)
    work.undo("delete_disk", pool, disk.name)
    work.node.create_disk(disk, microvm_files.build_disk_image(source))
    work.step(message("Starting the machine"), 25)
    work.undo("delete", row.id)
    microvm_network.ensure_network(work.node, row)
    work.node.define(build_spec(row))
    work.node.start(row.id)
    execute_commands(work, row)
    turn_off(work, row, SHUTDOWN_SECONDS)
    copy = replace(disk, name=f"{row.node_name}-copy.qcow2")
    work.step(message("Copying the disk"), 75)
    work.undo("delete_disk", pool, copy.name)
    work.node.copy_disk(disk, copy, work.report_progress)
    work.step(message("Removing the machine"), 80)
    work.node.delete(row.id)
    work.node.delete_disk(pool, disk.name)
    work.step(message("Storing the image"), 85)
    store_image(work, copy)


def get_build(work):
    row = image_builds.find(work.task.resource_id)
    if row is None:
        raise NotFound(message("The image was deleted in the meantime."))
    return row


# --- the commands


class BuildLog:
    """The log of a build, written to the row from time to time. `number` is that of the command."""

    def __init__(self, work, image_id):
        self.work, self.image_id = work, image_id
        self.text, self.number, self.saved = "", None, None

    def add(self, text):
        text = ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n")
        self.text = (self.text + text)[-image_builds.MAX_LOG_CHARACTERS :]

    def begin(self, number, command):
        self.number = number
        self.add(f"{'' if self.text.endswith(chr(10)) or not self.text else chr(10)}$ {command}\n")

    def save(self, **values):
        """Write the log. Raise when the image or the task was given up."""
        state = self.text, self.number, values
        if state != self.saved:
            values = {"log": self.text, "command_number": self.number, **values}
            statement = update(MicrovmImageBuild).where(MicrovmImageBuild.id == self.image_id)
            if not count_changed(statement.values(**values), synchronize_session=False):
                raise NotFound(message("The image was deleted in the meantime."))
            session.commit()
            self.saved = state
        self.work.check()


def execute_commands(work, row):
    """Execute the commands on the machine that was just started, then remove its traces. Raise Problem with the number
    and the last lines of a command that failed."""
    commands, envs, log = list(row.commands), row.image.envs, BuildLog(work, row.id)
    interface = network.find_interface_settings(row)
    work.step(message("Executing the commands"), 30)
    channel = work.node.open_channel(row.id)
    try:
        asyncio.run(supervise(run_commands(channel, commands, envs, interface, log), log))
    except sandbox_commands.GuestFailed as error:
        log.save()
        raise NodeError(message("The machine that builds the image does not answer."), str(error)) from error
    except sandbox_commands.OutputTooLarge:
        log.save()
        raise Problem(message("Command {number} wrote too much.", number=log.number)) from None
    except TimeoutError:
        log.save()
        minutes = image_builds.MAX_BUILD_MINUTES
        raise Problem(message("The commands took longer than {minutes} minutes.", minutes=minutes)) from None


async def supervise(commands, log):
    """Wait for the commands and save the log meanwhile; a task that was cancelled ends them."""
    task = asyncio.create_task(commands)
    deadline = time.monotonic() + 60 * image_builds.MAX_BUILD_MINUTES
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOG_INTERVAL_SECONDS)
            log.save()
            if time.monotonic() >= deadline:
                raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def run_commands(channel, commands, envs, interface, log):
    async with sandbox_commands.open_commands(channel, envs, interface) as sandbox:
        for number, command in enumerate(commands, 1):
            log.begin(number, command)
            length = len(log.text)
            if code := await sandbox.run(command, log.add):
                raise_failure(log, number, code, log.text[length:])
        log.number = None
        if code := await sandbox.run(CLEANUP_COMMAND, log.add):
            raise Problem(message("What identifies the machine could not be removed (exit code {code}).", code=code))


def raise_failure(log, number, code, output):
    log.save(exit_code=code)
    lines = output.strip()[-MAX_ERROR_CHARACTERS:]
    if lines:
        raise Problem(
            message("Command {number} ended with exit code {code}: {lines}", number=number, code=code, lines=lines)
        )
    raise Problem(message("Command {number} ended with exit code {code}.", number=number, code=code))


# --- the files


def copy_boot_files(row):
    """Give the image the source's kernel and initial file system as files of its own: the source may be built again or
    deleted."""
    for kind in ("kernel", "initrd"):
        source, target = microvm_files.get_path(getattr(row.source, f"{kind}_path")), make_path(row.id, kind)
        with temporary_file(target.parent) as (temporary, file):
            with source.open("rb") as content:
                shutil.copyfileobj(content, writer := HashingWriter(file))
            file.close()
            if writer.hash.hexdigest() != getattr(row.source, f"{kind}_sha256"):
                raise Problem(message("The image that it is built from is being replaced. Try again."))
            os.replace(temporary, target)


def make_path(image_id, kind):
    """Return the path of a file of a built image: it belongs to this image only."""
    ending = "qcow2" if kind == "disk" else kind
    folder = context.current().config.data_dir / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"microvm-{image_id}.{ending}"


class BoundedWriter(HashingWriter):
    """Raises when more is written than the account may store."""

    def __init__(self, file, maximum):
        super().__init__(file)
        self.maximum = maximum

    def write(self, chunk):
        if self.size + len(chunk) > self.maximum:
            raise image_builds.make_storage_problem()
        super().write(chunk)


def store_image(work, copy):
    """Read the copy of the disk from the node, delete it there, and make the image available."""
    row = get_build(work)
    maximum = image_builds.count_free_bytes(row.image.account_id)
    path = make_path(row.id, "disk")
    with temporary_file(path.parent) as (temporary, file):
        target = BoundedWriter(file, maximum)
        work.node.read_disk(copy, target, work.report_progress)
        file.close()
        work.node.delete_disk(copy.pool, copy.name)
        row = get_build(work)
        virtual_size = read_virtual_size(temporary)
        os.replace(temporary, path)
    files = {"disk": describe_file(path, target.size, target.hash.hexdigest())}
    for kind in ("kernel", "initrd"):
        size, checksum = (getattr(row.source, f"{kind}_{fact}") for fact in ("size", "sha256"))
        files[kind] = describe_file(make_path(row.id, kind), size, checksum)
    row.image.min_disk_gb = row.image.disk_gb = -(-virtual_size // GiB)
    image_builds.record_success(row, **files)


def describe_file(path, size, checksum):
    data_dir = context.current().config.data_dir
    return images.ImageFile(str(path.relative_to(data_dir)), size, checksum)
