"""Run the long checks, all of them or those that are named.

    python -m tests.soak                          all, in full
    python -m tests.soak files usbip --seed 7     two of them, with other dice
    python -m tests.soak --share 0.01             all, a hundredth of each

Prints a line of figures for each check. Ends with 1 where one found a fault, which is printed with the seed
and the number that make it again.
"""

import argparse
import datetime as dt
import os
import sys
import time
import traceback

from tests.soak.check import Check
from tests.soak.checks import CHECKS


def main() -> None:
    """Run checks as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"checks, by default all: {', '.join(CHECKS)}")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SOAK_SEED", "0")))
    parser.add_argument(
        "--share", type=float, default=float(os.environ.get("SOAK_SHARE", "1")), help="of the full size"
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and how long it takes")
    options = parser.parse_args()
    unknown = set(options.names) - set(CHECKS)
    if unknown:
        parser.error(f"no check {', '.join(sorted(unknown))}: there are {', '.join(CHECKS)}")
    checks = [CHECKS[name] for name in options.names or CHECKS]
    if options.list:
        for check in checks:
            print(
                f"{check.name:<12} {check.full:>9,} {check.unit:<22} {check.minutes:>4g} min  {check.does}",
                flush=True,
            )
        return
    minutes = sum(check.minutes for check in checks) * options.share
    print(f"{len(checks)} checks, seed {options.seed}, about {minutes:.0f} minutes", flush=True)
    sys.exit(1 if sum(not run(check, options.seed, options.share) for check in checks) else 0)


def run(check: Check, seed: int, share: float) -> bool:
    """Run a check and print what it came to; False where it found a fault."""
    reason = check.needs()
    if reason:
        print(f"{check.name}: left out: {reason}", flush=True)
        return True
    size = max(1, round(check.full * share))
    started = time.monotonic()
    try:
        figures = check.run(size, seed)
    except Exception:
        traceback.print_exc()
        print(f"{check.name}: FAULT, seed {seed}, {size:,} {check.unit}", flush=True)
        return False
    seconds = time.monotonic() - started
    today = dt.datetime.now(dt.UTC).date()
    counts = ", ".join(f"{name} {value}" for name, value in figures.items())
    print(
        f"{check.name}: {size:,} {check.unit}, seed {seed}, {today}, {seconds:.0f} s: {counts}",
        flush=True,
    )
    return True


if __name__ == "__main__":
    main()
