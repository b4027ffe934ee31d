"""Hostile graphs by the number: mutants of texts, manifests and words, and what they come to.

    python -m benchmarks.hostile_graphs                  100,000 mutants
    python -m benchmarks.hostile_graphs --cases 5000 --seed 1

A mutant that raises anything else than an error with a place, or that takes longer than a second, is printed
with its number and ends the run with exit code 1.
"""

import argparse
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Final

from tests.support.models.hostile_graphs import computer, try_manifest, try_text, try_words

CASES: Final = 100_000
PROGRESS: Final = 5000
LONGEST: Final = 1.0
"""Seconds of CPU that a mutant may take."""


def main() -> None:
    """Try the mutants of the command line's numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    platform = computer()
    outcomes: Counter[tuple[str, str]] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.seed, arguments.seed + arguments.cases):
            kind = "words" if number % 4 < 2 else "text" if number % 4 == 2 else "manifest"
            start = time.process_time()
            try:
                if kind == "manifest":
                    outcome = try_manifest(number, Path(folder))
                else:
                    outcome = (try_words if kind == "words" else try_text)(number, platform)
            except Exception:
                traceback.print_exc()
                print(f"{kind} {number} raises")
                sys.exit(1)
            taken = time.process_time() - start
            slowest = max(slowest, taken)
            if taken > LONGEST:
                print(f"{kind} {number} takes {taken:.1f} s")
                sys.exit(1)
            outcomes[kind, outcome] += 1
            if not sum(outcomes.values()) % PROGRESS:
                print(f"{sum(outcomes.values())} tried", flush=True)
    for (kind, outcome), count in sorted(outcomes.items()):
        print(f"{kind:<10} {outcome:<15} {count:>8}")
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"slowest {1000 * slowest:.0f} ms, {resident} MiB at most")


if __name__ == "__main__":
    main()
