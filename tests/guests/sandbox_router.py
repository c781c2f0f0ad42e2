"""The router of sandboxes of the test run's installation."""

from tests.support.waiting import wait_until


def start_router(lab):
    """Start the router, or start it again after it was killed."""
    count = 1
    if router := find_router(lab):
        router.kill()
        router.wait()
        count = lab.installation.read_log("sandbox").count("sandbox_router_started") + 1
    lab.installation.start("sandbox")
    wait_until(lambda: lab.installation.read_log("sandbox").count("sandbox_router_started") == count, "the router")


def find_router(lab):
    running = (process for process in lab.installation.running if process.is_running())
    routers = [process for process in running if "sandbox" in " ".join(process.cmdline()).split()]
    return routers[-1] if routers else None
