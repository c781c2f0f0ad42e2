"""The panel's images as files: what can be checked without starting a machine."""

import hashlib
import json
import os
import re
import subprocess

import pytest

from panel.models import Instance
from worker.images import commands, disk, packages, tiny, uefi
from worker.images.commands import BuildFailed
from worker.images.tiny import boot, tree
from worker.tasks import restores_to_new

pytestmark = pytest.mark.guest

PARTITION = disk.ROOT_OFFSET


@pytest.fixture(scope="module")
def built_image(tmp_path_factory, guest_cache):
    return tiny.build(tmp_path_factory.mktemp("images") / "tiny.qcow2", cache=guest_cache, log=lambda line: None)


@pytest.fixture(scope="module")
def raw_image(built_image):
    """The file of the disk's content, without a format."""
    path = built_image.path.with_suffix(".raw")
    run_command("qemu-img", "convert", "-O", "raw", built_image.path, path)
    return path


def run_command(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_debugfs(raw_image, request):
    """Return what debugfs prints about the file system in the image."""
    return run_command(
        "debugfs", "-R", request, f"{raw_image}?offset={PARTITION}", env={**os.environ, "PATH": commands.PROGRAM_PATH}
    )


def test_built_image_matches_its_description(built_image):
    content = built_image.path.read_bytes()
    assert (built_image.size, built_image.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert built_image.size <= 30 * 1024**2
    facts = json.loads(run_command("qemu-img", "info", "--output=json", built_image.path))
    assert (facts["format"], facts["virtual-size"]) == ("qcow2", built_image.virtual_size)
    assert built_image.virtual_size <= built_image.min_disk_gb * 1024**3
    assert (built_image.name, built_image.distro, built_image.version, built_image.cloudinit) == (
        "tiny",
        "debian",
        "12",
        True,
    )
    assert built_image.secure_boot
    assert built_image.publisher_version.startswith("12.")
    run_command("qemu-img", "check", built_image.path)


def test_loader_packages_are_reduced_to_loaders(tmp_path):
    loaders = {tmp_path / uefi.SHIM_FILE, tmp_path / uefi.GRUB_FILE}
    for path in (*loaders, tmp_path / "usr/bin/perl", tmp_path / "etc/x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "bin").symlink_to("usr/bin")
    uefi.keep_loaders(tmp_path)
    assert {path for path in tmp_path.rglob("*") if not path.is_dir()} == loaders
    assert [path.name for path in tmp_path.iterdir()] == ["usr"]


def test_image_boots_grub_from_first_partition(raw_image):
    sector = raw_image.read_bytes()[: disk.SECTOR_BYTES]
    assert sector[:3] == (disk.GRUB_FOLDER / "boot.img").read_bytes()[:3]
    assert b"GRUB" in sector
    table = json.loads(run_command("/sbin/sfdisk", "--json", raw_image))["partitiontable"]
    partition, efi = table["partitions"]
    assert (table["label"], partition["start"], partition["bootable"]) == ("dos", PARTITION // disk.SECTOR_BYTES, True)
    assert PARTITION + partition["size"] * disk.SECTOR_BYTES == raw_image.stat().st_size
    assert (efi["type"], efi["start"] + efi["size"]) == ("ef", partition["start"])


def test_uefi_loaders_are_unchanged_signed_files(raw_image, guest_cache, tmp_path):
    signed = uefi.fetch_loaders(guest_cache, lambda line: None)
    for name, packaged in (("BOOTX64.EFI", uefi.SHIM_FILE), ("grubx64.efi", uefi.GRUB_FILE)):
        run_command("mcopy", "-i", f"{raw_image}@@{disk.UEFI_OFFSET}", f"::/EFI/BOOT/{name}", tmp_path / name)
        assert (tmp_path / name).read_bytes() == (signed / packaged).read_bytes()
    assert "/boot/initrd-signed" in run_debugfs(raw_image, "cat /boot/grub/x86_64-efi/grub.cfg")


def test_file_system_is_clean_and_can_grow(raw_image):
    run_command("/sbin/e2fsck", "-fn", f"{raw_image}?offset={PARTITION}")
    facts = run_debugfs(raw_image, "stats -h")
    assert f"Block size:               {disk.BLOCK_BYTES}" in facts
    assert "Filesystem volume name:   tiny" in facts
    reserved = next(int(line.split()[-1]) for line in facts.splitlines() if line.startswith("Reserved GDT blocks:"))
    groups = (reserved + 1) * disk.BLOCK_BYTES // 64
    assert groups * 32768 * disk.BLOCK_BYTES >= disk.MAX_PARTITION_BYTES - 1024**3


def test_image_has_no_secrets_and_no_logins(raw_image):
    accounts = run_debugfs(raw_image, "cat /etc/shadow")
    assert {line.split(":")[1] for line in accounts.splitlines()} == {"*"}
    shadow = run_debugfs(raw_image, "stat /etc/shadow")
    assert "Mode:  0600" in shadow
    assert "User:     0   Group:     0" in shadow
    assert "ed25519" not in run_debugfs(raw_image, "ls -p /etc/dropbear")
    assert run_debugfs(raw_image, "cat /etc/dropbear/refuse") == "-s\n"
    assert "instance-id" not in run_debugfs(raw_image, "ls -p /var/lib")


def test_rebuild_fetches_nothing_and_replaces_file_atomically(built_image, guest_cache, tmp_path):
    out = tmp_path / "tiny.qcow2"
    out.write_bytes(b"an older image")
    lines = []
    with out.open("rb") as reader:
        rebuilt_image = tiny.build(out, cache=guest_cache, log=lines.append)
        assert reader.read() == b"an older image"
    assert rebuilt_image.size == out.stat().st_size
    assert not [line for line in lines if "Fetching" in line]
    assert list(tmp_path.iterdir()) == [out]


def test_failed_build_reports_reason_and_keeps_old_image(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "PROGRAM_PATH", str(tmp_path))
    out = tmp_path / "tiny.qcow2"
    out.write_bytes(b"an older image")
    with pytest.raises(BuildFailed, match="mmdebstrap is not installed"):
        tiny.build(out, cache=tmp_path / "cache", log=lambda line: None)
    assert out.read_bytes() == b"an older image"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_expired_packages_are_used_without_network(tmp_path, monkeypatch):
    fetched = []

    def mmdebstrap(*arguments):
        fetched.append(arguments)
        if len(fetched) == 2:
            raise BuildFailed("mmdebstrap failed: no network")

    monkeypatch.setattr(packages, "run", mmdebstrap)
    lines = []
    fetch = lambda: packages.unpack(["jq"], cache=tmp_path, prepare=lambda tree: None, log=lines.append)  # noqa: E731
    tree = fetch()
    assert fetch() == tree
    assert len(fetched) == 1
    os.utime(tree, (0, 0))
    assert fetch() == tree
    assert "no network" in lines[-1]
    assert fetch() == tree
    assert len(fetched) == 3
    assert tree.stat().st_mtime > 0


def test_missing_programs_are_listed_with_packages(tmp_path, monkeypatch):
    assert tiny.list_missing() == []
    monkeypatch.setattr(commands, "PROGRAM_PATH", str(tmp_path))
    assert "mke2fs is not installed: apt install e2fsprogs." in tiny.list_missing()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "as root" in tiny.list_missing()[-1]


def test_strip_signature_keeps_module_bytes():
    module, signature = b"\x7fELF and so on", b"s" * 300
    facts = bytes(8) + len(signature).to_bytes(4)
    assert boot.strip_signature(module + signature + facts + boot.SIGNATURE_MARK) == module
    assert boot.strip_signature(module) == module


@pytest.fixture(scope="module")
def read_calls(guest_cache, tmp_path_factory):
    """Return a function that converts a seed with the guest's jq to calls of the guest's functions, as a shell reads
    them."""
    unpacked = packages.unpack(
        tiny.IMAGE_PACKAGES, cache=guest_cache, prepare=boot.index_modules, log=lambda line: None
    )
    search = os.pathsep.join(str(unpacked / directory) for directory in tree.LIBRARY_FOLDERS)
    scripts = tree.OVERLAY_FOLDER / "usr/lib/guest"
    jq = [
        unpacked / tree.LOADER_PATH,
        "--library-path",
        search,
        unpacked / "usr/bin/jq",
        "-nr",
        "-f",
        scripts / "seed.jq",
    ]
    functions = "".join((scripts / name).read_text() for name in ("network.sh", "first-boot.sh"))
    shown = 'show() { printf "%s\\0" "$@"; printf "\\001"; }\n' + "".join(
        f'{name}() {{ show {name} "$@"; }}\n' for name in re.findall(r"^(\w+)\(\)", functions, re.MULTILINE)
    )
    seed = tmp_path_factory.mktemp("seed")

    def read(user="", network="", meta='{"instance-id": "i-1", "local-hostname": "web"}'):
        files = []
        for name, text in (("meta", meta), ("network", network), ("user", user)):
            (seed / name).write_text(text)
            files += ["--rawfile", name, seed / name]
        printed = run_command("sh", "-c", shown + run_command(*jq, *files))
        return [call.split("\0")[:-1] for call in printed.split("\1")[:-1]]

    return read


def make_config(**settings):
    return "#cloud-config\n" + json.dumps(settings, ensure_ascii=False)


def test_seed_is_converted_to_calls(read_calls):
    network = {
        "version": 2,
        "ethernets": {
            "nic0": {
                "match": {"macaddress": "52:54:00:AA:00:01"},
                "addresses": ["192.0.2.5/24", "2001:db8::5/64"],
                "gateway6": "2001:db8::1",
                "routes": [{"to": "0.0.0.0/0", "via": "192.0.2.1"}],
                "nameservers": {"addresses": ["192.0.2.53"], "search": ["a.example", "b.example"]},
            },
            "nic1": {"match": {"macaddress": "52:54:00:aa:00:02"}, "dhcp4": True, "mtu": 1450},
        },
    }
    assert read_calls(make_config(ssh_authorized_keys=["ssh-ed25519 A"], ssh_pwauth=True), json.dumps(network)) == [
        ["name", "web"],
        ["nic", "nic0", "52:54:00:aa:00:01"],
        ["address", "192.0.2.5/24"],
        ["address", "2001:db8::5/64"],
        ["route", "default", "2001:db8::1", ""],
        ["route", "0.0.0.0/0", "192.0.2.1", ""],
        ["resolver", "192.0.2.53"],
        ["search_domains", "a.example b.example"],
        ["nic", "nic1", "52:54:00:aa:00:02"],
        ["mtu", "1450"],
        ["dhcp"],
        ["new_instance", "i-1"],
        ["account", "root"],
        ["key", "ssh-ed25519 A"],
        ["sign_in", "true", "false"],
        ["ready"],
    ]


def test_seed_of_restored_machine_keeps_accounts_and_sign_in(read_calls):
    instance = Instance(hostname="shop", interfaces=[])
    restored = read_calls(user=restores_to_new.build_seed(instance, "i-1").user_data)
    assert restored[0] == ["name", "shop"]
    assert restored[-1] == ["ready"]
    assert ["new_instance", "i-1", "keep_accounts"] in restored
    assert "sign_in" not in [call[0] for call in restored]
    deployed = read_calls(make_config(users=[], ssh_pwauth=False))
    assert ["new_instance", "i-1"] in deployed
    assert ["sign_in", "false", "false"] in deployed


def test_seed_values_are_quoted_in_calls(read_calls):
    nasty = "'; touch /tmp/x; echo \"$(id)`id`\\"
    calls = read_calls(
        make_config(hostname=nasty, timezone=nasty, runcmd=[["printf", "%s", nasty]], users=[{"name": nasty}])
    )
    assert calls[0] == ["name", nasty]
    assert ["timezone", nasty] in calls
    assert ["account", nasty, "", "", ""] in calls
    (run,) = [call[1] for call in calls if call[0] == "run"]
    assert run_command("sh", "-c", run) == nasty


def test_seed_passwords_plain_or_hashed(read_calls):
    hashed = "$6$salt$hash"
    users = [
        {"name": "root", "password": "plain"},
        {"name": "a", "password": hashed, "type": "hash"},
        {"name": "b", "password": "$6$not$one", "type": "text"},
    ]
    calls = read_calls(make_config(chpasswd={"users": users, "list": f"c:{hashed}\nd:p:w\n"}, password="own"))
    assert [call[1:] for call in calls if call[0] == "password"] == [
        ["root", "own", "text"],
        ["c", hashed, "hash"],
        ["d", "p:w", "text"],
        ["root", "plain", "text"],
        ["a", hashed, "hash"],
        ["b", "$6$not$one", "text"],
    ]


def test_seed_locks_and_disables_root(read_calls):
    calls = read_calls(
        make_config(users=[{"name": "root", "lock_passwd": True, "ssh_authorized_keys": ["k"]}], disable_root=True)
    )
    assert [call for call in calls if call[0] in ("lock", "key", "sign_in")] == [
        ["key", "k"],
        ["lock"],
        ["sign_in", "false", "true"],
    ]


def test_seed_write_files_options(read_calls):
    files = [{"path": "/etc/a", "content": "é\n\t'😀'\n", "permissions": 0o600}, {"path": "/b", "encoding": "b64"}]
    calls = read_calls(make_config(write_files=files))
    assert [call[1:] for call in calls if call[0] == "file"] == [
        ["/etc/a", "600", "root:root", "false", "", "é\n\t'😀'\n"],
        ["/b", "0644", "root:root", "false", "b64", ""],
    ]


def test_invalid_seed_parts_are_reported_and_skipped(read_calls):
    calls = read_calls(
        make_config(runcmd=[{"a": 1}], write_files=7, packages=["x"], ssh_authorized_keys=["k"]), "not: json"
    )
    assert [call[1].split(":")[0] for call in calls if call[0] == "trouble"] == [
        "network-config",
        "packages",
        "write_files",
    ]
    assert ["dhcp_everywhere"] in calls
    assert ["key", "k"] in calls
    assert calls[-1] == ["ready"]


def test_script_user_data_is_run(read_calls):
    script = "#!/bin/sh\necho 'hello'\n"
    assert read_calls(script)[-2:] == [["script", script], ["ready"]]
