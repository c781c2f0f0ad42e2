"""Projects: how customers group their resources and share them with members of their team."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Select, func, literal, select, union_all
from sqlalchemy import delete as delete_rows
from sqlalchemy.orm import with_expression

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, Instance, Project, ResourceGrant, Volume
from panel.services.access import Access
from panel.services.crud import ensure_unique_name, update_fields
from panel.services.search_kinds import customer_search

RESOURCE_MODELS: dict[str, type[Instance] | type[Volume]] = {"instance": Instance, "volume": Volume}
"""What can be in a project, by its type in the API."""


@customer_search(
    "project",
    "projects",
    permission="projects.view",
    position=20,
    describe=lambda project: (project.name, project.description or ""),
)
def listing(access: Access | Account, *, search: str | None = None) -> Select[Project]:
    query = select(Project).where(access.visible_rows(Project)).order_by(Project.name, Project.id)
    return query.where(Project.name.icontains(search, autoescape=True)) if search else query


def get(project_id: str, access: Access | Account, error_field: str | None = None) -> Project:
    project = session.scalar(listing(access).where(Project.id == project_id))
    if project is None and error_field:
        raise Invalid(message("No such project."), **{error_field: message("No such project.")})
    if project is None:
        raise NotFound(message("No such project."))
    return project


def with_counts(query: Select[Project], access: Access | Account) -> Select[Project]:
    """Load with each project the number of its instances and volumes that the person reaches."""
    for attribute, model in ((Project.instances, Instance), (Project.volumes, Volume)):
        counts = select(func.count()).select_from(model)
        counts = counts.where(model.project_id == Project.id, access.visible_rows(model)).correlate(Project)
        query = query.options(with_expression(attribute, counts.scalar_subquery()))
    return query


def create(access: Access | Account, *, name: str, **values: Any) -> Project:
    ensure_unique_name(Project, name, account_id=access.id)
    project = Project(account_id=access.id, name=name, **values)
    session.add(project)
    session.flush()
    access.grant_on_create(project)
    return project


def update(project: Project, **changes: Any) -> Project:
    if "name" in changes:
        ensure_unique_name(Project, changes["name"], exclude=project, account_id=project.account_id)
    return update_fields(project, changes)


def delete(project: Project) -> None:
    """Delete the project; its resources stay. Members who reached them only through the project no longer do."""
    session.execute(delete_rows(ResourceGrant).where(ResourceGrant.resource_id == project.id))
    session.delete(project)
    session.flush()


def assign(access: Access | Account, resources: Collection[tuple[str, str]], project_id: str | None) -> None:
    """Put resources, pairs of type and id, into the project, all or none; with None take them out of their projects."""
    target_id = get(project_id, access, "project_id").id if project_id else None
    for kind, model in RESOURCE_MODELS.items():
        ids = {resource_id for resource_type, resource_id in resources if resource_type == kind}
        query = select(model).where(model.id.in_(ids), access.visible_rows(model))
        rows: Sequence[Any] = session.scalars(query).all()
        if len(rows) < len(ids):
            raise Invalid(
                message("The {kind} was not found.", kind=kind), resource_id=message("No such {kind}.", kind=kind)
            )
        for row in rows:
            row.project_id = target_id
    session.flush()


def select_other_resources(project: Project, access: Access) -> Select:
    """Select resources that are not in the project, newest first, of the kinds that the person may see.

    The columns are `resource_type`, `id`, `name` and `project_id`.
    """
    names = {Instance: Instance.display_name, Volume: Volume.name}
    others = [
        select(literal(kind).label("resource_type"), model.id, names[model].label("name"), model.project_id).where(
            access.visible_rows(model),
            model.project_id.is_distinct_from(project.id),
            access.has_permission(f"{model.__tablename__}.view"),  # type: ignore[arg-type]  # a constant condition
        )
        for kind, model in RESOURCE_MODELS.items()
    ]
    union = union_all(*others).subquery()
    return select(*union.c).order_by(union.c.id.desc())
