"""Kernel settings that firewalls between guests of one bridge need."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import structlog

log = structlog.get_logger()

BRIDGE_SETTINGS = Path("/proc/sys/net/bridge")
SETTING_NAMES = ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables")


def enable_bridge_filter(settings: Path = BRIDGE_SETTINGS) -> bool:
    """Pass bridged packets through the packet filter; return whether that works. A kernel that cannot do it is logged:
    the guests on it can reach each other whatever their rules."""
    if not settings.exists() and (modprobe := shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")):
        subprocess.run([modprobe, "br_netfilter"], capture_output=True)
    for name in SETTING_NAMES:
        with contextlib.suppress(OSError):
            if (settings / name).read_text().strip() != "1":
                (settings / name).write_text("1")
    try:
        is_enabled = all((settings / name).read_text().strip() == "1" for name in SETTING_NAMES)
    except OSError:
        is_enabled = False
    if not is_enabled:
        log.warning("bridged_packets_unfiltered", settings=str(settings))
    return is_enabled
