// Sums of leaves that are vectors of all outputs. SUM: dtype of the sums.
extern "C" __global__ void __launch_bounds__(256)
vectors(const int* __restrict__ leaves, int n, int trees, int outputs,
        const SUM* __restrict__ values,       // (leaves, outputs)
        const SUM* __restrict__ start,        // (outputs)
        SUM* __restrict__ out) {              // (n, outputs)
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
        SUM sum = start[output];
#pragma unroll 4
        for (int tree = 0; tree < trees; ++tree) {
            long long leaf = leaves[(long long)tree * n + row];
            sum = plus(sum, values[leaf * outputs + output]);
        }
        out[(long long)row * outputs + output] = sum;
    }
}
