/* What this processor can run: asked of itself and of the operating system, since the compiler's own check answers 0 for
   all in some builds. Bits: 1 AVX2, 2 AVX-512 VNNI, 4 AVX-VNNI, 8 NEON, 16 NEON with dot products. */

#include <stdint.h>

#if defined(__x86_64__)

#include <cpuid.h>

static int32_t processor_variants(void) {
    enum { SAVED_BY_SYSTEM = 1 << 27, FMA = 1 << 12, AVX2_BIT = 1 << 5, AVX512_VNNI_BIT = 1 << 11, AVX_VNNI_BIT = 1 << 4 };
    enum { YMM = 0x06, ZMM = 0xE6 }; /* registers whose content the system saves */
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    uint32_t a, b, c, d, b7, c7, last_part, a71 = 0, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & SAVED_BY_SYSTEM)) return 0;
    const int fma = (c & FMA) != 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & YMM) != YMM || !__get_cpuid_count(7, 0, &last_part, &b7, &c7, &d)) return 0;
    if (last_part >= 1) __cpuid_count(7, 1, a71, b, c, d);
    const int avx2 = fma && b7 & AVX2_BIT;
    const int vnni512 = avx2 && (low & ZMM) == ZMM && (b7 & avx512) == avx512 && c7 & AVX512_VNNI_BIT;
    const int vnni = avx2 && a71 & AVX_VNNI_BIT;
    return avx2 | vnni512 << 1 | vnni << 2;
}

#elif defined(__aarch64__) && defined(__linux__)

#include <sys/auxv.h>

static int32_t processor_variants(void) {
    enum { DOT_PRODUCTS = 1 << 20 };
    return 8 | (getauxval(AT_HWCAP) & DOT_PRODUCTS ? 16 : 0);
}

#elif defined(__aarch64__) && defined(__APPLE__)

static int32_t processor_variants(void) { return 8 | 16; } /* all of Apple's have both */

#elif defined(__aarch64__) && defined(_WIN32)

#include <windows.h>

static int32_t processor_variants(void) {
    enum { DOT_PRODUCTS = 43 }; /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
    return 8 | (IsProcessorFeaturePresent(DOT_PRODUCTS) ? 16 : 0);
}

#else

static int32_t processor_variants(void) { return 0; }

#endif
