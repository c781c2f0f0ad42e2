"""VNC screens and SSH shells in the browser.

A web process parses the request, checks it and passes the connection (`fd_passing`) to the console server (`server`,
one on each machine that serves the web), which serves all consoles (`event_loop`, `session`). A screen connects a
browser with the node's VNC server (`vnc`, `rfb`); a shell connects it with the guest's SSH server (`ssh_shell`, `ssh`).
An open console takes no resources of the web processes, and a restart of the web does not close it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy (of websockify) would start a thread a core
