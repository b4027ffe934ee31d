"""Numbers that texts, manifests and words share: raw types, domains and physical units, by name."""

from typing import Final, NamedTuple


class RawType(NamedTuple):
    """A raw type: its code in the words, and its size. Bits 0: the data say it themselves."""

    code: int
    name: str
    bits: int


_RAW: Final = (  # five a line, from code 0
    ("DATA_ARRAY", 0), ("S1", 1), ("U1", 1), ("S2", 2), ("U2", 2),
    ("Q1", 2), ("S4", 4), ("U4", 4), ("Q3", 4), ("FP4_E2M1", 4),
    ("FP4_E3M0", 4), ("S8", 8), ("U8", 8), ("Q7", 8), ("CHAR", 8),
    ("FP8_E4M3", 8), ("FP8_E5M2", 8), ("S16", 16), ("U16", 16), ("Q15", 16),
    ("FP16", 16), ("BF16", 16), ("Q23", 24), ("Q23_32", 32), ("S32", 32),
    ("U32", 32), ("Q31", 32), ("FP32", 32), ("CQ15", 32), ("CFP16", 32),
    ("S64", 64), ("U64", 64), ("Q63", 64), ("CQ31", 64), ("FP64", 64),
    ("CFP32", 64), ("FP128", 128), ("CFP64", 128), ("FP256", 256), ("TIME16", 16),
    ("TIME16D", 16), ("TIME32", 32), ("TIME32D", 32), ("TIME64", 64), ("TIME64MS", 64),
    ("TIME64ISO", 64), ("WGS84", 64), ("HEXBINARY", 8), ("BASE64", 8), ("STRING8", 8),
    ("STRING16", 16),
)  # fmt: skip
RAW_TYPES: Final = tuple(RawType(code, name, bits) for code, (name, bits) in enumerate(_RAW))
RAW_BY_NAME: Final = {raw.name: raw for raw in RAW_TYPES}

DOMAINS: Final = (
    "general", "audio_in", "audio_out", "gpio_in", "gpio_out", "motion", "2d_in", "2d_out", "analog_in",
    "analog_out", "rtc", "user_interface_in", "user_interface_out", "platform_3", "platform_2",
    "platform_1",
)  # fmt: skip
"""Domains in the order of their codes. Other names count as "general"."""

UNITS: Final = (
    "ANY", "METER", "KGRAM", "GRAM", "SECOND", "AMPERE", "KELVIB", "CANDELA", "MOLE", "HERTZ", "RADIAN",
    "STERADIAN", "NEWTON", "PASCAL", "JOULE", "WATT", "COULOMB", "VOLT", "FARAD", "OHM", "SIEMENS",
    "WEBER", "TESLA", "HENRY", "CELSIUSDEG", "LUMEN", "LUX", "BQ", "GRAY", "SIVERT", "KATAL",
    "METERSQUARE", "CUBICMETER", "LITER", "M_PER_S", "M_PER_S2", "M3_PER_S", "L_PER_S", "W_PER_M2",
    "CD_PER_M2", "BIT", "BIT_PER_S", "LATITUDE", "LONGITUDE", "PH", "DB", "DBW", "BSPL", "COUNT", "PER",
    "PERCENT", "PERCENTRH", "PERCENTEL", "ENERGYLEVEL", "1_PER_S", "1_PER_MIN", "BEAT_PER_MIN", "BEATS",
    "SIEMPERMETER", "BYTE", "VOLTAMPERE", "VOLTAMPERESEC", "VAREACTIVE", "VAREACTIVESEC", "JOULE_PER_M",
    "KG_PER_M3", "DEGREE", "NTU", "MS", "MIN", "H", "MHZ", "KW", "KVA", "KVAR", "AH", "WH", "KWH", "VARH",
    "KVARH", "KVAH", "WH_PER_KM", "KIB", "GB", "MBIT_PER_S", "B_PER_S", "MB_PER_S", "MV", "MA", "DBM",
    "UG_PER_M3", "MM_PER_H", "M_PER_H", "PPM", "PER_100", "PER_1000", "HPA", "MM", "CM", "KM", "KM_PER_H",
    "GRAVITY", "DPS", "GAUSS", "VRMS", "MVPGAUSS",
)  # fmt: skip


def domain_code(name: str) -> int:
    """Return the code of a domain; that of "general" for an unknown name."""
    return DOMAINS.index(name) if name in DOMAINS else 0
