"""Servers in a network namespace of their own, to which this machine routes: for guests they are the internet."""

import contextlib
import subprocess
import sys

NAME = "panel-internet"
UPLINK, UPLINK_ADDRESS, GATEWAY = "paneluplink", "20.0.0.1", "20.0.0.2"
"""The machine's end of the cable with its public address, and the router behind it."""
TCP_PORT, DNS_PORT = 7001, 53

SERVER = f"""
import socket, sys, threading
def answer_datagrams(datagrams):
    while True:
        data, sender = datagrams.recvfrom(2048)
        datagrams.sendto(data, sender)
for address in sys.argv[1:]:  # each socket answers from its own address
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((address, {DNS_PORT}))
    threading.Thread(target=answer_datagrams, args=(datagrams,), daemon=True).start()
server = socket.create_server(("", {TCP_PORT}))
print("ready", flush=True)
while True:
    server.accept()[0].close()
"""


def run(*command):
    subprocess.run(command, check=True)


@contextlib.contextmanager
def run_server(*prefix, addresses=()):
    """Accept TCP connections at all addresses of a namespace, and echo datagrams to port 53 at some."""
    command = [*prefix, sys.executable, "-c", SERVER, *addresses]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def run_internet(*addresses):
    """Serve TCP connections at these addresses, and at all of this machine. The former echo datagrams too."""
    inside = ["ip", "netns", "exec", NAME]
    run("ip", "netns", "add", NAME)
    try:
        run("ip", "link", "add", UPLINK, "type", "veth", "peer", "name", "eth0", "netns", NAME)
        run("ip", "address", "add", f"{UPLINK_ADDRESS}/30", "dev", UPLINK)
        run("ip", "link", "set", UPLINK, "up")
        for address in (f"{GATEWAY}/30", *(f"{address}/32" for address in addresses)):
            run(*inside, "ip", "address", "add", address, "dev", "eth0")
        run(*inside, "ip", "link", "set", "eth0", "up")
        for address in addresses:
            run("ip", "route", "add", address, "via", GATEWAY)
        with run_server(*inside, addresses=addresses), run_server():
            yield
    finally:
        run("ip", "netns", "delete", NAME)
