"""`panel doctor`: checks of the installation, with a remedy for each problem."""

import shutil
import sys
from importlib.util import find_spec
from smtplib import SMTPException
from urllib.parse import urlsplit

import click
from redis import RedisError
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

import panel
from consoles import ipc
from panel.cli.up import is_ready, is_router_ready
from panel.core import clock, context, schema_revision
from panel.core.config import ROOT, ConfigError, load
from panel.core.data_files import find_exposed
from panel.core.database_probe import write_probe_row
from panel.core.db import begin_read_only, db, session
from panel.core.startup_checks import check_secret_keys, is_readable, select_sample_values
from panel.models import Hypervisor, Image, Mail
from panel.services import overview, workers
from worker.engine.main import prepare_app
from worker.engine.scheduler import LEADER_LOCK_KEY
from worker.nodes.base import NodeError
from worker.sync import node_sync
from worker.tasks import mail as mail_tasks

MIN_FREE_BYTES = 1024**3
MAX_CLOCK_DRIFT_SECONDS = 5
"""How much two machines' clocks may differ. Heartbeats are compared across machines."""


class CheckFailed(Exception):
    """A check failed. The message has the problem and, in a second sentence, the remedy."""


def check_version(config):
    return f"{panel.__version__}, interface level {panel.INTERFACE_VERSION}"


def check_python(config):
    return sys.version.split()[0]


def check_data_directory(config):
    probe = config.data_dir / ".doctor"
    try:
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise CheckFailed(
            f"{config.data_dir} is not writable: {error.strerror}. Make the panel's user its owner."
        ) from None
    free = shutil.disk_usage(config.data_dir).free
    if free < MIN_FREE_BYTES:
        raise CheckFailed(f"{config.data_dir} has only {free // 1024**2} MiB free. Make room or set PANEL_DATA_DIR.")
    return f"{config.data_dir}, {free // 1024**3} GiB free"


def check_data_files(config):
    """Check that only the panel's user can read its files."""
    if exposed := find_exposed(config.data_dir):
        names = ", ".join(str(path) for path in exposed[:5]) + (" …" if len(exposed) > 5 else "")
        raise CheckFailed(f"Other users can read {names}. Restart the panel, or run chmod go-rwx on them.")
    return "readable by the panel's user only"


def check_secret_key(config):
    """Check that the key is long enough and decrypts the values in the database."""
    if min(len(key) for key in config.secret_key.split(",")) < 32:
        raise CheckFailed(
            "The secret key is too short. Put at least 32 random characters before the old key in PANEL_SECRET_KEY."
        )
    try:
        check_secret_keys(config)
    except ConfigError as error:
        raise CheckFailed(str(error)) from None
    unreadable = [name for name, value in select_sample_values() if not is_readable(value)]
    if unreadable:
        raise CheckFailed(
            f"It cannot decrypt {', '.join(unreadable)}. Add the older keys to PANEL_SECRET_KEY, after it."
        )
    return "decrypts the values in the database"


def check_database(config):
    try:
        schema_revision.check_current(session.connection())
        session.rollback()  # releases SQLite's lock for the probe
        write_probe_row(session.get_bind())
    except ConfigError as error:
        raise CheckFailed(str(error)) from None
    except SQLAlchemyError as error:
        raise CheckFailed(f"The database is not reachable ({error.__cause__}). Check PANEL_DATABASE_URL.") from None
    return db.engine.dialect.name


def check_redis(config):
    try:
        seconds, _ = context.current().redis.time()
    except (RedisError, OSError) as error:
        start = "Start it with `panel up`." if config.embedded_redis else "Check PANEL_REDIS_URL."
        raise CheckFailed(f"Redis is not reachable ({error}). {start}") from None
    ensure_same_time("Redis", seconds)
    version = context.current().redis.info("server")["redis_version"]
    return f"{version}, embedded, on a private socket" if config.embedded_redis else version


def check_clock(config):
    """Check the clock of PostgreSQL, which may run on another machine."""
    if not config.is_sqlite:
        ensure_same_time("the database", session.scalar(select(func.now())).timestamp())
    return clock.now().isoformat(timespec="seconds")


def ensure_same_time(other, seconds):
    drift = abs(clock.now().timestamp() - seconds)
    if drift > MAX_CLOCK_DRIFT_SECONDS:
        raise CheckFailed(
            f"This clock differs from that of {other} by {drift:.0f} s. Synchronize both machines with NTP."
        )


def check_mail(config):
    """Check that the mail server answers and no mail has failed. Without a server, mails are written to files."""
    failed_count = session.scalar(select(func.count()).select_from(Mail).where(Mail.attempts > 0))
    if not config.mail_url:
        return f"no server (PANEL_MAIL_URL): mails are only written to {config.data_dir / 'mail'}"
    try:
        with mail_tasks.smtp_connection(config.mail_url) as connection:
            connection.noop()
    except (SMTPException, OSError) as error:
        raise CheckFailed(f"The mail server is not reachable ({error}). Check PANEL_MAIL_URL.") from None
    if failed_count:
        mails = "1 mail" if failed_count == 1 else f"{failed_count} mails"
        raise CheckFailed(f"{mails} could not be sent and will be retried. See the worker's log.")
    return f"{urlsplit(config.mail_url).hostname} is reachable"


def check_processes(config):
    count = workers.count_alive()
    if not count:
        raise CheckFailed("No worker is running, so tasks stay queued. Run `panel up` or `panel worker`.")
    if not context.current().redis.exists(LEADER_LOCK_KEY):
        raise CheckFailed("No scheduler is running, so lost tasks stay lost. Run `panel up` or `panel schedule`.")
    return f"{count} worker{'s' if count > 1 else ''}, one scheduler"


