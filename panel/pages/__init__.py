"""Pages: customers' area, operators' area, and views that both share."""
