"""Add-ons: each a feature in one folder, which the core finds by its name in `aisrv.values.addons`."""
