"""Projects: how customers sort their resources, and by which they give them to people of their team."""

from sqlalchemy import delete as delete_rows
from sqlalchemy import func, literal, select, union_all

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.models import Instance, Project, ResourceGrant, Volume
from panel.services.crud import ensure_unique_name, update_fields

RESOURCE_MODELS = {"instance": Instance, "volume": Volume}
"""What can be in a project, by the word of the wire."""


def listing(access, *, search=None):
    query = select(Project).where(access.visible_rows(Project)).order_by(Project.name, Project.id)
    return query.where(Project.name.icontains(search, autoescape=True)) if search else query


def get(project_id, access, field=None):
    project = session.scalar(listing(access).where(Project.id == project_id))
    if project is None and field:
        raise Invalid("No such project.", **{field: "No such project."})
    if project is None:
        raise NotFound("No such project.")
    return project


def with_counts(projects, access):
    """Notes on each row how many `instances` and `volumes` of it whoever asks reaches."""
    ids = [project.id for project in projects]
    for model in RESOURCE_MODELS.values():
        counts = select(model.project_id, func.count()).where(model.project_id.in_(ids), access.visible_rows(model))
        found = dict(session.execute(counts.group_by(model.project_id)).all())
        for project in projects:
            setattr(project, model.__tablename__, found.get(project.id, 0))
    return projects


def create(access, *, name, **facts):
    ensure_unique_name(Project, name, account_id=access.id)
    project = Project(account_id=access.id, name=name, **facts)
    session.add(project)
    session.flush()
    access.grant_on_create(project)
    return project


def update(project, **changes):
    if "name" in changes:
        ensure_unique_name(Project, changes["name"], exclude=project, account_id=project.account_id)
    return update_fields(project, changes)


def delete(project):
    """Its resources stay, in no project. Who reached them by the project alone reaches them no more."""
    session.execute(delete_rows(ResourceGrant).where(ResourceGrant.resource_id == project.id))
    session.delete(project)
    session.flush()


def assign(access, resources, project_id):
    """Puts resources, pairs of their type and id, into the project, or with None into none. All of them or nothing."""
    project = get(project_id, access, "project_id") if project_id else None
    for kind, model in RESOURCE_MODELS.items():
        ids = {resource_id for word, resource_id in resources if word == kind}
        rows = session.scalars(select(model).where(model.id.in_(ids), access.visible_rows(model))).all()
        if len(rows) < len(ids):
            raise Invalid(f"The {kind} was not found.", resource_id=f"No such {kind}.")
        for row in rows:
            row.project_id = project and project.id
    session.flush()


def select_other_resources(project, access):
    """Everything that is not in the project yet, newest first, as rows of a word for its kind, its id, its name and its
    project: of the kinds that whoever asks may see."""
    kinds = (("instance", Instance, Instance.display_name), ("volume", Volume, Volume.name))
    others = [
        select(literal(kind).label("resource_type"), model.id, name.label("name"), model.project_id).where(
            access.visible_rows(model),
            model.project_id.is_distinct_from(project.id),
            access.has_permission(f"{model.__tablename__}.view"),
        )
        for kind, model, name in kinds
    ]
    found = union_all(*others).subquery()
    return select(*found.c).order_by(found.c.id.desc())
