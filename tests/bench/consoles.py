"""VNC consoles through the real web and console processes, against a bare relay in Python.

Targets of the design: at least 0.8 of the relay's throughput from the machine to the browser; a key press at most
0.2 ms slower; at most 16 KiB and no thread for an idle console; requests answered within 50 ms (99 of 100) while 50
consoles stream at full speed; at most one buffered read for a browser that stops reading; an unreachable browser
dropped within 60 s; no console dropped by a reload or restart of the web process.

The measurement with unreachable browsers needs root, for a network namespace.
"""

import contextlib
import queue
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path

from consoles import fd_passing
from consoles.event_loop import MAX_READ_BYTES
from tests.bench import console_peers
from tests.bench.console_peers import ECHO, PASSWORD, STREAM, BenchProcess, RawViewer
from tests.bench.site import ConsoleSite, fetch_page
from tests.support import console_client, network_namespace, redis_server
from tests.support.waiting import wait_until

ROUNDS, STREAM_BYTES, WARM_UP_BYTES = 61, 64 << 20, 8 << 20
KEY_PRESSES = 3000
KEY_EVENT = b"\4\1\0\0\0\0\0A"
IDLE_CONSOLES, STREAMING_CONSOLES = 200, 50
REQUEST_PATHS, BLOCKS, REQUESTS_PER_BLOCK = ("/healthz", "/api/instances?per_page=10"), 5, 300
MAX_READ_KIB = MAX_READ_BYTES / 1024 + 4
DROP_TIMEOUT_SECONDS = 120
QUICK_SIZES = {
    "ROUNDS": 2,
    "STREAM_BYTES": 1 << 20,
    "WARM_UP_BYTES": 1 << 17,
    "KEY_PRESSES": 100,
    "IDLE_CONSOLES": 5,
    "STREAMING_CONSOLES": 2,
    "BLOCKS": 1,
    "REQUESTS_PER_BLOCK": 5,
    "DROP_TIMEOUT_SECONDS": 1,
}


def bench(report):
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis_url = stack.enter_context(redis_server.RedisServer(directory))
        node = int(stack.enter_context(BenchProcess("node")).first_line)
        relay = int(stack.enter_context(BenchProcess("relay", node)).first_line)
        site = stack.enter_context(ConsoleSite(directory, redis_url, node))
        measure_idle_consoles(report, site)
        measure_stopped_readers(report, site)
        unreachable = UnreachableBrowsers(site)
        measure_throughput(report, site, relay)
        measure_key_press(report, site, relay)
        measure_requests_during_streams(report, site)
        measure_web_reload(report, site)
        unreachable.report_drop_times(report)


# --- speed


def measure_throughput(report, site, relay):
    """Measure received bytes per second from machine to browser, with new connections each round for both."""
    ratios, best = [], [0, 0]
    for number in range(ROUNDS):
        makers = [(0, lambda: RawViewer(relay)), (1, site.open_viewer)]
        speeds = [0, 0]
        for which, make in makers if number % 2 else reversed(makers):
            speeds[which] = measure_stream(make())
            best[which] = max(best[which], speeds[which])
        ratios.append(speeds[1] / speeds[0])
    print(
        f"screen: relay {best[0]:.0f} MB/s, console {best[1]:.0f} MB/s at best; {describe_quartiles(ratios)}",
        flush=True,
    )
    report("screen throughput, against a bare relay", statistics.median(ratios), minimum=0.8)


def describe_quartiles(ratios):
    low, _, high = statistics.quantiles(ratios)
    return f"half of the ratios within {low:.2f} and {high:.2f}"


def measure_stream(viewer):
    """Return MB/s of a stream."""
    buffer = bytearray(4 * console_peers.BLOCK_BYTES)
    with viewer.connection as connection:
        viewer.send(STREAM)
        for amount in (WARM_UP_BYTES, STREAM_BYTES):
            start, remaining_bytes = time.perf_counter(), amount
            while remaining_bytes > 0:
                remaining_bytes -= connection.recv_into(buffer)
        return STREAM_BYTES / (time.perf_counter() - start) / 1e6


