"""The WebSockets of the product itself: an own installation behind a real web server, with a console process's parts
in this process, a VNC server and an SSH server as the machine's side."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from consoles.event_loop import EventLoop
from consoles.server import ConsoleServer
from consoles.session_store import SessionStore
from panel.app import create_app
from panel.core import clock, jobs
from panel.core.db import new_id, session
from panel.models import AuditEntry, ConsoleSession, Image, Instance
from panel.services import consoles, instances, settings
from tests.consoles.conftest import wait_until
from tests.support import console_client, isolated_app, ssh_guest, vnc_server
from worker.engine import runner
from worker.guest import ssh_keys
from worker.nodes.base import Endpoint
from worker.nodes.simulated import SimulatedNode

ACTOR_COLUMNS = {"person": "owner@example.com", "person_kind": "owner"}


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_):
        """Not in the tests' output."""


class Site:
    def __init__(self, app, port):
        self.app, self.port = app, port

    def create_session(self, kind="screen"):
        """The secret of a new session."""
        with self.app.app_context():
            instance = session.get(Instance, self.instance_id)
            who = ACTOR_COLUMNS | {"account_id": instance.account_id, "person_id": instance.account_id}
            made = getattr(consoles, {"screen": "create_vnc_session", "shell": "create_shell_session"}[kind])(
                instance, who
            )
            session.commit()
            self.session_id = made[0].id
            return made[1]

    def row(self):
        with self.app.app_context():
            return session.get(ConsoleSession, self.session_id)

    def change(self, **values):
        with self.app.app_context():
            instance = session.get(Instance, self.instance_id)
            for name, value in values.items():
                setattr(instance, name, value)
            session.commit()

    def connect(self, path, protocol="", **headers):
        """A browser's WebSocket, and the status of the answer."""
        viewer = console_client.ConsoleClient(socket.create_connection(("127.0.0.1", self.port), 20), protocol)
        return viewer, viewer.request(path, host=f"127.0.0.1:{self.port}", **headers)

    def screen(self, secret, password=None):
        viewer, status = self.connect(f"/vnc/?session={secret}", "binary")
        assert status == 101
        assert viewer.sign_in(password or self.row().password) is None
        return viewer

    def shell(self, token):
        viewer, status = self.connect(f"/ssh/{token}")
        assert status == 101
        return viewer


@pytest.fixture(scope="module")
def machine():
    """A VNC server that answers every message with itself."""

    def echo(connection):
        connection.sendall(b"welcome")
        while data := connection.recv(4096):
            connection.sendall(data)

    server = vnc_server.VncServer(echo)
    yield server
    server.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory, machine):
    """The site, with an instance that runs."""
    place = tmp_path_factory.mktemp("site")
    patch = pytest.MonkeyPatch()

    def console(self, machine_id, password):
        machine.password = password
        return Endpoint(machine.host, machine.port, password, None)

    patch.setattr(SimulatedNode, "console", console)
    for change in ("put", "remove"):
        patch.setattr(ssh_keys, change, lambda *_: None)  # the guest is a server of these tests
    workers, apps = ThreadPoolExecutor(1), []

    def work(function, *args):
        with apps[0].app_context():
            if function == "worker.engine.runner.run":
                return runner.run(*args, "worker")
            module, name = function.rsplit(".", 1)
            return getattr(import_module(module), name)(*args)

    with isolated_app.isolated_installation(
        place, create=create_app, on_call=lambda *call: workers.submit(work, *call)
    ) as app:
        apps.append(app)
        web = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        records = SessionStore(app)
        carried = ConsoleServer(
            app.extensions["config"].console_socket, records.report, EventLoop(goodbye=1), find=records.find
        )
        patch.setattr("consoles.session_store.WATCH_INTERVAL_SECONDS", 0.2)
        carried.start()
        records.start(carried)
        made = Site(app, web.server_port)
        made.records, made.carried = records, carried
        with app.app_context():
            row = instances.create(
                session.merge(app.cast.owner), location_id=app.cast.location.id, plan_id=app.cast.plan.id, actor="test"
            )
            row.deployed, row.power, row.image = True, "on", session.get(Image, app.cast.image.id)
            session.commit()
            made.instance_id = row.id
        yield made
        web.shutdown()
        carried.stop(1)
        records.stop()
        workers.shutdown()
    patch.undo()


