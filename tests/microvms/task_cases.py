"""Task kinds that call a node for a micro VM.

test_faults.py, test_pool_faults.py and test_boots.py have a fault at every call.
"""

POOL_KINDS = {"microvm_pool_boot", "microvm_pool_remove"}
KINDS_TESTED_HERE = {
    "microvm_create",
    "microvm_start",
    "microvm_stop",
    "microvm_restart",
    "microvm_pause",
    "microvm_resume",
    "microvm_destroy",
    "microvm_network_apply",
    "microvm_snapshot",
    "microvm_rollback",
    "microvm_snapshot_delete",
    "microvm_image_build",
    "microvm_boot_check",
    *POOL_KINDS,
}
