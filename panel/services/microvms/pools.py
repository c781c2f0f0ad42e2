"""Warm pools: how many saved micro VMs of an image each node has ready. Operators set the numbers."""

from sqlalchemy import Select, select
from sqlalchemy.orm import joinedload, undefer_group

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Hypervisor, MicrovmImage, MicrovmPool, MicrovmProfile
from panel.services import hypervisors
from panel.services.crud import get_or_404
from panel.services.microvms import profiles


def listing(hypervisor_id: str | None = None) -> Select[MicrovmPool]:
    """Select the pools, by hypervisor and image."""
    query = select(MicrovmPool).join(MicrovmPool.profile).join(MicrovmProfile.hypervisor).join(MicrovmPool.image)
    query = query.options(joinedload(MicrovmPool.profile), joinedload(MicrovmPool.image), undefer_group("members"))
    query = query.order_by(Hypervisor.name, MicrovmImage.name, MicrovmPool.id)
    return query.where(MicrovmProfile.hypervisor_id == hypervisor_id) if hypervisor_id else query


def get(pool_id: str) -> MicrovmPool:
    return get_or_404(MicrovmPool, pool_id, message("No such warm pool."))


def create(*, hypervisor_id: str, image_id: str, count: int) -> MicrovmPool:
    """Add a pool. The periodic job fills it."""
    profile = profiles.find(hypervisors.get(hypervisor_id, "hypervisor_id"))
    if profile is None:
        sentence = message("The hypervisor has no micro VM profile.")
        raise Invalid(sentence, hypervisor_id=sentence)
    image = get_or_404(MicrovmImage, image_id, message("No such micro VM image."), "image_id")
    own = select(MicrovmPool.id).where(MicrovmPool.profile_id == profile.id, MicrovmPool.image_id == image.id)
    if session.scalar(own):
        sentence = message("The hypervisor already has a pool of this image. Change its size.")
        raise Invalid(sentence, image_id=sentence)
    pool = MicrovmPool(profile=profile, image=image, count=count)
    session.add(pool)
    session.flush()
    return pool


def resize(pool: MicrovmPool, count: int) -> MicrovmPool:
    """Set how many members the pool has. A boot that failed is tried again at once."""
    pool.count, pool.next_boot_at = count, None
    session.flush()
    return pool


def delete(pool: MicrovmPool) -> None:
    """Delete the pool. The periodic job removes its members from the node."""
    session.delete(pool)
    session.flush()


def list_image_choices() -> list[tuple[str, str]]:
    """Return id and label of the images of which a pool may be made: the platform's."""
    query = select(MicrovmImage.id, MicrovmImage.label).where(MicrovmImage.account_id.is_(None))
    return [(row.id, row.label) for row in session.execute(query.order_by(MicrovmImage.name))]
