#pragma once
// Comparing tensors and checking gradients.
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace longbow {

// |got - want| <= absolute + relative |want|, element by element.
struct Tolerance {
  double absolute = 0, relative = 0;
};
// What one pass through a layer of moderate size may lose in a type.
Tolerance tolerance(at::ScalarType type);
inline constexpr Tolerance kExact = {};

// Success, or the worst element: its index, both values, and their ratio. NaN is close to nothing.
[[nodiscard]] testing::AssertionResult near_tensor(const at::Tensor& got, const at::Tensor& want,
                                                   Tolerance tolerance);
[[nodiscard]] testing::AssertionResult near_tensor_format(
    const char* got_text, const char* want_text, const char* tolerance_text, const at::Tensor& got,
    const at::Tensor& want, Tolerance tolerance);
#define EXPECT_NEAR_TENSOR(got, want, tolerance) \
  EXPECT_PRED_FORMAT3(::longbow::near_tensor_format, got, want, tolerance)

// Standard normal numbers, float64, the same for the same seed.
at::Tensor random_normal(at::IntArrayRef shape, uint64_t seed);

struct Leaf {
  std::string name;
  at::Tensor tensor;  // float64, requires its gradient
};

// Autograd against central differences of a random weighing of f(), along random directions of
// every leaf.
[[nodiscard]] testing::AssertionResult gradcheck(const std::function<at::Tensor()>& f,
                                                 const std::vector<Leaf>& leaves,
                                                 double tolerance = 1e-6);

// The message of the c10::Error or std::exception that the body throws, or "" when it throws none.
std::string error_of(const std::function<void()>& body);

}  // namespace longbow
