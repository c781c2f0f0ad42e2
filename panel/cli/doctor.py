"""`panel doctor`: looks at everything the installation needs, and says how to mend what is wrong."""

import shutil
import sys
from importlib.util import find_spec
from smtplib import SMTPException
from urllib.parse import urlsplit

import click
from redis import RedisError
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from consoles import ipc
from panel.cli.up import ready
from panel.core import clock, jobs, schema_revision
from panel.core.config import ROOT, ConfigError, load
from panel.core.data_files import find_exposed
from panel.core.database_probe import write_probe_row
from panel.core.db import db, reading, session
from panel.core.startup_checks import check_secret_keys, is_readable, sample_encrypted_values
from panel.models import Hypervisor, Image, Mail
from panel.services import overview, workers
from worker.engine.main import prepare
from worker.engine.scheduler import LEADING
from worker.nodes.base import NodeError
from worker.sync import node_sync as nodes
from worker.tasks import mail as sending

LEAST_FREE = 1024**3
LARGEST_DRIFT = 5
"""Seconds that two machines' clocks may differ: heartbeats are compared across machines."""


class Wrong(Exception):
    """What is wrong, and in a second sentence how to mend it."""


def python(config):
    return sys.version.split()[0]


def data_directory(config):
    probe = config.data_dir / ".doctor"
    try:
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise Wrong(f"{config.data_dir} cannot be written: {error.strerror}. Give it to the panel's user.") from None
    free = shutil.disk_usage(config.data_dir).free
    if free < LEAST_FREE:
        raise Wrong(f"{config.data_dir} has only {free // 1024**2} MiB left. Make room or set PANEL_DATA_DIR.")
    return f"{config.data_dir}, {free // 1024**3} GiB free"


def data_files(config):
    """Nobody but the panel's user may read its own files."""
    if exposed := find_exposed(config.data_dir):
        names = ", ".join(str(path) for path in exposed[:5]) + (" …" if len(exposed) > 5 else "")
        raise Wrong(f"Others may read {names}. Restart the panel, or run: chmod go-rwx on them, as their owner.")
    return "readable by the panel's user only"


def secret_key(config):
    """It is long enough, and opens what the database has encrypted."""
    if min(len(key) for key in config.secret_key.split(",")) < 32:
        raise Wrong("The secret key is short. Put 32 random characters into PANEL_SECRET_KEY, before the old one.")
    try:
        check_secret_keys(config)
    except ConfigError as error:
        raise Wrong(str(error)) from None
    unreadable = [name for name, value in sample_encrypted_values() if not is_readable(value)]
    if unreadable:
        raise Wrong(f"It does not open {', '.join(unreadable)}. Add the older keys to PANEL_SECRET_KEY, behind it.")
    return "opens what the database has encrypted"


def database(config):
    try:
        schema_revision.check_current(session.connection())
        session.rollback()  # which held SQLite's lock
        write_probe_row(session.get_bind())
    except ConfigError as error:
        raise Wrong(str(error)) from None
    except SQLAlchemyError as error:
        raise Wrong(f"The database does not answer ({error.__cause__}). Look at PANEL_DATABASE_URL.") from None
    return db.engine.dialect.name


def redis(config):
    try:
        seconds, _ = jobs.connection.time()
    except (RedisError, OSError) as error:
        start = "Start it with `panel up`." if config.embedded_redis else "Look at PANEL_REDIS_URL."
        raise Wrong(f"Redis does not answer ({error}). {start}") from None
    same_time("Redis", seconds)
    version = jobs.connection.info("server")["redis_version"]
    return f"{version}, of the panel's own, on a socket of its user" if config.embedded_redis else version


def same_clock(config):
    """The database's clock, where it has one of its own."""
    if not config.sqlite:
        same_time("the database", session.scalar(select(func.now())).timestamp())
    return clock.now().isoformat(timespec="seconds")


def same_time(other, seconds):
    drift = abs(clock.now().timestamp() - seconds)
    if drift > LARGEST_DRIFT:
        raise Wrong(f"The clock differs from that of {other} by {drift:.0f} s. Run a time service on both machines.")


def mail(config):
    """The mail server takes our call; without one mails are files that nobody gets."""
    waiting = session.scalar(select(func.count()).select_from(Mail).where(Mail.attempts > 0))
    if not config.mail_url:
        return f"no server (PANEL_MAIL_URL): mails are written to {config.data_dir / 'mail'} and nobody gets them"
    try:
        with sending.connected(config.mail_url) as line:
            line.noop()
    except (SMTPException, OSError) as error:
        raise Wrong(f"The mail server does not answer ({error}). Look at PANEL_MAIL_URL.") from None
    if waiting:
        raise Wrong(f"{waiting} mails could not be sent and are tried again. The worker's log says why.")
    return f"{urlsplit(config.mail_url).hostname} answers"


