"""Builds of micro VM images: an image is built from another one and commands, on a machine of its own."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import Select, func, select

from panel.core import clock, jobs
from panel.core.db import lock_row, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import Account, Hypervisor, HypervisorGroup, MicrovmImage, MicrovmImageBuild
from panel.schemas.microvm_images import MAX_COMMAND_CHARACTERS, MAX_COMMANDS
from panel.services import catalog, hypervisors, ids
from panel.services.access import Access
from panel.services.microvms import images, network, profiles
from panel.services.microvms.create import choose_size, ensure_not_suspended, get_open_location
from panel.services.placement import Requirements

MAX_IMAGES_PER_ACCOUNT = 20
MAX_STORED_BYTES_PER_ACCOUNT = 20 * 1024**3
"""Bytes of all images of an account together."""
MAX_BUILDS_PER_ACCOUNT = 2
"""Builds of an account at the same time. Their machines are not metered."""
MAX_BUILD_MINUTES = 15
"""Minutes from the start of the machine until the last command has ended."""
MAX_LOG_CHARACTERS = 100_000
"""Characters of a log that are stored: its end."""


def create(
    account: Access | Account | None,
    *,
    name: str,
    image_id: str,
    commands: Iterable[str],
    actor: str,
    label: str | None = None,
    envs: Mapping[str, str] | None = None,
    cpu_cores: int | None = None,
    memory_mb: int | None = None,
    disk_gb: int | None = None,
    location_id: str | None = None,
    aliases: Iterable[str] = (),
    price: Decimal | None = None,
    is_public: bool = True,
) -> MicrovmImage:
    """Request the build of an image; without an account of one of the platform's, which alone have `aliases`.

    Raise `no_microvm_node` when no node has room, `image_limit` when the account may not have more.
    """
    commands, aliases = list(commands), sorted(set(aliases))
    ensure_valid_commands(commands)
    if account:
        ensure_not_suspended(account)
        ensure_within_limits(account.id)
    source = images.get_available(image_id, account)
    images.ensure_name_is_free(name, account.id if account else None)
    images.ensure_aliases_are_free([*aliases, *([] if account else [name])])
    needs = choose_size(source, cpu_cores, memory_mb, disk_gb)
    image = make_image(
        source,
        needs,
        account_id=account.id if account else None,
        name=name,
        label=label or name,
        aliases=aliases,
        price=source.price if price is None else price,
        is_public=is_public,
        envs={**source.envs, **(envs or {})},
    )
    session.add(image)
    session.flush()
    if account:
        account.grant_on_create(image)
    image.build = MicrovmImageBuild(
        source=source,
        commands=commands,
        cpu_cores=needs.cpu_cores,
        memory_mb=needs.ram,
        disk_gb=needs.storage,
        mac=ids.generate_mac(),
    )
    request_build(image, choose_group(account, location_id, needs), actor)
    return image


def make_image(source: MicrovmImage, needs: Requirements, **fields: Any) -> MicrovmImage:
    """Return an image of that size that has no files yet."""
    no_files = {
        f"{kind}_{fact}": 0 if fact == "size" else "" for kind in images.FILE_KINDS for fact in images.FILE_FACTS
    }
    return MicrovmImage(
        status="building",
        cpu_cores=needs.cpu_cores,
        memory_mb=needs.ram,
        disk_gb=needs.storage,
        min_memory_mb=source.min_memory_mb,
        min_disk_gb=needs.storage,
        kernel_options=source.kernel_options,
        files_key="",
        **no_files,
        **fields,
    )


def retry(image: MicrovmImage, account: Access | Account | None, *, actor: str) -> MicrovmImage:
    """Build a failed image again, from the same source with the same commands. Raise `not_failed` for any other."""
    build = image.build
    if image.status != "failed" or build is None:
        raise Conflict(message("Only an image that could not be built is built again."), reason="not_failed")
    if account:
        ensure_within_limits(account.id, exclude=image)
    if build.source is None or build.source.status != "available":
        raise Conflict(message("The image that it is built from was deleted."), reason="source_deleted")
    needs = Requirements(build.cpu_cores, build.memory_mb, build.disk_gb)
    group = build.group
    if group is None or group.id not in profiles.find_available_groups([group], needs):
        group = choose_group(account, None, needs)
    image.status = "building"
    request_build(image, group, actor)
    return image


def request_build(image: MicrovmImage, group: HypervisorGroup, actor: str) -> None:
    """Place the build on a node and enqueue its task."""
    build = image.build
    assert build is not None
    needs = Requirements(build.cpu_cores, build.memory_mb, build.disk_gb)
    build.group = group
    capacities = profiles.lock_capacities(group, needs, internet="preferred")
    build.hypervisor, build.storage = profiles.choose_host(capacities, needs)
    build.address = network.allocate_address(profiles.find(build.hypervisor))
    build.log, build.error, build.command_number, build.exit_code = "", None, None, None
    build.started_at, build.ended_at = clock.now(), None
    session.flush()
    task = jobs.enqueue(
        "microvm_image_build",
        "microvm_image",
        image,
        lock="exclusive",
        actor=actor,
        hypervisor_id=build.hypervisor_id,
    )
    build.task_id = task.id
    session.flush()


def choose_group(account: Access | Account | None, location_id: str | None, needs: Requirements) -> HypervisorGroup:
    """Return the location that was asked for, else the first one with room."""
    if location_id:
        if account:
            return get_open_location(location_id, account)
        return hypervisors.get_group(location_id, "location_id")
    groups = session.scalars(catalog.select_locations(account)).all()
    groups = [group for group in groups if group.can_create("microvm")]
    hosts = session.scalars(profiles.select_open_hosts(*groups)).all()
    available = profiles.find_available_groups(groups, needs, hosts)
    group = next((group for group in groups if group.id in available), None)
    if group is None:
        raise profiles.no_node_error(
            profiles.choose_locations_message(is_open=bool(groups), has_hypervisor=bool(hosts))
        )
    return group


def ensure_valid_commands(commands: list[str]) -> None:
    if not 0 < len(commands) <= MAX_COMMANDS:
        sentence = message("Enter 1 to {maximum} commands.", maximum=MAX_COMMANDS)
        raise Invalid(sentence, commands=sentence)
    if any(not command.strip() or len(command) > MAX_COMMAND_CHARACTERS for command in commands):
        sentence = message("A command has 1 to {maximum} characters.", maximum=MAX_COMMAND_CHARACTERS)
        raise Invalid(sentence, commands=sentence)


def ensure_within_limits(account_id: str, *, exclude: MicrovmImage | None = None) -> None:
    """Raise when the account may not build one more image. Concurrent calls are counted one after the other."""
    lock_row(Account, account_id)
    query = select(func.count()).where(MicrovmImage.account_id == account_id)
    if (
        session.scalars(query.where(MicrovmImage.id != exclude.id) if exclude else query).one()
        >= MAX_IMAGES_PER_ACCOUNT
    ):
        sentence = message("An account has at most {maximum} images. Delete one first.", maximum=MAX_IMAGES_PER_ACCOUNT)
        raise Invalid(sentence, reason="image_limit")
    running = select(func.count()).where(MicrovmImage.account_id == account_id, MicrovmImage.status == "building")
    if session.scalars(running).one() >= MAX_BUILDS_PER_ACCOUNT:
        sentence = message(
            "{maximum} images are being built. Try again when one is ready.", maximum=MAX_BUILDS_PER_ACCOUNT
        )
        raise Invalid(sentence, reason="build_limit")
    if count_free_bytes(account_id) <= 0:
        raise make_storage_problem()


def make_storage_problem() -> Invalid:
    sentence = message(
        "The images of an account take at most {size} GiB. Delete one first.",
        size=MAX_STORED_BYTES_PER_ACCOUNT // 1024**3,
    )
    return Invalid(sentence, reason="image_storage_limit")


def count_stored_bytes(account_id: str) -> int:
    """Return the bytes of the files of the account's images."""
    size = MicrovmImage.disk_size + MicrovmImage.kernel_size + MicrovmImage.initrd_size
    query = select(func.coalesce(func.sum(size), 0)).where(MicrovmImage.account_id == account_id)
    return session.scalars(query).one()


