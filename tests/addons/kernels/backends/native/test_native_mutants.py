"""Kernels that are wrong in one place: the tests of the native kernels notice each.

A mutant is compiled into a library of its own, and the kernels' tests run on it in a process of their own.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import pytest

from aisrv.addons.kernels.backends.native.library import COMPILED, FOLDER, SOURCES, Variant
from tests.support.amounts import is_in_full, some
from tests.support.models.native import library
from tests.support.paths import ROOT
from tests.support.programs import missing


class Mutant(NamedTuple):
    """A text of a source that occurs once, what stands there instead, and the tests that have to see it."""

    source: str
    text: str
    instead: str
    tests: str
    """An expression of pytest's option -k."""

    @property
    def variant(self) -> Variant | None:
        """The variant whose tests these are; None for those of several."""
        named = _NAMED.search(self.tests)
        return Variant(named[1]) if named else None


_NAMED: Final = re.compile(rf"(?<!not )\b({'|'.join(each.value for each in Variant)})\b")

INT8: Final = "not int16 and not float32 and not networks and not threads and not network"
INT16: Final = "int16 and not network"
FLOAT32: Final = "float32 and not threads"
BOUNDS: Final = f"{FLOAT32} and (zeros_sign or no_number or infinities)"
TANH: Final = f"{FLOAT32} and tanh"
POWERS: Final = f"{FLOAT32} and exponentials"

AVX2: Final = "lanes/avx2.h"
AVX512: Final = "avx512.h"
AVX512_INT16: Final = "lanes/avx512_int16.h"
NEON: Final = "lanes/neon.h"
FLOATS: Final = "lanes/float32.h"
FUNCTIONS: Final = "float32_functions.h"

