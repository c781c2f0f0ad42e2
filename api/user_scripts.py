"""User scripts, which run at the first boot of a machine."""

from api import kit
from panel.schemas.user_scripts import AdminUserScriptOut, UserScriptIn, UserScriptOut, UserScriptPatch
from panel.services import user_scripts

user = kit.User("user_script", __name__, description="User scripts")
admin = kit.Admin("user_script", __name__, description="User scripts")
SCRIPT_RESPONSE = kit.build_wrapped_schema("script", UserScriptOut)


@user.get(
    "/user-scripts", op="list", can="user_scripts.view", query=kit.PageQuery, out=kit.build_page_schema(UserScriptOut)
)
def listing():
    """List user scripts, with what they say."""
    return kit.paginate(user_scripts.listing(kit.get_current_access()))


@user.post("/user-scripts", op="create", can="user_scripts.manage", body=UserScriptIn, out=SCRIPT_RESPONSE)
def create(body):
    """Store a user script.

    Name it in a deploy or reinstall to have it run as root when the machine boots for the first time, after the
    commands of `cloudcfg`. It is encrypted at rest.
    """
    return {"message": "The script is stored.", "script": user_scripts.create(kit.get_current_access(), **body)}


@user.get("/user-script/<script_id>", op="get", can="user_scripts.view", out=SCRIPT_RESPONSE)
def show(script_id):
    """Show a user script."""
    return {"message": None, "script": user_scripts.get(script_id, kit.get_current_access())}


@user.patch(
    "/user-script/<script_id>", op="update", can="user_scripts.manage", body=UserScriptPatch, out=SCRIPT_RESPONSE
)
def update(body, script_id):
    """Change a user script.

    What is not sent stays; an empty `description` or `shebang` is cleared. Machines that ran it are not touched.
    """
    script = user_scripts.update(user_scripts.get(script_id, kit.get_current_access()), **body)
    return {"message": "The script is changed.", "script": script}


@user.delete("/user-script/<script_id>", op="delete", can="user_scripts.delete", out=kit.build_result_schema())
def delete(script_id):
    """Remove a user script.

    A deploy that waits for its worker and names it fails.
    """
    user_scripts.delete(user_scripts.get(script_id, kit.get_current_access()))
    return {"message": "The script is removed."}


@admin.get(
    "/user-scripts",
    op="list",
    can="admin:accounts:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminUserScriptOut),
)
def admin_listing():
    """List everybody's user scripts, newest first.

    What they say is their owners' alone. Name, owner and times only.
    """
    return kit.paginate(user_scripts.listing())


@admin.delete("/user-script/<script_id>", op="delete", can="admin:accounts:write")
def admin_delete(script_id):
    """Remove a user's script.

    Instances that ran it keep what it did. A deploy that names it afterwards answers 422.
    """
    user_scripts.delete(user_scripts.get(script_id))
    kit.set_message("The script is removed.")