@pytest.fixture(autouse=True)
def as_before(site):
    yield
    site.carried.close({"instance": site.instance_id}, import_module("consoles.close_codes").CLIENT_CLOSED)
    wait_until(lambda: not site.carried.now(), "the consoles to close")
    site.change(power="on", suspended_reason=None, ssh_host_key=None, presented_host_key=None)
    with site.app.app_context():
        settings.update({"vnc_allowed_sources": "", "consoles_per_account": 20})
        session.commit()


def test_a_vnc_console_relays_bytes_and_is_audited(site):
    """CON-06, CON-10, CON-11: the session is spent by the connection; another one is refused while it is open."""
    secret = site.create_session()
    viewer = site.screen(secret)
    viewer.send(b"\x01")
    assert viewer.read(8) == b"welcome\x01"[:8]
    viewer.send(b"\x04key")
    assert viewer.read(4) == b"\x04key"
    wait_until(lambda: site.row().opened_at, "the row to tell")
    assert site.row().ip == "127.0.0.1"
    assert site.connect(f"/vnc/?session={secret}")[1] == 403
    viewer.close()
    wait_until(lambda: site.row().ended_at, "the end in the row")
    row = site.row()
    assert (row.state, row.ended_reason, row.bytes_in > 0) == ("ended", "left", True)
    assert site.connect(f"/vnc/?session={secret}")[1] == 403
    with site.app.app_context():
        actions = [e.action for e in session.query(AuditEntry).filter_by(object_id=site.instance_id).order_by("id")]
    assert actions[-2:] == ["console.opened", "console.closed"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_what_is_no_websocket_spends_nothing(site, kind, method):
    """CON-07, CON-08, CON-09, SSH-13, decision OP-09."""
    secret = site.create_session(kind)
    path = f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}"
    own = {"Sec-Fetch-Site": "same-origin"}
    assert site.app.test_client().open(path, method=method, headers=own).status_code == 400
    assert site.app.test_client().get(f"/console/{secret}").status_code == (200 if kind == "screen" else 404)
    assert site.row().state == "fresh"


def test_an_incomplete_handshake_does_not_redeem_the_session(site):
    """CON-09."""
    secret = site.create_session()
    assert site.connect(f"/vnc/?session={secret}", Sec_WebSocket_Key=None)[1] == 400
    assert site.connect(f"/vnc/?session={secret}", Connection="close")[1] == 400
    assert site.connect(f"/vnc/?session={secret}", Origin="https://evil.example")[1] == 403
    assert site.row().state == "fresh"
    site.screen(secret)


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_of_many_connections_at_once_one_gets_the_session(site, kind):
    """CON-11, SSH-11."""
    secret = site.create_session(kind)
    path = f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}"
    with ThreadPoolExecutor(12) as people:
        found = list(people.map(lambda _: site.connect(path), range(12)))
    assert sorted(status for _, status in found) == [101] + [403] * 11


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_a_session_that_is_too_old_is_refused(site, kind):
    """CON-15, SSH-14."""
    secret = site.create_session(kind)
    with site.app.app_context():
        session.get(ConsoleSession, site.session_id).expires_at = clock.now()
        session.commit()
    path = f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}"
    assert site.connect(path)[1] == 403


def test_secrets_of_one_kind_do_not_open_the_other(site):
    screen, shell = site.create_session(), site.create_session("shell")
    assert site.connect(f"/vnc/?session={shell}")[1] == 403
    assert site.connect(f"/ssh/{screen}")[1] == 403
    assert site.row().state == "fresh"


