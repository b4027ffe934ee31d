"""Relocatable images with some words or bits changed: a seeded generator, each made again by its number."""

import struct
from random import Random

from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, RAM_BASE
from aisrv.model.relocatable.container import Image
from tests.support.models.hostile_models import Case
from tests.support.models.relocatable import DIGITS


def image_case(number: int, seed: int = 0) -> Case:
    """Make one case: half of the changes are in header, addresses and initial data, half in the code."""
    chance = Random(f"{seed}:image:{number}")
    image = changed_image(chance)
    if chance.random() < 0.1:
        del image[chance.randrange(len(image)) :]
    return Case(number, "image", bytes(image))


def changed_image(chance: Random) -> bytearray:
    """The digits' image with one to eight changes."""
    image = bytearray(DIGITS.read_bytes())
    sizes = Image.from_bytes(image).sizes
    regions = ((0, 100), (sizes.ro, sizes.file - sizes.weights), (100, sizes.ro))
    start, end = chance.choices(regions, (1, 1, 2))[0]
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(start, end)
        if chance.random() < 0.5:
            image[at] ^= 1 << chance.randrange(8)
        else:
            words = (0, 0xFFFFFFFF, chance.getrandbits(32), RAM_BASE, FLASH_BASE, 0x20000065, 0x80000000)
            struct.pack_into("<I", image, at // 4 * 4, chance.choice(words))
    return image
