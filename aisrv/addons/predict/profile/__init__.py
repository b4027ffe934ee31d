"""Profiles of a model on the device: time by operator and class, memory, and variants of the device.

Pure functions from the bytes of a model and a modeled device to frozen values, and the reports made of them.
`host` alone runs a model; its times say nothing about the device and are kept apart.
"""

from aisrv.addons.predict.profile.errors import ProfileError
from aisrv.addons.predict.profile.host import HostTime, measure_host
from aisrv.addons.predict.profile.model_profile import (
    CLOCKS_MHZ,
    Configuration,
    MemoryProfile,
    ModelProfile,
    Placement,
    Prediction,
    profile_model,
)
from aisrv.addons.predict.profile.suite import Suite, SuiteModel, SuiteSettings, load_suite, read_suite

__all__ = [
    "CLOCKS_MHZ",
    "Configuration",
    "HostTime",
    "MemoryProfile",
    "ModelProfile",
    "Placement",
    "Prediction",
    "ProfileError",
    "Suite",
    "SuiteModel",
    "SuiteSettings",
    "load_suite",
    "measure_host",
    "profile_model",
    "read_suite",
]
