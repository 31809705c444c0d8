#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kLongest = 24, kWidth = 6, kHeads = 2;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = kLongest},
                    .init = "xavier"};

Tensor parameter(const torch::nn::Module& mixer, const Site& site, const std::string& name) {
  const auto own = mixer.named_parameters();
  if (own.contains(name)) return oracle::tensor_of(mixer, name);
  return oracle::tensor_of(*site.shared, site.cross ? "linformer_cross_e" : "linformer_e");
}

// softmax(q (E K)^T / sqrt D) (F V), with K and V computed first and their padded rows set to zero.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto sharing = as_string(*options.find("sharing"), "sharing");
  const auto e = parameter(mixer, site, "e");
  const auto f = sharing == "none" || sharing == "headwise" ? parameter(mixer, site, "f") : e;
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
        const int64_t keys = k.size(2);
        const auto keep = context.mask.keep.defined()
                              ? context.mask.keep.view({-1, 1, keys, 1}).to(at::kDouble)
                              : at::ones({1, 1, keys, 1}, at::kDouble);
        const auto slots = [&](const Tensor& projection, const Tensor& rows) {
          return projection.narrow(-1, 0, keys).matmul(rows * keep);
        };
        return oracle::softmax(q, slots(e, k), slots(f, v), at::ones({1, 1, 1, 1}, at::kDouble));
      });
}
const bool registered = oracle::add("linformer", dense);

Mixer made(const std::string& options, Site site = kSite) {
  auto mixer = make_mixer("linformer", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

// The same projections in both mechanisms.
void copy_projections(const Mixer& from, const Mixer& to) {
  for (const auto& name : {"query", "key", "value", "output"})
    for (const auto& part : {".weight", ".bias"})
      set(to, std::string(name) + part, from->named_parameters()[std::string(name) + part]);
}

TEST(Linformer, WithAnIdentityProjectionItIsSoftmax) {
  const auto mixer = made("{rank: 24}"), softmax = make_mixer("softmax", kSite);
  softmax->to(at::kDouble);
  copy_projections(mixer, softmax);
  const auto x = random_normal({2, kLongest, kWidth}, 1);
  Context context;
  for (const auto& e : {at::eye(kLongest), at::eye(kLongest).flip(0)}) {  // and any permutation
    set(mixer, "e", e);
    EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax)(x, context), tolerance(at::kDouble));
  }
}

TEST(Linformer, ABiasReachesASlotAsOftenAsTheSlotReadsRealTokens) {
  for (const std::string sharing : {"kv", "headwise", "none"}) {
    const auto mixer = made("{rank: 5, sharing: " + sharing + "}");
    set(mixer, "key.bias", random_normal({kWidth}, 2));
    set(mixer, "value.bias", random_normal({kWidth}, 3));
    const auto x = random_normal({2, 11, kWidth}, 4);
    Context context = {.mask = Mask::from_lengths(at::tensor({11, 7}), 11)};
    const auto options = find_mechanism("linformer")
                             .resolve(parse_yaml("{rank: 5, sharing: " + sharing + "}", "options"));
    EXPECT_NEAR_TENSOR((*mixer)(x, context), dense(*mixer, options, kSite, x, context),
                       tolerance(at::kDouble));
  }
}

int64_t projection_numbers(const std::string& sharing) {
  int64_t count = 0;
  for (const auto& entry : made("{rank: 5, sharing: " + sharing + "}")->named_parameters())
    if (entry.key() == "e" || entry.key() == "f") count += entry.value().numel();
  return count;
}

TEST(Linformer, SharingSaysHowManyProjectionsThereAre) {
  EXPECT_EQ(projection_numbers("none"), 2 * kHeads * 5 * kLongest);
  EXPECT_EQ(projection_numbers("headwise"), 2 * 5 * kLongest);
  EXPECT_EQ(projection_numbers("kv"), 5 * kLongest);
}

TEST(Linformer, LayerwiseAllLayersReadOneProjection) {
  Site site = kSite;
  site.shared = std::make_shared<Shared>();
  const auto first = made("{rank: 5, sharing: layerwise}", site.at("layers.0"));
  const auto second = made("{rank: 5, sharing: layerwise}", site.at("layers.1"));
  EXPECT_EQ(site.shared->named_parameters().size(), 1u);
  EXPECT_FALSE(first->named_parameters().contains("e"));
  site.shared->to(at::kDouble);
  const auto x = random_normal({1, 9, kWidth}, 5);
  Context context;
  ((*first)(x, context).sum() + (*second)(x, context).square().sum()).backward();
  const auto both = site.shared->parameters()[0].grad().clone();
  site.shared->zero_grad();
  (*first)(x, context).sum().backward();
  EXPECT_FALSE(both.allclose(site.shared->parameters()[0].grad()));
}

TEST(Linformer, MaxLengthIsItsOwnOrTheModels) {
  Context context;
  EXPECT_EQ(error_of([&] {
              (*made("{rank: 2}"))(random_normal({1, 25, kWidth}, 6), context);
            }),
            "linformer: 25 keys, but max_length is 24");
  const auto longer = made("{rank: 2, max_length: 30}");
  EXPECT_EQ((*longer)(random_normal({1, 25, kWidth}, 6), context).size(1), 25);
}

TEST(Linformer, RefusesWhatItCannotDo) {
  Site bare = kSite;
  bare.shape.max_length = 0;
  EXPECT_EQ(error_of([&] { (void)made("", bare); }),
            "linformer: needs max_length, here or in the model");
  EXPECT_EQ(error_of([&] { (void)made("{sharing: layerwise}"); }),
            "linformer: layerwise sharing needs a stack that owns the projection");
  EXPECT_EQ(error_of([] { (void)made("{rank: 0}"); }),
            "linformer options:1: linformer.rank is 0, out of range; it may be 1..65536");
  Context causal = {.mask = {.causal = true}};
  EXPECT_EQ(error_of([&] {
              (*made("{rank: 2}"))(random_normal({1, 3, kWidth}, 7), causal);
            }).find("linformer: is not causal; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
