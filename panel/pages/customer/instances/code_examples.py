"""The API calls that do what the form for new instances does, as curl commands and as a Python program."""

import json
from textwrap import indent

from flask import current_app

from panel.web import api_examples

HIDDEN_PASSWORD = "********"
INSTANCE_PLACEHOLDER = "$INSTANCE"
"""The id of the new instance, in paths and bodies."""
NUMBER_PLACEHOLDER = "$NUMBER"


def list_code_examples(form, choices):
    """Return (language, code) of the same calls. A password is masked."""
    calls = list_calls(form, choices)
    return [("curl", format_curl(calls)), ("Python", format_python(calls, choices))]


def list_calls(form, choices):
    """Return (path, body) of each call. The first creates the instance, the last installs it."""
    family = "self-provisioning" if choices.get("pack") else "cloud-service"
    calls = [(f"/api/{family}/instances", list_create_values(form, choices))]
    if project_id := form.get_value("project_id"):
        resource = {"resource_type": "instance", "resource_id": INSTANCE_PLACEHOLDER, "project_id": project_id}
        calls.append(("/api/project/assign-resource", resource))
    if tags := form.get_value("tags"):
        calls.append((f"/api/instance/{INSTANCE_PLACEHOLDER}/tags", {"tags": tags}))
    for group_id in form.get_values("security_group_ids"):
        if group_id:
            members = {"instance_ids": [INSTANCE_PLACEHOLDER]}
            calls.append((f"/api/security-group/{group_id}/attach-instances", members))
    return [*calls, get_install_call(form, choices)]


def list_create_values(form, choices):
    values = {name: choices[name] and choices[name].id for name in ("location", "plan", "pack") if name in choices}
    body = {f"{name}_id": value for name, value in values.items() if value}
    names = form.get_value("display_name"), form.get_value("hostname")
    if choices["quantity"] > 1:
        label, hostname = names
        names = (label or choices["suggested"]) + f"-{NUMBER_PLACEHOLDER}", hostname and number_hostname(hostname)
    return body | {name: value for name, value in zip(("display_name", "hostname"), names, strict=True) if value}


def number_hostname(hostname):
    label, dot, domain = hostname.partition(".")
    return f"{label}-{NUMBER_PLACEHOLDER}{dot}{domain}"


def get_install_call(form, choices):
    path = f"/api/instance/{INSTANCE_PLACEHOLDER}"
    if choices["iso"]:
        return f"{path}/self-deploy", {"iso_id": choices["iso"].id}
    body = {"image_id": choices["image"].id} if choices["image"] else {}
    body["ssh_keys"] = choices["chosen_key_ids"]
    if script_ids := [script_id for script_id in form.get_values("user_scripts") if script_id]:
        body["user_scripts"] = script_ids
    body |= {name: form.get_value(name) for name in ("timezone", "cloudcfg") if form.get_value(name)}
    if form.get_value("password"):
        body["password"] = HIDDEN_PASSWORD
    return f"{path}/deploy", body


def get_base_url():
    return current_app.extensions["config"].public_url.rstrip("/")


def format_curl(calls):
    """Return the commands for the first instance. `$INSTANCE` is set by hand after the first one."""
    commands = []
    for path, body in calls:
        command = api_examples.format_curl("POST", f"{get_base_url()}{path}", body).replace(NUMBER_PLACEHOLDER, "1")
        commands.append(command.replace(f'"{INSTANCE_PLACEHOLDER}"', f'"\'"{INSTANCE_PLACEHOLDER}"\'"'))
    return "\n\n".join(commands)


def format_python(calls, choices):
    """Return a program for the package `requests`."""
    lines = []
    for number, (path, body) in enumerate(calls):
        address = f'f"{{BASE_URL}}{path}"'.replace(INSTANCE_PLACEHOLDER, "{instance_id}")
        lines.append(f"response = api.post({address}, json={format_literal(body)})")
        lines.append("response.raise_for_status()")
        if number == 0:
            lines.append('instance_id = response.json()["instance"]["id"]')
    steps = "\n".join(lines)
    if choices["quantity"] > 1:
        steps = f"for number in range(1, {choices['quantity'] + 1}):\n{indent(steps, '    ')}"
    head = (
        "import os\n\nimport requests\n\n"
        f"BASE_URL = {get_base_url()!r}\n"
        "api = requests.Session()\n"
        'api.headers["Authorization"] = f"Bearer {os.environ[\'TOKEN\']}"\n'
    )
    return f"{head}\n{steps}"


def format_literal(body):
    """Return the body as Python code, with the placeholders as variables. Its strings are the same in JSON."""
    text = json.dumps(body, indent=4, ensure_ascii=False).replace(f'"{INSTANCE_PLACEHOLDER}"', "instance_id")
    for value in body.values():
        if isinstance(value, str) and NUMBER_PLACEHOLDER in value:
            code = value.replace("{", "{{").replace("}", "}}").replace(NUMBER_PLACEHOLDER, "{number}")
            text = text.replace(json.dumps(value, ensure_ascii=False), f"f{json.dumps(code, ensure_ascii=False)}")
    return text
