"""Screens and shells in the browser.

A web process parses the request, decides, and gives the connection away (handoff.py) to the console process
(process.py, one on each machine that serves the web), which carries all of them (pump.py, line.py). A screen is a
browser and the node's VNC server (screen.py, rfb.py); a shell is a browser and the guest's SSH server (shell.py,
ssh.py). A console costs the web nothing, and a restart of the web does not touch it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy, which websockify brings, would start a thread for each core
