// What a server in C++ does with an exported file, by libtorch alone:
//
//     program LIBRARY MODULE ROWS WIDTH FOUND [TEXTS ...]
//
// ROWS holds float64 numbers, and each TEXTS a line for each row. Answer k is written to FOUNDk as
// float64. A call that raises prints its message and ends with 3.

#include <dlfcn.h>
#include <torch/script.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

static torch::Tensor read_rows(const std::string& path, int64_t width) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    int64_t rows = bytes.size() / (sizeof(double) * width);
    return torch::from_blob(bytes.data(), {rows, width}, torch::kFloat64).clone();
}

static c10::List<std::string> read_texts(const std::string& path) {
    std::ifstream file(path);
    c10::List<std::string> texts;
    for (std::string line; std::getline(file, line);) texts.push_back(line);
    return texts;
}

static void write(const torch::Tensor& answer, const std::string& path) {
    auto numbers = answer.to(torch::kFloat64).contiguous();
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char*>(numbers.data_ptr()), numbers.nbytes());
}

int main(int count, char** arguments) {
    if (count < 6) return 2;
    if (!dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) {
        std::cerr << dlerror() << std::endl;
        return 2;
    }
    std::string found = arguments[5];
    try {
        auto module = torch::jit::load(arguments[2]);
        std::vector<torch::jit::IValue> given{read_rows(arguments[3], std::atoll(arguments[4]))};
        for (int each = 6; each < count; each++) given.emplace_back(read_texts(arguments[each]));
        torch::NoGradGuard no_gradient;
        auto answer = module.forward(given);
        if (answer.isTensor()) {
            write(answer.toTensor(), found + "0");
            return 0;
        }
        const auto& answers = answer.toTupleRef().elements();
        for (size_t k = 0; k < answers.size(); k++)
            write(answers[k].toTensor(), found + std::to_string(k));
    } catch (const std::exception& error) {
        std::cerr << error.what() << std::endl;
        return 3;
    }
    return 0;
}
