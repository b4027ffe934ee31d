"""The pictures of the manual: `python -m docs.generate.pictures` makes them anew, or those that are named.

Terminals and graphs are SVG. Reports and the page of `--web` are screenshots of Debian's `chromium`, as PNG.
"""
