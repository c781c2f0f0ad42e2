"""Customers' sample things."""

from typing import Any

from sqlalchemy import Select, select

# if task
from panel.core import jobs

# end if
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message

# if task
from panel.core.task_kinds import task_kind

# end if
from panel.models import Account, SampleThing
from panel.services.access import Access

# if task
APPLY_TASK_KIND = task_kind("sample_thing_apply", "Apply sample thing")
# end if


def listing(account: Access | Account) -> Select[SampleThing]:
    return select(SampleThing).where(account.visible_rows(SampleThing)).order_by(SampleThing.name, SampleThing.id)


def get(sample_thing_id: str, account: Access | Account) -> SampleThing:
    sample_thing = session.scalar(listing(account).where(SampleThing.id == sample_thing_id))
    if sample_thing is None:
        raise NotFound(message("No such sample thing."))
    return sample_thing


def create(
    account: Access | Account,
    # if task
    *,
    actor: str,
    # end if
    **values: Any,
) -> SampleThing:
    sample_thing = SampleThing(account_id=account.id, **values)
    session.add(sample_thing)
    session.flush()
    # if task
    jobs.enqueue(APPLY_TASK_KIND, "sample_thing", sample_thing, lock="exclusive", actor=actor)
    # end if
    return sample_thing


def update(
    sample_thing: SampleThing,
    # if task
    *,
    actor: str,
    # end if
    **changes: Any,
) -> SampleThing:
    for field, value in changes.items():
        setattr(sample_thing, field, value)
    # if task
    sample_thing.is_applied = False
    # end if
    session.flush()
    # if task
    jobs.enqueue(APPLY_TASK_KIND, "sample_thing", sample_thing, lock="light", actor=actor)
    # end if
    return sample_thing


def delete(sample_thing: SampleThing) -> None:
    session.delete(sample_thing)
    session.flush()
