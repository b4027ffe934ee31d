"""Long checks that nothing takes a device down: seeded, bounded, each one run again by its seed.

`make soak` runs all of them in full, `python -m tests.soak --help` says how to run some; the everyday tests
run each for a few seconds.
"""
