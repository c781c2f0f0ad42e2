"""Shared parts of the pages: layout, forms, htmx answers, paging, formatting, charts, exports."""
