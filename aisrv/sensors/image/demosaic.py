"""Bayer mosaics: the samples that make a pixel's red, green and blue, and mosaics from pictures.

Bilinear demosaicing: a color that a pixel lacks is the mean of its neighbors that have it; beyond the edge
the mosaic is mirrored about its outermost pixels, which keeps the order of colors. Neighbors are those of the
whole frame, also at the end of a region.

Green has its samples at every other pixel in both directions: at a red or blue pixel it is the mean of the
four around, (up + down)/4 + (left + right)/4. That is a sum of products of one function down and one across,
as the resampler wants it.
"""

from dataclasses import dataclass
from typing import Final

from aisrv.sensors.image.resample import Bytes, Plane, Term

UNIT: Final = 4
"""All weights are quarters."""


@dataclass(frozen=True, slots=True)
class Neighbors:
    """An axis of `length` pixels of which every second is a sample, from pixel `parity` on.

    A pixel with a sample takes it `own` times, one without takes the two beside it `side` times each.
    """

    length: int
    parity: int
    own: int
    side: int

    def __call__(self, pixel: int) -> tuple[tuple[int, int], ...]:
        """Return the samples that make a pixel, with weights; none if the weight is 0."""
        if pixel % 2 == self.parity:
            return ((pixel // 2, self.own),) if self.own else ()
        if not self.side:
            return ()
        left = abs(pixel - 1)
        right = pixel + 1 if pixel + 1 < self.length else pixel - 1
        return ((left // 2, self.side), (right // 2, self.side))


def bayer_channels(width: int, height: int) -> tuple[tuple[Term, ...], ...]:
    """Red, green and blue of an RGGB frame."""

    def term(row: int, column: int, down: tuple[int, int], across: tuple[int, int]) -> Term:
        plane = Plane(row, 2, column, 2)
        return Term(plane, Neighbors(height, row, *down), Neighbors(width, column, *across))

    mean, cross, own, beside = (2, 1), (4, 1), (1, 0), (0, 1)
    green = (
        part
        for row, column in ((0, 1), (1, 0))
        for part in (term(row, column, cross, own), term(row, column, own, beside))
    )
    return ((term(0, 0, mean, mean),), tuple(green), (term(1, 1, mean, mean),))


def mosaic(picture: Bytes) -> Bytes:
    """See a picture (height, width, 3) through an RGGB color filter: (height, width)."""
    frame = picture[:, :, 1].copy()
    frame[0::2, 0::2] = picture[0::2, 0::2, 0]
    frame[1::2, 1::2] = picture[1::2, 1::2, 2]
    return frame
