"""Create micro VMs, and what they can be created with."""

import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from panel.core.db import session
from panel.core.errors import Forbidden, Invalid
from panel.core.messages import Message, message
from panel.models import Account, HypervisorGroup, Microvm, MicrovmImage
from panel.services import catalog, usage
from panel.services.access import Access
from panel.services.microvms import actions, images, pool_members, profiles, timeouts
from panel.services.microvms.machines import make_machine_fields
from panel.services.placement import Requirements

MAX_CPU_CORES, MAX_MEMORY_MB, MAX_DISK_GB = 8, 16384, 64
"""The largest micro VM."""
ACCESS_TOKEN_BYTES = 32
CLOSED_MESSAGE = message("closed to micro VMs")
NO_HYPERVISOR_MESSAGE = message("no hypervisor for micro VMs at the moment")
NO_ROOM_MESSAGE = message("no room at the moment")


@dataclass(frozen=True)
class Size:
    """A size that the catalog proposes."""

    name: str
    cpu_cores: int
    memory_mb: int
    disk_gb: int


SIZES = (Size("small", 1, 512, 2), Size("medium", 2, 1024, 4), Size("large", 2, 2048, 8), Size("xlarge", 4, 4096, 16))


@dataclass(frozen=True)
class CatalogLocation:
    """A location as the catalog shows it."""

    id: str
    name: str
    display_name: str
    country: str
    available: bool
    """Whether a micro VM of the smallest size can be created there now."""
    internet_access: bool
    """Whether it could have internet access."""
    locked: bool
    """Whether the operator closed the location to micro VMs."""
    has_open_hypervisor: bool
    """Whether a hypervisor of the location takes micro VMs now."""

    @property
    def disabled_reason(self) -> Message | None:
        """Return why no micro VM can be created there now, or None."""
        if self.available:
            return None
        if self.locked:
            return CLOSED_MESSAGE
        return NO_ROOM_MESSAGE if self.has_open_hypervisor else NO_HYPERVISOR_MESSAGE


def list_locations(account: Access | Account) -> list[CatalogLocation]:
    """Return the locations that the account may choose, by name. The number of queries is constant."""
    groups = session.scalars(catalog.select_locations(account)).all()
    smallest = SIZES[0]
    needs = Requirements(smallest.cpu_cores, smallest.memory_mb, smallest.disk_gb)
    hosts = session.scalars(profiles.select_open_hosts(*groups)).all()
    open_ids = {host.group_id for host in hosts}
    available = profiles.find_available_groups(groups, needs, hosts)
    return [
        CatalogLocation(
            id=group.id,
            name=group.name,
            display_name=group.display_name,
            country=group.country,
            available=group.can_create("microvm") and group.id in available,
            internet_access=group.can_create("microvm") and available.get(group.id, False),
            locked=not group.can_create("microvm"),
            has_open_hypervisor=group.id in open_ids,
        )
        for group in groups
    ]


def locations_error(locations: Collection[CatalogLocation]) -> Message | None:
    """Return why no micro VM can be created in any of the locations now, or None."""
    if any(location.available for location in locations):
        return None
    open_locations = [location for location in locations if not location.locked]
    has_hypervisor = any(location.has_open_hypervisor for location in open_locations)
    return profiles.choose_locations_message(is_open=bool(open_locations), has_hypervisor=has_hypervisor)


