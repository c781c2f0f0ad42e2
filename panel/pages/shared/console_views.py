"""Views of shells that both areas share."""

from flask import jsonify, request, url_for

from panel.services import consoles
from panel.services.state_machine import REASON_MESSAGES
from panel.web.htmx import render
from panel.workflows import ssh_console


def list_console_errors(instance, permission_reason, by_operator=False):
    """Return why screen and shell cannot be opened: for each a reason or None."""
    vnc_error, shell_error = consoles.vnc_error(instance, by_operator), consoles.shell_error(instance)
    return {
        "screen": permission_reason or REASON_MESSAGES.get(vnc_error),
        "shell": permission_reason or (shell_error and shell_error.message),
    }


def shell_page(instance, endpoint_blueprint, back):
    """Render the page with the terminal. Its script requests a session, and another one when that has ended."""
    return render(
        "console/ssh_shell.html",
        name=instance.display_name,
        new_session_url=url_for(f"{endpoint_blueprint}.open_shell", instance_id=instance.id),
        host_key=url_for(f"{endpoint_blueprint}.host_key", instance_id=instance.id),
        back=back,
    )


def open_shell(instance, session_owner):
    """Open an SSH session as JSON. Waits until the session's key is in the guest."""
    row, token, _ = ssh_console.open_ssh_session(instance, session_owner)
    return jsonify(socket=f"/ssh/{token}", session_id=row.id)


def accept_host_key(instance):
    """Accept the host key whose fingerprint the page showed."""
    consoles.accept_host_key(instance, request.form.get("shown", ""))
    return jsonify(consoles.describe_host_keys(instance))
