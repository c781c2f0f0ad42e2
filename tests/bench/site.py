"""An installation with a machine, and the processes that serve its VNC console."""

import http.client
import ipaddress

import psutil
from sqlalchemy import select

from consoles import ipc
from panel.app import create_app
from panel.auth.permissions import may_open_consoles
from panel.core.config import Config
from panel.core.db import session
from panel.models import Instance
from panel.services import consoles, settings
from tests.bench import rows
from tests.bench.console_peers import NODE_PASSWORD, PASSWORD, BenchProcess, open_viewer
from tests.support.ports import find_free_port


class ConsoleSite:
    """An installation with `panel web` and `panel console`. Its machine has a VNC server at the port `node`."""

    def __init__(self, directory, redis_url, node):
        self.node, self.port = node, find_free_port()
        config = Config(data_dir=directory, secret_key="bench", redis_url=redis_url)
        self.socket, self.token = config.console_socket, rows.create_customer(config)
        self.environment = {
            "PANEL_DATA_DIR": str(directory),
            "PANEL_SECRET_KEY": config.secret_key,
            "PANEL_REDIS_URL": redis_url,
            "PANEL_BIND": f"127.0.0.1:{self.port}",
            "PANEL_WEB_WORKERS": "1",
        }
        self.app = create_app(config)
        with self.app.app_context():
            settings.update({"consoles_per_account": 1000, "consoles_per_node": 1000})
            session.commit()

    def __enter__(self):
        self.console = BenchProcess(
            "console", module="panel.cli", ready=self.socket.exists, **self.environment
        ).__enter__()
        self.start_web()
        return self

    def __exit__(self, *_):
        self.stop_web()
        self.console.__exit__()

    def start_web(self):
        self.web = BenchProcess("web", module="panel.cli", ready=self.is_ready, **self.environment).__enter__()

    def stop_web(self):
        self.web.__exit__()

    def is_ready(self):
        try:
            return bool(fetch_page(self.port))
        except OSError:
            return False

    @property
    def console_process(self):
        return psutil.Process(self.console.process.pid)

    def find_web_workers(self):
        return {child.pid for child in psutil.Process(self.web.process.pid).children()}

    def create_sessions(self, count):
        """Create sessions that need no worker. Return their secrets."""
        with self.app.app_context():
            instance = session.scalars(select(Instance).limit(1)).one()
            caller = {"person": "bench@example.com", "person_kind": "owner", "person_id": instance.account_id}
            sessions = [consoles.create_vnc_session(instance, caller, expires_in=600) for _ in range(count)]
            for row, _ in sessions:
                row.host, row.port, row.node_password, row.password = "127.0.0.1", self.node, NODE_PASSWORD, PASSWORD
            session.commit()
            return [secret for _, secret in sessions]

    def open_viewers(self, count):
        return [open_viewer(self.port, secret) for secret in self.create_sessions(count)]

    def open_viewer(self):
        return self.open_viewers(1)[0]

    def redeem_session(self):
        """Redeem a new session. Return the description that the web passes to the console process."""
        (secret,) = self.create_sessions(1)
        with self.app.app_context():
            address = ipaddress.ip_address("127.0.0.1")
            note = consoles.describe_session(
                consoles.get(consoles.redeem("screen", secret, address, may_open_consoles))
            )
            session.commit()
            return note

    def list_open_consoles(self):
        """Return the open consoles by session id."""
        return {
            console["labels"]["session"]: console for console in ipc.request(self.socket, {"command": "list"})["open"]
        }

    def count_sent_bytes(self):
        return sum(console["bytes_out"] for console in self.list_open_consoles().values())


def fetch_page(port, path="/healthz", token=""):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return body