def measure_key_press(report, site, relay):
    """Measure the round trip of a key event, alternately through both."""
    both = [(RawViewer(relay), 0), (site.open_viewer(), 2)]  # an echoed frame has a header of two bytes
    durations = [[], []]
    for viewer, _ in both:
        viewer.send(ECHO)
    for round_ in range(KEY_PRESSES + 100):
        for (viewer, header_bytes), times in zip(both, durations, strict=True):
            key, length = viewer.frame(console_client.BINARY, KEY_EVENT), len(KEY_EVENT) + header_bytes
            start = time.perf_counter()
            viewer.connection.sendall(key)
            while length > 0:
                length -= len(viewer.connection.recv(length))
            if round_ >= 100:
                times.append((time.perf_counter() - start) * 1000)
    for viewer, _ in both:
        viewer.connection.close()
    bare, console = (statistics.median(times) for times in durations)
    late = statistics.quantiles(durations[1], n=100)[98]
    print(f"key press: relay {bare:.3f} ms, console {console:.3f} ms, 99 of 100 within {late:.2f} ms", flush=True)
    report("a key press takes longer than through the relay, by", console - bare, 0.2, unit=" ms")


# --- the others


def measure_idle_consoles(report, site):
    process, viewers = site.console_process, site.open_viewers(60)  # warm-up: loads modules and pools
    time.sleep(3)
    before, threads = process.memory_full_info().uss, process.num_threads()
    viewers += site.open_viewers(IDLE_CONSOLES)
    time.sleep(3)  # the periodic revocation check has run for them
    kib_per_console = (process.memory_full_info().uss - before) / IDLE_CONSOLES / 1024
    new_threads = process.num_threads() - threads
    for viewer in viewers:
        viewer.connection.close()
    report(f"memory of a console at rest, {IDLE_CONSOLES} open", kib_per_console, 16, unit=" KiB")
    report(f"threads more for {IDLE_CONSOLES} consoles", new_threads, 0)


def measure_stopped_readers(report, site):
    """Browsers stop reading: kernel buffers fill up, and one read is buffered for each console."""
    time.sleep(1)  # earlier consoles have closed
    process, viewers = site.console_process, site.open_viewers(STREAMING_CONSOLES)
    time.sleep(0.5)
    before = process.memory_full_info().uss
    for viewer in viewers:
        viewer.send(STREAM)
    time.sleep(1)
    wait_until(lambda: is_stream_stopped(site), "the streams to stop")
    full = process.memory_full_info().uss
    time.sleep(4)
    later = process.memory_full_info().uss
    for viewer in viewers:
        viewer.connection.close()
    report(
        "memory for a browser that stopped reading",
        (full - before) / STREAMING_CONSOLES / 1024,
        MAX_READ_KIB,
        unit=" KiB",
    )
    report("memory more for it 4 s later", (later - full) / STREAMING_CONSOLES / 1024, 1, unit=" KiB")


def is_stream_stopped(site):
    before = site.count_sent_bytes()
    time.sleep(1)
    return site.count_sent_bytes() == before


