"""The errors of the flash: of a part, its storage, and the layout of an image."""

from aisrv.values.printable import PrintableError


class FlashError(PrintableError):
    """The base of every error of the flash layer; the message says what was wrong, where, and what to do."""


class LayoutError(FlashError):
    """An image does not follow its layout, or one cannot be built as asked."""


class NoImageError(LayoutError):
    """There is no image at all: what is there begins as erased flash does, or with zeros."""


class StorageError(FlashError):
    """The bytes of a chip cannot be opened, read or written: the file's path is in the message."""


class PartError(FlashError):
    """A flash part's values contradict each other, or an address does not exist on it."""


class ProtectedError(FlashError):
    """A verb that the chip would ignore: it is not write-enabled, or the address is protected."""


class ProgrammerError(FlashError):
    """A programmer cannot be reached, answers nonsense, or wrote other bytes than it was given."""
