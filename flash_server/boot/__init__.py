"""Boot images of the server itself: slots, upgrades."""