def test_the_token_of_a_shell_stands_in_the_path_alone(site):
    """SSH-08, SSH-09, SSH-10, SSH-12."""
    token = site.create_session("shell")
    assert site.connect(f"/ssh?token={token}")[1] == 401
    assert site.app.test_client().get(f"/ssh?token={token}", headers={"Accept": "application/json"}).status_code == 401
    assert site.connect(f"/ssh/?token={token}")[1] in (401, 404)
    assert site.connect("/ssh/x", Authorization=f"Bearer {token}", Cookie=f"token={token}")[1] == 403
    assert site.connect(f"/ssh/{token}x")[1] == 403
    assert site.connect(f"/ssh/{token[:-1]}")[1] == 403
    assert site.row().state == "fresh"
    assert site.connect(f"/ssh/{token}")[1] == 101


@pytest.fixture
def server(site):
    """An SSH server as the guest's, which takes the key of the session that was created last."""
    made = ssh_guest.SshGuest(lambda channel, door: channel.sendall(b"hello") or time.sleep(20))
    yield made
    made.close()


def set_ssh_endpoint(site, server):
    with site.app.app_context():
        row = session.get(ConsoleSession, site.session_id)
        row.host, row.port, server.user_key = server.host, server.port, row.private_key
        session.commit()


def test_an_ssh_console_relays_bytes_and_stores_the_host_key(site, server):
    """SSH-07. The first host key is pinned; another one is refused until it is accepted."""
    token = site.create_session("shell")
    set_ssh_endpoint(site, server)
    assert site.shell(token).read(5) == b"hello"
    with site.app.app_context():
        wait_until(lambda: session.get(Instance, site.instance_id, populate_existing=True).ssh_host_key, "the pin")
    site.change(ssh_host_key=ssh_guest.public_key_line(ssh_guest.load_key(ssh_guest.new_key())))
    token = site.create_session("shell")
    set_ssh_endpoint(site, server)
    with pytest.raises(console_client.WebSocketClosed) as closed:
        site.shell(token).read(5)
    assert closed.value.code == 1008
    wait_until(lambda: site.row().ended_reason, "the end")
    assert site.row().ended_reason == "host_key_changed"
    with site.app.app_context():
        instance = session.get(Instance, site.instance_id)
        keys = consoles.describe_host_keys(instance)
        assert keys["shown"]
        assert keys["shown"] != keys["known"]
        consoles.accept_host_key(instance, keys["shown"])
        session.commit()
    token = site.create_session("shell")
    set_ssh_endpoint(site, server)
    assert site.shell(token).read(5) == b"hello"


def test_consoles_open_from_allowed_addresses_only(site):
    """OTH-08, decision OP-08"""
    secret = site.create_session()
    with site.app.app_context():
        settings.update({"vnc_allowed_sources": "192.0.2.0/24,2001:db8::/32"})
        session.commit()
    assert site.connect(f"/vnc/?session={secret}")[1] == 403
    told = site.app.test_client().get(f"/console/{secret}/state").json
    assert (told["state"], told["message"]) == ("fresh", "Consoles may not be opened from this address.")
    with site.app.app_context():
        settings.update({"vnc_allowed_sources": "192.0.2.0/24,127.0.0.1"})
        session.commit()
    site.screen(secret)


