"""The page of `aisrv run --web`: a board to look at and to work on, in a browser on this machine."""
