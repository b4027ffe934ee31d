"""The error of this layer."""


class ProfileError(Exception):
    """A model, a file of configurations or a run that gives no profile; the message says what and where."""
