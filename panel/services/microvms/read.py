"""Find micro VMs. Of ended ones only `has_ended` knows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, func, or_, select, tuple_
from sqlalchemy.orm import joinedload

from panel.core import context
from panel.core.db import session, with_lock
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Account, Microvm, MicrovmConnector, MicrovmProfile, Task
from panel.services.access import Access
from panel.services.microvms import network, timeouts
from panel.services.search_kinds import contains_text, customer_search, is_id, platform_search, starts_with

LOAD_OPTIONS = (
    joinedload(Microvm.group),
    joinedload(Microvm.hypervisor),
    joinedload(Microvm.image),
    joinedload(Microvm.profile).lazyload(MicrovmProfile.hypervisor),
    joinedload(Microvm.latest_task).load_only(Task.kind, Task.status),
)
ROUTE_LOAD_OPTIONS = joinedload(Microvm.image), joinedload(Microvm.profile).lazyload(MicrovmProfile.hypervisor)
OPERATOR_LOAD_OPTIONS = (*LOAD_OPTIONS, joinedload(Microvm.account))


@dataclass(frozen=True)
class Route:
    """What the router of sandboxes has to know of a micro VM. `state` is that of the row, or `expired` when its time is
    over; `envs` are the image's variables and its own."""

    sandbox_id: str
    machine_id: str
    hypervisor_id: str | None
    name: str
    state: str
    access_token: str
    envs: dict[str, str]
    interface: network.InterfaceSettings | None = None


@customer_search(
    "microvm",
    "micro VMs",
    permission="microvm.view",
    position=15,
    describe=lambda microvm: (microvm.name, f"{microvm.sandbox_id} {microvm.state}"),
)
def listing(
    account: Access | Account | None = None,
    *,
    search: str | None = None,
    state: str | None = None,
    location_id: str | None = None,
    hypervisor_id: str | None = None,
) -> Select[Microvm]:
    """Select live micro VMs, newest first; with an account only its own."""
    query = select(Microvm).where(Microvm.ended_at.is_(None))
    query = query.order_by(Microvm.started_at.desc(), Microvm.id.desc())  # ids from a warm pool are older
    query = (
        query.options(*LOAD_OPTIONS).where(account.visible_rows(Microvm))
        if account
        else query.options(*OPERATOR_LOAD_OPTIONS)
    )
    for column, value in (
        (Microvm.state, state),
        (Microvm.group_id, location_id),
        (Microvm.hypervisor_id, hypervisor_id),
    ):
        if value:
            query = query.where(column == value)
    return query.where(build_search_condition(search.strip())) if search else query


def build_search_condition(text: str) -> ColumnElement[bool]:
    """Return the condition for a part of the name, the beginning of the short id, or a pair `name=value` of the
    metadata."""
    conditions = [contains_text(Microvm.name, text), starts_with(Microvm.sandbox_id, text.lower())]
    name, separator, value = text.partition("=")
    if name and separator:
        conditions.append(has_metadata(name, value))
    return or_(*conditions)


@platform_search("microvm", permission="admin:microvm:read", position=15)
def select_by_any_name(text: str) -> Select[str, str, str]:
    """Select live micro VMs by name, short id, id, owner, or the label or host name of a connector."""
    labels = select(MicrovmConnector.microvm_id).where(MicrovmConnector.label == find_label(text))
    conditions = [build_search_condition(text), contains_text(Account.email, text), Microvm.id.in_(labels)]
    if is_id(text):
        conditions.append(starts_with(Microvm.id, text.lower()))
    subtitle = Microvm.sandbox_id + " · " + Account.email
    query = select(Microvm.id, Microvm.name, subtitle).join(Account, Account.id == Microvm.account_id)
    return query.where(Microvm.ended_at.is_(None), or_(*conditions)).order_by(Microvm.id.desc())


def find_label(text: str) -> str:
    """Return the first label of an address or host name, as people paste it."""
    return text.lower().removeprefix("https://").partition("/")[0].partition(".")[0]


def get(microvm_id: str, account: Access | Account | None = None) -> Microvm:
    microvm = session.scalar(listing(account).where(Microvm.id == microvm_id))
    if microvm is None:
        raise NotFound(message("No such micro VM."))
    return microvm


def has_ended(microvm_id: str, account: Access | Account | None = None) -> bool:
    """Return whether a micro VM with this id ended; with an account only its own, also for members who could see it
    through a grant, which ended with it."""
    query = select(Microvm.id).where(Microvm.id == microvm_id, Microvm.ended_at.is_not(None))
    return session.scalar(query.where(Microvm.account_id == account.id) if account else query) is not None


