"""What a part is doing, told to observers: nothing is paid where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol


class ActivityObserver(Protocol):
    """Hears of what a part does, one thing within the other. It must not raise."""

    def began(self, name: str, size: int) -> None:
        """Note that something began, with its bytes."""

    def ended(self) -> None:
        """Note that what began last has ended."""


class Activity:
    """The observers of one part."""

    def __init__(self) -> None:
        self._observers: Final[list[ActivityObserver]] = []

    def observe(self, observer: ActivityObserver) -> None:
        """Tell an observer from now on."""
        self._observers.append(observer)

    def ignore(self, observer: ActivityObserver) -> None:
        """Tell it no more."""
        self._observers.remove(observer)

    @contextmanager
    def of(self, name: str, size: int) -> Iterator[None]:
        """Do something of that name with so many bytes within the block."""
        observers = tuple(self._observers)
        for observer in observers:
            observer.began(name, size)
        try:
            yield
        finally:
            for observer in observers:
                observer.ended()
