#include "longbow/models/linformer_pytorch/linformer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "longbow/tensors/meter.h"
#include "tests/models/linformer_readme.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using enum CheckpointLevel;

LinformerConfig small(int64_t depth = 1) {
  return {.input_size = 12, .channels = 8, .dim_k = 4, .dim_ff = 10, .nhead = 2, .depth = depth};
}

// In float64, evaluating.
std::shared_ptr<Linformer> built(const LinformerConfig& config) {
  auto net = std::make_shared<Linformer>(config, /*seed=*/3);
  net->to(at::kDouble);
  net->eval();
  return net;
}

TEST(LinformerConfig, DefaultsAreThoseOfLinformerPytorch) {
  const auto plain = written(LinformerConfig());
  const auto defaults = parse_yaml(
      "{input_size: 0, channels: 0, dim_k: 0, dim_ff: 256, dim_d: ~, dropout_ff: 0.15, nhead: 4, "
      "depth: 1, dropout: 0.1, activation: gelu, checkpoint_level: C0, parameter_sharing: "
      "layerwise, k_reduce_by_layer: 0, full_attention: false, include_ff: true, "
      "w_o_intermediate_dim: ~, decoder_mode: false, causal: false, method: learnable, "
      "ff_intermediate: ~, embeddings_size: 0, embeddings_channels: 0, compatible: false}",
      "defaults");
  EXPECT_EQ(plain, defaults);
  const auto lm = written(LinformerLMConfig());
  for (const auto& [key, value] : {std::pair{"dim_k", "64"},
                                   {"dim_ff", "1024"},
                                   {"dropout_ff", "0.1"},
                                   {"dropout_tokens", "0.1"},
                                   {"nhead", "4"},
                                   {"depth", "2"},
                                   {"dropout", "0.05"},
                                   {"return_emb", "false"}})
    EXPECT_EQ(lm.find(key)->text, value) << key;
  const auto both = written(LinformerEncDecConfig());
  for (const std::string side : {"enc_", "dec_"})
    for (const auto& [key, value] : {std::pair{"dim_k", "64"},
                                     {"dim_ff", "1024"},
                                     {"dropout_ff", "0.1"},
                                     {"nhead", "4"},
                                     {"depth", "2"},
                                     {"dropout", "0.05"},
                                     {"parameter_sharing", "layerwise"},
                                     {"method", "learnable"}})
      EXPECT_EQ(both.find(side + key)->text, value) << side << key;
}

std::string refused(const std::string& options) {
  const auto node =
      parse_yaml("{input_size: 12, channels: 8, dim_k: 4, nhead: 2, " + options + "}", "net.yaml");
  return error_of([&] { Linformer net(read<LinformerConfig>(node)); });
}

TEST(LinformerConfig, EveryAssertionOfTheOriginalIsAClearError) {
  EXPECT_EQ(refused("activation: tanh"),
            "net.yaml:1: activation is 'tanh'; one of: gelu, gelu_tanh, relu, silu");
  EXPECT_EQ(refused("activation: silu"), "linformer: unknown activation; take gelu or relu");
  EXPECT_EQ(refused("checkpoint_level: C3"),
            "net.yaml:1: checkpoint_level is 'C3'; did you mean 'C0'?");
  EXPECT_EQ(refused("parameter_sharing: all"),
            "net.yaml:1: parameter_sharing is 'all'; one of: none, headwise, kv, layerwise");
  EXPECT_EQ(refused("method: pool"),
            "net.yaml:1: method is 'pool'; one of: learnable, convolution, no_params");
  EXPECT_EQ(refused("depth: 2, ff_intermediate: 6"),
            "linformer: ff_intermediate does not go with parameter_sharing layerwise; share "
            "headwise, kv or none");
  EXPECT_EQ(refused("decoder_mode: true, parameter_sharing: kv, ff_intermediate: 6"),
            "linformer: ff_intermediate does not go with decoder_mode; drop one of them");
  EXPECT_EQ(refused("k_reduce_by_layer: 1, depth: 2"),
            "linformer: layers that share a projection cannot have fewer and fewer slots; drop "
            "k_reduce_by_layer, or share headwise, kv or none");
  EXPECT_EQ(refused("k_reduce_by_layer: 1, depth: 2, compatible: true"), "");
  EXPECT_EQ(
      error_of([] { Linformer net({.input_size = 12, .channels = 9, .dim_k = 4, .nhead = 2}); }),
      "linformer: channels 9 is not a multiple of nhead 2; change one of them, or set dim_d");
  EXPECT_EQ(error_of([] {
              Linformer net({.input_size = 12, .channels = 9, .dim_k = 4, .dim_d = 3, .nhead = 2});
            }),
            "");
}

