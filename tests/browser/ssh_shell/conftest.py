"""The shell page in a real browser, with a real shell behind a real SSH server: resize,
colors, copy and paste, links, search, and a message for each close reason."""

import pytest

from tests.browser.ssh_shell.shell_page import ShellPage
from tests.browser.ssh_site import SshSite


@pytest.fixture(scope="module")
def ssh_site(tmp_path_factory):
    site = SshSite(tmp_path_factory.mktemp("site"))
    yield site
    site.close()


@pytest.fixture
def started_ssh_site(ssh_site):
    ssh_site.start_guest()
    yield ssh_site
    ssh_site.stop_guest()


@pytest.fixture
def shell_page(page, started_ssh_site):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return ShellPage(page, started_ssh_site)
