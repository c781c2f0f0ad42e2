"""Mass mails."""

from api import kit
from panel.schemas.base import PageQuery
from panel.schemas.mass_mails import MassMailIn, MassMailOut, MassMailPatch
from panel.services import mass_mails

admin = kit.Admin("mass_mail", __name__, description="Mass mails")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
PATH = "/mass-mail/<mass_mail_id>"


@admin.get("/mass-mail", op="list", can=READ_PERMISSION, query=PageQuery, out=kit.build_admin_page_schema(MassMailOut))
def listing():
    """List mass mails, newest first.

    `queued` of `total` is the progress.
    """
    return kit.paginate(mass_mails.listing())


@admin.post("/mass-mail", op="create", can=WRITE_PERMISSION, body=MassMailIn, out=MassMailOut)
def create(body):
    """Create a mass mail as a draft.

    Nothing is sent before it is started. Returns 422 under `subject` or `text` for an unknown placeholder.
    """
    kit.set_message("Mass mail created.")
    return mass_mails.create(**body)


@admin.get(PATH, op="get", can=READ_PERMISSION, out=MassMailOut)
def show(mass_mail_id):
    """Get a mass mail.

    Returns 404 if it does not exist.
    """
    return mass_mails.get(mass_mail_id)


@admin.patch(PATH, op="update", can=WRITE_PERMISSION, body=MassMailPatch, out=MassMailOut)
def update(body, mass_mail_id):
    """Update a draft of a mass mail.

    Only the fields you send are changed. Returns 409 `wrong_status` once it was started, 422 under `subject` or `text`
    for an unknown placeholder.
    """
    kit.set_message("Mass mail updated.")
    return mass_mails.update_mass_mail(mass_mails.get(mass_mail_id), **body)


@admin.delete(PATH, op="delete", can=WRITE_PERMISSION)
def delete(mass_mail_id):
    """Delete a mass mail.

    Returns 409 `wrong_status` while it is being sent. Mails that are in the queue are still sent.
    """
    mass_mails.delete_mass_mail(mass_mails.get(mass_mail_id))
    kit.set_message("Mass mail deleted.")


@admin.post(f"{PATH}/start", op="start", can=WRITE_PERMISSION, out=MassMailOut)
def start(mass_mail_id):
    """Start to send a mass mail.

    The recipients are those who match now: customers, also suspended ones, without team members and operators. Returns
    409 `wrong_status` if it was started before.
    """
    kit.set_message("Sending started.")
    return mass_mails.start(mass_mails.get(mass_mail_id))


@admin.post(f"{PATH}/pause", op="pause", can=WRITE_PERMISSION, out=MassMailOut)
def pause(mass_mail_id):
    """Pause a mass mail.

    Mails that are in the queue are still sent. Returns 409 `wrong_status` if it is not being sent.
    """
    kit.set_message("Sending paused.")
    return mass_mails.pause(mass_mails.get(mass_mail_id))


@admin.post(f"{PATH}/resume", op="resume", can=WRITE_PERMISSION, out=MassMailOut)
def resume(mass_mail_id):
    """Resume a paused mass mail.

    No customer gets it twice. Returns 409 `wrong_status` if it is not paused.
    """
    kit.set_message("Sending resumed.")
    return mass_mails.resume(mass_mails.get(mass_mail_id))
