#include "longbow/kernels/cpu/exponential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/machines.h"

namespace longbow::kernels {
namespace {

template <class T>
struct Exponentials {
  std::vector<T>& x;  // whole vectors
  template <class M>
  [[gnu::always_inline]] void on() const {
    for (size_t i = 0; i < x.size(); i += kLanes<M, T>) {
      Vector<M, T> v;
      load(v, x.data() + i);
      exponentiate<M, T>(v);
      store(v, x.data() + i);
    }
  }
};

template <class M, class T>
void expect_exponentials(double roundings) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const double end = std::is_same_v<T, float> ? 87 : 708;
  std::vector<T> x = {0,
                      1,
                      -1,
                      kInfinity,
                      -kInfinity,
                      std::numeric_limits<T>::quiet_NaN(),
                      static_cast<T>(-2 * end),
                      static_cast<T>(-0.0)};
  for (double value = -end; value < end; value += end / 50021) x.push_back(static_cast<T>(value));
  while (x.size() % 64) x.push_back(0);
  auto y = x;
  M::run(Exponentials<T>{y});
  EXPECT_EQ(y[0], 1);
  EXPECT_TRUE(std::isfinite(y[3]) &&
              y[3] > std::exp(static_cast<T>(end)));  // bounded, not infinite
  EXPECT_EQ(y[4], 0);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_EQ(y[6], 0);
  EXPECT_EQ(y[7], 1);
  const double rounding = roundings * std::numeric_limits<T>::epsilon();
  for (size_t i = 8; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], want, rounding * want) << "exp(" << x[i] << ")";
  }
}

TEST(Exponential, IsRightToARoundingOnEveryMachine) {
  on_each_machine([](const char* name, auto machine) {
    SCOPED_TRACE(name);
    expect_exponentials<decltype(machine), float>(1);
    expect_exponentials<decltype(machine), double>(2);
  });
}

}  // namespace
}  // namespace longbow::kernels
