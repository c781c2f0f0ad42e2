"""Permissions of the files that machines on a real libvirt share."""

import io
import stat

import pytest

from worker.nodes.base import NodeSpec
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest


@pytest.mark.parametrize(("is_kernel", "mode"), [(True, 0o644), (False, 0o600)])
def test_kernel_files_are_readable_whoever_owns_them_and_media_are_not(hypervisor, tmp_path, is_kernel, mode):
    """libvirt makes the kernel's files root's when a machine ends, also while another one that shares them starts."""
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path)
    node.prepare_pool("kernels", str(hypervisor.directory / "kernels"))
    try:
        node.upload_media("kernels", "shared", io.BytesIO(b"kernel"), 6, is_kernel=is_kernel)
        facts = (hypervisor.directory / "kernels" / "shared").stat()
        assert stat.S_IMODE(facts.st_mode) == mode
    finally:
        node.delete_disk("kernels", "shared")
        node.close()
