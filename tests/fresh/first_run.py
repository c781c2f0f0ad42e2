"""Execute the first steps of README with only Python's standard library: `python3 -m tests.fresh.first_run`.

It runs `make run`, waits until the panel is ready, creates and deploys an instance through the API, waits until the
guest agent answers, and stops the panel and its hypervisor.
"""

import os
import signal
import subprocess
import sys

from tests.support.panel_client import Output, call, deploy, wait_until

CUSTOMER_EMAIL = "customer@example.com"


def main():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(["make", "run"], text=True, start_new_session=True, **pipes)
    try:
        output = Output(process)
        url = output.wait_for(r"The panel is ready: (http://\S+)")[1]
        if any("This machine cannot be a hypervisor" in line for line in output.lines):
            sys.exit("make run made no local hypervisor.")
        deploy_and_wait_for_agent(url)
        os.killpg(process.pid, signal.SIGINT)
        if process.wait(120) not in (0, -signal.SIGINT):
            sys.exit(f"make run ended with {process.returncode} after Ctrl-C.")
    finally:
        subprocess.run(["make", "stop"], check=True)


def deploy_and_wait_for_agent(url):
    """Deploy an instance and wait until its guest agent reports."""
    command = [".venv/bin/panel", "token", "user", "--email", CUSTOMER_EMAIL]
    token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    instance = deploy(url, token)
    addresses = f"/api/instance/{instance}/guest-ips"
    wait_until(lambda: call(url, token, addresses)["data"], "the report of the guest agent")
    print(f"The guest of instance {instance} answers.", flush=True)


if __name__ == "__main__":
    main()
