"""The errors of kernels. Source: "The INT8 kernel engine", section KernelBackend."""


class KernelError(Exception):
    """The base of every error of a kernel; the message says what was wrong, and in which parameter."""


class InvalidShape(KernelError):
    """Shapes, lengths, strides or channel counts disagree."""


class UnsupportedActivation(KernelError):
    """A fused activation that has no kernel."""


class AlignmentError(KernelError):
    """A buffer that is not aligned to 16 bytes, while the backend was told to assume that all are."""


class InternalError(KernelError):
    """All else: a backend that cannot do what its interface promises."""
