"""Files of the library: allowed addresses, downloads and retries."""