def parts(config):
    if not workers.alive():
        raise Wrong("No worker is alive, so tasks wait. Run `panel up`, or `panel worker`.")
    if not jobs.connection.exists(LEADING):
        raise Wrong("No schedule runs, so lost work is not found. Run `panel up`, or `panel schedule`.")
    return f"{workers.alive()} workers, a schedule"


def consoles(config):
    """The console process of this machine, which only machines that serve the web need."""
    try:
        carried = ipc.ask(config.console_socket, {"do": "list"})["open"]
    except (OSError, ValueError):
        raise Wrong(
            "No console process answers, so screens and shells cannot be opened. Run `panel console`."
        ) from None
    return f"{len(carried)} open"


def web(config):
    if not ready(config.bind):
        raise Wrong(f"Nothing is ready at {config.bind}. Run `panel up`, or `panel web`.")
    return f"ready at {config.bind}"


def browser_files(config):
    if not (ROOT / "static" / "vendor" / "htmx.min.js").exists():
        raise Wrong("The files for browsers are missing. Run: make browser-files")
    return "installed"


def images(config):
    """Every image of the catalog has its file."""
    found = session.scalars(select(Image)).all()
    gone = [image.name for image in found if not (config.data_dir / "images" / image.filename).exists()]
    if gone:
        raise Wrong(f"{config.data_dir / 'images'} lacks the files of {', '.join(gone)}. Put them back or build anew.")
    if not found:
        raise Wrong("There is no image, so no machine can be made. Run: panel image build tiny")
    return f"{len(found)} in the catalog"


def hypervisors(config):
    """Every hypervisor answers this process. The workers may see it otherwise, if they run elsewhere."""
    reading()
    rows = session.scalars(select(Hypervisor).order_by(Hypervisor.name)).all()
    silent = []
    for row in rows:
        try:
            nodes.node_of(row.id).ping()
        except NodeError as error:
            silent.append(f"{row.name} does not answer ({error.detail}).")
    if silent:
        raise Wrong(" ".join(silent) + " Look at the host and its address (panel node list).")
    if not rows:
        raise Wrong("There is no hypervisor, so no machine can be made. Run: panel setup, or panel node add")
    return ", ".join(row.name for row in rows)


def volumes(config):
    """Deleted volumes are gone from their hypervisors."""
    left = session.scalars(overview.undeleted_volumes()).all()
    if left:
        named = " ".join(f"{volume.name} ({volume.disk_name}): {volume.error}" for volume in left)
        raise Wrong(f"Deleted volumes still exist. {named} Look at their hypervisors; the panel keeps trying.")
    return "no deleted volume is left"


def local_hypervisor(config):
    """Whether this machine could be one, and how fast. A panel of other machines' hypervisors does without."""
    if not find_spec("libvirt"):
        return "not possible: libvirt-python is not installed (it needs gcc, pkg-config and libvirt-dev)"
    from panel.cli import doctor_hypervisor
    from worker.nodes.libvirt import private_daemon

    if lacking := private_daemon.missing():
        return f"not possible: {' '.join(lacking)}"
    directory = config.data_dir / "hypervisor"
    holds, wrong = doctor_hypervisor.look(directory)
    if wrong:
        raise Wrong(" ".join(wrong))
    return f"possible. {private_daemon.verdict(directory).sentence} {'; '.join(holds)}."


CHECKS = {
    "Python": python,
    "Data": data_directory,
    "Files": data_files,
    "Database": database,
    "Secret key": secret_key,
    "Redis": redis,
    "Clock": same_clock,
    "Mail": mail,
    "Processes": parts,
    "Web": web,
    "Consoles": consoles,
    "Browser files": browser_files,
    "Images": images,
    "Hypervisors": hypervisors,
    "Volumes": volumes,
    "Local hypervisor": local_hypervisor,
}


@click.command()
@click.pass_context
def command(ctx):
    """Check the whole installation. Fails when something is wrong."""
    config = load()
    wrong = 0
    with prepare(config).app_context():
        for name, check in CHECKS.items():
            try:
                click.echo(f"  ok  {name}: {check(config)}")
            except Wrong as found:
                wrong += 1
                click.echo(f"WRONG {name}: {found}")
            except (SQLAlchemyError, RedisError, OSError):
                wrong += 1
                click.echo(f"WRONG {name}: could not be looked at. Mend what is wrong above first.")
            session.rollback()
    click.echo("All is well." if not wrong else f"{wrong} things are wrong." if wrong > 1 else "One thing is wrong.")
    ctx.exit(1 if wrong else 0)
