"""`panel image`: build images and list the catalog."""

from importlib import import_module

import click

from panel.cli.context import app_context
from panel.core.data_files import temporary_umask
from panel.core.db import session
from panel.core.errors import Problem
from panel.services import catalog
from worker.images.commands import BuildFailed

IMAGE_KINDS = ("tiny", "debian")


@click.group()
def command():
    """Build images from Debian packages, and list the catalog."""


@command.command()
@click.argument("kind", type=click.Choice(IMAGE_KINDS))
def build(kind):
    """Build an image from Debian packages and add it to the catalog. Needs root."""
    with app_context() as config:
        try:
            image = build_image(kind, config.data_dir)
        except BuildFailed as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"{image.label}: {image.size // 1024**2} MiB, {image.path}")


def build_image(kind, data_dir, log=click.echo):
    """Build one of the panel's own images and register it in the catalog. Raise Problem when programs are missing."""
    guest = import_module(f"worker.images.{kind}")
    if missing := guest.list_missing():
        raise Problem(" ".join(missing))
    (data_dir / "images").mkdir(exist_ok=True)
    with temporary_umask(0o022):  # the modes of built files are the guest's
        image = guest.build(data_dir / "images" / f"{kind}.qcow2", cache=data_dir / "cache", log=log)
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


@command.command("list")
def listing():
    """List the images in the catalog."""
    with app_context():
        for row in session.scalars(catalog.select_images()).all():
            click.echo(f"{row.name:16} {row.label:28} {row.purpose:10} {row.size // 1024**2:6} MiB  {row.id}")
