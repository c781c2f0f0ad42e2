"""What a new machine of a micro VM or of a pool's member is called, and how large it is."""

import secrets
from typing import Any

from panel.models import Hypervisor, Microvm, MicrovmImage, Storage
from panel.services import ids
from panel.services.microvms import network, profiles
from panel.services.placement import Requirements

SANDBOX_ID_LENGTH = 16
SANDBOX_ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def make_sandbox_id() -> str:
    return "".join(secrets.choice(SANDBOX_ID_ALPHABET) for _ in range(SANDBOX_ID_LENGTH))


def make_machine_fields(image: MicrovmImage, needs: Requirements, host: Hypervisor, storage: Storage) -> dict[str, Any]:
    """Return the fields of a new machine of this image and size on a host that the caller has locked."""
    return {
        "sandbox_id": ids.generate_unique(Microvm.sandbox_id, make_sandbox_id),
        "boot": {"key": image.files_key, "options": image.kernel_options},
        "mac": ids.generate_mac(),
        "address": network.allocate_address(profiles.find(host)),
        "hypervisor": host,
        "storage": storage,
        "cpu_cores": needs.cpu_cores,
        "memory_mb": needs.ram,
        "disk_gb": needs.storage,
    }
