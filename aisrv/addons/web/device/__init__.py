"""What the page of `--web` shows of a running device, and does to it."""
