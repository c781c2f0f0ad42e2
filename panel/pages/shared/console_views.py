"""What the customers' and the operators' pages of a shell have in common."""

from flask import jsonify, request, url_for

from panel.services import consoles
from panel.web.htmx import render
from panel.workflows import ssh_console


def doors(instance, not_permitted, by_operator=False):
    """Why the screen and the shell cannot be opened now, each a sentence or None."""
    no_screen, no_shell = consoles.why_no_screen(instance, by_operator), consoles.shell_refusal(instance)
    return {
        "screen": not_permitted or (no_screen and consoles.NO_SCREEN[no_screen]),
        "shell": not_permitted or (no_shell and no_shell.message),
    }


def shell(instance, place, back):
    """The page with the terminal. It asks for a session of its own, and for another one when that is over."""
    return render(
        "console/ssh_shell.html",
        name=instance.display_name,
        opening=url_for(f"{place}.open_shell", instance_id=instance.id),
        host_key=url_for(f"{place}.host_key", instance_id=instance.id),
        back=back,
    )


def opened(instance, who):
    """Answers once the guest has the session's key."""
    row, token, _ = ssh_console.opened(instance, who)
    return jsonify(socket=f"/ssh/{token}", session_id=row.id)


def trusted(instance):
    """Accepts the host key with the fingerprint that the person was shown."""
    consoles.trust(instance, request.form.get("shown", ""))
    return jsonify(consoles.host_keys(instance))
