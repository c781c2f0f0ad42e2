"""Backups of a raw image of 1 GiB, half of it used, against `qemu-img convert` with zstd.

Targets: a full backup at least 0.8 times as fast; an increment after 160 writes of 64 KiB (1 %) in at most 20 % of the
full backup's time with at most 8 % of its bytes; a restore at least 0.5 times as fast; at most 200 MiB of memory, also
for a disk of 1 TiB with content in each GiB. Each job runs in a process of its own.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DISK_MIB, USED_MIB, WRITES, ROUNDS, LARGE_DISK_GIB = 1024, 512, 160, 3, 1024
QUICK_SIZES = {"DISK_MIB": 32, "USED_MIB": 8, "WRITES": 4, "ROUNDS": 1, "LARGE_DISK_GIB": 40}
MEBIBYTE, WRITE_BYTES = 1024**2, 64 * 1024


def bench(report):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        create_image(place / "disk.raw")
        rounds = [run_round(place / str(number), place / "disk.raw") for number in range(ROUNDS)]
        large_memory = measure_large_disk(place / "large")
    medians = {name: statistics.median(times[name] for times in rounds) for name in rounds[0]}
    print(", ".join(f"{name} {value:.2f}" for name, value in medians.items()), flush=True)
    for name in ("full", "restore"):
        ratio = statistics.median(times[f"{name} of qemu-img"] / times[name] for times in rounds)
        report(f"speed of a {name} backup" if name == "full" else "speed of a restore", ratio, minimum=SPEEDS[name])
    report("time of an increment", statistics.median(t["increment"] / t["full"] for t in rounds), 0.2)
    report("bytes of an increment", statistics.median(t["increment MiB"] / t["full MiB"] for t in rounds), 0.08)
    report("memory of a job", max(t["memory MiB"] for t in rounds), 200, unit=" MiB")
    report(f"memory of a job, disk of {LARGE_DISK_GIB} GiB", large_memory, 200, unit=" MiB")


SPEEDS = {"full": 0.8, "restore": 0.5}


def create_image(path):
    """Write a disk with programs and noise at the front, and holes behind."""
    noise_bytes = USED_MIB * MEBIBYTE // 4
    with path.open("wb") as file:
        for program in sorted(Path("/usr/lib").rglob("*")):
            if program.is_file() and not program.is_symlink():
                file.write(program.read_bytes()[: USED_MIB * MEBIBYTE - noise_bytes - file.tell()])
            if file.tell() >= USED_MIB * MEBIBYTE - noise_bytes:
                break
        file.write(random.Random(1).randbytes(noise_bytes))
        file.truncate(DISK_MIB * MEBIBYTE)


def run_round(place, image):
    place.mkdir()
    disk, compressed = place / "disk.raw", place / "compressed.qcow2"
    run("cp", "--sparse=always", image, disk)
    convert = ("qemu-img", "convert", "-m", "2", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd")
    times = {"full of qemu-img": measure(*convert, disk, compressed)}
    full = run_job("back_up", place, "full", "")
    content = disk.open("r+b")
    offsets = [number * WRITE_BYTES for number in random.Random(3).sample(range(DISK_MIB * 16), WRITES)]
    for offset in offsets:
        content.seek(offset)
        content.write(random.Random(offset).randbytes(WRITE_BYTES // 2) + b"log line" * (WRITE_BYTES // 16))
    content.close()
    (place / "changes").write_text(json.dumps(offsets))
    increment = run_job("back_up", place, "increment", "full")
    times["restore of qemu-img"] = measure("qemu-img", "convert", "-O", "raw", compressed, place / "converted.raw")
    restore = run_job("restore", place, "increment")
    run("cmp", disk, place / "restored.raw")
    times |= {"full": full["seconds"], "increment": increment["seconds"], "restore": restore["seconds"]}
    times |= {"full MiB": full["bytes"] / MEBIBYTE, "increment MiB": increment["bytes"] / MEBIBYTE}
    times["memory MiB"] = max(job["memory"] for job in (full, increment, restore)) / MEBIBYTE
    run("rm", "-r", place)
    return times


def measure_large_disk(place):
    """Back up and restore a large disk with something in each GiB. Return the peak of the memory in MiB."""
    place.mkdir()
    with (place / "disk.raw").open("wb") as file:
        file.truncate(LARGE_DISK_GIB * 1024 * MEBIBYTE)
        for number in range(LARGE_DISK_GIB):
            file.seek(number * 1024 * MEBIBYTE)
            file.write(random.Random(number).randbytes(WRITE_BYTES))
    jobs = [run_job("back_up", place, "full", ""), run_job("restore", place, "full")]
    return max(job["memory"] for job in jobs) / MEBIBYTE


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def measure(*command):
    started_at = time.perf_counter()
    run(*command)
    return time.perf_counter() - started_at


def run_job(job, place, *arguments):
    return json.loads(run(sys.executable, "-m", "tests.bench.backup_job", job, place, *arguments))
