"""VNC consoles from a browser's WebSocket through the event loop to a VNC server, on real sockets."""
