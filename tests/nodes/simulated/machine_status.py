"""The status of a machine of a simulated node."""


def get_status(node, machine):
    return next(seen for seen in node.machines() if seen.id == machine.id)