def test_an_account_has_so_many_consoles(site):
    with site.app.app_context():
        settings.update({"consoles_per_account": 2})
        session.commit()
    first, _second = site.screen(site.create_session()), site.screen(site.create_session())
    secret = site.create_session()
    assert site.connect(f"/vnc/?session={secret}")[1] == 429
    assert site.row().state == "fresh"
    first.close()
    wait_until(lambda: site.connect(f"/vnc/?session={secret}")[1] == 101, "a place")


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_what_is_no_longer_allowed_closes(site, server, kind):
    """Within five seconds; here the process looks more often."""
    secret = site.create_session(kind)
    set_ssh_endpoint(site, server) if kind == "shell" else None
    viewer = site.screen(secret) if kind == "screen" else site.shell(secret)
    viewer.send(b"\x01") if kind == "screen" else None
    wait_until(lambda: site.row().opened_at, "the console")
    site.change(suspended_reason="admin")
    code, reason = viewer.ended()
    assert (code, reason) == (1008, "The instance was suspended.")
    wait_until(lambda: site.row().ended_at, "the end")
    answer = site.app.test_client().get(f"/console/{secret}/state").json
    if kind == "screen":
        assert (answer["state"], answer["message"]) == ("ended", "The instance was suspended.")
        assert answer["power"] is None


def test_the_state_says_nothing_of_the_machine_after_the_permission_ended(site):
    """Finding B1: an address keeps its answer for the page, not the machine's power."""
    secret = site.create_session()
    state = lambda: site.app.test_client().get(f"/console/{secret}/state").json  # noqa: E731
    assert (state()["message"], state()["power"]) == (None, "on")
    with site.app.app_context():
        session.get(ConsoleSession, site.session_id).opened_by = ACTOR_COLUMNS | {"person_id": new_id()}
        session.commit()
    assert (state()["message"], state()["power"]) == ("You may no longer open consoles of this instance.", None)


@pytest.mark.parametrize("kind", ["screen", "shell"])
def test_what_is_no_longer_allowed_does_not_open(site, server, machine, kind, monkeypatch):
    """Finding B1: nothing goes to the node or the guest, and the browser gets no WebSocket."""
    secret = site.create_session(kind)
    set_ssh_endpoint(site, server) if kind == "shell" else None
    connections, heard = len(machine.connections), site.records.find
    asked = []
    monkeypatch.setattr(site.carried, "find", lambda session_id: asked.append(session_id) or heard(session_id))
    site.change(suspended_reason="admin")
    assert site.connect(f"/vnc/?session={secret}" if kind == "screen" else f"/ssh/{secret}")[1] == 403
    assert (len(machine.connections), asked, site.row().state) == (connections, [], "fresh")


def test_a_node_that_refuses_is_a_sentence(site):
    secret = site.create_session()
    wait_until(lambda: site.row().port, "the endpoint")
    with site.app.app_context():
        row = session.get(ConsoleSession, site.session_id)
        row.error = "The machine is off."
        session.commit()
    viewer, status = site.connect(f"/vnc/?session={secret}", "binary")
    assert status == 101
    assert viewer.ended() == (1011, "The machine is off.")
    wait_until(lambda: site.row().ended_at, "the end")
    assert site.row().ended_message == "The machine is off."


def test_a_lost_console_notification_is_repeated(site, monkeypatch):
    """The queue was away when the session was created, and is there when the browser comes."""
    heard = jobs.enqueue_call
    monkeypatch.setattr(jobs, "enqueue_call", lambda *_: None)
    secret = site.create_session()
    monkeypatch.setattr(jobs, "enqueue_call", heard)
    assert site.screen(secret).read(7) == b"welcome"


def test_a_screen_that_no_worker_prepares_is_given_up(site, monkeypatch):
    monkeypatch.setattr(jobs, "enqueue_call", lambda *_: None)
    monkeypatch.setattr("consoles.session_store.PREPARE_TIMEOUT_SECONDS", 1)
    viewer, status = site.connect(f"/vnc/?session={site.create_session()}", "binary")
    assert status == 101
    assert viewer.ended() == (1011, "The hypervisor does not respond.")


def test_without_a_console_server_the_session_stays_unused(site, monkeypatch):
    secret = site.create_session()
    config = site.app.extensions["config"]
    monkeypatch.setattr(type(config), "console_socket", property(lambda self: self.data_dir / "nobody.sock"))
    assert site.connect(f"/vnc/?session={secret}")[1] == 503
    assert site.row().state == "fresh"
    monkeypatch.undo()
    site.screen(secret)
