// Runs CUDA kernels on the CPU, a block at a time. Each thread is a fibre, which gives way at a
// barrier until all of its block, or of its warp, have arrived.
#pragma once
#include <math.h>
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <utility>
#include <vector>

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
struct Dim { unsigned x, y; };
static Dim threadIdx, blockIdx, blockDim, gridDim;
#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

enum { MAX_THREADS = 1024, STACK = 32 << 10, SHARED = 256 << 10 };
unsigned char shared_memory[SHARED] __align__(16);

struct Barrier { unsigned arrived, turn, living; };
struct Emulator {
    ucontext_t fibres[MAX_THREADS], home;
    char stacks[MAX_THREADS][STACK];
    bool done[MAX_THREADS];
    Barrier warps[MAX_THREADS / 32], block;
    unsigned at;
    bool reversed;
    void (*body)(void*);
    void* given;
};
static Emulator e;

static void open_if_all(Barrier& b) {
    if (b.arrived && b.arrived == b.living) { b.arrived = 0; ++b.turn; }
}
static void wait_at(Barrier& b) {
    unsigned me = e.at, turn = b.turn;
    ++b.arrived;
    open_if_all(b);
    while (b.turn == turn) swapcontext(&e.fibres[me], &e.home);
}
static void __syncthreads() { wait_at(e.block); }
static void __syncwarp() { wait_at(e.warps[threadIdx.x / 32]); }

// Copies of sixteen bytes arrive as late as may be, when their thread waits for them. In blocks that
// start the last thread first they arrive at once, as on devices that do not copy apart.
struct Copy { void* to; const void* from; };
static std::vector<Copy> copies[MAX_THREADS];
static void wait_for_copies() {
    for (Copy copy : copies[threadIdx.x]) memcpy(copy.to, copy.from, 16);
    copies[threadIdx.x].clear();
}
static void copy_later(void* to, const void* from) {
    copies[threadIdx.x].push_back({to, from});
    if (e.reversed) wait_for_copies();
}

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i)
        result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int shift = 0; shift < 32; shift += 8) sum += (a >> shift & 255) * (b >> shift & 255);
    return sum;
}
static inline double __hiloint2double(int high, int low) {
    uint64_t bits = uint64_t(uint32_t(high)) << 32 | uint32_t(low);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
static inline float __int_as_float(int bits) { float value; memcpy(&value, &bits, 4); return value; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }

static void enter() {
    unsigned me = e.at;
    e.body(e.given);
    e.done[me] = true;
    for (Barrier* b : {&e.warps[me / 32], &e.block}) { --b->living; open_if_all(*b); }
    for (;;) swapcontext(&e.fibres[me], &e.home);
}

// Poisons the shared memory, and starts the threads in either order, which shows missing barriers.
static void run_block(unsigned threads, bool reversed) {
    memset(shared_memory, 0xAB, SHARED);
    e.reversed = reversed;
    e.block = {0, 0, threads};
    for (unsigned w = 0; w < (threads + 31) / 32; ++w)
        e.warps[w] = {0, 0, threads - w * 32 < 32 ? threads - w * 32 : 32};
    for (unsigned t = 0; t < threads; ++t) {
        e.done[t] = false;
        getcontext(&e.fibres[t]);
        e.fibres[t].uc_stack.ss_sp = e.stacks[t];
        e.fibres[t].uc_stack.ss_size = STACK;
        e.fibres[t].uc_link = nullptr;
        makecontext(&e.fibres[t], enter, 0);
    }
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < threads; ++i) {
            unsigned t = reversed ? threads - 1 - i : i;
            if (e.done[t]) continue;
            any = true;
            e.at = threadIdx.x = t;
            swapcontext(&e.home, &e.fibres[t]);
        }
    }
}

struct Call { void* kernel; void** arguments; };
template <class... A, size_t... I>
static void unpack(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(A*)arguments[I]...);
}
template <class... A> static void call(void (*kernel)(A...), void** arguments) {
    unpack(kernel, arguments, std::index_sequence_for<A...>());
}
// Returns whether all blocks kept to their shared memory.
template <auto KERNEL>
static bool run_grid(void** arguments, unsigned x, unsigned y, unsigned threads, unsigned shared,
                     bool reversed) {
    bool kept = true;
    e.body = [](void* given) { call(KERNEL, (void**)given); };
    e.given = arguments;
    gridDim = {x, y};
    blockDim = {threads, 1};
    for (blockIdx.y = 0; blockIdx.y < y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < x; ++blockIdx.x) {
            run_block(threads, reversed);
            for (unsigned i = shared; i < SHARED; ++i) kept &= shared_memory[i] == 0xAB;
        }
    return kept;
}