ALL: Final = (
    Mutant("float32.h", "step->taps[tap]", "step->taps[0]", f"{FLOAT32} and depthwise"),
    Mutant("float32.h", "tap++, weights += LANES", "tap++", f"{FLOAT32} and depthwise"),
    Mutant(
        "float32.h", "step->pixels[first_pixel + p] + block", "step->pixels[first_pixel] + block", FLOAT32
    ),
    Mutant("float32.h", "NAME(load)(step->bias + block * LANES + r * WIDTH)", "NAME(repeat)(0)", FLOAT32),
    Mutant("float32.h", "pixel + DEPTHWISE_PIXELS <= end", "pixel < end", f"{FLOAT32} and depthwise"),
    Mutant("float32.h", "lowest = -FLT_MAX", "lowest = 0", f"{FLOAT32} and pool"),
    Mutant("float32.h", "larger(left, 0)", "left", f"{FLOAT32} and pool"),
    Mutant(
        "float32.h",
        "(float)(rows * columns)",
        "(float)(step->filter_h * step->filter_w)",
        f"{FLOAT32} and avg_pool",
    ),
    Mutant(
        "float32.h",
        "NAME(greater)(values.val[r], results[b].val[r])",
        "NAME(greater)(results[b].val[r], values.val[r])",
        f"{FLOAT32} and pool",
    ),
    Mutant(
        "float32.h",
        "results[b].val[r] + values.val[r]",
        "results[b].val[r] - values.val[r]",
        f"{FLOAT32} and mean",
    ),
    Mutant(
        "float32.h", "row += step->width * step->channels", "row += step->channels", f"{FLOAT32} and pool"
    ),
    Mutant("float32.h", "pixel += step->channels", "pixel += LANES", f"{FLOAT32} and mean"),
    Mutant("float32.h", "(pixel + b * LANES, count)", "(pixel, count)", f"{FLOAT32} and pool"),
    Mutant("float32.h", "NAME(put)(output + b * LANES", "NAME(put)(output", f"{FLOAT32} and pool"),
    Mutant(FUNCTIONS, "x < -9.0f", "x < -8.0f", f"{FLOAT32} and logistic"),
    Mutant(FUNCTIONS, "0x1.09e79ep+4f", "0x1.0ap+4f", f"{FLOAT32} and logistic"),
    Mutant(FUNCTIONS, "one / (one + power)", "power / (one + power)", f"{FLOAT32} and logistic"),
    Mutant(FUNCTIONS, "(is_low, x, -x)", "(is_low, -x, x)", f"{FLOAT32} and logistic"),
    Mutant(
        FUNCTIONS,
        "function_block)(step, i, end - i,",
        "function_block)(step, i, 0,",
        f"{FLOAT32} and logistic",
    ),
    Mutant(FUNCTIONS, "function == SIGMOID ?", "function != SIGMOID ?", f"{FLOAT32} and logistic"),
    Mutant(FUNCTIONS, "(is_large, twice, -twice)", "(is_large, -twice, twice)", TANH),
    Mutant(FUNCTIONS, "(is_large, one - quotient, quotient)", "(is_large, quotient, quotient)", TANH),
    Mutant(FUNCTIONS, "(is_large, one * 2, -power)", "(is_large, one * 2, power)", TANH),
    Mutant(FUNCTIONS, "(one * 10, size)", "(one * 4, size)", TANH),
    Mutant(FUNCTIONS, "(found & ~sign) | ((NAME(mask))x & sign)", "found & ~sign", TANH),
    Mutant(FUNCTIONS, "lost = (upper - y) - lower", "lost = y - y", TANH),
    Mutant(FUNCTIONS, "q2 = 0x1.a01a02p-10f", "q2 = 0x1.a01a02p-9f", TANH),
    Mutant(FUNCTIONS, "(x < 0, one * -0.5f, one * 0.5f)", "(x < 0, one * 0.5f, one * 0.5f)", TANH),
    Mutant(FUNCTIONS, "one - inverse)", "one)", TANH),
    Mutant(FUNCTIONS, "is_small = k < -1", "is_small = k < -2", TANH),
    Mutant(FUNCTIONS, "(is_small, z - 1, z)", "(is_small, z, z)", TANH),
    Mutant(FUNCTIONS, "+ (k << 23)", "+ k", TANH),
    Mutant(
        "float32.h", "step->output + i, stop - i, result", "step->output + i, 1, result", f"{FLOAT32} and sub"
    ),
    Mutant(FUNCTIONS, "beta, step->powers, classes - i)", "beta, step->powers, 0)", f"{FLOAT32} and softmax"),
    Mutant(
        FUNCTIONS,
        "quotients_block)(to + i, sum, classes - i)",
        "quotients_block)(to + i, sum, 0)",
        f"{FLOAT32} and softmax",
    ),
    Mutant("float32.h", "? one - two", "? two - one", f"{FLOAT32} and sub"),
    Mutant("float32_copies.h", "smaller(row + k, end - 1)", "row", f"{FLOAT32} and mean"),
    Mutant("float32_copies.h", "sums[k] += rows[k][i]", "sums[k] = rows[k][i]", f"{FLOAT32} and mean"),
    Mutant("float32_copies.h", "/ (float)step->count", "/ (float)step->rows", f"{FLOAT32} and mean"),
    Mutant(
        "float32.h",
        "step->first_count - a, step->second",
        "step->first_count, step->second",
        "float32 and threads",
    ),
    Mutant("float32.h", ": one * two", ": one * one", f"{FLOAT32} and mul"),
    Mutant("float32.h", "? one + two", "? one - two", f"{FLOAT32} and add"),
    Mutant(
        FLOATS,
        "return sum + product;",
        "for (int i = 0; i < WIDTH; i++) sum[i] = __builtin_fmaf(value[i], weight[i], sum[i]); return sum;",
        f"{FLOAT32} and rounded and not plain",
    ),
    Mutant(FLOATS, "(~which & (NAME(mask))b)", "(which & (NAME(mask))b)", FLOAT32),
    Mutant(FLOATS, "NAME(load)(rescaling + LANES)", "NAME(load)(rescaling)", FLOAT32),
    Mutant(
        FLOATS,
        "NAME(rescale_plain)(NAME(words) sum, const struct NAME(lanes) *lanes) { return sum + lanes->bias; }",
        "NAME(rescale_plain)(NAME(words) sum, const struct NAME(lanes) *lanes) { (void)lanes; return sum; }",
        FLOAT32,
    ),
    Mutant(FLOATS, "value - (NAME(words)){0}", "value - (NAME(words)){1}", FLOAT32),
    Mutant(FLOATS, "all.val[r] = words[r]", "all.val[r] = words[0]", f"{FLOAT32} and plain"),
    Mutant(FLOATS, "NAME(greater)(least, all.val[r])", "all.val[r]", FLOAT32),
    Mutant(
        FLOATS,
        "copy_part(output, (const float *)all, count)",
        "copy_part(output, (const float *)all, count - 1)",
        FLOAT32,
    ),
    Mutant(FUNCTIONS, "c6af84b912394p-5", "c6af84b912394p-4", POWERS),
    Mutant(FUNCTIONS, "0x1.ebfce50fac4f3p-3", "0x1.ebfce50fac4f3p-2", POWERS),
    Mutant(FUNCTIONS, "(n + 1023 * 32)", "(n + 1022 * 32)", POWERS),
    Mutant(FUNCTIONS, "powers[n[i] & 31]", "powers[n[i] & 15]", POWERS),
    Mutant(FUNCTIONS, "halves[2] = {lower, upper}", "halves[2] = {upper, lower}", POWERS),
    Mutant(FUNCTIONS, "x > -104.0f", "x > -103.0f", POWERS),
    Mutant(FUNCTIONS, "(all.val[r] - most) * beta", "all.val[r] * beta", f"{FLOAT32} and softmax"),
    Mutant(FUNCTIONS, " | ((NAME(mask))x & ~is_number)", "", f"{FLOAT32} and softmax"),
    Mutant(FUNCTIONS, "input[i] > most ? input[i] : most", "most", f"{FLOAT32} and softmax"),
    Mutant(FUNCTIONS, "sums[k] += powers[k][i]", "sums[k] = powers[k][i]", f"{FLOAT32} and softmax"),
    Mutant(FUNCTIONS, "smaller(k, rows - 1)", "0", f"{FLOAT32} and softmax"),
    Mutant(
        FUNCTIONS,
        "lanes[lane] > most ? lanes[lane]",
        "lanes[lane] < most ? lanes[lane]",
        f"{FLOAT32} and softmax",
    ),
    Mutant("float32_copies.h", "source[i / repeats]", "source[i % width]", f"{FLOAT32} and depthwise"),
    Mutant("int16.h", "totals[i] + wide->bias[channel + i]", "totals[i]", INT16),
    Mutant("int16.h", "source[i / repeats]", "source[i % width]", f"{INT16} and depthwise"),
    Mutant("int16.h", "(((int64_t)1 << factor->right) >> 1)) >> factor", "0) >> factor", INT16),
    Mutant("int16.h", "wide->factors + channel + i", "wide->factors + channel", INT16),
    Mutant("int16.h", "wide->rounds_once ?", "!wide->rounds_once ?", INT16),
    Mutant(
        "int16.h",
        "for (int lane = 0; lane < LANES; lane++)",
        "for (int lane = 1; lane < LANES; lane++)",
        INT16,
    ),
    Mutant("int16.h", "tap++, weights += LANES", "tap++", f"{INT16} and depthwise"),
    Mutant("int16.h", "rescaled(first + second,", "rescaled(first - second,", INT16),
    Mutant("int16.h", "if (++b == step->second_count)", "if (++b == step->first_count)", f"{INT16} and mul"),
    Mutant("int16.h", "(value & 127) + 64)", "(value & 127))", f"{INT16} and softmax"),
    Mutant("int16.h", "+ (1 << 13)) >> 14)", ") >> 14)", f"{INT16} and softmax"),
    Mutant("int16.h", "((int64_t)1 << (right - 1))) >> right", "0) >> right", f"{INT16} and softmax"),
    Mutant("kernels.c", "- (value < 0)) >>", ") >>", INT16),
    Mutant("kernels.c", "smaller(pixel, end - pixels)", "pixel", "tiles_of_all_sizes or (int16 and conv2d)"),
    Mutant(
        "kernels.c",
        "for (int i = 0; i < 3; i++) x +=",
        "for (int i = 0; i < 1; i++) x +=",
        f"{INT8} and softmax",
    ),
    Mutant("kernels.c", "row < 0 || row >= step->height", "row < 0 || row > step->height", "borders"),
    Mutant("lanes/plain.h", "sum < 0 ? -(taps / 2) : taps / 2", "taps / 2", f"{INT16} and avg_pool"),
    Mutant("lanes/plain.h", "most = INT16_MIN", "most = 0", f"{INT16} and max_pool"),
)
"""Of every processor."""

