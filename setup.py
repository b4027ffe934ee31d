"""What pyproject.toml cannot state of the build: an optional library of C, without Python's headers.

Where it cannot be compiled, the package is installed without it, as pure Python, and the build says why.
"""

import sys
from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, CompileError

FOLDER = "aisrv/addons/kernels/backends/native"
FILES = sorted(path.as_posix() for path in Path(FOLDER).rglob("*.[ch]"))
"""The one that is compiled, and those that it includes."""

NATIVE_KERNELS = Extension(
    "aisrv.addons.kernels.backends.native._kernels",
    sources=[f"{FOLDER}/kernels.c"],
    depends=FILES,
    # By this the package sees that the library is of another state of the source than it is.
    define_macros=[("AISRV_SOURCE_CRC", f"{crc32(b''.join(Path(name).read_bytes() for name in FILES))}u")],
    extra_compile_args=["-O2", "-g0", "-fvisibility=hidden", "-pthread"],
    extra_link_args=["-pthread"],
    optional=True,
    py_limited_api=True,  # no name of a Python version in the file's name: it is loaded by ctypes
)


class Build(build_ext):
    """A build that says why there is no library; setuptools alone goes on with a warning among many lines."""

    def build_extension(self, ext: Extension) -> None:
        """Compile the library."""
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError, CompileError) as error:
            print(f"aisrv: no native kernels: {error}", file=sys.stderr)
            raise


class Wheel(bdist_wheel):
    """A wheel for every Python: of this platform where the library was built, of all platforms without it."""

    def get_tag(self) -> tuple[str, str, str]:
        """Name what the wheel runs on."""
        built = any(Path(self.bdist_dir).rglob("_kernels*.so"))
        self.root_is_pure = not built
        platform = super().get_tag()[2] if built else "any"
        return "py3", "none", platform


setup(ext_modules=[NATIVE_KERNELS], cmdclass={"bdist_wheel": Wheel, "build_ext": Build})
