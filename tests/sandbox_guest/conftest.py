"""Fixtures of the tests of the sandbox daemon."""

import contextlib

import pytest

from tests.sandbox_guest.daemon import run_daemon, write_identity
from tests.sandbox_guest.raw_client import RawClient


@pytest.fixture(scope="module")
def daemon_port(tmp_path_factory):
    path = tmp_path_factory.mktemp("identity") / "identity.json"
    write_identity(path)
    with run_daemon(path) as port:
        yield port


@pytest.fixture
def client(daemon_port):
    with RawClient(daemon_port) as raw_client:
        yield raw_client


@pytest.fixture
def connect(daemon_port):
    """Return a function that opens further connections."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(RawClient(daemon_port))


@pytest.fixture
def root(tmp_path):
    """A folder with the files of a guest that an identity changes."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text("127.0.0.1\tlocalhost\n127.0.1.1\told-name\n::1\tlocalhost\n")
    return tmp_path
