"""Pages: the customer area, the operator area, and shared views."""
