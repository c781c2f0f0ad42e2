"""The bodies that the SDKs read. Names and shapes are theirs; absent values are left out."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

from panel.core import context
from panel.models import Microvm, MicrovmImage

CLIENT_ID = "panel"
"""A constant that the SDKs require. It has no hyphen, because the first releases join it to the sandbox's id."""
ENVD_VERSION = "0.5.7"
"""The version of the guest protocol that the images' daemon speaks. The SDKs choose by it what they send."""
NO_DOMAIN = "not-configured.invalid"
"""Without a domain the SDKs would send the guest's token to a host of theirs (SBX-08, SBX-09)."""
NO_END = datetime(2100, 1, 1, tzinfo=UTC)
"""The end of a sandbox without a time-out: the SDKs require one."""
MIB_PER_GIB = 1024
STATES_BY_WORD = {"running": ("starting", "running"), "paused": ("pausing", "paused")}
"""The states that exist for SDKs, by their words. A micro VM in any other state is not found."""
LIVE_STATES = tuple(state for states in STATES_BY_WORD.values() for state in states)


def get_domain() -> str:
    return context.current().config.sandbox_domain or NO_DOMAIN


def get_state_word(microvm: Microvm) -> str:
    return next(word for word, states in STATES_BY_WORD.items() if microvm.state in states)


def describe_template(microvm: Microvm) -> dict[str, str]:
    if microvm.image is None:  # removed since
        return {"templateID": microvm.image_id or "removed"}
    return {"templateID": microvm.image.id, "alias": get_alias(microvm.image)}


def get_alias(image: MicrovmImage) -> str:
    return (image.aliases or [image.name])[0]


def build_sandbox(microvm: Microvm) -> dict[str, Any]:
    """Return what creating, connecting and resuming answer."""
    return {
        "sandboxID": microvm.sandbox_id,
        "clientID": CLIENT_ID,
        **describe_template(microvm),
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": microvm.access_token,
        "trafficAccessToken": derive_traffic_token(microvm.access_token),
        "domain": get_domain(),
    }


def derive_traffic_token(access_token: str) -> str:
    """Return what the SDKs send to programs in the sandbox. The code interpreter derives it in the same way."""
    return hmac.new(access_token.encode(), b"traffic", hashlib.sha256).hexdigest()


def build_listed(microvm: Microvm) -> dict[str, Any]:
    """Return the row of a list."""
    end = microvm.expires_at or (microvm.state_changed_at if microvm.state in STATES_BY_WORD["paused"] else NO_END)
    return {
        "sandboxID": microvm.sandbox_id,
        "clientID": CLIENT_ID,
        **describe_template(microvm),
        "state": get_state_word(microvm),
        "startedAt": microvm.started_at,
        "endAt": end,
        "cpuCount": microvm.cpu_cores,
        "memoryMB": microvm.memory_mb,
        "diskSizeMB": microvm.disk_gb * MIB_PER_GIB,
        "envdVersion": ENVD_VERSION,
        "metadata": microvm.meta,
        "volumeMounts": [],
    }


def build_detail(microvm: Microvm) -> dict[str, Any]:
    return build_listed(microvm) | {
        "envdAccessToken": microvm.access_token,
        "domain": get_domain(),
        "allowInternetAccess": microvm.has_internet_access,
        "network": {"allowOut": microvm.allow_out, "denyOut": microvm.deny_out},
        "lifecycle": {"autoResume": False, "onTimeout": microvm.on_timeout},
        "pauseMode": "full",
    }
