"""Tags: words by which customers sort and find their instances."""

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Instance

MAX_TAGS_PER_INSTANCE = 20
"""Tags of one instance."""


def set_tags(instance: Instance, tags: list[str]) -> Instance:
    """Replace the tags of the instance."""
    if len(tags) > MAX_TAGS_PER_INSTANCE:
        raise Invalid(
            message("An instance has at most {maximum} tags.", maximum=MAX_TAGS_PER_INSTANCE),
            tags=message("At most {maximum} tags.", maximum=MAX_TAGS_PER_INSTANCE),
        )
    if instance.tags != tags:
        instance.tags = tags
        session.flush()
    return instance


def add_tag(instance: Instance, tag: str) -> bool:
    """Add the tag. Return whether that changed anything."""
    if tag in instance.tags:
        return False
    set_tags(instance, sorted([*instance.tags, tag]))
    return True


def remove_tag(instance: Instance, tag: str) -> bool:
    """Remove the tag. Return whether that changed anything."""
    if tag not in instance.tags:
        return False
    set_tags(instance, [other for other in instance.tags if other != tag])
    return True
