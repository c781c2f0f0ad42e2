"""The database: the session (one per request or task step), column types, model bases, and callbacks after commit."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, TypeVarTuple, cast

import orjson
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy.session import Session as BoundSession
from sqlalchemy import (
    DDL,
    BigInteger,
    BindParameter,
    Connection,
    CursorResult,
    DateTime,
    Dialect,
    Executable,
    MetaData,
    Select,
    String,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    event,
    literal,
    select,
)
from sqlalchemy.engine import Engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, registry
from uuid_utils import uuid7

from panel.core import clock, context, messages
from panel.core.config import Config
from panel.core.database_errors import Outage

if TYPE_CHECKING:
    from flask import Flask

Columns = TypeVarTuple("Columns")
ModelRow = TypeVar("ModelRow", bound="Base")

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """A time that is aware and UTC in Python on every database. SQLite stores no zone, so it is added when reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect | None) -> datetime | None:
        return value.astimezone(UTC) if value else None

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        if dialect.name != "sqlite":
            return super().result_processor(dialect, coltype)
        return lambda text: text and datetime.fromisoformat(f"{text}+00:00")


class Money(TypeDecorator[Decimal]):
    """An amount in the installation's currency, stored as whole millionths, so that every database sums exactly."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | int | None, dialect: Dialect | None) -> int | None:
        return None if value is None else int(Decimal(value).scaleb(6).to_integral_exact(ROUND_HALF_EVEN))

    def process_result_value(self, value: Any, dialect: Dialect | None) -> Decimal | None:
        return None if value is None else Decimal(value).scaleb(-6)


def encrypt(text: str) -> str:
    """Return the text encrypted with the installation's key."""
    return context.current().encryption.encrypt(text.encode()).decode()


def decrypt(text: str) -> str:
    return context.current().encryption.decrypt(text.encode()).decode()


class EncryptedText(TypeDecorator[str]):
    """Text that is encrypted at rest with the installation's key; rows written with an older key stay readable."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect | None) -> str | None:
        return None if value is None else encrypt(value)

    def process_result_value(self, value: Any, dialect: Dialect | None) -> str | None:
        return None if value is None else decrypt(value)


class MessageText(TypeDecorator[str]):
    """A sentence for people. A message with parameters is stored as JSON, so that it can be shown in every language;
    other text is stored as it is, and read as a message without parameters."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect | None) -> str | None:
        return messages.to_stored(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return messages.from_stored


def append_only(table: Table) -> None:
    """Add triggers to the table that refuse updates and deletes of its rows."""
    message = f"Rows of {table.name} are only added."
    for verb in ("update", "delete"):
        body = f"before {verb} on {table.name} begin select raise(abort, '{message}'); end"
        trigger = DDL(f"create trigger {table.name}_{verb} {body}")
        event.listen(table, "after_create", trigger.execute_if(dialect="sqlite"))
    trigger = DDL(
        f"create or replace function {table.name}_only_added() returns trigger language plpgsql as"
        f" $$ begin raise exception '{message}'; end $$;"
        f" create trigger {table.name}_only_added before update or delete or truncate on {table.name}"
        f" execute function {table.name}_only_added()"
    )
    event.listen(table, "after_create", trigger.execute_if(dialect="postgresql"))


def generate_id() -> str:
    """Return a UUIDv7. Such ids sort by age, so new rows go to the end of an index."""
    return str(uuid7())


class Base(DeclarativeBase):
    registry = registry(
        metadata=MetaData(naming_convention=NAMING_CONVENTION),
        type_annotation_map={datetime: UtcTime, str: String(255)},
    )

    if TYPE_CHECKING:
        __table__: ClassVar[Table]

    is_audit_part: ClassVar[bool] = False
    """Whether a row is only a part or by-product of another object: an audit entry is about it only if nothing else was
    changed."""

    live_permissions: ClassVar[tuple[str | None, str | None] | None] = None
    """The permissions of customers and of operators that streams with changes of these rows need. None: no stream has
    them."""

    is_personal: ClassVar[bool] = False
    """Whether `account_id` is the person that a row is for, not the owner of a resource. Only this person's streams
    have its changes."""


class TimestampMixin:
    """The columns id, created_at and updated_at."""

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id, sort_order=-10)
    created_at: Mapped[datetime] = mapped_column(default=clock.now, sort_order=90)
    updated_at: Mapped[datetime] = mapped_column(default=clock.now, onupdate=clock.now, sort_order=91)