def count_free_bytes(account_id: str | None) -> int:
    """Return the bytes that a further image of the account may have. The platform's images have the same maximum."""
    used = count_stored_bytes(account_id) if account_id else 0
    return MAX_STORED_BYTES_PER_ACCOUNT - used


# --- what workers call


def select_by_id(image_id: str) -> Select[MicrovmImageBuild]:
    return select(MicrovmImageBuild).where(MicrovmImageBuild.id == image_id)


def find(image_id: str) -> MicrovmImageBuild | None:
    """Return the build or None, read again."""
    return session.scalar(select_by_id(image_id).execution_options(populate_existing=True))


def record_failure(image_id: str, error: str) -> None:
    """Record that the image could not be built. Nothing is done when it was deleted, or is available by now."""
    build = find(image_id)
    if build is not None and build.image.status == "building":
        build.image.status = "failed"
        build.error, build.ended_at = error, clock.now()
        session.flush()


def record_success(build: MicrovmImageBuild, **files: images.ImageFile) -> None:
    """Record that the image is available."""
    build.ended_at, build.command_number = clock.now(), None
    images.set_files(build.image, **files)
    session.flush()


def fail_all(hypervisor: Hypervisor, error: Any) -> None:
    """Record that the builds on a hypervisor failed."""
    query = select(MicrovmImageBuild.id).where(MicrovmImageBuild.hypervisor_id == hypervisor.id)
    for image_id in session.scalars(query.where(MicrovmImageBuild.ended_at.is_(None))).all():
        record_failure(image_id, error)
