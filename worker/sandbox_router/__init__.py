"""The sandbox router: a process of its own that carries requests of clients to programs in sandboxes."""