LANES: Final = (
    Mutant("elements.h", "NAME(narrow)(sums[p]), low", "NAME(narrow)(sums[p]), 0", f"{INT16} and depthwise"),
    Mutant("convolution.h", "totals[i] += words[i]", "totals[i] = words[i]", INT16),
    Mutant("convolution.h", "segment + 2 * *piece, pixels", "segment + 2, pixels", INT16),
    Mutant("convolution.h", "weights += 64 * blocks * NAME(PARTS)", "weights += 64 * NAME(PARTS)", INT16),
    Mutant("elements.h", "NAME(rescale)(b[r], &second)", "NAME(rescale)(b[r], &first)", f"{INT16} and add"),
    Mutant("elements.h", "step->taps + NAME(TAPS) * group", "step->taps", f"{INT16} and depthwise"),
    Mutant(
        "elements.h",
        "smaller(left + step->filter_w, step->width)",
        "left + step->filter_w",
        f"{INT16} and pool",
    ),
)
"""Of what is written once for the lanes of every target."""

X86: Final = (
    Mutant(
        FLOATS,
        "_mm512_max_ps((__m512)a, (__m512)b)",
        "_mm512_max_ps((__m512)b, (__m512)a)",
        f"{BOUNDS} and avx512vnni",
    ),
    Mutant(
        FLOATS,
        "_mm256_max_ps((__m256)a, (__m256)b)",
        "_mm256_max_ps((__m256)b, (__m256)a)",
        f"{BOUNDS} and avx2",
    ),
    Mutant(
        FLOATS, "_mm_max_ps((__m128)a, (__m128)b)", "_mm_max_ps((__m128)b, (__m128)a)", f"{BOUNDS} and plain"
    ),
    Mutant(
        FLOATS,
        "_mm512_min_ps((__m512)a, (__m512)b)",
        "_mm512_min_ps((__m512)b, (__m512)a)",
        f"{BOUNDS} and avx512vnni",
    ),
    Mutant(
        FLOATS,
        "_mm256_min_ps((__m256)a, (__m256)b)",
        "_mm256_min_ps((__m256)b, (__m256)a)",
        f"{BOUNDS} and avx2",
    ),
    Mutant(
        FLOATS, "_mm_min_ps((__m128)a, (__m128)b)", "_mm_min_ps((__m128)b, (__m128)a)", f"{BOUNDS} and plain"
    ),
    Mutant(
        FLOATS,
        "_mm256_blendv_ps((__m256)b, (__m256)a",
        "_mm256_blendv_ps((__m256)a, (__m256)b",
        f"{TANH} and avx2",
    ),
    Mutant(
        FUNCTIONS, "_mm512_cvtps_pd((__m256)x)", "_mm512_cvtps_pd((__m256)-x)", f"{POWERS} and avx512vnni"
    ),
    Mutant(FUNCTIONS, "(__m256)upper, 1)", "(__m256)upper, 0)", f"{POWERS} and avx512vnni"),
    Mutant(FUNCTIONS, "_mm512_set1_epi64(16)", "_mm512_set1_epi64(8)", f"{POWERS} and avx512vnni"),
    Mutant(
        FUNCTIONS,
        "_mm512_loadu_pd(powers + 24)",
        "_mm512_loadu_pd(powers + 16)",
        f"{POWERS} and avx512vnni",
    ),
    Mutant(FUNCTIONS, "_mm256_cvtps_pd((__m128)x)", "_mm256_cvtps_pd((__m128)-x)", f"{POWERS} and avx2"),
    Mutant(FUNCTIONS, "(__m128)upper, 1)", "(__m128)upper, 0)", f"{POWERS} and avx2"),
    Mutant("convolution.h", "NAME(narrow)(y), step->low", "NAME(narrow)(y), 0", INT16),
    Mutant(
        AVX2,
        "(int32_t)0x80808080",
        "(int32_t)0x80808081",
        f"{INT8} and avxvnni",
    ),
    Mutant(
        AVX2,
        "_mm256_xor_si256(_mm256_set1_epi32(four), sign)",
        "_mm256_set1_epi32(four)",
        f"{INT8} and avxvnni",
    ),
    Mutant(
        AVX2,
        "dpbusd_avx_epi32(sum, value, weight)",
        "dpbusd_avx_epi32(sum, weight, value)",
        f"{INT8} and avxvnni",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi32(two)",
        "_mm256_set1_epi32(two & 0xFFFF)",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "dpwssd_avx_epi32(sum, value, weight)",
        "dpwssd_avx_epi32(sum, value, value)",
        f"{INT16} and avxvnni",
    ),
    Mutant(
        AVX2,
        "_mm256_add_epi32(sum, _mm256_madd_epi16(value, weight))",
        "_mm256_sub_epi32(sum, _mm256_madd_epi16(value, weight))",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_cmpgt_epi32(lanes.right, _mm256_setzero_si256())",
        "_mm256_setzero_si256()",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_srli_epi64(lanes.multiplier, 32)",
        "lanes.multiplier",
        f"{INT8} and avx2",
    ),
    Mutant(
        AVX2,
        "return _mm256_permute4x64_epi64(_mm256_packs_epi32(words[0], words[1]), 0xD8)",
        "return _mm256_packs_epi32(words[0], words[1])",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(words[0], words[1]), 0xD8)",
        "halves = _mm256_packs_epi32(words[0], words[1])",
        f"{INT8} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi16((int16_t)low)",
        "_mm256_setzero_si256()",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi16((int16_t)high)",
        "_mm256_set1_epi16(INT16_MAX)",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "memcpy(output, some, (size_t)count * sizeof *output)",
        "memcpy(output, some, (size_t)count)",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "memcpy(output, some, count)",
        "memcpy(output, some, 1)",
        f"{INT8} and avx2",
    ),
    Mutant(
        AVX2,
        "memcpy(some, input, (size_t)count * sizeof *input)",
        "memcpy(some, input, (size_t)count)",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "memcpy(some, input, count)",
        "memcpy(some, input, 1)",
        f"{INT8} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_extracti128_si256(halves, 1));\n}\n\nINLINE __m256i NAME(least)",
        "_mm256_extracti128_si256(halves, 0));\n}\n\nINLINE __m256i NAME(least)",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm_srli_si128(bytes, 8)",
        "bytes",
        f"{INT8} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi16(INT16_MIN)",
        "_mm256_setzero_si256()",
        f"{INT16} and max_pool and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_max_epi16(a, b)",
        "_mm256_min_epi16(a, b)",
        f"{INT16} and max_pool and avx2",
    ),
    Mutant(
        AVX2,
        "{ return _mm_set1_epi8(-128); }",
        "{ return _mm_setzero_si128(); }",
        f"{INT8} and max_pool and avx2",
    ),
    Mutant(
        AVX2,
        "_mm_max_epi8(a, b)",
        "_mm_min_epi8(a, b)",
        f"{INT8} and max_pool and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_unpackhi_epi16(a, b), second",
        "_mm256_unpackhi_epi16(b, a), second",
        f"{INT16} and depthwise and avx2",
    ),
    Mutant(
        AVX2,
        "lower, upper, 0x31",
        "lower, upper, 0x20",
        f"{INT16} and depthwise and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi32(taps / 2)",
        "_mm256_setzero_si256()",
        f"{INT16} and avg_pool and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_ps(step->factor1), offset",
        "_mm256_set1_ps(step->factor2), offset",
        f"{INT8} and add and avx2",
    ),
    Mutant(
        AVX2,
        "_mm_srli_si128(two, 4)",
        "two",
        "lstm or svdf",
    ),
    Mutant(
        AVX512_INT16,
        "_mm512_set1_epi32(two)",
        "_mm512_set1_epi32(two & 0xFFFF)",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512_INT16,
        "dpwssd_epi32(sum, value, weight)",
        "dpwssd_epi32(sum, value, value)",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512_INT16,
        "_mm512_cvtsepi32_epi16",
        "_mm512_cvtepi32_epi16",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512_INT16,
        "_mm256_set1_epi16((int16_t)low)",
        "_mm256_setzero_si256()",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512_INT16,
        "_mm256_set1_epi16((int16_t)high)",
        "_mm256_set1_epi16(INT16_MAX)",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512_INT16,
        "(1 << count) - 1",
        "(1 << count) - 2",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_test_epi32_mask(lanes.right, lanes.right)",
        "0",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "__mmask16 which = 0x5555",
        "__mmask16 which = 0x5554",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_sllv_epi32(sum, lanes->left)",
        "_mm512_slli_epi32(sum, 1)",
        f"{INT16} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_mask_mov_epi32(one, 0xAAAA, half)",
        "half",
        f"{INT8} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_srai_epi32(sum, 31)",
        "_mm512_setzero_si512()",
        f"{INT8} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_packs_epi32(c, d)",
        "_mm512_packs_epi32(d, c)",
        f"{INT8} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm_max_epi8(_mm512_cvtsepi32_epi8(words), low)",
        "_mm512_cvtsepi32_epi8(words)",
        f"{INT8} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "(__mmask16)((1 << lanes) - 1)",
        "(__mmask16)((1 << lanes) - 2)",
        f"{INT8} and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_inserti32x4(rows, d, 3)",
        "_mm512_inserti32x4(rows, c, 3)",
        f"{INT8} and depthwise and avx512vnni",
    ),
    Mutant(
        AVX512,
        "column >= (uint64_t)width",
        "column > (uint64_t)width",
        f"{INT8} and depthwise and avx512vnni",
    ),
    Mutant(
        AVX512,
        "_mm512_mask_sub_epi32(_mm512_add_epi32(sum, half), below, sum, half)",
        "_mm512_add_epi32(sum, half)",
        f"{INT8} and avg_pool and avx512vnni",
    ),
    Mutant(
        AVX2,
        "_mm256_sllv_epi32(sum, lanes->left)",
        "_mm256_add_epi32(sum, sum)",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi64x((int64_t)1 << 31), a =",
        "_mm256_setzero_si256(), a =",
        f"{INT8} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_set1_epi64x((int64_t)1 << 31);",
        "_mm256_setzero_si256();",
        f"{INT16} and avx2",
    ),
    Mutant(
        AVX2,
        "_mm256_srai_epi32(y, 31), lanes->half",
        "_mm256_setzero_si256(), lanes->half",
        f"{INT8} and avx2",
    ),
)

