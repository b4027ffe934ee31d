"""Records of 32-bit words whose bit-fields are declared once, in annotations.

    @dataclass(frozen=True, slots=True)
    class IoEntry(WordRecord, words=4):
        arc: Annotated[int, Bits(0, 10, 0)] = 0

Bits that no field declares are kept in `unused`, so that words -> record -> words changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import get_annotations
from typing import ClassVar, NamedTuple, Self

from aisrv.addons.graph.errors import FieldError

WORD = 0xFFFFFFFF


class Bits(NamedTuple):
    """Place of a field: bits `msb` down to `lsb` of a word of its record."""

    word: int
    msb: int
    lsb: int

    @property
    def most(self) -> int:
        return (1 << (self.msb - self.lsb + 1)) - 1

    @property
    def shift(self) -> int:
        """Place of the field in the words of the record taken as one number."""
        return 32 * self.word + self.lsb


@dataclass(frozen=True, slots=True, kw_only=True)
class WordRecord:
    """Base of frozen dataclasses that are read from words; see above for the declaration of fields."""

    WORDS: ClassVar[int]
    FIELDS: ClassVar[dict[str, Bits]]
    _unused: ClassVar[int]

    unused: int = 0

    def __init_subclass__(cls, *, words: int | None = None) -> None:
        """Collect the fields from the annotations. `words` is the number of words of a record."""
        if words is None:
            return  # a dataclass with slots is made anew from the attributes of the class, these included
        cls.WORDS = words
        cls.FIELDS = {
            name: bits
            for name, annotation in get_annotations(cls, eval_str=True).items()
            for bits in getattr(annotation, "__metadata__", ())
            if isinstance(bits, Bits)
        }
        declared = sum(bits.most << bits.shift for bits in cls.FIELDS.values())
        cls._unused = ((1 << (32 * words)) - 1) & ~declared

    @classmethod
    def from_words(cls, words: Sequence[int]) -> Self:
        """Read a record of exactly its number of words."""
        if len(words) != cls.WORDS:
            raise ValueError(f"{cls.__name__} has {cls.WORDS} words, not {len(words)}")
        number = sum(word << (32 * index) for index, word in enumerate(words))
        values = {name: number >> bits.shift & bits.most for name, bits in cls.FIELDS.items()}
        return cls(unused=number & cls._unused, **values)

    def words(self) -> tuple[int, ...]:
        """Return the words of the record. Raises FieldError for a value that its field cannot hold."""
        number = self.unused & self._unused
        for name, bits in self.FIELDS.items():
            value = getattr(self, name)
            if not 0 <= value <= bits.most:
                raise FieldError(f"{type(self).__name__}.{name}", value, bits.most)
            number |= value << bits.shift
        return tuple(number >> (32 * index) & WORD for index in range(self.WORDS))


def words_of_bytes(data: bytes) -> list[int]:
    """Return little-endian words, the last one filled up with zeros."""
    padded = data + bytes(-len(data) % 4)
    return [int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4)]
