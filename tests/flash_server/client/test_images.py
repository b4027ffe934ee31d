"""Relocatable images read from flash: from either segment, through the window, and damaged ones refused."""

import pytest

from aisrv.model.relocatable.container import Image
from aisrv.model.relocatable.stored import stored, with_header
from flash_server.client.images import read_image
from flash_server.protocol import FlashFailure
from tests.support.benches.flash_node import VERSION, Parts, flash_node, image, refused
from tests.support.models.relocatable import DIGITS_M33, digits_image, read

IMAGE = digits_image()
STORED = stored(IMAGE)
LIMIT = 1 << 20


def data(parts: Parts) -> bytes:
    return image([parts, Parts(b"end")], VERSION)


@pytest.mark.parametrize("parts", [Parts(None, None, STORED), Parts(None, None, None, STORED)])
async def test_from_either_segment(parts: Parts) -> None:
    async with flash_node(data(parts)) as node:
        assert await read_image(node.engines[0], LIMIT) == IMAGE


@pytest.mark.parametrize(
    ("parts", "limit", "code"),
    [
        (Parts(b"model"), LIMIT, FlashFailure.ABSENT),
        (Parts(None, None, STORED), len(IMAGE) - 1, FlashFailure.REFUSED),
        (Parts(None, None, STORED[:7]), LIMIT, FlashFailure.CORRUPT),
        (Parts(None, None, STORED[:-100]), LIMIT, FlashFailure.CORRUPT),
        (Parts(None, None, STORED[:100] + b"x" + STORED[101:]), LIMIT, FlashFailure.CORRUPT),
        (Parts(None, None, b"\xff" * 100), LIMIT, FlashFailure.CORRUPT),
    ],
)
async def test_an_image_that_is_not_used(parts: Parts, limit: int, code: FlashFailure) -> None:
    async with flash_node(data(parts)) as node:
        with refused(code):
            await read_image(node.engines[0], limit)


# Weights that are not in their image.

CODE, WEIGHTS = read(DIGITS_M33), read(DIGITS_M33.with_suffix(".weights"))
STORED_CODE, STORED_WEIGHTS = stored(CODE), with_header(WEIGHTS)
OTHER = b"other bytes of operators"


@pytest.mark.parametrize(
    "parts",
    [
        Parts(None, STORED_WEIGHTS, STORED_CODE),
        Parts(None, STORED_WEIGHTS, None, STORED_CODE),
        Parts(None, None, STORED_WEIGHTS, STORED_CODE),
        Parts(None, STORED_WEIGHTS, OTHER, STORED_CODE),
        Parts(None, b"other parameters", STORED_WEIGHTS + b"\xff" * 8, STORED_CODE),
    ],
)
async def test_weights_of_another_segment_become_part_of_the_image(parts: Parts) -> None:
    async with flash_node(data(parts)) as node:
        image = Image.from_bytes(await read_image(node.engines[0], LIMIT))
    assert bytes(image.weights) == WEIGHTS
    assert image.data[100 : len(CODE)] == CODE[100:]


async def test_an_image_behind_other_operators() -> None:
    async with flash_node(data(Parts(None, None, OTHER, STORED))) as node:
        assert await read_image(node.engines[0], LIMIT) == IMAGE


@pytest.mark.parametrize(
    ("parts", "limit", "code", "reason"),
    [
        (
            Parts(None, None, STORED_CODE),
            LIMIT,
            FlashFailure.ABSENT,
            "operators: the image's 7752 bytes of weights are not beside it: pack them as",
        ),
        (
            Parts(None, with_header(WEIGHTS[:-4]), STORED_CODE),
            LIMIT,
            FlashFailure.ABSENT,
            "are not beside it",
        ),
        (
            Parts(None, STORED_WEIGHTS[:-1] + b"x", STORED_CODE),
            LIMIT,
            FlashFailure.CORRUPT,
            "parameters: the stored image is damaged",
        ),
        (
            Parts(None, STORED_WEIGHTS, STORED_CODE),
            len(CODE) + len(WEIGHTS) - 1,
            FlashFailure.REFUSED,
            f"has {len(CODE) + len(WEIGHTS)} bytes",
        ),
    ],
)
async def test_an_image_whose_weights_are_not_there(
    parts: Parts, limit: int, code: FlashFailure, reason: str
) -> None:
    async with flash_node(data(parts)) as node:
        with refused(code, match=reason):
            await read_image(node.engines[0], limit)
