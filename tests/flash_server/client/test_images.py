"""Relocatable images read from flash: from either segment, through the window, and damaged ones refused."""

import pytest

from aisrv.relocatable.stored import stored
from flash_server.client.images import read_image
from flash_server.protocol import FlashFailure, FlashReadError
from tests.support.flash_node import VERSION, Parts, flash_node, image
from tests.support.relocatable import digits_image

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
        with pytest.raises(FlashReadError) as caught:
            await read_image(node.engines[0], limit)
        assert caught.value.code is code
