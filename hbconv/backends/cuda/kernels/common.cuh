// What all kernels use. Macros of a kernel's constants come from its compilation.
//
// Codes: a byte for each row and column, the number of edges that a value lies right of. They lie
// in groups of 32 rows, column after column: 32 bytes of a group and column stand together.
typedef unsigned word;

enum { GROUP = 32, EDGES = 256 };

__device__ __forceinline__ word majority(word a, word b, word c) {  // one LOP3
    return (a & b) | (a & c) | (b & c);
}

__device__ __forceinline__ word chosen(word a, word b, word by) {  // one LOP3
    return (a & by) | (b & ~by);
}

// Bits of bytes: bit i of byte j of word q becomes bit q of byte j of word i. An involution.
__device__ __forceinline__ void swap_bits(word (&v)[8], int step, word mask) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i & step) continue;
        word low = v[i], high = v[i | step];
        v[i] = (low & mask) | ((high << step) & ~mask);
        v[i | step] = ((low >> step) & mask) | (high & ~mask);
    }
}

__device__ __forceinline__ void transpose8(word (&v)[8]) {
    swap_bits(v, 4, 0x0F0F0F0Fu);
    swap_bits(v, 2, 0x33333333u);
    swap_bits(v, 1, 0x55555555u);
}

// A value from its words. Words of doubles lie in two tables: reads of 8 bytes would conflict.
template <class T>
__device__ __forceinline__ T value_of(const word* low, const word* high, word at4);

template <>
__device__ __forceinline__ int value_of<int>(const word* low, const word*, word at4) {
    return int(*(const word*)((const unsigned char*)low + at4));
}

template <>
__device__ __forceinline__ float value_of<float>(const word* low, const word*, word at4) {
    return __int_as_float(value_of<int>(low, 0, at4));
}

template <>
__device__ __forceinline__ double value_of<double>(const word* low, const word* high, word at4) {
    return __hiloint2double(value_of<int>(high, 0, at4), value_of<int>(low, 0, at4));
}

// Sixteen bytes for shared memory, which have arrived when wait_for_copies returns. Tests have
// their own.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ void copy_later(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
    word at = word(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
    *(uint4*)to = *(const uint4*)from;
#endif
}

__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif

// Sums that a compiler never fuses.
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
