"""The medium of a seed: an ISO 9660 file system that cloud-init finds by its label."""

import io

import pycdlib

from worker.nodes.base import Seed

VOLUME_LABEL = "cidata"


def build_iso(seed: Seed) -> bytes:
    """Return the medium's bytes. The file names are those that cloud-init expects, in Rock Ridge and Joliet."""
    files = {"meta-data": seed.meta_data, "user-data": seed.user_data, "network-config": seed.network_config}
    disc = pycdlib.PyCdlib()
    disc.new(vol_ident=VOLUME_LABEL, joliet=3, rock_ridge="1.09")
    for number, (name, text) in enumerate(files.items()):
        content = text.encode()
        disc.add_fp(io.BytesIO(content), len(content), f"/F{number}.;1", rr_name=name, joliet_path=f"/{name}")
    out = io.BytesIO()
    disc.write_fp(out)
    disc.close()
    return out.getvalue()
