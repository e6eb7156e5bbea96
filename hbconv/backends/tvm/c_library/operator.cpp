/* A torch operator around the C function of all methods, by torch's stable ABI.

   The functions below check whatever torch hands over, so that the C function may trust it: dtype,
   shape, memory layout and number of rows. What is wrong becomes an exception, and torch's error. */

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

/* An input or answer: rows of this shape. */
struct Rows {
    const char *name;
    const char *dtype_name;
    ScalarType dtype;
    std::vector<int64_t> shape;
};

/* NAMESPACE, SCHEMA, INPUTS, ANSWERS, answer_rows() and message(). */
#include "operator_tables.h"

namespace {

/* Rows that one thread takes at least: the work of a few of them costs less than to wake it. */
constexpr int64_t LEAST_ROWS = 1024;

int64_t row_bytes(const Rows &rows, const Tensor &tensor) {
    int64_t bytes = static_cast<int64_t>(tensor.element_size());
    for (int64_t size : rows.shape) bytes *= size;
    return bytes;
}

Tensor matrix(Tensor given, const Rows &wanted) {
    int64_t width = wanted.shape[0];
    if (given.scalar_type() != wanted.dtype || given.dim() != 2 || given.size(1) != width)
        throw std::runtime_error(std::string("Input '") + wanted.name +
            "' must be a tensor of dtype " + wanted.dtype_name + " and shape (n_rows, " +
            std::to_string(width) + ").");
    return given.is_contiguous() ? given : torch::stable::contiguous(given);
}

Tensor empty(int64_t rows, const Rows &wanted, bool meta) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), wanted.shape.begin(), wanted.shape.end());
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size() - 1; i > 0; i--)
        strides[i - 1] = strides[i] * (sizes[i] > 0 ? sizes[i] : 1);
    AtenTensorHandle made = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
        static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
        torch::stable::detail::to<int32_t>(torch::stable::detail::from(wanted.dtype)),
        meta ? aoti_torch_device_type_meta() : aoti_torch_device_type_cpu(), 0, &made));
    return Tensor(made);
}

/* Take the inputs from torch's stack, which no longer owns them then. */
std::vector<Tensor> take(StableIValue *stack, uint64_t count) {
    std::vector<Tensor> given;
    for (uint64_t i = 0; i < count; i++)
        given.push_back(torch::stable::detail::to<Tensor>(stack[i]));
    for (uint64_t i = 0; i < count; i++) given[i] = matrix(given[i], INPUTS[i]);
    for (const Tensor &other : given)
        if (other.size(0) != given[0].size(0))
            throw std::runtime_error("All inputs must have the same number of rows.");
    return given;
}

void give(StableIValue *stack, const std::vector<Tensor> &answers) {
    for (size_t i = 0; i < answers.size(); i++)
        stack[i] = torch::stable::detail::from(answers[i]);
}

std::vector<Tensor> make_answers(int64_t rows, uint64_t count, bool meta) {
    std::vector<Tensor> answers;
    for (uint64_t i = 0; i < count; i++) answers.push_back(empty(rows, ANSWERS[i], meta));
    return answers;
}

/* A tensor without elements has none, and the C function refuses NULL; it touches none of them. */
char *address(const Tensor &tensor) {
    static char nothing;
    void *found = tensor.data_ptr();
    return found ? static_cast<char *>(found) : &nothing;
}

void compute(const std::vector<Tensor> &given, const std::vector<Tensor> &answers) {
    std::atomic<int32_t> status{0};
    auto slice = [&](int64_t start, int64_t end) {
        const char *from[INPUT_COUNT];
        char *to[ANSWER_COUNT];
        for (size_t i = 0; i < given.size(); i++)
            from[i] = address(given[i]) + start * row_bytes(INPUTS[i], given[i]);
        for (size_t i = 0; i < answers.size(); i++)
            to[i] = address(answers[i]) + start * row_bytes(ANSWERS[i], answers[i]);
        int32_t found = answer_rows(end - start, from, to);
        if (found) status = found;
    };
    int64_t rows = given[0].size(0);
    if (rows <= LEAST_ROWS) {
        if (rows) slice(0, rows);
    } else {
        torch::stable::parallel_for(0, rows, LEAST_ROWS, slice);
    }
    if (status) throw std::runtime_error(message(status));
}

void on_cpu(StableIValue *stack, uint64_t inputs, uint64_t outputs) {
    std::vector<Tensor> given = take(stack, inputs);
    std::vector<Tensor> answers = make_answers(given[0].size(0), outputs, false);
    compute(given, answers);
    give(stack, answers);
}

void on_meta(StableIValue *stack, uint64_t inputs, uint64_t outputs) {
    std::vector<Tensor> given = take(stack, inputs);
    give(stack, make_answers(given[0].size(0), outputs, true));
}

/* Tell torch of the operator. The namespace is of the library's content, so an operator that is
   there already comes from a copy of this file, and stays. What is registered stays till the end of
   the process, while other threads may still call it. */
bool declare() {
    TorchLibraryHandle library = nullptr, cpu = nullptr, meta = nullptr;
    return aoti_torch_library_init_fragment(NAMESPACE, __FILE__, __LINE__, &library) == TORCH_SUCCESS
        && aoti_torch_library_def(library, SCHEMA) == TORCH_SUCCESS
        && aoti_torch_library_init_impl(NAMESPACE, "CPU", __FILE__, __LINE__, &cpu) == TORCH_SUCCESS
        && torch_library_impl(cpu, OPERATOR, &on_cpu, TORCH_ABI_VERSION) == TORCH_SUCCESS
        && aoti_torch_library_init_impl(NAMESPACE, "Meta", __FILE__, __LINE__, &meta) == TORCH_SUCCESS
        && torch_library_impl(meta, OPERATOR, &on_meta, TORCH_ABI_VERSION) == TORCH_SUCCESS;
}

[[maybe_unused]] const bool declared = declare();

}  // namespace
