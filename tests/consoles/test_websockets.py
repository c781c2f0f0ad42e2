"""The panel's WebSockets: an isolated installation behind a real web server, a console server in this process, and VNC
and SSH servers as machines."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest
from sqlalchemy import select
from werkzeug.serving import WSGIRequestHandler, make_server

from consoles.event_loop import EventLoop
from consoles.server import ConsoleServer
from consoles.session_store import SessionStore
from panel.app import create_app
from panel.core import clock, jobs
from panel.core.db import generate_id, session
from panel.models import AuditEntry, ConsoleSession, Image, Instance
from panel.services import consoles, instances, settings
from panel.services.consoles.read import is_connected
from tests.support import console_client, isolated_app, ssh_guest, vnc_server
from tests.support.waiting import wait_until
from worker.engine import runner
from worker.guest import ssh_keys
from worker.nodes.base import Endpoint
from worker.nodes.simulated import SimulatedNode

ACTOR_COLUMNS = {"person": "owner@example.com", "person_kind": "owner"}


class QuietRequestHandler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_):
        """Write nothing to the output of the tests."""


class ConsoleSite:
    def __init__(self, app, port):
        self.app, self.port = app, port

    def create_session(self, kind="screen"):
        """Create a console session. Return its secret."""
        with self.app.app_context():
            instance = session.get(Instance, self.instance_id)
            actor = ACTOR_COLUMNS | {"account_id": instance.account_id, "person_id": instance.account_id}
            create = {"screen": consoles.create_vnc_session, "shell": consoles.create_shell_session}[kind]
            row, secret, *_ = create(instance, actor)
            session.commit()
            self.session_id = row.id
            return secret

    def get_session_row(self):
        with self.app.app_context():
            return session.get(ConsoleSession, self.session_id)

    def has_connected_sessions(self):
        with self.app.app_context():
            return session.scalar(select(ConsoleSession.id).where(is_connected()).limit(1)) is not None

    def update_instance(self, **values):
        with self.app.app_context():
            instance = session.get(Instance, self.instance_id)
            for name, value in values.items():
                setattr(instance, name, value)
            session.commit()

    def connect(self, path, protocol="", **headers):
        """Open a WebSocket. Return the client and the HTTP status."""
        viewer = console_client.ConsoleClient(socket.create_connection(("127.0.0.1", self.port), 20), protocol)
        return viewer, viewer.request(path, host=f"127.0.0.1:{self.port}", **headers)

    def open_vnc_console(self, secret, password=None):
        viewer, status = self.connect(f"/vnc/?session={secret}", "binary")
        assert status == 101
        assert viewer.sign_in(password or self.get_session_row().password) is None
        return viewer

    def open_shell(self, token):
        viewer, status = self.connect(f"/ssh/{token}")
        assert status == 101
        return viewer


@pytest.fixture(scope="module")
def echo_vnc_server():
    """A VNC server that sends a greeting and echoes its input."""

    def echo(connection):
        connection.sendall(b"welcome")
        while data := connection.recv(4096):
            connection.sendall(data)

    server = vnc_server.VncServer(echo)
    yield server
    server.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory, echo_vnc_server):
    """The installation, with a running instance."""
    directory = tmp_path_factory.mktemp("site")
    patch = pytest.MonkeyPatch()

    def console(self, machine_id, password):
        echo_vnc_server.password = password
        return Endpoint(echo_vnc_server.host, echo_vnc_server.port, password, None)

    patch.setattr(SimulatedNode, "console", console)
    for function_name in ("add_key", "remove_key"):
        patch.setattr(ssh_keys, function_name, lambda *_: None)  # the guest is an SSH server of these tests
    workers, apps = ThreadPoolExecutor(1), []

    def run_call(function, *args):
        with apps[0].app_context():
            if function == "worker.engine.runner.run":
                return runner.run(*args, "worker")
            module, name = function.rsplit(".", 1)
            return getattr(import_module(module), name)(*args)

    with isolated_app.isolated_installation(
        directory, create=create_app, on_call=lambda *call: workers.submit(run_call, *call)
    ) as app:
        apps.append(app)
        web = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietRequestHandler)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        session_store = SessionStore(app)
        console_server = ConsoleServer(
            app.extensions["config"].console_socket,
            session_store.add_report,
            EventLoop(close_timeout_seconds=1),
            find_target=session_store.find_target,
        )
        patch.setattr("consoles.session_store.REVOCATION_INTERVAL_SECONDS", 0.2)
        console_server.start()
        session_store.start(console_server)
        site = ConsoleSite(app, web.server_port)
        site.session_store, site.console_server = session_store, console_server
        with app.app_context():
            row = instances.create(
                session.merge(app.cast.owner), location_id=app.cast.location.id, plan_id=app.cast.plan.id, actor="test"
            )
            row.deployed, row.power, row.image = True, "on", session.get(Image, app.cast.image.id)
            session.commit()
            site.instance_id = row.id
        yield site
        web.shutdown()
        console_server.stop(1)
        session_store.stop()
        workers.shutdown()
    patch.undo()


@pytest.fixture(autouse=True)
def reset_site(site):
    yield
    site.console_server.close_streams(
        {"instance": site.instance_id}, import_module("consoles.close_codes").CLIENT_CLOSED
    )
    wait_until(lambda: not site.console_server.list_streams(), "the consoles to close")
    wait_until(lambda: not site.has_connected_sessions(), "the ends in the rows, which count in the limits")
    site.update_instance(power="on", suspended_reason=None, ssh_host_key=None, presented_host_key=None)
    with site.app.app_context():
        settings.update({"vnc_allowed_sources": "", "consoles_per_account": 20})
        session.commit()


def test_vnc_console_relays_bytes_and_is_audited(site):
    """CON-06, CON-10, CON-11: the connection redeems the session. Further connections are rejected."""
    secret = site.create_session()
    viewer = site.open_vnc_console(secret)
    viewer.send(b"\x01")
    assert viewer.read(8) == b"welcome\x01"[:8]
    viewer.send(b"\x04key")
    assert viewer.read(4) == b"\x04key"
    wait_until(lambda: site.get_session_row().opened_at, "opened_at in the row")
    assert site.get_session_row().ip == "127.0.0.1"
    assert site.connect(f"/vnc/?session={secret}")[1] == 403
    viewer.close()
    wait_until(lambda: site.get_session_row().ended_at, "the end in the row")
    row = site.get_session_row()
    assert (row.state, row.ended_reason, row.bytes_in > 0) == ("ended", "left", True)
    assert site.connect(f"/vnc/?session={secret}")[1] == 403
    with site.app.app_context():
        actions = [e.action for e in session.query(AuditEntry).filter_by(object_id=site.instance_id).order_by("id")]
    assert actions[-2:] == ["console.opened", "console.closed"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_plain_http_request_does_not_redeem_session(site, kind, method):
    """CON-07, CON-08, CON-09, SSH-13, decision OP-09."""
    secret = site.create_session(kind)
    path = f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}"
    headers = {"Sec-Fetch-Site": "same-origin"}
    assert site.app.test_client().open(path, method=method, headers=headers).status_code == 400
    assert site.app.test_client().get(f"/console/{secret}").status_code == (200 if kind == "screen" else 404)
    assert site.get_session_row().state == "fresh"


def test_incomplete_handshake_does_not_redeem_session(site):
    """CON-09."""
    secret = site.create_session()
    assert site.connect(f"/vnc/?session={secret}", Sec_WebSocket_Key=None)[1] == 400
    assert site.connect(f"/vnc/?session={secret}", Connection="close")[1] == 400
    assert site.connect(f"/vnc/?session={secret}", Origin="https://evil.example")[1] == 403
    assert site.get_session_row().state == "fresh"
    site.open_vnc_console(secret)


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_parallel_connections_redeem_session_once(site, kind):
    """CON-11, SSH-11."""
    secret = site.create_session(kind)
    path = f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}"
    with ThreadPoolExecutor(12) as executor:
        results = list(executor.map(lambda _: site.connect(path), range(12)))
    assert sorted(status for _, status in results) == [101] + [403] * 11


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_expired_session_is_rejected(site, kind):
    """CON-15, SSH-14."""
    secret = site.create_session(kind)
    with site.app.app_context():
        session.get(ConsoleSession, site.session_id).expires_at = clock.now()
        session.commit()
    path = f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}"
    assert site.connect(path)[1] == 403


def test_session_secret_does_not_open_other_kind(site):
    screen, shell = site.create_session(), site.create_session("shell")
    assert site.connect(f"/vnc/?session={shell}")[1] == 403
    assert site.connect(f"/ssh/{screen}")[1] == 403
    assert site.get_session_row().state == "fresh"


def test_shell_token_is_accepted_only_in_path(site):
    """SSH-08, SSH-09, SSH-10, SSH-12."""
    token = site.create_session("shell")
    assert site.connect(f"/ssh?token={token}")[1] == 401
    assert site.app.test_client().get(f"/ssh?token={token}", headers={"Accept": "application/json"}).status_code == 401
    assert site.connect(f"/ssh/?token={token}")[1] in (401, 404)
    assert site.connect("/ssh/x", Authorization=f"Bearer {token}", Cookie=f"token={token}")[1] == 403
    assert site.connect(f"/ssh/{token}x")[1] == 403
    assert site.connect(f"/ssh/{token[:-1]}")[1] == 403
    assert site.get_session_row().state == "fresh"
    assert site.connect(f"/ssh/{token}")[1] == 101


@pytest.fixture
def guest_ssh_server(site):
    """The SSH server of the guest. It accepts the key of the newest session."""
    server = ssh_guest.SshGuest(lambda channel, interface: channel.sendall(b"hello") or time.sleep(20))
    yield server
    server.close()


def set_ssh_endpoint(site, guest_ssh_server):
    with site.app.app_context():
        row = session.get(ConsoleSession, site.session_id)
        row.host, row.port, guest_ssh_server.user_key = guest_ssh_server.host, guest_ssh_server.port, row.private_key
        session.commit()


def test_ssh_console_relays_bytes_and_stores_host_key(site, guest_ssh_server):
    """SSH-07. The first host key is stored. Another one is rejected until the user accepts it."""
    token = site.create_session("shell")
    set_ssh_endpoint(site, guest_ssh_server)
    assert site.open_shell(token).read(5) == b"hello"
    with site.app.app_context():
        wait_until(
            lambda: session.get(Instance, site.instance_id, populate_existing=True).ssh_host_key, "the stored host key"
        )
    site.update_instance(ssh_host_key=ssh_guest.public_key_line(ssh_guest.load_key(ssh_guest.create_key())))
    token = site.create_session("shell")
    set_ssh_endpoint(site, guest_ssh_server)
    with pytest.raises(console_client.WebSocketClosed) as closed:
        site.open_shell(token).read(5)
    assert closed.value.code == 1008
    wait_until(lambda: site.get_session_row().ended_reason, "the end")
    assert site.get_session_row().ended_reason == "host_key_changed"
    with site.app.app_context():
        instance = session.get(Instance, site.instance_id)
        keys = consoles.describe_host_keys(instance)
        assert keys["shown"]
        assert keys["shown"] != keys["known"]
        consoles.accept_host_key(instance, keys["shown"])
        session.commit()
    token = site.create_session("shell")
    set_ssh_endpoint(site, guest_ssh_server)
    assert site.open_shell(token).read(5) == b"hello"


def test_consoles_open_only_from_allowed_sources(site):
    """OTH-08, decision OP-08"""
    secret = site.create_session()
    with site.app.app_context():
        settings.update({"vnc_allowed_sources": "192.0.2.0/24,2001:db8::/32"})
        session.commit()
    assert site.connect(f"/vnc/?session={secret}")[1] == 403
    answer = site.app.test_client().get(f"/console/{secret}/state").json
    assert (answer["state"], answer["message"]) == ("fresh", "Consoles may not be opened from this address.")
    with site.app.app_context():
        settings.update({"vnc_allowed_sources": "192.0.2.0/24,127.0.0.1"})
        session.commit()
    site.open_vnc_console(secret)


def test_consoles_per_account_are_limited(site):
    with site.app.app_context():
        settings.update({"consoles_per_account": 2})
        session.commit()
    first, _second = site.open_vnc_console(site.create_session()), site.open_vnc_console(site.create_session())
    secret = site.create_session()
    assert site.connect(f"/vnc/?session={secret}")[1] == 429
    assert site.get_session_row().state == "fresh"
    first.close()
    wait_until(lambda: site.connect(f"/vnc/?session={secret}")[1] == 101, "a console to be free")


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_suspension_closes_open_console(site, guest_ssh_server, kind):
    """Within five seconds in production; the tests use a shorter interval."""
    secret = site.create_session(kind)
    set_ssh_endpoint(site, guest_ssh_server) if kind == "shell" else None
    viewer = site.open_vnc_console(secret) if kind == "screen" else site.open_shell(secret)
    viewer.send(b"\x01") if kind == "screen" else None
    wait_until(lambda: site.get_session_row().opened_at, "the console")
    site.update_instance(suspended_reason="admin")
    code, reason = viewer.wait_until_closed()
    assert (code, reason) == (1008, "The instance was suspended.")
    wait_until(lambda: site.get_session_row().ended_at, "the end")
    answer = site.app.test_client().get(f"/console/{secret}/state").json
    if kind == "screen":
        assert (answer["state"], answer["message"]) == ("ended", "The instance was suspended.")
        assert answer["power"] is None


def test_console_state_hides_power_after_permission_ends(site):
    """The URL still returns the message for the page, but not the machine's power state."""
    secret = site.create_session()
    state = lambda: site.app.test_client().get(f"/console/{secret}/state").json  # noqa: E731
    assert (state()["message"], state()["power"]) == (None, "on")
    with site.app.app_context():
        session.get(ConsoleSession, site.session_id).opened_by = ACTOR_COLUMNS | {"person_id": generate_id()}
        session.commit()
    assert (state()["message"], state()["power"]) == ("You may no longer open consoles of this instance.", None)


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_suspended_instance_console_does_not_open(site, guest_ssh_server, echo_vnc_server, kind, monkeypatch):
    """Node and guest are not contacted, and the browser gets no WebSocket."""
    secret = site.create_session(kind)
    set_ssh_endpoint(site, guest_ssh_server) if kind == "shell" else None
    connections, find = len(echo_vnc_server.connections), site.session_store.find_target
    lookups = []
    monkeypatch.setattr(
        site.console_server, "find_target", lambda session_id: lookups.append(session_id) or find(session_id)
    )
    site.update_instance(suspended_reason="admin")
    assert site.connect(f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}")[1] == 403
    assert (len(echo_vnc_server.connections), lookups, site.get_session_row().state) == (connections, [], "fresh")


