"""`panel image`: what machines are made from."""

from importlib import import_module

import click

from panel.cli.context import app_context
from panel.core.data_files import umask
from panel.core.db import session
from panel.core.errors import Problem
from panel.services import catalog
from worker.images.commands import BuildFailed

IMAGE_KINDS = ("tiny", "debian")


@click.group()
def command():
    """Build images from Debian's packages and list the catalog."""


@command.command()
@click.argument("kind", type=click.Choice(IMAGE_KINDS))
def build(kind):
    """Build an image (as root, from Debian's packages) and put it into the catalog."""
    with app_context() as config:
        try:
            built = build_image(kind, config.data_dir)
        except BuildFailed as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"{built.label}: {built.size // 1024**2} MiB, {built.path}")


def build_image(kind, data_dir, log=click.echo):
    """Builds one of our images and registers it."""
    guest = import_module(f"worker.images.{kind}")
    if lacking := guest.list_missing():
        raise Problem(" ".join(lacking))
    (data_dir / "images").mkdir(exist_ok=True)
    with umask(0o022):  # what is built is the guest's
        built = guest.build(data_dir / "images" / f"{kind}.qcow2", cache=data_dir / "cache", log=log)
    built.path.chmod(0o600)
    catalog.register_image(
        name=built.name,
        label=built.label,
        distro=built.distro,
        version=built.version,
        cloudinit=built.cloudinit,
        secure_boot=built.secure_boot,
        filename=built.path.name,
        size=built.size,
        sha256=built.sha256,
        min_disk=built.min_disk_gb,
        min_ram=built.min_memory_mb,
    )
    return built


@command.command("list")
def listing():
    """Every image in the catalog."""
    with app_context():
        for row in session.scalars(catalog.select_images()).all():
            click.echo(f"{row.name:16} {row.label:28} {row.purpose:10} {row.size // 1024**2:6} MiB  {row.id}")
