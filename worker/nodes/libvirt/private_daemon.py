"""The panel's own hypervisor on this machine, for `make run` and for tests.

It is a private libvirtd. Everything it stores (sockets, state, settings, logs) is below one directory: in a mount
namespace that directory's folders appear as /run/libvirt, /var/lib/libvirt and so on, so a libvirtd of the system is
not touched. Only the bridge of its network is shared with the rest of the machine, and its name can be chosen.

The daemon is detached: it and its guests outlive the panel that started it. The daemon runs as root, its guests as an
unprivileged user (`confinement`).
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import libvirt
import structlog

from worker.nodes.libvirt import bridge_filter, confinement, kvm, neighbors
from worker.nodes.libvirt.daemon import find_processes, terminate
from worker.nodes.libvirt.network import PublicNetwork, ensure_network

log = structlog.get_logger()

REQUIRED_PROGRAMS = {
    "libvirtd": "libvirt-daemon-system",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "ip": "iproute2",
    "iptables": "iptables",
    "ebtables": "ebtables",
    "nft": "nftables",
    "unshare": "util-linux",
    "mount": "mount",
    "dnsmasq": "dnsmasq-base",
}
"""Program → the Debian package that contains it. (dnsmasq is never used, but without it a daemon does not start again
beside an active network.)"""

REQUIRED_PACKAGES = tuple(dict.fromkeys(REQUIRED_PROGRAMS.values()))

PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a daemon looks for the programs that it runs."""

MAX_DIRECTORY_LENGTH = 90
"""Characters of the directory's path: the kernel limits the path of a socket to 107."""

LIBVIRT_FOLDERS = {
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "log": "/var/log/libvirt",
    "cache": "/var/cache/libvirt",
    "etc": "/etc/libvirt",
}