ARM: Final = (
    Mutant(FLOATS, "= a > b;", "= a >= b;", f"{FLOAT32} and zeros_sign"),
    Mutant(FLOATS, "= a < b;", "= a > b;", FLOAT32),
    Mutant(
        NEON,
        "2 * (part) + 1)",
        "2 * (part))",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "vmlal_laneq_s16(sum, vget_low_s16(weight), value, 2 * (part))",
        "sum",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "vqmovn_high_s32(vqmovn_s32(words[2]), words[3])}}",
        "vqmovn_high_s32(vqmovn_s32(words[3]), words[2])}}",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "vdupq_n_s16((int16_t)low)",
        "vdupq_n_s16(0)",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "vdupq_n_s16((int16_t)high)",
        "vdupq_n_s16(INT16_MAX)",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "count * (int64_t)sizeof *output",
        "count",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "output += 8, count -= 8, halves.val[0] = halves.val[1]",
        "output += 8, count -= 8",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "place += 8, bytes = vextq_s8(bytes, bytes, 8)",
        "place += 8",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "place += 4, bytes = vextq_s8(bytes, bytes, 4)",
        "bytes = vextq_s8(bytes, bytes, 4)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "memcpy(place, &two, 2)",
        "memcpy(place, &two, 1)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "if (count & 1)",
        "if (count & 16)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "{ return vld1q_s32(words); }",
        "{ return vld1q_dup_s32(words); }",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "{ return vld1q_s8(weights); }",
        "{ return vreinterpretq_s8_s16(vld1q_dup_s16((const int16_t *)weights)); }",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "return vld1q_s16((const int16_t *)weights); }",
        "return vld1q_dup_s16((const int16_t *)weights); }",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "return vld1q_s16(input);",
        "return vld1q_dup_s16(input);",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "return vld1q_s8(input);\n}\nINLINE int32x4_t NAME(dot)",
        "return vld1q_dup_s8(input);\n}\nINLINE int32x4_t NAME(dot)",
        f"{INT8} and neondot",
    ),
    Mutant(
        NEON,
        "vdupq_lane_s16(pairs, 1)",
        "vdupq_lane_s16(pairs, 0)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vdupq_n_s8((int8_t)low)",
        "vdupq_n_s8(-128)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vdupq_n_s8((int8_t)high)",
        "vdupq_n_s8(127)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "memcpy(some, input, count)",
        "memcpy(some, input, 1)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "words[1] = vmovl_high_s16(lower)",
        "words[1] = vmovl_high_s16(upper)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "return vdupq_n_s8(-128);",
        "return vdupq_n_s8(0);",
        f"{INT8} and max_pool and neon",
    ),
    Mutant(
        NEON,
        "return vmaxq_s8(a, b);",
        "return vminq_s8(a, b);",
        f"{INT8} and max_pool and neon",
    ),
    Mutant(
        NEON,
        "return vdupq_n_s32(0);",
        "return vdupq_n_s32(1);",
        f"{INT8} and avg_pool and neon",
    ),
    Mutant(
        NEON,
        "{ return vaddq_s32(a, b); }",
        "{ return vsubq_s32(a, b); }",
        f"{INT8} and avg_pool and neon",
    ),
    Mutant(
        NEON,
        "lanes.right = vnegq_s32(vld1q_s32(rescaling + 3 * LANES))",
        "lanes.right = vnegq_s32(vld1q_dup_s32(rescaling + 3 * LANES))",
        f"{INT8} and neon",
    ),
    Mutant(
        "convolution.h",
        "NAME(put)(output, narrowed, low, high, count)",
        "NAME(put)(output, narrowed, 0, high, count)",
        INT16,
    ),
    Mutant("convolution.h", "int i = b * NAME(REGISTERS) + r", "int i = r", f"{INT8} and conv"),
    Mutant(
        NEON,
        "memcpy(some, input, (size_t)count * sizeof *input)",
        "memcpy(some, input, (size_t)count)",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "words[2 * i + 1] = vmovl_high_s16",
        "words[2 * i + 1] = vmovl_high_s16(halves.val[i]), words[2 * i] = vmovl_high_s16",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "{{vdupq_n_s16(INT16_MIN), vdupq_n_s16(INT16_MIN)}}",
        "{{vdupq_n_s16(INT16_MIN), vdupq_n_s16(0)}}",
        f"{INT16} and max_pool and neon",
    ),
    Mutant(
        NEON,
        "vmaxq_s16(a.val[1], b.val[1])",
        "vmaxq_s16(a.val[1], b.val[0])",
        f"{INT16} and max_pool and neon",
    ),
    Mutant(
        NEON,
        "vmlal_high_s16(sums[2 * i + 1], values, weight)",
        "sums[2 * i + 1]",
        f"{INT16} and depthwise and neon",
    ),
    Mutant(
        NEON,
        "vandq_s32(vshrq_n_s32(y, 31), lanes->rounded)",
        "vdupq_n_s32(0)",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "vsubq_s32(vld1q_s32(rescaling + 2 * LANES), vdupq_n_s32(1))",
        "vdupq_n_s32(0)",
        f"{INT16} and neon",
    ),
    Mutant(
        NEON,
        "sums[i] = vld1q_s32(start + 4 * i)",
        "sums[i] = vdupq_n_s32(0)",
        f"{INT16} and depthwise and neon",
    ),
    Mutant(
        NEON,
        "vdupq_n_s32(taps / 2)",
        "vdupq_n_s32(0)",
        f"{INT16} and avg_pool and neon",
    ),
    Mutant(
        NEON,
        "vdotq_laneq_s32(sum, weight, value, 3)",
        "sum",
        f"{INT8} and neondot",
    ),
    Mutant(
        NEON,
        "if (!extreme)",
        "if (1)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vqmovn_high_s16(vqmovn_s16(lower), upper)",
        "vqmovn_high_s16(vqmovn_s16(upper), lower)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vaddw_high_s16(sums[3], upper)",
        "sums[3]",
        f"{INT8} and depthwise and neon",
    ),
    Mutant(
        NEON,
        "vdupq_n_f32(step->factor1)",
        "vdupq_n_f32(step->factor2)",
        f"{INT8} and add and neon",
    ),
    Mutant(
        NEON,
        "vaddq_s32(first, second)",
        "first",
        "lstm or svdf",
    ),
    Mutant(
        NEON,
        "vmull_high_s8(weight, value.second)",
        "vmull_high_s8(weight, value.first)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vmlal_high_s8(products, weight, value.second)",
        "vmlal_high_s8(products, weight, value.first)",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vsraq_n_s32(y, y, 31)",
        "y",
        f"{INT8} and neon",
    ),
    Mutant(
        NEON,
        "vmlal_high_s8(upper, second, other)",
        "upper",
        f"{INT8} and depthwise and neon",
    ),
    Mutant(
        NEON,
        "    if (extreme) {",
        "    if (0) {",
        f"{INT8} and minus_128 and neon",
    ),
)

