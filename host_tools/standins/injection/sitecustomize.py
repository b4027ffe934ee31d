"""Connects a Python program that uses pyusb or spidev to the virtual device, without the program's knowledge.

Python imports a module of this name at its start. With this directory on PYTHONPATH and AISRV_USBIP set to
HOST:PORT, `usb.backend.libusb1.get_backend` returns the backend for that USB/IP server, both when
`usb.core.find` asks for it and when the program does. `standins.launcher.environment` sets both variables.
Where umockdev's library is in LD_PRELOAD as well, libusb reaches the device by itself: pyusb has its own
backend then, and ours where there is no libusb.

With AISRV_SPI set to an address, `import spidev` gives the stand-in for that package, which talks to the SPI
link server there, whether the package is installed or not. With umockdev's library the package itself is used
where it is installed.

The program may run in a virtual environment that has pyusb but not this project. So the few modules that are
needed are loaded from their files, under names of their own: to the program nothing else becomes importable.
Until the program imports pyusb or spidev, nothing is loaded at all. Another sitecustomize on the path runs as
well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing has it, whose import would slow every start
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_TARGET = "usb.backend.libusb1"
_VARIABLE = "AISRV_USBIP"
_SPI_TARGET = "spidev"
_SPI_VARIABLE = "AISRV_SPI"
_PRELOAD_LIBRARY = "libumockdev-preload"
_OLDEST_PYTHON = (3, 10)
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would slow every start
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120


class PatchingFinder:
    """Finds pyusb's libusb1 module where it is, and has it changed once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        spec = find_elsewhere(self, name, path, target) if name == _TARGET else None
        if spec:
            spec.loader = spec.loader and PatchingLoader(spec.loader)  # type: ignore[assignment]  # no base class
        return spec


class StandInFinder:
    """Finds the stand-in for spidev, or the package itself where the preload library serves it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if name != _SPI_TARGET or not _is_served():
            return None
        spec = find_elsewhere(self, name, path, target) if _is_preloaded() else None
        if spec is None:
            from importlib.machinery import ModuleSpec

            spec = ModuleSpec(name, StandInLoader())  # type: ignore[arg-type]  # no base class
        return spec


class StandInLoader:
    """Creates the module `spidev` from the stand-in's class."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See importlib.abc.Loader."""

    def exec_module(self, module: ModuleType) -> None:
        """See importlib.abc.Loader."""
        standin = PRIVATE_MODULES.load("host_tools.standins.spidev")
        names = ("SpiDev", "__version__", "__doc__")
        module.__dict__.update({name: standin.__dict__[name] for name in names})


def find_elsewhere(
    own: Any,  # noqa: ANN401 - one of the finders here
    name: str,
    path: Sequence[str] | None,
    target: ModuleType | None,
) -> ModuleSpec | None:
    """Return what the finders other than `own` find."""
    for finder in sys.meta_path:
        find_spec = None if finder is own else getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find_spec and find_spec(name, path, target)
        if spec:
            return spec
    return None


class PatchingLoader:
    """Loads the module as its own loader does, then replaces `get_backend`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See importlib.abc.Loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See importlib.abc.Loader."""
        # Tools such as inspect want the loader that has the module's source.
        module.__loader__ = self._loader
        if module.__spec__:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if _is_served():
            own = module.__dict__["get_backend"]
            module.__dict__["get_backend"] = preferring(own) if _is_preloaded() else get_backend


def get_backend(find_library: Any = None) -> Any:  # noqa: ANN401, ARG001 - pyusb's signature, no types
    """Return the backend for the server that AISRV_USBIP names, in place of libusb's."""
    return PRIVATE_MODULES.load("host_tools.standins.pyusb_backend").get_backend(os.environ[_VARIABLE])


def preferring(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `get_backend` for libusb's backend, which the preload library serves, or ours without it."""

    def get_backend_of_either(find_library: Any = None) -> Any:  # noqa: ANN401 - pyusb's signature, no types
        return own(find_library=find_library) or get_backend(find_library)

    return get_backend_of_either


def _is_served() -> bool:
    """Return whether this Python can load our modules, with a message where not: this file suits any."""
    served = sys.version_info >= _OLDEST_PYTHON
    if not served:
        sys.stderr.write("aisrv: the virtual device needs Python {}.{} or later\n".format(*_OLDEST_PYTHON))
    return served


def _is_preloaded() -> bool:
    return _PRELOAD_LIBRARY in os.environ.get("LD_PRELOAD", "")


class PrivateModules:
    """Modules of this project, loaded from their files; what they import from each other comes from here.

    They stay out of `sys.modules` under their public names, so that a program with another release of
    this project, or with a package of the same name, keeps its own.
    """

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}

    def load(self, name: str) -> ModuleType:
        """Return the module of this name, loaded at the first call."""
        if name not in self._modules:
            import builtins
            from importlib.util import module_from_spec, spec_from_file_location

            private_name = "aisrv_injection:" + name
            path = os.path.join(_ROOT, *name.split(".")) + ".py"  # noqa: PTH118
            spec = spec_from_file_location(private_name, path)
            if spec is None or spec.loader is None:
                raise ImportError("cannot load " + path, name=name)
            module = module_from_spec(spec)
            module.__dict__["__builtins__"] = dict(vars(builtins), __import__=self._import)
            sys.modules[private_name] = self._modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[private_name], self._modules[name]
                raise
        return self._modules[name]

    def _import(self, name: str, *details: Any) -> ModuleType:  # noqa: ANN401 - as __import__ takes them
        """Import for a private module, whose import statements call this."""
        if name.partition(".")[0] in ("aisrv", "host_tools"):
            return self.load(name)
        return __import__(name, *details)


PRIVATE_MODULES = PrivateModules()


def run_next() -> None:
    """Run the sitecustomize that this one hides, if there is one."""
    ours = sys.modules.pop(__name__)
    path = sys.path[:]
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) != _HERE]  # noqa: PTH100
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        sys.modules[__name__] = ours
        if error.name != __name__:
            raise
    finally:
        # The other one may have changed the path as well: put our entries back, in front as they were.
        sys.path[:0] = [entry for entry in path if os.path.abspath(entry) == _HERE]  # noqa: PTH100


if os.environ.get(_VARIABLE):
    sys.meta_path.insert(0, PatchingFinder())
if os.environ.get(_SPI_VARIABLE):
    sys.meta_path.insert(0, StandInFinder())
if __name__ == "sitecustomize":
    run_next()