DAEMON_CONF = """\
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
host_uuid = "{uuid}"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""

QEMU_CONF = """\
stdio_handler = "file"
vnc_listen = "127.0.0.1"
remote_display_port_min = {first_screen}
remote_display_port_max = {last_screen}
"""

VNC_PORTS_PER_HYPERVISOR = 100
"""VNC ports of a hypervisor. Each hypervisor has its own range, because two that search for a free port at the same
moment would find the same one."""

# Runs in a mount namespace of its own: $1 is the directory, $2 the host's UUID, $3 the KVM device for guests (`yes`:
# the host's, `no`: none, a number: a separate device for the group of that number). The other arguments are
# directories to cover (`confinement`), each with the paths that stay visible in it: `cover DIR keep PATH keep PATH`.
# Where KVM does not work libvirtd gets a /dev without it: binding something over /dev/kvm would make libvirt ask QEMU
# for its capabilities again at every definition, which takes half a minute. Without systemd, libvirt creates control
# groups by the guests' numbers and names, which may be the same in two daemons, so each daemon gets its own branch.
NAMESPACE_SCRIPT = """
mount --make-rprivate /
directory=$1 host=$2 kvm=$3
shift 3
uncover() {{
    [ -z "$covered" ] || {{ mount -o remount,ro,mode=711 "$covered" && umount -l /run/libvirt; }}
}}
mkdir -p /run/libvirt
covered=
while [ $# -gt 0 ]; do
    if [ "$1" = cover ]; then
        uncover
        covered=$2
        mount --rbind "$covered" /run/libvirt
        mount -t tmpfs -o mode=711 tmpfs "$covered"
    else
        mkdir -p "$2"
        mount --rbind "/run/libvirt/${{2#"$covered"/}}" "$2"
    fi
    shift 2
done
uncover
set -- "$directory" "$host" "$kvm"
for pair in {folders}; do
    mkdir -p "${{pair#*:}}"
    mount --bind "$1/${{pair%%:*}}" "${{pair#*:}}"
done
# libvirt sets the ports of bridges in /sys, which shows the network namespace of whoever mounted it.
mkdir -p "$1/sys"
if mount -t sysfs sysfs "$1/sys" 2>/dev/null; then
    for kind in class/net devices/virtual/net; do mount --bind "$1/sys/$kind" "/sys/$kind"; done
fi
if [ "$3" != yes ]; then
    # systemd mounts these below /dev. The new /dev would hide them: then libvirtd ends, or guests get no namespaces.
    while read -r _ path kind _; do
        case $kind:$path in hugetlbfs:/dev/* | mqueue:/dev/*) umount "$path" ;; esac
    done </proc/mounts
    mkdir -p "$1/dev"
    mount -t tmpfs -o mode=755 tmpfs "$1/dev"
    mkdir "$1/dev/net" "$1/dev/pts" "$1/dev/shm"
    for device in null zero full random urandom tty net/tun; do
        touch "$1/dev/$device"
        mount --bind "/dev/$device" "$1/dev/$device"
    done
    if [ "$3" != no ]; then
        mknod -m 660 "$1/dev/kvm" c 10 232
        chgrp "$3" "$1/dev/kvm"
    fi
    # The one in pts may be closed to all but root.
    mknod -m 666 "$1/dev/ptmx" c 5 2 2>/dev/null || ln -s pts/ptmx "$1/dev/ptmx"
    ln -s /proc/self/fd "$1/dev/fd"
    mount --rbind /dev/pts "$1/dev/pts"
    mount --rbind /dev/shm "$1/dev/shm"
    mount --rbind "$1/dev" /dev
fi
if [ ! -d /run/systemd/system ]; then
    for controller in cpu cpuacct cpuset memory freezer blkio pids devices; do
        group=/sys/fs/cgroup/$controller
        [ -e "$group/cgroup.procs" ] || continue
        mkdir -p "$group/$2"
        if [ $controller = cpuset ]; then
            cat "$group/cpuset.cpus" >"$group/$2/cpuset.cpus"
            cat "$group/cpuset.mems" >"$group/$2/cpuset.mems"
        fi
        mount --bind "$group/$2" "$group"
    done
fi
exec libvirtd -d -p /run/libvirt/libvirtd.pid
""".format(folders=" ".join(f"{name}:{target}" for name, target in LIBVIRT_FOLDERS.items()))


class NoHypervisor(Exception):
    """A hypervisor could not be started here; the text gives the reason."""


def list_missing() -> list[str]:
    """Return what prevents this machine from being a hypervisor, a sentence each. Empty: `start` can be called."""
    path = f"{os.environ.get('PATH', '')}:{PROGRAM_PATH}"
    missing = [
        f"The program {p} is missing (package {REQUIRED_PROGRAMS[p]})."
        for p in REQUIRED_PROGRAMS
        if not shutil.which(p, path=path)
    ]
    if os.geteuid() != 0:
        missing.append("Only root can run a hypervisor.")
    if not Path("/dev/net/tun").exists():
        missing.append("The kernel offers no /dev/net/tun, so guests would have no network.")
    return missing


def make_connection_uri(directory: Path) -> str:
    return f"qemu+unix:///system?socket={Path(directory).resolve() / 'run' / 'libvirt-sock'}"


def get_kvm_verdict(directory: Path) -> kvm.Verdict:
    """Return whether guests of this hypervisor run under KVM, and why: probed once a boot."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    return kvm.get_verdict(Path(directory).resolve() / "kvm.json")


def start(directory: Path, network: PublicNetwork = PublicNetwork(), programs: str = PROGRAM_PATH) -> str:  # noqa: B008  (frozen)
    """Start the hypervisor and its network `public`, and return its libvirt URI. Does nothing when both run. Raises
    `NoHypervisor`."""
    directory = Path(directory).resolve()
    with lock_directory(directory):
        # A daemon of an earlier release has no confinement. It is restarted; its guests continue to run meanwhile.
        running = try_connect(directory) if confinement.find_saved_confinement(directory) else None
        with contextlib.closing(running or launch_daemon(directory, programs)) as connection:
            try:
                ensure_network(connection, network)
                neighbors.restore_rules(connection)
            except libvirt.libvirtError as error:
                raise NoHypervisor(f"The network {network.name} could not be made: {error}") from error
    bridge_filter.enable_bridge_filter()
    return make_connection_uri(directory)


def stop(directory: Path) -> None:
    """Stop the daemon and all its guests, and remove its network with the rules of its NICs. What is on disk stays."""
    directory = Path(directory).resolve()
    if not directory.exists():
        return
    with lock_directory(directory):
        connection = try_connect(directory)
        if connection is None and has_leftovers(directory):
            connection = launch_daemon(directory)  # it finds the leftovers of the last one and can remove them
        if connection is not None:
            with contextlib.closing(connection):
                stop_machines(connection)
                neighbors.forget_all(connection)
        terminate(find_processes(directory))
        for branch in Path("/sys/fs/cgroup").glob(f"*/{get_host_uuid(directory)}"):
            for group, _, _ in os.walk(branch, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(group)


def stop_machines(connection: libvirt.virConnect) -> None:
    for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        with contextlib.suppress(libvirt.libvirtError):  # it has just ended, or ends with the daemon
            domain.destroy()
    for network in connection.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE):
        network.destroy()


@contextlib.contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock the directory: one process at a time starts or stops its hypervisor."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def try_connect(directory: Path) -> libvirt.virConnect | None:
    """Return a connection to the daemon, or None when it does not answer. A socket file alone proves nothing: its
    daemon may be dying."""
    with contextlib.suppress(libvirt.libvirtError):
        return libvirt.open(make_connection_uri(directory))
    return None


def has_leftovers(directory: Path) -> bool:
    """Return whether the daemon's state lists running guests or networks."""
    return any(any((directory / "run" / kind).glob("*.xml")) for kind in ("qemu", "network"))


def launch_daemon(directory: Path, programs: str = PROGRAM_PATH) -> libvirt.virConnect:
    """Start the daemon at the strictest confinement level at which a machine starts. Returns a connection."""
    if problems := list_missing():
        raise NoHypervisor(" ".join(problems))
    if len(str(directory)) > MAX_DIRECTORY_LENGTH:
        raise NoHypervisor(f"The path {directory} is too long for the address of a socket.")
    has_kvm = get_kvm_verdict(directory).works
    for level in confinement.list_levels():
        terminate(find_processes(directory, guests=False))  # one that is about to end, or hangs
        write_settings(directory, level)
        connection, refused = run_daemon(directory, level, has_kvm, programs)
        if connection is not None and not (refused := confinement.try_level(connection, directory, has_kvm)):
            active_confinement = confinement.read_confinement(connection, level)
            confinement.save_confinement(directory, active_confinement)
            log.info("local_hypervisor_started", directory=str(directory), kvm=has_kvm, **vars(active_confinement))
            return connection
        if connection is not None:
            connection.close()
        log.warning("confinement_refused", namespaces=level.namespaces, user=level.user.name, detail=refused)
    raise NoHypervisor(f"libvirtd did not start: {refused} (see {directory / 'log' / 'libvirtd.log'})")


def run_daemon(
    directory: Path, level: confinement.Level, works_with_kvm: bool, programs: str
) -> tuple[libvirt.virConnect | None, str]:
    """Return a connection to the daemon (None on failure) and what it printed."""
    covers = []
    for covered, visible_paths in confinement.list_directories_to_cover(
        confinement.list_storage_paths(directory), level.user
    ).items():
        covers += ["cover", str(covered), *(argument for path in visible_paths for argument in ("keep", str(path)))]
    device = choose_kvm_device(level.user) if works_with_kvm else "no"
    command = [
        "unshare",
        "--mount",
        "sh",
        "-eufc",
        NAMESPACE_SCRIPT,
        "sh",
        str(directory),
        get_host_uuid(directory),
        device,
    ]
    result = subprocess.run(
        [*command, *covers],
        env={"PATH": programs, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd="/",
        umask=0o022,
    )
    return None if result.returncode else try_connect(directory), result.stdout.strip()


def choose_kvm_device(user: confinement.QemuUser) -> str:
    """Return `yes` where QEMU's user can open the host's device; else the group for a separate device."""
    return "yes" if user.can_open(Path("/dev/kvm")) else str(user.gid)


def write_settings(directory: Path, level: confinement.Level) -> None:
    """Write the folders and settings. The daemon's notes about running guests are valid for one boot only."""
    boot_id_file = directory / "boot_id"
    if not boot_id_file.exists() or boot_id_file.read_text() != kvm.read_boot_id():
        shutil.rmtree(directory / "run", ignore_errors=True)
        boot_id_file.write_text(kvm.read_boot_id())
    directory.chmod(0o711)
    for name in (
        *LIBVIRT_FOLDERS,
        "lib/dnsmasq",
    ):  # the last is a folder of the package, where networks keep their state
        (directory / name).mkdir(mode=0o755, exist_ok=True)
        (directory / name).chmod(0o755)
    identity = get_host_uuid(directory)
    first_port = (
        10_000 + uuid.UUID(identity).int % 220 * VNC_PORTS_PER_HYPERVISOR
    )  # below the ports that the kernel hands out
    ports = {"first_screen": first_port, "last_screen": first_port + VNC_PORTS_PER_HYPERVISOR - 1}
    (directory / "etc" / "libvirtd.conf").write_text(DAEMON_CONF.format(uuid=identity))
    (directory / "etc" / "qemu.conf").write_text(level.settings() + QEMU_CONF.format(**ports))


def get_host_uuid(directory: Path) -> str:
    """Return the host's UUID, as other hypervisors see it; it is created once."""
    file = directory / "host_uuid"
    if not file.exists():
        file.write_text(str(uuid.uuid4()))
    return file.read_text()