def check_consoles(config):
    """Check this machine's console server, which only machines with a web server need."""
    try:
        open_consoles = ipc.request(config.console_socket, {"command": "list"})["open"]
    except (OSError, ValueError):
        raise CheckFailed(
            "No console server is running, so consoles and shells cannot be opened. Run `panel console`."
        ) from None
    return f"{len(open_consoles)} open"


def check_web(config):
    if not is_ready(config.bind):
        raise CheckFailed(f"The web server is not ready at {config.bind}. Run `panel up` or `panel web`.")
    return f"ready at {config.bind}"


def check_sandboxes(config):
    """Check that there is one router, and that it answers if this machine has its address."""
    routers = workers.list_alive(workers.ROUTERS_KEY)
    if len(routers) > 1:
        names = ", ".join(routers)
        raise CheckFailed(f"{len(routers)} routers take sandboxes from each other ({names}). Stop all but one.")
    if not config.sandbox_bind:
        return "no router here (PANEL_SANDBOX_BIND is not set)"
    if not is_router_ready(config.sandbox_bind):
        raise CheckFailed(f"The router does not answer at {config.sandbox_bind}. Run `panel up` or `panel sandbox`.")
    return f"the router answers at {config.sandbox_bind}"


def check_browser_files(config):
    if not (ROOT / "static" / "vendor" / "htmx.min.js").exists():
        raise CheckFailed("The browser files are missing. Run: make browser-files")
    return "installed"


def check_images(config):
    """Check that every image of the catalog has its file."""
    images = session.scalars(select(Image)).all()
    missing = [image.name for image in images if not (config.data_dir / "images" / image.filename).exists()]
    if missing:
        raise CheckFailed(
            f"{config.data_dir / 'images'} lacks the files of {', '.join(missing)}. Restore or rebuild them."
        )
    if not images:
        raise CheckFailed("There is no image, so no instance can be created. Run: panel image build tiny")
    return f"{len(images)} in the catalog"


def check_hypervisors(config):
    """Check that every hypervisor answers this process. Workers on other machines may have another result."""
    begin_read_only()
    rows = session.scalars(select(Hypervisor).order_by(Hypervisor.name)).all()
    messages = []
    for row in rows:
        try:
            node_sync.connect_node(row.id).ping()
        except NodeError as error:
            messages.append(f"{row.name} is not reachable ({error.detail}).")
    if messages:
        hint = (
            "Check the host and its URI (panel node list). `panel setup` starts the hypervisor of this machine again."
        )
        raise CheckFailed(" ".join([*messages, hint]))
    if not rows:
        raise CheckFailed("There is no hypervisor, so no instance can be created. Run: panel setup, or panel node add")
    return ", ".join(row.name for row in rows)


def check_volumes(config):
    """Check that no deleted volume is left on its hypervisor."""
    volumes = session.scalars(overview.select_undeleted_volumes()).all()
    if volumes:
        details = " ".join(f"{volume.name} ({volume.disk_name}): {volume.error}" for volume in volumes)
        raise CheckFailed(f"Deleted volumes still exist. {details} Check their hypervisors; the panel keeps trying.")
    return "no deleted volume is left"


def check_local_hypervisor(config):
    """Check whether this machine can be a hypervisor, and with what speed. This is optional."""
    if not find_spec("libvirt"):
        return "not possible: libvirt-python is not installed (it needs gcc, pkg-config and libvirt-dev)"
    from panel.cli import doctor_hypervisor
    from worker.nodes.libvirt import private_daemon

    if missing := private_daemon.list_missing():
        return f"not possible: {' '.join(missing)}"
    directory = config.data_dir / "hypervisor"
    facts, problems = doctor_hypervisor.inspect_hypervisor(directory)
    if problems:
        raise CheckFailed(" ".join(problems))
    details = "; ".join(facts)
    return f"possible. {private_daemon.get_kvm_verdict(directory).sentence} {details[:1].upper()}{details[1:]}."


DOCTOR_CHECKS = {
    "Panel": check_version,
    "Python": check_python,
    "Data": check_data_directory,
    "Files": check_data_files,
    "Database": check_database,
    "Secret key": check_secret_key,
    "Redis": check_redis,
    "Clock": check_clock,
    "Mail": check_mail,
    "Processes": check_processes,
    "Web": check_web,
    "Consoles": check_consoles,
    "Sandboxes": check_sandboxes,
    "Browser files": check_browser_files,
    "Images": check_images,
    "Hypervisors": check_hypervisors,
    "Volumes": check_volumes,
    "Local hypervisor": check_local_hypervisor,
}


@click.command()
@click.pass_context
def command(ctx):
    """Check the whole installation. Exits with status 1 if a check fails."""
    config = load()
    problem_count = 0
    with prepare_app(config).app_context():
        for name, check in DOCTOR_CHECKS.items():
            try:
                click.echo(f"    ok  {name}: {check(config)}")
            except CheckFailed as error:
                problem_count += 1
                click.echo(f"FAILED  {name}: {error}")
            except (SQLAlchemyError, RedisError, OSError):
                problem_count += 1
                click.echo(f"FAILED  {name}: could not be checked. Fix the failures above first.")
            session.rollback()
    click.echo(
        "All checks passed."
        if not problem_count
        else f"{problem_count} checks failed."
        if problem_count > 1
        else "1 check failed."
    )
    ctx.exit(1 if problem_count else 0)
