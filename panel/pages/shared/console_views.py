"""What the customers' and the operators' pages of a shell have in common."""

from flask import jsonify, request, url_for

from panel.services import consoles
from panel.web.htmx import render
from panel.workflows import ssh_console


def console_refusals(instance, not_permitted, by_operator=False):
    """Why the screen and the shell cannot be opened now, each a sentence or None."""
    no_screen, no_shell = consoles.vnc_error(instance, by_operator), consoles.shell_error(instance)
    return {
        "screen": not_permitted or (no_screen and consoles.VNC_REASONS[no_screen]),
        "shell": not_permitted or (no_shell and no_shell.message),
    }


def shell_page(instance, endpoint_blueprint, back):
    """The page with the terminal. It asks for a session of its own, and for another one when that is over."""
    return render(
        "console/ssh_shell.html",
        name=instance.display_name,
        opening=url_for(f"{endpoint_blueprint}.open_shell", instance_id=instance.id),
        host_key=url_for(f"{endpoint_blueprint}.host_key", instance_id=instance.id),
        back=back,
    )


def open_shell(instance, session_owner):
    """Answers once the guest has the session's key."""
    row, token, _ = ssh_console.open_ssh_session(instance, session_owner)
    return jsonify(socket=f"/ssh/{token}", session_id=row.id)


def accept_host_key(instance):
    """Accepts the host key with the fingerprint that the person was shown."""
    consoles.accept_host_key(instance, request.form.get("shown", ""))
    return jsonify(consoles.describe_host_keys(instance))
