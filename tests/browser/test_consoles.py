"""VNC consoles and shells of a real guest in a real browser."""

import base64
import re
import subprocess

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import PAGE_TIMEOUT_MS, sign_in
from tests.browser.windows import open_window
from tests.support.installation import SAVED_HOSTNAME, SAVED_PASSWORD
from tests.support.waiting import wait_until
from worker.nodes import NodeSpec, connect

pytestmark = [pytest.mark.browser, pytest.mark.guest]

READ_PIXELS_SCRIPT = """async (picture) => {
    let canvas = document.querySelector("canvas");
    if (picture) {
        const image = new Image();
        image.src = `data:image/png;base64,${picture}`;
        await image.decode();
        canvas = new OffscreenCanvas(image.width, image.height);
        canvas.getContext("2d").drawImage(image, 0, 0);
    }
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let text = "";
    for (let at = 0; at < data.length; at += 4) { text += String.fromCharCode(data[at], data[at + 1], data[at + 2]); }
    return [canvas.width, canvas.height, btoa(text)];
}"""


@pytest.fixture(scope="module")
def run_in_guest(lab, hypervisor, guest):
    """Return a function that runs a program in the guest by the guest agent."""
    node = connect(NodeSpec("lab", "lab", "libvirt", hypervisor.uri), lab.installation.data_dir)
    yield lambda *command: node.agent_run(guest["id"], command).output
    node.close()


def open_console(page, lab, guest, button):
    sign_in(page, lab)
    page.goto(f"{lab.installation.url}/instances/{guest['id']}")
    opener = page.get_by_role("button" if button == "Console" else "link", name=button, exact=True)
    with page.context.expect_page() as opened:
        opener.click()
    return opened.value


def take_node_screenshot(hypervisor, name, file):
    """Return the node's screenshot of the machine as PNG in base64."""
    command = ["virsh", "-c", hypervisor.uri, "screenshot", name, str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return base64.b64encode(file.read_bytes()).decode()


def read_pixels(page, picture=None):
    """Return width, height and colors of the canvas on the page, or of a PNG."""
    width, height, text = page.evaluate(READ_PIXELS_SCRIPT, picture)
    return width, height, base64.b64decode(text)


def compute_equal_fraction(one, other):
    """Return the fraction of equal pixels of two pictures."""
    (width, height, pixels), (other_width, other_height, other_pixels) = one, other
    if (width, height) != (other_width, other_height):
        return 0
    return sum(a == b for a, b in zip(pixels[::3], other_pixels[::3], strict=True)) / (width * height)


def test_vnc_console_shows_guest_screen_and_sends_keys(
    page, lab, guest, run_in_guest, hypervisor, tmp_path, screenshot
):
    """CON-06, CON-10: the page shows the node's picture, and typed text arrives in the guest."""
    screen = open_console(page, lab, guest, "Console")
    expect(screen.locator("canvas")).to_be_visible(timeout=PAGE_TIMEOUT_MS)

    def is_picture_equal():
        node_pixels = read_pixels(screen, take_node_screenshot(hypervisor, guest["name"], tmp_path / "screen.png"))
        return any(node_pixels[2]) and compute_equal_fraction(read_pixels(screen), node_pixels) > 0.995

    wait_until(is_picture_equal, "the guest's picture in the browser")
    screen.locator("canvas").click()
    screen.keyboard.type("root\n", delay=30)
    screen.wait_for_timeout(3000)  # the guest discards input before the password prompt
    screen.keyboard.type(f"{SAVED_PASSWORD}\n", delay=30)
    screen.wait_for_timeout(3000)
    screen.get_by_role("button", name="Type text").click()
    screen.get_by_role("textbox", name="Typed key by key").fill('echo "Typed {OK} ~7|" >/typed\n')
    screen.get_by_role("button", name="Type", exact=True).click()
    screen.screenshot(path="tests/shots/screen-of-a-guest.png")
    wait_until(
        lambda: "Typed {OK} ~7|" in run_in_guest("sh", "-c", "cat /typed 2>/dev/null || true"), "the typed command"
    )
    address = screen.url
    assert page.request.get(address).status == 404


def test_shell_runs_commands_in_the_guest(page, lab, guest, run_in_guest):
    """SSH-07, SSH-11, SSH-19: a command runs, and the key is in the guest only during the session."""
    shell = open_console(page, lab, guest, "Shell")
    rows = shell.locator(".xterm-rows")
    expect(rows).to_contain_text("#", timeout=PAGE_TIMEOUT_MS)
    keys = run_in_guest("cat", "/root/.ssh/authorized_keys")
    assert keys.count("panel-session") == 1
    shell.locator(".xterm").click()
    shell.keyboard.type("echo $((6*7))-$(hostname); stty size\n")
    expect(rows).to_contain_text(f"42-{SAVED_HOSTNAME}", timeout=PAGE_TIMEOUT_MS)
    shell.set_viewport_size({"width": 800, "height": 500})
    shell.keyboard.type("clear; stty size\n")
    expect(rows).to_contain_text(re.compile(r"\d+ \d+"))
    shell.screenshot(path="tests/shots/shell-of-a-guest.png")
    shell.keyboard.type("exit 3\n")
    expect(shell.get_by_text("The shell ended with exit code 3.")).to_be_visible()
    wait_until(lambda: "panel-session" not in run_in_guest("cat", "/root/.ssh/authorized_keys"), "the key to go")
    shell.get_by_role("button", name="Open again").first.click()
    expect(rows).to_contain_text("#", timeout=PAGE_TIMEOUT_MS)


def test_operator_closes_open_console(page, lab, guest):
    screen = open_console(page, lab, guest, "Console")
    expect(screen.locator("canvas")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    operator = open_window(page.context.browser).new_page()
    sign_in(operator, lab, "operator@example.com")
    operator.goto(f"{lab.installation.url}/admin/consoles")
    expect(operator.get_by_role("cell", name="ada@example.com").first).to_be_visible()
    operator.get_by_role("button", name="Close").first.click()
    operator.locator("#confirm-yes").click()
    expect(screen.get_by_text("An operator closed the console.").first).to_be_visible()
    operator.context.close()


def test_console_closes_with_message_after_power_off(page, lab, guest):
    screen = open_console(page, lab, guest, "Console")
    expect(screen.locator("canvas")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    lab.run_power_action(guest, "poweroff")
    expect(
        screen.get_by_text(re.compile("turned off|is off|not running|closed the console", re.I)).first
    ).to_be_visible(timeout=PAGE_TIMEOUT_MS)