@dataclass(slots=True)
class RequestTransactions:
    """What the web layer states about a request, and the commits of a writing one."""

    is_read_only: bool
    commits_begun: int = 0
    """Commits that were sent. Until the database answers, it is unknown whether the changes were saved."""
    commits_done: int = 0


current_request: ContextVar[RequestTransactions | None] = ContextVar("current_request", default=None)
"""Set by `begin_request`; None outside requests."""


def begin_request(*, is_read_only: bool) -> None:
    """State whether the request that begins here only reads. Called by the web layer before any query."""
    current_request.set(RequestTransactions(is_read_only))


def get_request() -> RequestTransactions:
    """Return what is known of the current request. Raise RuntimeError outside requests."""
    request = current_request.get()
    if request is None:
        raise RuntimeError("There is no request.")
    return request


def end_request() -> None:
    current_request.set(None)


def is_read_only_request() -> bool:
    """Return whether this is a request that only reads."""
    request = current_request.get()
    return request is not None and request.is_read_only


class RequestSession(BoundSession):
    """A session that uses autocommit on PostgreSQL for read-only requests, which saves the round trips of BEGIN and
    COMMIT."""

    def get_bind(self, *args: Any, **kwargs: Any) -> Engine | Connection:
        bind = super().get_bind(*args, **kwargs)
        is_autocommit = isinstance(bind, Engine) and bind.dialect.name == "postgresql" and is_read_only_request()
        return without_transaction(bind) if is_autocommit else bind


@cache
def without_transaction(engine: Engine) -> Engine:
    return engine.execution_options(isolation_level="AUTOCOMMIT")


db = SQLAlchemy(
    model_class=Base,
    session_options={
        "class_": RequestSession,
        "expire_on_commit": False,
        "join_transaction_mode": "create_savepoint",
    },
    disable_autonaming=True,
)
session = db.session
if TYPE_CHECKING:
    Model = Base  # Flask-SQLAlchemy makes the model class at run time
else:
    Model = db.Model


@contextmanager
def connect_for_read() -> Iterator[Connection]:
    """Yield a connection for a query that sees what is committed now. It opens no transaction on PostgreSQL, and takes
    no write lock on SQLite. On PostgreSQL a request that only reads uses its session's; on SQLite that one could have a
    snapshot from before the query."""
    is_postgresql = db.engine.dialect.name == "postgresql"
    if is_postgresql and is_read_only_request():
        yield session.connection()
        return
    options = {"isolation_level": "AUTOCOMMIT"} if is_postgresql else {"reads": True}
    with db.engine.connect().execution_options(**options) as connection:
        yield connection


POSTGRESQL_OPTIONS = {
    "pool_size": 20,
    "pool_recycle": 600,
    "connect_args": {"connect_timeout": 5, "tcp_user_timeout": 20_000},  # ms; a lost host sends no reset
}


