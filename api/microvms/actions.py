"""Starting, stopping, pausing and resuming customers' micro VMs."""

from api import kit
from api.microvms import user
from api.microvms.customer import ACTION_RESPONSE, MANAGE_PERMISSION, VM_PATH, describe_action, get_own_microvm
from panel.schemas.microvms import MicrovmResume
from panel.services import microvms


@user.post(f"{VM_PATH}/start", op="start", can=MANAGE_PERMISSION, out=ACTION_RESPONSE)
def start(microvm_id):
    """Boot a stopped micro VM.

    The time-out starts again. 409: `already_running`, `microvm_paused` (resume it), `microvm_failed`, `task_running`.
    """
    microvm = get_own_microvm(microvm_id)
    task = microvms.start(microvm, actor=kit.get_current_actor())
    return describe_action(microvm, task, "Start requested.")


@user.post(f"{VM_PATH}/stop", op="stop", can=MANAGE_PERMISSION, out=ACTION_RESPONSE)
def stop(microvm_id):
    """Turn a running micro VM off.

    Its guest is asked first; after some seconds it is powered off. The disk stays. 409: `not_running`,
    `microvm_paused`, `microvm_failed`, `task_running`.
    """
    microvm = get_own_microvm(microvm_id)
    task = microvms.stop(microvm, actor=kit.get_current_actor())
    return describe_action(microvm, task, "Stop requested.")


@user.post(f"{VM_PATH}/restart", op="restart", can=MANAGE_PERMISSION, out=ACTION_RESPONSE)
def restart(microvm_id):
    """Turn a running micro VM off and boot it again.

    409: `not_running`, `microvm_paused`, `microvm_failed`, `task_running`.
    """
    microvm = get_own_microvm(microvm_id)
    task = microvms.restart(microvm, actor=kit.get_current_actor())
    return describe_action(microvm, task, "Restart requested.")


@user.post(f"{VM_PATH}/pause", op="pause", can=MANAGE_PERMISSION, out=ACTION_RESPONSE)
def pause(microvm_id):
    """Pause a running micro VM: its memory is stored and it is turned off.

    It does not expire while it is paused. 409: `already_paused`, `not_running`, `microvm_failed`, `task_running`.
    """
    microvm = get_own_microvm(microvm_id)
    task = microvms.pause(microvm, actor=kit.get_current_actor())
    return describe_action(microvm, task, "Pause requested.")


@user.post(f"{VM_PATH}/resume", op="resume", can=MANAGE_PERMISSION, body=MicrovmResume, out=ACTION_RESPONSE)
def resume(body, microvm_id):
    """Continue a paused micro VM from where it was.

    The time-out starts again, with `timeout_seconds` if given. 409: `not_paused`, `microvm_failed`, `task_running`.
    """
    microvm = get_own_microvm(microvm_id)
    task = microvms.resume(microvm, actor=kit.get_current_actor(), **body)
    return describe_action(microvm, task, "Resume requested.")