_OF_THIS_PROCESSOR = ARM if platform.machine() in ("aarch64", "arm64") else X86
MUTANTS = (*_OF_THIS_PROCESSOR, *LANES, *ALL)
LONG = pytest.mark.long("the kernels are compiled again")
FILES = [
    f"tests/addons/kernels/backends/native/test_{name}.py"
    for name in ("backend_int16", "backend_float32", "backend", "recurrent")
]


def run_tests(folder: Path, tests: str) -> "subprocess.CompletedProcess[str]":
    """Compile the sources of a folder, and run tests on that library until the first fails."""
    compiler = os.environ.get("CC", "gcc")
    if shutil.which(compiler) is None:
        missing(f"{compiler} is not installed: apt install gcc")
    source = "-o", folder / "_kernels.so", folder / COMPILED
    options = "-shared", "-fPIC", "-O1", "-pthread", f"-DAISRV_SOURCE_CRC={crc(folder)}u"
    subprocess.run([compiler, *options, *source], check=True)
    # A mutant is seen in a share of the cases, too.
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    settings |= {"AISRV_TEST_MEMORY": "heap", "AISRV_TEST_LIBRARY": str(folder)}
    # Where CI is set, pytest says where arrays differ, element by element, which takes minutes.
    plugins = "--assert=plain", "-p", "tests.support.exact_memory", "-p", "no:cacheprovider"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--long", "-q", "-x", *plugins, "-k", tests, *FILES],
        env=settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def crc(folder: Path) -> int:
    """The checksum of a folder's sources, as the package computes it of its own."""
    return crc32(b"".join((folder / name).read_bytes() for name in SOURCES))


