"""What the kernel of a hypervisor must do for firewalls to hold between guests of one bridge."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import structlog

log = structlog.get_logger()

BRIDGE_SETTINGS = Path("/proc/sys/net/bridge")
SETTING_NAMES = ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables")


def enable_bridge_filter(settings: Path = BRIDGE_SETTINGS) -> bool:
    """After success bridged packets go through the packet filter. Says whether it is so: a kernel that cannot do it is
    told of in the log, and guests on it are open to each other whatever their rules."""
    if not settings.exists() and (modprobe := shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")):
        subprocess.run([modprobe, "br_netfilter"], capture_output=True)
    for name in SETTING_NAMES:
        with contextlib.suppress(OSError):
            if (settings / name).read_text().strip() != "1":
                (settings / name).write_text("1")
    try:
        done = all((settings / name).read_text().strip() == "1" for name in SETTING_NAMES)
    except OSError:
        done = False
    if not done:
        log.warning("bridged_packets_unfiltered", settings=str(settings))
    return done