def parse_json(text: str | bytes) -> Any:
    """Parse the text of a JSON column. Falls back to `json` for stored values that orjson refuses (NaN, a lone
    surrogate)."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def init_db(app: "Flask", config: Config) -> None:
    """Connect a Flask application to the configured database."""
    app.config["SQLALCHEMY_DATABASE_URI"] = config.database_url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = (
        {"connect_args": {"timeout": 15}} if config.is_sqlite else POSTGRESQL_OPTIONS
    ) | {"hide_parameters": True, "json_deserializer": parse_json}  # keeps values out of logs
    db.init_app(app)


def make_fernet_keys(secret_keys: str) -> list[bytes]:
    """Return a Fernet key for each key of `PANEL_SECRET_KEY`, which may list several, newest first."""
    return [urlsafe_b64encode(sha256(b"at rest:" + key.strip().encode()).digest()) for key in secret_keys.split(",")]


def literal_limit(count: int) -> BindParameter[int]:
    """Return a limit that is written into the statement. PostgreSQL plans a query with many joins again at each
    execution when its limit is a parameter. Each value is a statement of its own, so use it for few values."""
    return bindparam("limit", count, unique=True, literal_execute=True)


def find_nonempty(queries: Mapping[str, Select[Any]]) -> set[str]:
    """Return the names of the selects that find rows. One query."""
    ones = (
        query.with_only_columns(literal(1), maintain_column_froms=True).order_by(None) for query in queries.values()
    )
    row = session.execute(select(*(query.exists() for query in ones))).one()
    return {name for name, has_rows in zip(queries, row, strict=True) if has_rows}


def with_lock(query: Select[*Columns], **options: Any) -> Select[*Columns]:
    """Lock the rows that the query finds, and read them again: they may have changed while it waited. `options` are
    those of `with_for_update`."""
    return query.with_for_update(**options).execution_options(populate_existing=True)


def lock_row(model: type[ModelRow], row_id: str) -> ModelRow | None:
    """Return the row with this id, locked and read again, or None. Rows that only refer to it can still be written."""
    return session.get(model, row_id, with_for_update={"key_share": True}, populate_existing=True)


def refresh_with_lock(row: Base) -> None:
    """Lock the row and read it again, with the related rows that were loaded with it. PostgreSQL would refuse to lock
    these."""
    session.refresh(row, with_for_update={"of": type(row)})


def count_changed(statement: Executable, **execution_options: Any) -> int:
    """Execute an update or delete and return the number of rows that it changed."""
    return cast(CursorResult, session.execute(statement, execution_options=execution_options)).rowcount


def on_commit(call: Callable[[], object]) -> None:
    """Run `call` after this transaction commits, and never if it rolls back. `call` must not use the session."""
    session.info.setdefault("on_commit", []).append(call)


@event.listens_for(Engine, "commit")
def note_commit_begun(_: Connection) -> None:
    if (request := current_request.get()) and not request.is_read_only:
        request.commits_begun += 1


@event.listens_for(Session, "after_commit")
def _on_commit(current: Session) -> None:
    if not current.in_nested_transaction():
        if (request := current_request.get()) and not request.is_read_only:
            request.commits_done = request.commits_begun
        for call in current.info.pop("on_commit", []):
            call()


@event.listens_for(Session, "after_transaction_create")
def _on_begin(current: Session, transaction: Any) -> None:
    if transaction.nested:
        transaction.calls_before = tuple(current.info.get("on_commit", ()))


@event.listens_for(Session, "after_soft_rollback")
def _on_rollback(current: Session, transaction: Any) -> None:
    """Drop the callbacks of a transaction that was rolled back; for a savepoint only those registered inside it."""
    if transaction.nested:
        current.info["on_commit"] = list(transaction.calls_before)
    else:
        current.info.pop("on_commit", None)


@event.listens_for(Engine, "connect")
def prepare_sqlite(connection: Any, _: Any) -> None:
    if type(connection).__module__ == "sqlite3":
        connection.isolation_level = None  # SQLAlchemy begins transactions; pysqlite would begin them late
        for pragma in ("journal_mode=wal", "synchronous=normal", "foreign_keys=on", "cache_size=-65536"):
            connection.execute(f"pragma {pragma}")


@event.listens_for(Engine, "begin")
def begin_sqlite(connection: Connection) -> None:
    """Take SQLite's write lock at the start of a transaction that may write. Upgrading a read lock later fails without
    waiting when the database has changed since the first read."""
    if connection.dialect.name == "sqlite":
        is_read_only = connection.get_execution_options().get("reads") or is_read_only_request()
        connection.exec_driver_sql("begin" if is_read_only else "begin immediate")


def may_have_committed(outage: Outage) -> bool:
    """Return whether changes of this request were or may have been committed, so that it is not safe to repeat it."""
    request = get_request()
    is_outcome_unknown = request.commits_begun > request.commits_done and not outage.is_commit_refused
    return request.commits_done > 0 or is_outcome_unknown


def begin_read_only() -> None:
    """Begin a read-only transaction outside requests. On SQLite it does not take the write lock."""
    session.connection(execution_options={"reads": True})


@contextmanager
def allow_writes() -> Iterator[None]:
    """Allow writes inside the block in a request with a reading method. The block must commit them."""
    request = get_request()
    before, request.is_read_only = request.is_read_only, False
    try:
        yield
    finally:
        request.is_read_only = before
