#include "longbow/nn/contract/site.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Site site(const std::string& init, uint64_t seed = 1) {
  return {.path = "layer", .init = init, .seed = seed};
}

TEST(Shape, FillsInWhatIsLeftOut) {
  const Shape plain = {.width = 12, .heads = 3, .max_length = 7};
  EXPECT_EQ(plain.head(), 4);
  EXPECT_EQ(plain.inner(), 12);
  EXPECT_EQ(plain.source_width(), 12);
  EXPECT_EQ(plain.source_length(), 7);
  const Shape own = {
      .width = 12, .heads = 3, .head_width = 5, .memory_width = 9, .memory_length = 4};
  EXPECT_EQ(own.inner(), 15);
  EXPECT_EQ(own.source_width(), 9);
  EXPECT_EQ(own.source_length(), 4);
}

TEST(Site, TheSourceIsTheMemoryOnlyWhereOneIsRead) {
  Site site = {.shape = {.width = 6, .max_length = 8, .memory_width = 5, .memory_length = 9}};
  EXPECT_EQ(site.source_width(), 6);
  EXPECT_EQ(site.source_length(), 8);
  site.cross = true;
  EXPECT_EQ(site.source_width(), 5);
  EXPECT_EQ(site.source_length(), 9);
}

TEST(Site, PathsAreJoinedWithDots) {
  EXPECT_EQ(Site{}.at("a").at("b").path, "a.b");
}

TEST(InitialValues, AreAFunctionOfSeedPathAndName) {
  const auto draw = [](const Site& here, const char* name) {
    return initial_normal(here, name, {30}, 1);
  };
  EXPECT_NEAR_TENSOR(draw(site("bert"), "w"), draw(site("bert"), "w"), kExact);
  EXPECT_NEAR_TENSOR(draw(Site{.path = "layer", .seed = 1}.at("a"), "w"),
                     draw(Site{.path = "layer.a", .seed = 1}, "w"), kExact);
  for (const auto& other :
       {draw(site("bert", 2), "w"), draw(site("bert"), "v"), draw(site("bert").at("a"), "w")})
    EXPECT_FALSE(at::equal(draw(site("bert"), "w"), other));
}

TEST(InitialValues, DoNotDependOnTheOrderOfConstruction) {
  const Linear first(site("bert").at("a"), 4, 5), second(site("bert").at("b"), 4, 5);
  const Linear second_first(site("bert").at("b"), 4, 5), first_second(site("bert").at("a"), 4, 5);
  EXPECT_NEAR_TENSOR(first.weight, first_second.weight, kExact);
  EXPECT_NEAR_TENSOR(second.weight, second_first.weight, kExact);
}

TEST(InitialValues, HaveTheSpreadOfTheirName) {
  EXPECT_NEAR(initial_matrix(site("bert"), "w", 300, 200).std().item<double>(), 0.02, 5e-4);
  const double bound = std::sqrt(6.0 / 500);
  for (const auto* init : {"xavier", "lra", "paper"}) {
    const auto w = initial_matrix(site(init), "w", 300, 200);
    EXPECT_LE(w.abs().max().item<double>(), bound);
    EXPECT_NEAR(w.std().item<double>(), bound / std::sqrt(3.0), 1e-3) << init;
  }
  EXPECT_EQ(error_of([] { initial_matrix(site("best"), "w", 2, 2); }),
            "unknown init 'best'; one of: bert, xavier, lra, paper");
}

TEST(Shared, AParameterIsMadeOnceAndHandedOut) {
  Shared shared;
  int made = 0;
  const auto make = [&] {
    ++made;
    return at::zeros({2, 3});
  };
  const auto first = shared.parameter("e", {2, 3}, make),
             second = shared.parameter("e", {2, 3}, make);
  EXPECT_TRUE(first.is_same(second));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(shared.parameters().size(), 1u);
  EXPECT_EQ(error_of([&] {
              shared.parameter("e", {3, 3}, make);
            }),
            "shared parameter e is [2, 3], but another layer wants [3, 3]");
}

TEST(Shared, ValuesAreThoseOfTheStackWhicheverLayerAsksFirst) {
  const auto drawn = [](const std::string& path) {
    Site site = {.path = path, .seed = 3};
    site.shared = std::make_shared<Shared>();
    const auto values = shared_normal(site, "p", {2, 3}, 0.5);
    EXPECT_TRUE(shared_normal(site.at("later"), "p", {2, 3}, 0.5).is_same(values));
    return values;
  };
  EXPECT_TRUE(drawn("layers.0").equal(drawn("layers.7")));
}

TEST(Shared, ABufferIsMadeOnceAndNotLearned) {
  Shared shared;
  const auto make = [] { return at::ones({2, 3}); };
  const auto first = shared.buffer("e", {2, 3}, make), second = shared.buffer("e", {2, 3}, make);
  EXPECT_TRUE(first.is_same(second));
  EXPECT_EQ(shared.parameters().size(), 0u);
  EXPECT_EQ(shared.buffers().size(), 1u);
  EXPECT_NE(error_of([&] { shared.buffer("e", {3, 3}, make); }), "");
}

// A file of weights has one tensor of a name.
TEST(Shared, AParameterAndABufferOfOneNameAreRefused) {
  const auto make = [] { return at::ones({2}); };
  const std::string refused = "shared parameter e is learned in one layer and not in another";
  Shared learned, fixed;
  learned.parameter("e", {2}, make);
  EXPECT_EQ(error_of([&] { learned.buffer("e", {2}, make); }), refused);
  fixed.buffer("e", {2}, make);
  EXPECT_EQ(error_of([&] { fixed.parameter("e", {2}, make); }), refused);
}

TEST(Shared, AChildHasTheSameKeysForOtherTensors) {
  Shared shared;
  const auto own = shared.parameter("p", {2}, [] { return at::ones({2}); });
  const auto child = shared.child("cross");
  const auto other = child->parameter("p", {3}, [] { return at::zeros({3}); });
  EXPECT_EQ(shared.child("cross"), child);
  EXPECT_EQ(other.size(0), 3);
  std::vector<std::string> names;
  for (const auto& entry : shared.named_parameters()) names.push_back(entry.key());
  EXPECT_EQ(names, (std::vector<std::string>{"p", "cross.p"}));
}

}  // namespace
}  // namespace longbow