def get_by_sandbox_id(sandbox_id: str, account: Access | Account) -> Microvm:
    """Return the live micro VM with this short id that is not being destroyed."""
    query = listing(account).where(Microvm.sandbox_id == sandbox_id, Microvm.state != "destroying")
    microvm = session.scalar(query)
    if microvm is None:
        raise NotFound(message("No such micro VM."))
    return microvm


def list_by_sandbox_ids(sandbox_ids: Iterable[str], account: Access | Account) -> Sequence[Microvm]:
    """Return the live micro VMs with these short ids."""
    return session.scalars(listing(account).where(Microvm.sandbox_id.in_(sandbox_ids))).all()


def select_by_start(
    account: Access | Account,
    *,
    states: tuple[str, ...],
    metadata: Mapping[str, str] | None = None,
    started_after: datetime | None = None,
    image_id: str | None = None,
    cursor: tuple[datetime, str] | None = None,
    ascending: bool = False,
) -> Select[Microvm]:
    """Select the account's live micro VMs by start, latest first, for keyset paging. All pairs of `metadata` must
    match. `cursor`: start and id of the last row of the page before."""
    key = tuple_(Microvm.started_at, Microvm.id)
    order = (Microvm.started_at, Microvm.id) if ascending else (Microvm.started_at.desc(), Microvm.id.desc())
    query = listing(account).order_by(None).order_by(*order).where(Microvm.state.in_(states))
    for name, value in (metadata or {}).items():
        query = query.where(has_metadata(name, value))
    if started_after:
        query = query.where(Microvm.started_at >= started_after)
    if image_id:
        query = query.where(Microvm.image_id == image_id)
    if cursor:
        query = query.where(key > cursor if ascending else key < cursor)
    return query


def has_metadata(name: str, value: str) -> ColumnElement[bool]:
    """Return the condition for a pair of the metadata. A path of SQLite does not find every name, for example one with
    a letter beyond ASCII."""
    if not context.current().config.is_sqlite:
        return Microvm.meta[name].as_string() == value
    pairs = func.json_each(Microvm.meta).table_valued("key", "value")
    return select(pairs.c.key).where(pairs.c.key == name, pairs.c.value == value).exists()


def find_by_id(microvm_id: str) -> Microvm | None:
    """Return the live micro VM or None, read again; for workers."""
    query = select(Microvm).where(Microvm.id == microvm_id, Microvm.ended_at.is_(None))
    return session.scalar(query.execution_options(populate_existing=True))


def lock(*microvm_ids: str) -> list[Microvm]:
    """Return these live micro VMs, locked and read again, in the order of their ids."""
    query = select(Microvm).where(Microvm.id.in_(microvm_ids), Microvm.ended_at.is_(None)).order_by(Microvm.id)
    return list(session.scalars(with_lock(query, of=Microvm)))


def find_starting(sandbox_ids: Collection[str]) -> set[str]:
    """Return those of the sandboxes that are being started."""
    query = select(Microvm.sandbox_id).where(Microvm.sandbox_id.in_(sandbox_ids), Microvm.state == "starting")
    return set(session.scalars(query.where(Microvm.ended_at.is_(None))))


def list_running_sandbox_ids(maximum: int) -> Sequence[str]:
    """Return the short ids of running micro VMs of all accounts, the latest first."""
    query = select(Microvm.sandbox_id).where(Microvm.state == "running", Microvm.ended_at.is_(None))
    return session.scalars(query.order_by(Microvm.started_at.desc(), Microvm.id.desc()).limit(maximum)).all()


def find_route(sandbox_id: str) -> Route | None:
    """Return the way to a live micro VM, of whatever account, or None."""
    query = select(Microvm).where(Microvm.sandbox_id == sandbox_id, Microvm.ended_at.is_(None))
    microvm = session.scalar(query.options(*ROUTE_LOAD_OPTIONS))
    if microvm is None:
        return None
    envs = {**(microvm.image.envs if microvm.image else {}), **microvm.envs}
    return Route(
        sandbox_id=microvm.sandbox_id,
        machine_id=microvm.id,
        hypervisor_id=microvm.hypervisor_id,
        name=microvm.name if microvm.origin == "api" else microvm.sandbox_id,  # SDKs name none
        state="expired" if timeouts.has_expired(microvm) else microvm.state,
        access_token=microvm.access_token,
        envs=envs,
        interface=network.find_interface_settings(microvm),
    )


def find_connector(label: str) -> tuple[str, int] | None:
    """Return the short id of the live micro VM to which a connector leads, and the port; None for an unknown label."""
    query = select(Microvm.sandbox_id, MicrovmConnector.port).join(MicrovmConnector.microvm)
    row = session.execute(query.where(MicrovmConnector.label == label, Microvm.ended_at.is_(None))).one_or_none()
    return (row.sandbox_id, row.port) if row else None