def create(
    account: Access | Account,
    *,
    location_id: str,
    image_id: str,
    name: str,
    actor: str,
    cpu_cores: int | None = None,
    memory_mb: int | None = None,
    disk_gb: int | None = None,
    tags: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
    envs: Mapping[str, str] | None = None,
    timeout_seconds: int | None = None,
    on_timeout: str = "kill",
    allow_internet_access: bool = False,
    is_internet_required: bool = True,
    allow_out: Collection[str] = (),
    deny_out: Iterable[str] = (),
    origin: str = "api",
    api_key_id: str | None = None,
) -> Microvm:
    """Create a micro VM and request its start. Its size is the image's where none is given. One of the image's size is
    taken from a warm pool when a node with room has one ready.

    Raise `no_microvm_node` when no node of the location has room for it. Where no node offers internet access, raise
    `no_internet_access` if it is required; networks to allow require it too.
    """
    ensure_not_suspended(account)
    group = get_open_location(location_id, account)
    image = images.get_available(image_id, account)
    needs = choose_size(image, cpu_cores, memory_mb, disk_gb)
    actions.ensure_valid_timeout(timeout_seconds)
    internet = choose_internet(allow_internet_access, is_internet_required, allow_out)
    machine, is_warm = choose_machine(group, image, needs, internet, allow_out)
    microvm = Microvm(
        **machine,
        name=name,
        account_id=account.id,
        group=group,
        image=image,
        origin=origin,
        api_key_id=api_key_id,
        tags=sorted(set(tags)),
        meta=dict(metadata or {}),
        encrypted_envs=orjson.dumps(dict(envs)).decode() if envs else None,
        access_token=secrets.token_hex(ACCESS_TOKEN_BYTES),
        timeout_seconds=timeout_seconds,
        on_timeout=on_timeout,
        allow_internet_access=allow_internet_access,
        allow_out=list(allow_out),
        deny_out=list(deny_out),
    )
    timeouts.request(microvm)
    session.add(microvm)
    session.flush()
    account.grant_on_create(microvm)
    start_metering(microvm, image)
    actions.enqueue(microvm, "create", actor, is_warm=is_warm)
    return microvm


def choose_internet(is_wanted: bool, is_required: bool, allow_out: Collection[str]) -> str:
    """Return how much internet access counts when a host is chosen."""
    if allow_out or (is_wanted and is_required):
        return "required"
    return "preferred" if is_wanted else "ignored"


def choose_machine(
    group: HypervisorGroup, image: MicrovmImage, needs: Requirements, internet: str, allow_out: Collection[str]
) -> tuple[dict[str, Any], bool]:
    """Return the fields of the machine, and whether it is a member of a warm pool that was taken. Raise
    `no_microvm_node` when no node has room, or `no_internet_access` when none offers it."""
    for capacity in profiles.lock_capacities(group, needs, internet):
        if machine_fields := pool_members.take_ready_member(capacity, image, needs):
            return machine_fields, True
        with suppress(Invalid):
            return make_machine_fields(image, needs, *capacity.choose_host(needs)), False
    if internet == "required":
        raise profiles.no_internet_error("allow_out" if allow_out else "allow_internet_access")
    raise profiles.no_node_error(profiles.NO_ROOM_MESSAGE)


def start_metering(microvm: Microvm, image: MicrovmImage) -> None:
    """Meter the micro VM if its image has a price."""
    if image.price:
        usage.start_metering(
            "microvm",
            microvm,
            name=microvm.name,
            plan=image.name,
            price=image.price,
            billing_mode="cloud_service",
        )


def ensure_not_suspended(account: Any) -> None:
    """Raise for a suspended account. The APIs refuse it earlier; this is for callers without their guard."""
    if getattr(account, "suspended", False) or getattr(account, "suspended_at", None):
        raise Forbidden(message("The account is suspended. Contact support."), reason="account_suspended")


def get_open_location(location_id: str, account: Access | Account) -> HypervisorGroup:
    group = catalog.get_location(location_id, account, "location_id")
    if not group.can_create("microvm"):
        sentence = message("No micro VMs are created in this location.")
        raise Invalid(sentence, reason="microvm_disabled", location_id=sentence)
    return group


def choose_size(image: MicrovmImage, cpu_cores: int | None, memory_mb: int | None, disk_gb: int | None) -> Requirements:
    """Return the size of a new micro VM. Raise when the image needs more."""
    needs = Requirements(cpu_cores or image.cpu_cores, memory_mb or image.memory_mb, disk_gb or image.disk_gb)
    if needs.ram < image.min_memory_mb:
        sentence = message("The image needs {size} MiB of memory.", size=image.min_memory_mb)
        raise Invalid(sentence, memory_mb=sentence)
    if needs.storage < image.min_disk_gb:
        sentence = message("The image needs a disk of {size} GiB.", size=image.min_disk_gb)
        raise Invalid(sentence, disk_gb=sentence)
    return needs
