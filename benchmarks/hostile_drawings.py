"""Hostile models, told and drawn: none leaves a traceback, boxes that touch, or one without a title.

    python -m benchmarks.hostile_drawings                    1,020 cases
    python -m benchmarks.hostile_drawings --cases 5000 --seed 1

The first case that does is an error with its number.
"""

import argparse
import time
from collections import Counter

from aisrv.addons.predict.model_view import view_model
from aisrv.model import ModelFileError
from tests.support.models.hostile_models import case
from tests.support.oracles.drawn_models import check_drawing, check_texts


def main() -> None:
    """Tell and draw the cases that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1020)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    slowest = (0.0, 0)
    for number in range(options.cases):
        started = time.perf_counter()
        outcomes[_outcome(number, options.seed)] += 1
        slowest = max(slowest, (time.perf_counter() - started, number))
    print(", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items())))
    print(f"the slowest took {slowest[0]:.2f} s: case {slowest[1]}")


def _outcome(number: int, seed: int) -> str:
    try:
        view = view_model(case(number, seed).model, f"case {number}")
    except ModelFileError:
        return "refused"
    try:
        check_texts(view)
        check_drawing(view)
    except Exception as error:
        raise AssertionError(f"case {number} of seed {seed}") from error
    return "drawn"


if __name__ == "__main__":
    main()