def need(variant: Variant | None, folder: Path) -> None:
    """Have a folder's library run a variant on this processor; where that is not possible, skip the test."""
    variants = library().variants
    if variant is Variant.AVX_VNNI and variant not in variants and Variant.AVX512_VNNI in variants:
        take_longer_encoding(folder)
    elif variant is not None and variant not in variants:
        pytest.skip(f"this processor has no {variant.value}")


def take_longer_encoding(folder: Path) -> None:
    """Encode the instructions of AVX-VNNI as AVX-512 VNNI does: the same on registers of 256 bits."""
    for name, short, long in (
        ("lanes/avx2.h", "_avx_epi32(", "_epi32("),
        (COMPILED, '"avxvnni,', '"avx512vnni,avx512vl,'),
        ("processor.h", "vnni = avx2 && a71 & AVX_VNNI_BIT", "vnni = vnni512"),
    ):
        text = (folder / name).read_text()
        assert short in text
        (folder / name).write_text(text.replace(short, long))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the sources."""
    library()
    for name in SOURCES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(FOLDER / name, tmp_path / name)
    return tmp_path


@LONG
@pytest.mark.in_full
@pytest.mark.parametrize("mutant", some(MUTANTS, every_day=1), ids=lambda each: f"{each.source}: {each.text}")
def test_a_mutant_is_noticed(mutant: Mutant, folder: Path) -> None:
    source = folder / mutant.source
    text = source.read_text()
    source.write_text(text.replace(mutant.text, mutant.instead))
    need(mutant.variant, folder)
    done = run_tests(folder, mutant.tests)
    failed = done.returncode == pytest.ExitCode.TESTS_FAILED or done.returncode < 0
    assert failed, f"exit {done.returncode}: {done.stdout[-2000:]}"


@pytest.mark.parametrize("mutant", [*X86, *ARM, *LANES, *ALL], ids=lambda each: f"{each.source}: {each.text}")
def test_a_mutants_text_occurs_once(mutant: Mutant) -> None:
    assert (FOLDER / mutant.source).read_text().count(mutant.text) == 1


@LONG
@pytest.mark.in_full
def test_without_a_mutant_all_pass(folder: Path) -> None:
    tests = INT16 if is_in_full() else f"{INT16} and pool"
    assert run_tests(folder, tests).returncode == 0


@LONG
def test_avxvnni_passes_in_either_encoding(folder: Path) -> None:
    need(Variant.AVX_VNNI, folder)
    done = run_tests(folder, "avxvnni and (tiles_of_all_sizes or (int16 and conv2d))")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "skipped" not in done.stdout


def test_mutants_name_the_variant_that_sees_them() -> None:
    of = {each: Mutant("", "", "", each).variant for each in (INT8, "float32 and plain", "lstm or svdf")}
    assert of == {INT8: None, "float32 and plain": Variant.PLAIN, "lstm or svdf": None}
    assert Mutant("", "", "", f"{INT16} and avxvnni").variant is Variant.AVX_VNNI
    assert Mutant("", "", "", f"{FLOAT32} and not plain").variant is None
