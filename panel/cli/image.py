"""`panel image`: build images and list the catalog."""

from importlib import import_module

import click

from panel.cli.context import app_context
from panel.core.data_files import temporary_umask
from panel.core.db import session
from panel.core.errors import Problem
from panel.services import catalog, microvms
from worker.images import helper_image
from worker.images.commands import BuildFailed

IMAGE_KINDS = ("tiny", "debian")
SANDBOX_KINDS = {"sandbox": ("base",), "sandbox-python": ("code-interpreter-v1",)}
"""Images for micro VMs, with their further names. They have no boot loader, so they are not in the catalog of
images of instances. SDKs that are given no template use `base`, the code interpreter SDK has its own."""
HELPER_KIND = "backup-files"
"""The image of the machine that reads the files of backups. Nobody else uses it, so it is in no list."""


@click.group()
def command():
    """Build images from Debian packages, and list the catalog."""


@command.command()
@click.argument("kind", type=click.Choice((*IMAGE_KINDS, *SANDBOX_KINDS, HELPER_KIND)))
def build(kind):
    """Build an image from Debian packages. It is added to the images of instances or of micro VMs; `backup-files` is
    used by workers only. Needs root."""
    with app_context() as config:
        try:
            if kind in (*SANDBOX_KINDS, HELPER_KIND):
                build_micro = build_helper_image if kind == HELPER_KIND else build_sandbox_image
                sandbox = build_micro(kind, config.data_dir)
                session.commit()
                for file in (sandbox.disk, sandbox.kernel, sandbox.initrd):
                    click.echo(f"{file.path}: {file.size // 1024**2} MiB, SHA-256 {file.sha256}")
                return
            image = build_image(kind, config.data_dir)
        except BuildFailed as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"{image.label}: {image.size // 1024**2} MiB, {image.path}")


def run_builder(kind, data_dir, log):
    """Write the files of an image into the data directory. Raise Problem when programs are missing."""
    builder = import_module(f"worker.images.{kind.replace('-', '_')}")
    if missing := builder.list_missing():
        raise Problem(" ".join(missing))
    (data_dir / "images").mkdir(exist_ok=True)
    with temporary_umask(0o022):  # the modes of built files are the guest's
        return builder.build(data_dir / "images" / f"{kind}.qcow2", cache=data_dir / "cache", log=log)


def build_image(kind, data_dir, log=click.echo):
    """Build one of the panel's own images and register it in the catalog. Raise Problem when programs are missing."""
    image = run_builder(kind, data_dir, log)
    image.path.chmod(0o600)
    catalog.register_image(
        name=image.name,
        label=image.label,
        distro=image.distro,
        version=image.version,
        cloudinit=image.cloudinit,
        secure_boot=image.secure_boot,
        filename=image.path.name,
        size=image.size,
        sha256=image.sha256,
        min_disk=image.min_disk_gb,
        min_ram=image.min_memory_mb,
    )
    return image


def build_sandbox_image(kind, data_dir, log=click.echo):
    """Build an image for micro VMs, a disk, a kernel and an initial file system, and register it. Raise Problem when
    programs are missing."""
    image = run_builder(kind, data_dir, log)
    for file in (image.disk, image.kernel, image.initrd):
        file.path.chmod(0o600)
    microvms.images.register(
        kind,
        disk=describe_file(image.disk, data_dir),
        kernel=describe_file(image.kernel, data_dir),
        initrd=describe_file(image.initrd, data_dir),
        kernel_options=image.kernel_options,
        aliases=SANDBOX_KINDS[kind],
        label=image.disk.label,
        min_memory_mb=image.disk.min_memory_mb,
        min_disk_gb=image.disk.min_disk_gb,
    )
    return image


def build_helper_image(kind, data_dir, log=click.echo):
    """Build the image that reads backups, and describe its files for workers. Raise Problem when programs are
    missing."""
    image = run_builder(kind, data_dir, log)
    for file in (image.disk, image.kernel, image.initrd):
        file.path.chmod(0o600)
    helper_image.write_description(data_dir, image)
    return image


def describe_file(file, data_dir):
    return microvms.images.ImageFile(str(file.path.relative_to(data_dir)), file.size, file.sha256)


@command.command("list")
def listing():
    """List the images in the catalog."""
    with app_context():
        for row in session.scalars(catalog.select_images()).all():
            click.echo(f"{row.name:16} {row.label:28} {row.purpose:10} {row.size // 1024**2:6} MiB  {row.id}")