TEST(Linformer, InputsOfAnotherShapeAreRefused) {
  const auto net = built(small());
  const auto starts = [&](const Tensor& x, const LinformerInputs& inputs, const std::string& text) {
    const auto error = error_of([&] { (*net)(x, inputs); });
    EXPECT_TRUE(error.starts_with(text)) << error;
  };
  const auto x = random_normal({2, 12, 8}, 1);
  starts(random_normal({2, 11, 8}, 1), {}, "linformer: x is [2, 11, 8], but needs [batch, 12, 8]");
  starts(random_normal({2, 12, 7}, 1), {}, "linformer: x is [2, 12, 7], but needs [batch, 12, 8]");
  starts(x, {.embeddings = x}, "linformer: embeddings are given without decoder_mode");
  starts(x, {.input_mask = at::ones({2, 5}, at::kBool)}, "linformer: input_mask is [2, 5]");
  auto config = small();
  config.decoder_mode = true;
  const auto decoder = built(config);
  EXPECT_TRUE(error_of([&] {
                (*decoder)(x);
              }).starts_with("linformer: embeddings are missing in decoder_mode"));
}

// Matrices of one head's size, n times k numbers each.
int64_t matrices(const std::string& sharing) {
  LinformerConfig config = {.input_size = 6, .channels = 12, .dim_k = 2, .nhead = 12, .depth = 12};
  config.parameter_sharing =
      read<LinformerConfig>(parse_yaml("{parameter_sharing: " + sharing + "}", "net.yaml"))
          .parameter_sharing;
  int64_t numbers = 0;
  const Linformer net(config);
  for (const auto& item : net.named_parameters())
    if (item.key().ends_with(".e") || item.key().ends_with(".f") ||
        item.key().ends_with("linformer_e"))
      numbers += item.value().numel();
  return numbers / (config.input_size * config.dim_k);
}

TEST(Linformer, TwelveLayersOfTwelveHeadsShareAsThePaperCounts) {
  EXPECT_EQ(matrices("none"), 288);
  EXPECT_EQ(matrices("headwise"), 24);
  EXPECT_EQ(matrices("kv"), 12);
  EXPECT_EQ(matrices("layerwise"), 1);
}

TEST(Linformer, SlotsShrinkByLayerDownToOne) {
  auto config = small(4);
  config.parameter_sharing = LengthSharing::kv;
  config.k_reduce_by_layer = 2;
  const auto parameters = Linformer(config).named_parameters();
  for (const auto& [layer, slots] : {std::pair{0, 4}, {1, 2}, {2, 1}, {3, 1}})
    EXPECT_EQ(parameters["seq." + std::to_string(2 * layer) + ".mixer.e"].size(0), slots);
}

struct Kind {
  const char* name;
  void (*set)(LinformerConfig&);
};
const Kind kKinds[] = {
    {"learnable", [](LinformerConfig&) {}},
    {"headwise", [](LinformerConfig& c) { c.parameter_sharing = LengthSharing::headwise; }},
    {"by_head", [](LinformerConfig& c) { c.parameter_sharing = LengthSharing::none; }},
    {"reduced",
     [](LinformerConfig& c) {
       c.parameter_sharing = LengthSharing::kv;
       c.k_reduce_by_layer = 3;
     }},
    {"convolution", [](LinformerConfig& c) { c.method = ProjectionMethod::convolution; }},
    {"uneven",
     [](LinformerConfig& c) {
       c.method = ProjectionMethod::convolution;
       c.dim_k = 5;
     }},
    {"fixed", [](LinformerConfig& c) { c.method = ProjectionMethod::no_params; }},
    {"full", [](LinformerConfig& c) { c.full_attention = true; }},
    {"full_narrow",
     [](LinformerConfig& c) {
       c.full_attention = true;
       c.w_o_intermediate_dim = 3;
     }},
    {"narrow_heads",
     [](LinformerConfig& c) {
       c.dim_d = 3;
       c.w_o_intermediate_dim = 5;
     }},
    {"no_feed", [](LinformerConfig& c) { c.include_ff = false; }},
    {"widths",
     [](LinformerConfig& c) {
       c.parameter_sharing = LengthSharing::none;
       c.ff_intermediate = 6;
     }},
};
std::ostream& operator<<(std::ostream& stream, const Kind& kind) {
  return stream << kind.name;
}

