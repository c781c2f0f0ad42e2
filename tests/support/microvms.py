"""Images of micro VMs for tests, and installations that take micro VMs."""

import subprocess
import sys
from hashlib import sha256

from panel.core import context
from panel.core.db import session
from panel.services.microvms import images


def write_image_file(name, content):
    """Write a file into the data directory. Return it as `images.register` expects it."""
    folder = context.current().config.data_dir / "images"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return images.ImageFile(f"images/{name}", len(content), sha256(content).hexdigest())


def register_image(name="sandbox", *, version=b"", **values):
    disk = write_image_file(f"{name}.qcow2", b"QFI\xfb" + bytes(20) + (2**28).to_bytes(8, "big") + bytes(32) + version)
    kernel, initrd = (write_image_file(f"{name}.{kind}", kind.encode() + version) for kind in ("kernel", "initrd"))
    files = {"disk": disk, "kernel": kernel, "initrd": initrd, "kernel_options": "root=/dev/vda"}
    image = images.register(name, **files, **{"aliases": ["base"], "label": "Sandbox", **values})
    session.commit()
    return image


PREPARE_MICROVMS = """
import os
from sqlalchemy import select
from panel.bootstrap import create_worker_app
from panel.core import config
from panel.core.db import session
from panel.models import Hypervisor
from panel.services import settings
from panel.services.microvms import profiles
from tests.support.microvms import register_image

with create_worker_app(config.load(os.environ)).app_context():
    register_image(aliases=["base", "code-interpreter-v1"])
    profiles.create(hypervisor_id=session.scalars(select(Hypervisor.id)).one())
    settings.update({"billing_enabled": True})  # pages offer micro VMs
    session.commit()
"""
"""Registers an image, lets the hypervisor take micro VMs and enables billing."""


def prepare_microvms(installation):
    subprocess.run([sys.executable, "-c", PREPARE_MICROVMS], env=installation.env, check=True)
