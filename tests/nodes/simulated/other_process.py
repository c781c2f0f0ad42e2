"""A program that has the node open in another process."""

OTHER_PROCESS_SCRIPT = """
import sys
from pathlib import Path
from worker.nodes.base import AgentUnavailable, Disk, Machine, NodeSpec
from worker.nodes.simulated import SimulatedNode

node = SimulatedNode(NodeSpec("node", "node", "simulated", "simulated://"), Path(sys.argv[1]))
"""