def test_node_error_is_sent_as_close_reason(site):
    secret = site.create_session()
    wait_until(lambda: site.get_session_row().port, "the endpoint")
    with site.app.app_context():
        row = session.get(ConsoleSession, site.session_id)
        row.error = "The machine is off."
        session.commit()
    viewer, status = site.connect(f"/vnc/?session={secret}", "binary")
    assert status == 101
    assert viewer.wait_until_closed() == (1011, "The machine is off.")
    wait_until(lambda: site.get_session_row().ended_at, "the end")
    assert site.get_session_row().ended_message == "The machine is off."


def test_lost_console_notification_is_repeated(site, monkeypatch):
    """The queue was unavailable when the session was created, and works when the browser connects."""
    enqueue_call = jobs.enqueue_call
    monkeypatch.setattr(jobs, "enqueue_call", lambda *_: None)
    secret = site.create_session()
    monkeypatch.setattr(jobs, "enqueue_call", enqueue_call)
    assert site.open_vnc_console(secret).read(7) == b"welcome"


def test_unprepared_vnc_console_times_out(site, monkeypatch):
    monkeypatch.setattr(jobs, "enqueue_call", lambda *_: None)
    monkeypatch.setattr("consoles.session_store.PREPARE_TIMEOUT_SECONDS", 1)
    viewer, status = site.connect(f"/vnc/?session={site.create_session()}", "binary")
    assert status == 101
    assert viewer.wait_until_closed() == (1011, "The hypervisor does not respond.")


def test_session_stays_unused_without_console_server(site, monkeypatch):
    secret = site.create_session()
    config = site.app.extensions["config"]
    monkeypatch.setattr(type(config), "console_socket", property(lambda self: self.data_dir / "nobody.sock"))
    assert site.connect(f"/vnc/?session={secret}")[1] == 503
    assert site.get_session_row().state == "fresh"
    monkeypatch.undo()
    site.open_vnc_console(secret)
