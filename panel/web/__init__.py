"""What pages share: layout, forms, htmx answers, paging, formatting, charts, exports."""