class LinformerKinds : public testing::TestWithParam<Kind> {
 protected:
  LinformerConfig config() const {
    auto c = small(2);
    GetParam().set(c);
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Linformer, LinformerKinds, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(LinformerKinds, TheFutureIsInvisible) {
  auto c = config();
  c.causal = true;
  const auto net = built(c);
  const auto x = random_normal({1, 12, 8}, 5);
  const auto y = (*net)(x);
  for (const int64_t t : {1, 6, 11}) {
    auto other = x.clone();
    other.narrow(1, t, 12 - t).copy_(random_normal({1, 12 - t, 8}, 6));
    const auto z = (*net)(other);
    EXPECT_NEAR_TENSOR(z.narrow(1, 0, t), y.narrow(1, 0, t), kExact) << t;
    EXPECT_FALSE(at::allclose(z[0][t], y[0][t])) << t;
  }
}

// Values and gradients, the embeddings' included, are those of real tokens only.
TEST_P(LinformerKinds, PaddingIsInvisibleAtEveryLevel) {
  for (const auto level : {C0, C1, C2}) {
    auto c = config();
    c.checkpoint_level = level;
    const auto net = built(c);
    const auto mask = at::arange(12).expand({2, 12}) < at::tensor({7, 12}).unsqueeze(1);
    const auto real = mask.unsqueeze(-1).to(at::kDouble);
    auto x = random_normal({2, 12, 8}, 5).requires_grad_();
    const auto other = at::where(mask.unsqueeze(-1), x, random_normal({2, 12, 8}, 6)).detach();
    const auto y = (*net)(x, {.input_mask = mask}) * real;
    EXPECT_NEAR_TENSOR((*net)(other, {.input_mask = mask}) * real, y, (Tolerance{1e-12, 0}));
    y.backward(random_normal({2, 12, 8}, 7));  // a norm comes last: sums have no gradient
    EXPECT_EQ((x.grad() * (1 - real)).abs().max().item<double>(), 0);
    EXPECT_GT((x.grad() * real).abs().max().item<double>(), 0.01);
  }
}

TEST_P(LinformerKinds, TokenByTokenItIsTheWholeSequence) {
  auto c = config();
  c.causal = true;
  const auto net = built(c);
  const auto x = random_normal({2, 12, 8}, 5);
  State state;
  net->start(state, 2, 12);
  std::vector<Tensor> parts;
  for (const auto& piece : x.split({5, 1, 6}, 1)) parts.push_back(net->extend(piece, state));
  EXPECT_NEAR_TENSOR(at::cat(parts, 1), (*net)(x), (Tolerance{1e-12, 0}));
}

TEST(Linformer, TheOriginalsCausalModeLeaksAndIsThereOnlyWhenAskedFor) {
  auto c = small();
  c.causal = c.compatible = true;
  const auto net = built(c);
  const auto x = random_normal({1, 12, 8}, 5);
  auto other = x.clone();
  other[0][11] += 1;
  EXPECT_FALSE(at::allclose((*net)(x)[0][0], (*net)(other)[0][0]));
}

TEST(Linformer, ANetThatIsNotCausalIsNotExtended) {
  State state;
  const std::string text = "linformer: only a causal net, and not a compatible one, is extended";
  EXPECT_TRUE(error_of([&] { Linformer(small()).start(state, 1, 12); }).starts_with(text));
  auto c = small();
  c.causal = c.compatible = true;
  EXPECT_TRUE(error_of([&] { Linformer(c).start(state, 1, 12); }).starts_with(text));
}

TEST(Linformer, FixedProjectionsHaveTheDeviationOfThePaperOrOfTheOriginal) {
  auto c = small();
  c.input_size = 4096;
  c.dim_k = 16;
  c.method = ProjectionMethod::no_params;
  for (const bool compatible : {false, true}) {
    c.compatible = compatible;
    const auto e = Linformer(c).named_buffers()["shared.linformer_e"];
    EXPECT_NEAR(e.std().item<double>(), compatible ? 1.0 / 16 : 1.0 / 4, 0.01 / 4);
  }
}

TEST(Linformer, ADecoderSharesOneProjectionLayerwise) {
  auto c = small(2);
  c.decoder_mode = true;
  EXPECT_EQ(Linformer(c).named_parameters()["shared.linformer_e"].sizes(),
            (std::vector<int64_t>{4, 12}));
  EXPECT_FALSE(Linformer(c).named_parameters().contains("shared.linformer_cross_e"));
  c.embeddings_size = 9;
  EXPECT_EQ(Linformer(c).named_parameters()["shared.linformer_cross_e"].sizes(),
            (std::vector<int64_t>{4, 9}));
}

TEST(Linformer, AConvolutionReadsEveryToken) {
  auto c = small();
  c.method = ProjectionMethod::convolution;
  c.dim_k = 5;  // windows of 2
  c.input_size = 11;
  const auto x = random_normal({1, 11, 8}, 5);
  auto other = x.clone();
  other[0][10] += 1;
  for (const bool compatible : {false, true}) {
    c.compatible = compatible;
    const auto net = built(c);
    EXPECT_EQ(at::equal((*net)(x)[0][0], (*net)(other)[0][0]), compatible);
  }
}

// All gradients of one training step with dropout, by name.
Tensors gradients(LinformerConfig config, CheckpointLevel level, bool of_x, int64_t batch,
                  Usage* usage = nullptr) {
  config.checkpoint_level = level;
  Linformer net(config, /*seed=*/3);
  auto x = Random::from_seed(5).normal({batch, config.input_size, config.channels}, "x");
  x.requires_grad_(of_x);
  LinformerInputs inputs = {.random = Random::from_seed(8)};
  if (config.decoder_mode) inputs.embeddings = x.flip(1);
  if (batch > 1)
    inputs.input_mask = at::arange(config.input_size).expand({batch, -1}) <
                        at::arange(batch).add(config.input_size - batch + 1).unsqueeze(1);
  const auto direction =  // a norm comes last: sums and squares have no gradient
      Random::from_seed(6).normal({batch, config.input_size, config.channels}, "y");
  const auto step = [&] { net(x, inputs).backward(direction); };
  if (usage)
    *usage = measure(step);
  else
    step();
  Tensors found;
  for (const auto& item : net.named_parameters()) found[item.key()] = item.value().grad();
  if (of_x) found["x"] = x.grad();
  return found;
}

void expect_same(const Tensors& got, const Tensors& want, Tolerance tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, gradient] : want) {
    ASSERT_TRUE(gradient.defined() && got.at(name).defined()) << name;
    EXPECT_NEAR_TENSOR(got.at(name), gradient, tolerance) << name;
  }
}

