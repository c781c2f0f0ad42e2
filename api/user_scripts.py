"""User scripts, which run at the first boot of an instance."""

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
    """List user scripts with their content."""
    return kit.paginate(user_scripts.listing(kit.get_current_access()))


@user.post("/user-scripts", op="create", can="user_scripts.manage", body=UserScriptIn, out=SCRIPT_RESPONSE)
def create(body):
    """Create a user script.

    Pass its id to a deployment or reinstall to run it as root at first boot, after the commands of `cloudcfg`. It is
    encrypted at rest.
    """
    return {"message": "User script created.", "script": user_scripts.create(kit.get_current_access(), **body)}


@user.get("/user-script/<script_id>", op="get", can="user_scripts.view", out=SCRIPT_RESPONSE)
def show(script_id):
    """Get a user script."""
    return {"message": None, "script": user_scripts.get(script_id, kit.get_current_access())}


@user.patch(
    "/user-script/<script_id>", op="update", can="user_scripts.manage", body=UserScriptPatch, out=SCRIPT_RESPONSE
)
def update(body, script_id):
    """Update a user script.

    Only the fields you send are changed; an empty `description` or `shebang` clears it. Instances on which the script
    ran are not affected.
    """
    script = user_scripts.update(user_scripts.get(script_id, kit.get_current_access()), **body)
    return {"message": "User script updated.", "script": script}


@user.delete("/user-script/<script_id>", op="delete", can="user_scripts.delete", out=kit.build_result_schema())
def delete(script_id):
    """Delete a user script.

    A queued deployment that uses it fails.
    """
    user_scripts.delete(user_scripts.get(script_id, kit.get_current_access()))
    return {"message": "User script deleted."}


@admin.get(
    "/user-scripts",
    op="list",
    can="admin:accounts:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminUserScriptOut),
)
def admin_listing():
    """List the user scripts of all users, newest first.

    Contains name, owner and times. The content is only visible to the owner.
    """
    return kit.paginate(user_scripts.listing())


@admin.delete("/user-script/<script_id>", op="delete", can="admin:accounts:write")
def admin_delete(script_id):
    """Delete a user script of a user.

    Instances on which it ran are not affected. A deployment that uses it afterwards returns 422.
    """
    user_scripts.delete(user_scripts.get(script_id))
    kit.set_message("User script deleted.")
