"""Projects of a customer and their resources."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.instances import InstanceRow
from panel.schemas.projects import (
    Assignment,
    Assignments,
    ProjectIn,
    ProjectOut,
    ProjectPatch,
    ProjectRow,
    ResourceOut,
)
from panel.services import instances, projects

user = kit.User("project", __name__, description="Projects")
VIEW_PERMISSION, MANAGE_PERMISSION = "projects.view", "projects.manage"
FIRST_PAGE = kit.RequestedPage(1, 100)
"""Maximum of instances in the answer of a project."""


def get_own_project(project_id):
    return projects.get(project_id, kit.get_current_access())


@user.get("/projects", op="list", can=VIEW_PERMISSION, query=kit.PageQuery, out=kit.build_page_schema(ProjectRow))
def listing():
    """List projects, by name."""
    return kit.paginate(projects.with_counts(projects.listing(kit.get_current_access()), kit.get_current_access()))


@user.post(
    "/projects", op="create", can=MANAGE_PERMISSION, body=ProjectIn, out=kit.build_wrapped_schema("project", ProjectOut)
)
def create(body):
    """Create a project."""
    return {"message": "Project created.", "project": projects.create(kit.get_current_access(), **body)}


@user.get(
    "/project/<project_id>",
    op="get",
    can=VIEW_PERMISSION,
    out=kit.build_result_schema(
        project=fields.Nested(ProjectOut, **describe("The project.")),
        instances=fields.Nested(
            kit.build_page_schema(InstanceRow), **describe("Its instances. Missing if the user cannot see instances.")
        ),
    ),
)
def show(project_id):
    """Get a project with its newest instances.

    `GET /api/instances?project_id=…` lists all of them.
    """
    answer = {"message": None, "project": get_own_project(project_id)}
    if kit.get_current_access().has_permission("instances.view"):
        rows = instances.select_rows(InstanceRow.columns(), kit.get_current_access(), project_id=project_id)
        answer["instances"] = kit.paginate(rows, FIRST_PAGE)
    return answer


@user.patch(
    "/project/<project_id>",
    op="update",
    can=MANAGE_PERMISSION,
    body=ProjectPatch,
    out=kit.build_wrapped_schema("project", ProjectOut),
)
def update(body, project_id):
    """Update a project."""
    return {"message": "Project updated.", "project": projects.update(get_own_project(project_id), **body)}


@user.delete("/project/<project_id>", op="delete", can="projects.delete", out=kit.build_result_schema())
def delete(project_id):
    """Delete a project.

    Its resources are kept without a project. Team members who had access only through the project lose it.
    """
    projects.delete(get_own_project(project_id))
    return {"message": "Project deleted. Its resources no longer have a project."}


@user.post(
    "/project/assign-resource",
    op="assign_resource",
    can=MANAGE_PERMISSION,
    body=Assignment,
    out=kit.build_result_schema(),
)
def assign(body):
    """Move a resource to a project, or out of its project with null."""
    projects.assign(kit.get_current_access(), [(body["resource_type"], body["resource_id"])], body["project_id"])
    return {"message": format_assigned_message(body["project_id"], 1)}


@user.post(
    "/project/bulk-assign", op="bulk_assign", can=MANAGE_PERMISSION, body=Assignments, out=kit.build_result_schema()
)
def assign_all(body):
    """Move several resources to a project, or out of their projects with null.

    Nothing is changed if one of the resources does not exist.
    """
    pairs = [(resource["resource_type"], resource["resource_id"]) for resource in body["resources"]]
    projects.assign(kit.get_current_access(), pairs, body["project_id"])
    return {"message": format_assigned_message(body["project_id"], len(pairs))}


def format_assigned_message(project_id, count):
    subject = "Resource" if count == 1 else f"{count} resources"
    return f"{subject} added to the project." if project_id else f"{subject} removed from the project."


@user.get(
    "/project/<project_id>/available-resources",
    op="available_resources",
    can=VIEW_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_page_schema(ResourceOut),
)
def available(project_id):
    """List instances and volumes that can be moved to a project, newest first.

    Contains resources that are not in the project, limited to the types that the user can see.
    """
    return kit.paginate(projects.select_other_resources(get_own_project(project_id), kit.get_current_access()))