TEST_P(LinformerKinds, GradientsAreTheSameAtEveryLevel) {
  for (const bool decoder : {false, true}) {
    auto c = config();
    if (c.ff_intermediate && decoder) continue;
    c.decoder_mode = decoder;
    c.causal = decoder;
    for (const bool of_x : {false, true}) {
      const auto want = gradients(c, C0, of_x, 3);
      for (const auto level : {C1, C2})
        expect_same(gradients(c, level, of_x, 3), want, {1e-7, 1e-5});
    }
  }
}

// Every level gives the gradients of C0 and needs no more memory than the one before; C2 has
// nothing to save where C1 stores no weights.
void run_readme(int64_t length) {
  Tensors want;
  int64_t before = 0;
  for (const auto level : {C0, C1, C2}) {
    Usage usage;
    const auto start = std::chrono::steady_clock::now();
    const auto found = gradients(readme_example(length), level, true, 1, &usage);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%lld tokens, C%d: %.1f s, %.2f GiB\n", static_cast<long long>(length),
                static_cast<int>(level), seconds.count(),
                static_cast<double>(usage.peak_bytes) / (1 << 30));
    if (level == C0) want = found;
    expect_same(found, want, {1e-8, 1e-4});
    EXPECT_TRUE(level == C0 || usage.peak_bytes < before ||
                (level == C2 && usage.peak_bytes == before));
    before = usage.peak_bytes;
  }
}

TEST(Linformer, TheReadmeExampleHasTheSameGradientsAtEveryLevel) {
  run_readme(4096);
}

TEST(Linformer, TheReadmeExampleRunsAtItsFullLength) {
  if (!std::getenv("LONGBOW_LARGE")) GTEST_SKIP() << "set LONGBOW_LARGE to run it";
  run_readme(262144);
}

TEST(Linformer, MapsAreThereAtEveryLevel) {
  for (const auto level : {C0, C1, C2}) {
    auto c = small(2);
    c.checkpoint_level = level;
    const auto net = built(c);
    Tensors maps;
    const auto y = (*net)(random_normal({3, 12, 8}, 5).requires_grad_(), {.maps = &maps});
    ASSERT_EQ(maps.size(), 2u);
    for (const auto& place : net->attentions()) {
      const auto& map = maps.at(place.path);
      ASSERT_EQ(map.sizes(), (std::vector<int64_t>{3, 2, 12, 4}));
      EXPECT_NEAR_TENSOR(map.sum(-1), at::ones({3, 2, 12}, at::kDouble), (Tolerance{1e-12, 0}));
    }
    y.sum().backward();
  }
}

}  // namespace
}  // namespace longbow
