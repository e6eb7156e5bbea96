// Each row with each point: terms of their features, folded feature by feature. VALUE: their dtype.
// TERM: the function of a feature. FOLD: how terms are joined. P: the power.
//
// A block takes 64 rows and 64 points, of which a thread has four each, and reads 16 features at
// once. Columns of shared memory are 65 apart, so that writing them by features meets no conflict.
enum { SIDE = 16, EACH = 4, TILE = SIDE * EACH, STEP = 16, APART = TILE + 1 };

__device__ __forceinline__ VALUE square(VALUE x, VALUE y) { return (x - y) * (x - y); }
__device__ __forceinline__ VALUE absolute(VALUE x, VALUE y) { return fabs(x - y); }
__device__ __forceinline__ VALUE power(VALUE x, VALUE y) { return pow(VALUE(fabs(x - y)), VALUE(P)); }
__device__ __forceinline__ VALUE different(VALUE x, VALUE y) { return x != y; }
__device__ __forceinline__ VALUE canberra(VALUE x, VALUE y) {
    return x == 0 && y == 0 ? VALUE(0) : VALUE(fabs(x - y)) / (VALUE(fabs(x)) + VALUE(fabs(y)));
}
__device__ __forceinline__ VALUE chi_square(VALUE x, VALUE y) {
    return x + y == 0 ? VALUE(0) : (x - y) * (x - y) / (x + y);
}
__device__ __forceinline__ VALUE present(VALUE x, VALUE y) {
    return (x - y) != (x - y) ? VALUE(0) : (x - y) * (x - y);
}

__device__ __forceinline__ VALUE sum(VALUE a, VALUE b) { return a + b; }
__device__ __forceinline__ VALUE largest(VALUE a, VALUE b) { return a != a || a > b ? a : b; }

// Copy features of rows, feature by feature. What lies behind the last row is never written out.
__device__ __forceinline__ void
copy_tile(const VALUE* __restrict__ from, int first, int rows, int features, int begin, VALUE* to) {
    for (int i = threadIdx.x; i < TILE * STEP; i += SIDE * SIDE) {
        int feature = begin + i % STEP, row = min(first + i / STEP, rows - 1);
        if (feature < features)
            to[i % STEP * APART + i / STEP] = from[(long long)row * features + feature];
    }
}

extern "C" __global__ void __launch_bounds__(SIDE * SIDE, 2)
pairwise(const VALUE* __restrict__ x, int n, int features, int count,
         const VALUE* __restrict__ points,    // (count, features)
         VALUE* __restrict__ out) {           // (n, count)
    extern __shared__ __align__(16) unsigned char shared_memory[];
    VALUE* rows = (VALUE*)shared_memory;      // (STEP, APART)
    VALUE* others = rows + STEP * APART;      // (STEP, APART)
    int across = threadIdx.x % SIDE, down = threadIdx.x / SIDE, top = blockIdx.x * TILE;
    for (int left = blockIdx.y * TILE; left < count; left += gridDim.y * TILE) {
        VALUE totals[EACH][EACH] = {};
        for (int begin = 0; begin < features; begin += STEP) {
            __syncthreads();
            copy_tile(x, top, n, features, begin, rows);
            copy_tile(points, left, count, features, begin, others);
            __syncthreads();
            int here = min(int(STEP), features - begin);
            for (int step = 0; step < here; ++step)
#pragma unroll
                for (int i = 0; i < EACH; ++i)
#pragma unroll
                    for (int j = 0; j < EACH; ++j)
                        totals[i][j] = FOLD(totals[i][j], TERM(rows[step * APART + down + i * SIDE],
                                                               others[step * APART + across + j * SIDE]));
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i)
#pragma unroll
            for (int j = 0; j < EACH; ++j) {
                int row = top + down + i * SIDE, point = left + across + j * SIDE;
                if (row < n && point < count) out[(long long)row * count + point] = totals[i][j];
            }
    }
}