def measure_requests_during_streams(report, site):
    """Measure response times while consoles stream, as medians of several blocks, because the load may vary."""
    late = {}
    for streams in (0, STREAMING_CONSOLES) * BLOCKS:
        with (
            BenchProcess("readers", site.port, *site.create_sessions(streams)) if streams else contextlib.nullcontext()
        ):
            time.sleep(0.5)
            moved, start = site.count_sent_bytes(), time.monotonic()
            for page in REQUEST_PATHS:
                durations = measure_response_times(site, page)
                late.setdefault((page, streams), []).append(statistics.quantiles(durations, n=100)[98])
            speed = (site.count_sent_bytes() - moved) / (time.monotonic() - start) / 1e6
    print(f"{STREAMING_CONSOLES} screens streamed {speed:.0f} MB/s together", flush=True)
    for page in REQUEST_PATHS:
        alone, streaming = (statistics.median(late[page, streams]) for streams in (0, STREAMING_CONSOLES))
        print(f"GET {page}: 99 of 100 within {alone:.1f} ms beside nothing", flush=True)
        report(
            f"GET {page} beside {STREAMING_CONSOLES} screens that stream, 99 of 100 within",
            streaming,
            50,
            unit=" ms",
        )


def measure_response_times(site, page):
    durations = []
    for _ in range(REQUESTS_PER_BLOCK):
        start = time.perf_counter()
        fetch_page(site.port, page, site.token)
        durations.append((time.perf_counter() - start) * 1000)
    return durations


def measure_web_reload(report, site):
    viewers = site.open_viewers(20)
    for viewer in viewers:
        viewer.send(ECHO)
    before = site.find_web_workers()
    site.web.process.send_signal(signal.SIGHUP)
    wait_until(lambda: (now := site.find_web_workers()) and not now & before, "other web processes")
    report("consoles dropped by a reload of the web", sum(not is_echoing(viewer) for viewer in viewers), 0)
    site.stop_web()
    site.start_web()
    report("consoles dropped by a restart of the web", sum(not is_echoing(viewer) for viewer in viewers), 0)
    for viewer in viewers:
        viewer.connection.close()


def is_echoing(viewer):
    viewer.send(KEY_EVENT)
    try:
        return viewer.read(len(KEY_EVENT)) == KEY_EVENT
    except (console_client.WebSocketClosed, OSError):
        return False


class UnreachableBrowsers(threading.Thread):
    """Browsers whose network drops all packets: one with a still picture, one with a stream. Their sockets are passed
    to the console process as by the web process."""

    def __init__(self, site):
        super().__init__(daemon=True)
        self.site, self.results = site, queue.Queue()
        self.start()

    def run(self):
        try:
            self.results.put(self.measure_drop_times())
        except OSError as error:
            self.results.put(error)

    def measure_drop_times(self):
        """Return the seconds until each console was dropped."""
        network_namespace.enter_namespace()
        still, streaming = self.open(ECHO), self.open(STREAM)
        names = {still[0]: "still", streaming[0]: "streaming"}
        time.sleep(2)
        network_namespace.drop_packets()
        start, durations = time.monotonic(), {}
        while len(durations) < len(names) and time.monotonic() < start + DROP_TIMEOUT_SECONDS:
            time.sleep(0.5)
            open_consoles = self.site.list_open_consoles()
            for session_id, name in names.items():
                if session_id not in open_consoles:
                    durations.setdefault(name, time.monotonic() - start)
        return durations

    def open(self, order):
        """Return the session id and the viewer. The caller keeps the viewer, whose connection would close otherwise."""
        note = self.site.redeem_session()
        client_socket, server_socket = console_client.socket_pair()
        with server_socket:
            fd_passing.pass_socket(
                {"werkzeug.socket": server_socket, "HTTP_SEC_WEBSOCKET_KEY": console_client.WEBSOCKET_KEY},
                self.site.socket,
                note,
            )
        viewer = console_client.ConsoleClient(client_socket)
        assert viewer.read_response() == 101
        assert viewer.sign_in(PASSWORD) is None
        viewer.send(order)
        return note["id"], viewer

    def report_drop_times(self, report):
        durations = self.results.get(timeout=150)
        if isinstance(durations, OSError):
            print(f"not measured: how soon a browser that vanished is dropped ({durations})", flush=True)
            return
        for name in ("still", "streaming"):
            report(
                f"a browser before a {name} picture vanished, dropped within", durations.get(name, 999), 60, unit=" s"
            )
