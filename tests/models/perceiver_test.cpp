#include "longbow/models/perceiver/perceiver.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "longbow/tensors/meter.h"
#include "tests/models/hugging_face.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

constexpr int64_t kChannels = 6, kLatents = 5;
const Tolerance kTight = {1e-12, 1e-12};

PerceiverConfig small(int64_t repeats = 3, const std::string& attention = "softmax") {
  PerceiverConfig config;
  config.encoder.width = 8;
  config.encoder.heads = 2;
  config.encoder.layers = 2;
  config.encoder.init = Init::xavier;
  config.encoder.attention = yaml(attention);
  config.latents = kLatents;
  config.repeats = repeats;
  config.cross = {.heads = 2, .head_width = 3, .feed_forward = 10};
  return config;
}

std::shared_ptr<Perceiver> model(const PerceiverConfig& config, uint64_t seed = 1) {
  auto perceiver = std::make_shared<Perceiver>(config, kChannels, seed);
  perceiver->to(at::kDouble);
  perceiver->eval();
  const at::NoGradGuard no_grad;
  perceiver->named_parameters()["latents"].mul_(50);  // latents that differ
  return perceiver;
}

Tensor run(Perceiver& perceiver, const Tensor& x, const Tensor& keep = {}) {
  Context context = {.mask = {.keep = keep}};
  return perceiver(x, context);
}

std::set<std::string> tops(const Perceiver& perceiver) {
  std::set<std::string> found;
  for (const auto& entry : perceiver.named_parameters())
    found.insert(entry.key().substr(0, entry.key().find('.', entry.key().find('.') + 1)));
  return found;
}

// The recorded names of a layer's weights; `mixer` stands before those of its attention.
void set_layer(std::map<std::string, std::string>& names, const std::string& ours,
               const std::string& mixer, const std::string& theirs) {
  const std::pair<std::string, const char*> parts[] = {
      {mixer + "query", "q"},  {mixer + "key", "k"},     {mixer + "value", "v"},
      {mixer + "output", "o"}, {"feed_forward.up", "1"}, {"feed_forward.down", "2"}};
  for (const auto& [part, suffix] : parts) {
    names[ours + part + ".weight"] = theirs + "w" + suffix;
    names[ours + part + ".bias"] = theirs + "b" + suffix;
  }
  const std::pair<std::string, const char*> norms[] = {
      {mixer.empty() ? "norm" : "mixer_norm", "ln_q"}, {"feed_forward_norm", "ln_mlp"}};
  for (const auto& [part, suffix] : norms) {
    names[ours + part + ".weight"] = theirs + suffix + "_gain";
    names[ours + part + ".bias"] = theirs + suffix + "_bias";
  }
}

TEST(Perceiver, ReproducesTheEncoderOfHuggingFace) {
  const auto path = parity_file("hf/perceiver-encoder.safetensors");
  const auto file = load_safetensors(path);
  const auto said = parse_json(file.metadata.at("config"), path);
  const auto number = [&](const char* key) { return as_integer(*said.find(key), key); };
  const auto at = [&](const std::string& name) { return file.tensors.at(name).to(at::kDouble); };
  PerceiverConfig config;
  config.encoder.width = at("y").size(2);
  config.encoder.heads = number("heads_self");
  config.encoder.layers = number("per_block");
  config.encoder.block.norm_epsilon = as_number(*said.find("eps"), "eps");
  config.encoder.block.feed_forward.width = at("self0.w1").size(0);
  config.latents = at("latents").size(0);
  config.repeats = number("blocks");
  config.reads = 1;
  config.repeat_weights = RepeatWeights::shared;
  config.cross.heads = number("heads_cross");
  config.cross.head_width = at("cross.wq").size(0) / config.cross.heads;
  config.cross.feed_forward = at("cross.w1").size(0);
  Perceiver perceiver(config, at("x").size(2), 1);
  perceiver.to(at::kDouble);

  std::map<std::string, std::string> names = {{"latents", "latents"},
                                              {"cross.0.source_norm.weight", "cross.ln_kv_gain"},
                                              {"cross.0.source_norm.bias", "cross.ln_kv_bias"}};
  set_layer(names, "cross.0.", "", "cross.");
  for (int64_t layer = 0; layer < config.encoder.layers; ++layer)
    set_layer(names, "blocks.0.layers." + std::to_string(layer) + ".", "mixer.",
              "self" + std::to_string(layer) + ".");
  const auto parameters = perceiver.named_parameters();
  {
    const at::NoGradGuard no_grad;
    for (const auto& entry : parameters) Tensor(entry.value()).copy_(at(names.at(entry.key())));
  }
  const auto x = at("x").requires_grad_();
  const auto y = run(perceiver, x, file.tensors.at("keep").to(at::kBool));
  EXPECT_NEAR_TENSOR(y, at("y"), kTight);
  (y * at("g")).sum().backward();
  int compared = 0;
  const auto compare = [&](const Tensor& got, const std::string& name) {
    if (!file.tensors.count("grad_" + name)) return;
    const auto want = at("grad_" + name);
    const double scale = std::max(1.0, want.abs().max().item<double>());
    EXPECT_NEAR_TENSOR(got, want, (Tolerance{1e-12 * scale, 1e-11})) << name;
    ++compared;
  };
  compare(x.grad(), "x");
  for (const auto& [ours, theirs] : names) compare(parameters[ours].grad(), theirs);
  EXPECT_EQ(compared, 28);
}

// What is read of a sequence is a set: neither its order nor its multiplicity counts.
TEST(Perceiver, TheOrderOfTheTokensDoesNotMatter) {
  const at::NoGradGuard no_grad;
  const auto perceiver = model(small());
  const auto x = random_normal({2, 9, kChannels}, 2);
  const auto order = at::tensor({4, 0, 8, 3, 1, 7, 2, 6, 5}, at::kLong);
  EXPECT_NEAR_TENSOR(run(*perceiver, x.index_select(1, order)), run(*perceiver, x), kTight);
  EXPECT_NEAR_TENSOR(run(*perceiver, at::cat({x, x}, 1)), run(*perceiver, x), kTight);
  EXPECT_FALSE(at::allclose(run(*perceiver, x.narrow(1, 0, 8)), run(*perceiver, x)));
}

TEST(Perceiver, PaddingAndNeighboursChangeNothing) {
  const at::NoGradGuard no_grad;
  const auto x = random_normal({3, 12, kChannels}, 2);
  const std::vector<int64_t> lengths = {12, 7, 1};
  for (const auto* attention : {"softmax", "linear", "{name: linformer, rank: 3}", "realformer"}) {
    const auto perceiver = model(small(3, attention));
    const auto together = run(*perceiver, x, Mask::from_lengths(at::tensor(lengths), 12).keep);
    for (int64_t row = 0; row < 3; ++row) {
      const auto n = lengths[static_cast<size_t>(row)];
      EXPECT_NEAR_TENSOR(together[row], run(*perceiver, x.narrow(0, row, 1).narrow(1, 0, n))[0],
                         (Tolerance{1e-11, 1e-11}))
          << attention << " " << n;
    }
  }
}

// Of a sequence without tokens the latents read nothing: what it holds does not matter, and the
// result is what the latents make of themselves.
TEST(Perceiver, AnEmptySequenceIsFiniteAndItsContentsDoNotCount) {
  const auto perceiver = model(small());
  auto x = random_normal({2, 4, kChannels}, 2).requires_grad_();
  const auto keep = at::tensor({1, 1, 0, 0, 0, 0, 0, 0}, at::kLong).view({2, 4}).to(at::kBool);
  const auto z = run(*perceiver, x, keep);
  EXPECT_TRUE(z.isfinite().all().item<bool>());
  EXPECT_NEAR_TENSOR(run(*perceiver, x * 7 - 1, keep)[1], z[1], kExact);
  z.square().sum().backward();
  EXPECT_NEAR_TENSOR(x.grad()[1], at::zeros_like(x[1]), kExact);
  for (const auto& entry : perceiver->named_parameters())
    EXPECT_TRUE(entry.value().grad().isfinite().all().item<bool>()) << entry.key();
}

TEST(Perceiver, RepeatsShareTheirWeightsAsTheConfigSays) {
  using Names = std::set<std::string>;
  auto config = small(4);
  EXPECT_EQ(tops(*model(config)), (Names{"latents", "cross.0", "cross.1", "blocks.0", "blocks.1"}));
  config.reads = 1;
  EXPECT_EQ(tops(*model(config)), (Names{"latents", "cross.0", "blocks.0", "blocks.1"}));
  config.repeat_weights = RepeatWeights::shared;
  EXPECT_EQ(tops(*model(config)), (Names{"latents", "cross.0", "blocks.0"}));
  config.repeat_weights = RepeatWeights::own;
  config.reads = 2;
  EXPECT_EQ(tops(*model(config)), (Names{"latents", "cross.0", "cross.1", "blocks.0", "blocks.1",
                                         "blocks.2", "blocks.3"}));
}

// Repeats 2 to r with the same weights are those of a model whose repeats all have their own, once
// these are made alike.
TEST(Perceiver, SharedRepeatsAreEqualRepeats) {
  const at::NoGradGuard no_grad;
  auto apart = small(3);
  apart.repeat_weights = RepeatWeights::own;
  const auto shared = model(small(3)), own = model(apart);
  const auto from = shared->named_parameters();
  for (const auto& entry : own->named_parameters()) {
    auto name = entry.key();
    for (const std::string part : {"cross", "blocks"})
      if (name.starts_with(part + ".2.")) name.replace(part.size(), 3, ".1.");
    Tensor(entry.value()).copy_(from[name]);
  }
  const auto x = random_normal({2, 9, kChannels}, 2);
  EXPECT_NEAR_TENSOR(run(*own, x), run(*shared, x), kTight);
}

TEST(Perceiver, EveryRepeatDropsOtherElements) {
  auto config = small(2);
  config.repeat_weights = RepeatWeights::shared;
  config.encoder.block.dropout = 0.5;
  const auto dropped = [&](int64_t repeats) {
    config.repeats = repeats;
    Perceiver perceiver(config, kChannels, 1);
    const at::NoGradGuard no_grad;
    for (const auto& entry : perceiver.named_parameters()) {
      const bool bias = entry.key() == "cross.0.feed_forward.down.bias";
      Tensor(entry.value()).fill_(bias ? 1 : 0);  // a layer that adds ones
    }
    Context context = {.random = Random::from_seed(5)};
    return perceiver(at::zeros({4, 3, kChannels}), context);
  };
  const auto once = dropped(1), twice = dropped(2);  // 0 or 2; their sum
  EXPECT_TRUE((twice >= once).all().item<bool>());
  EXPECT_FALSE(at::equal(twice, once * 2));
}

TEST(Perceiver, GradientsAreThoseOfDifferences) {
  for (const auto weights :
       {RepeatWeights::first_apart, RepeatWeights::shared, RepeatWeights::own}) {
    auto config = small(3);
    config.encoder.layers = 1;
    config.repeat_weights = weights;
    const auto perceiver = model(config);
    auto x = random_normal({2, 6, kChannels}, 2).requires_grad_();
    std::vector<Leaf> leaves = {{"x", x}};
    for (const auto& entry : perceiver->named_parameters())
      leaves.push_back({entry.key(), entry.value()});
    const auto keep = Mask::from_lengths(at::tensor({6, 4}, at::kLong), 6).keep;
    EXPECT_TRUE(gradcheck([&] { return run(*perceiver, x, keep); }, leaves));
  }
}

TEST(Perceiver, RecomputedAndReversibleBlocksTrain) {
  const auto gradients = [&](Recompute recompute) {
    auto config = small(3);
    config.encoder.block.recompute = recompute;
    config.encoder.block.dropout = 0.2;
    const auto perceiver = model(config);
    perceiver->train();
    Context context = {.random = Random::from_seed(3)};
    (*perceiver)(random_normal({2, 6, kChannels}, 2), context).square().sum().backward();
    return perceiver->named_parameters()["blocks.1.layers.0.mixer.query.weight"].grad();
  };
  EXPECT_NEAR_TENSOR(gradients(Recompute::block), gradients(Recompute::none), kTight);
  auto config = small(2);
  config.encoder.block.residual = Residual::reversible;
  const auto perceiver = model(config);
  perceiver->train();
  Context context;
  (*perceiver)(random_normal({2, 6, kChannels}, 2), context).square().sum().backward();
  for (const auto& entry : perceiver->named_parameters())
    EXPECT_TRUE(entry.value().grad().defined()) << entry.key();
}

TEST(Perceiver, LessPrecisionIsNearby) {
  const at::NoGradGuard no_grad;
  const auto config = small();
  const auto exact = model(config);
  const auto x = random_normal({2, 600, kChannels}, 2).to(at::kBFloat16).to(at::kDouble);
  for (const auto& entry : exact->named_parameters())
    Tensor(entry.value()).copy_(entry.value().to(at::kBFloat16));
  const auto want = run(*exact, x);
  for (const auto& [type, error] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 0.05}}) {
    Perceiver low(config, kChannels, 1);
    const auto from = exact->named_parameters();
    for (const auto& entry : low.named_parameters()) Tensor(entry.value()).copy_(from[entry.key()]);
    low.to(type);
    low.eval();
    const auto got = run(low, x.to(type)).to(at::kDouble);
    EXPECT_LT(((got - want).norm() / want.norm()).item<double>(), error) << type;
  }
}

TEST(Perceiver, CostGrowsLinearlyWithTheTokens) {
  auto config = small();
  config.encoder.block.feed_forward.width = 8;
  const auto used = [&](int64_t tokens) {
    Perceiver perceiver(config, kChannels, 1);
    const auto x = at::ones({1, tokens, kChannels}).requires_grad_();
    return measure([&] {
      Context context;
      perceiver(x, context).sum().backward();
    });
  };
  const auto base = used(4096), twice = used(8192), four = used(16384);
  EXPECT_NEAR((four.operations - twice.operations) / (twice.operations - base.operations), 2, 0.01);
  EXPECT_LT(static_cast<double>(four.peak_bytes), 2.1 * static_cast<double>(twice.peak_bytes));
  EXPECT_EQ(four.launches, base.launches);
}

// Keys and values of the tokens are made once for all repeats that share their weights.
TEST(Perceiver, SharedWeightsReadTheTokensOnce) {
  const at::NoGradGuard no_grad;
  const auto projecting = [&](RepeatWeights weights) {
    auto config = small(8);
    config.repeat_weights = weights;
    config.latents = 1;
    Perceiver perceiver(config, kChannels, 1);
    const auto used = [&](int64_t tokens) {
      const auto x = at::ones({1, tokens, kChannels});
      return measure([&] { run(perceiver, x); }).operations;
    };
    return (used(2048) - used(1024)) / 1024;  // of a token
  };
  EXPECT_LT(projecting(RepeatWeights::shared), 0.5 * projecting(RepeatWeights::own));
}

TEST(Perceiver, ASavedModelIsTheSame) {
  const at::NoGradGuard no_grad;
  const auto perceiver = model(small()), other = model(small(), 2);
  std::map<std::string, Tensor> saved;
  for (const auto& entry : perceiver->named_parameters()) saved[entry.key()] = entry.value();
  const auto file = (scratch_folder() / "model.safetensors").string();
  save_safetensors(file, saved);
  const auto loaded = load_safetensors(file).tensors;
  const auto x = random_normal({2, 9, kChannels}, 2);
  const auto want = run(*perceiver, x);
  EXPECT_FALSE(at::equal(run(*other, x), want));
  for (const auto& entry : other->named_parameters())
    Tensor(entry.value()).copy_(loaded.at(entry.key()));
  EXPECT_NEAR_TENSOR(run(*other, x), want, kExact);
}

PerceiverConfig of_tokens() {
  auto config = small();
  config.encoder.embedding_width = 4;
  config.encoder.max_length = 12;
  config.fourier = {.bands = 3};
  return config;
}

TEST(PerceiverInput, FeaturesOfThePlaceStandBesideTheEmbedding) {
  const auto config = of_tokens();
  ASSERT_EQ(config.channels(), 11);
  PerceiverInput input(config, 20, 1);
  const auto tokens = at::tensor({3, 5, 7, 9, 0, 0, 2, 2, 2, 2, 0, 0}, at::kLong).view({2, 6});
  const auto keep = tokens > 0;
  const Context context = {.mask = {.keep = keep}};
  const auto x = input(tokens, context);
  ASSERT_EQ(x.sizes(), (at::IntArrayRef{2, 6, 11}));
  EXPECT_NEAR_TENSOR(x[0].narrow(0, 0, 4).narrow(1, 4, 7),
                     fourier_table(config.fourier, 12).narrow(0, 0, 4), kExact);
  const auto parameters = input.named_parameters();
  EXPECT_NEAR_TENSOR(x[0][2].narrow(0, 0, 4),
                     parameters["embedding.words"][7] + parameters["embedding.positions"][2],
                     kExact);
}

// The same words elsewhere are other rows, by their features alone.
TEST(PerceiverInput, APermutationOfTokensWithTheirPlacesIsInvisible) {
  const at::NoGradGuard no_grad;
  auto config = of_tokens();
  config.encoder.positions = Positions::none;
  PerceiverInput input(config, 20, 1);
  Perceiver perceiver(config, config.channels(), 1);
  const auto tokens = at::arange(1, 9).view({1, 8});
  const auto order = at::tensor({4, 0, 3, 1, 7, 2, 6, 5}, at::kLong);
  const auto encoded = [&](const Tensor& words, const Tensor& places) {
    Context context = {.positions = places};
    return perceiver(input(words, context), context);
  };
  const auto places = at::arange(8).view({1, 8});
  const auto z = encoded(tokens, places);
  const Tolerance rounding = {1e-5, 1e-5};
  EXPECT_NEAR_TENSOR(encoded(tokens.index_select(1, order), places.index_select(1, order)), z,
                     rounding);
  EXPECT_FALSE(near_tensor(encoded(tokens.index_select(1, order), places), z, rounding));
}

TEST(Perceiver, AConfigThatCannotBeBuiltSaysWhere) {
  const auto checked = [](const std::string& text) {
    const auto tree = yaml("width: 8\nheads: 2\n" + text);
    return error_of([&] { check_perceiver(read<PerceiverConfig>(tree, "model"), tree); });
  };
  EXPECT_EQ(checked("layers: 1"), "");
  EXPECT_EQ(checked("fourier: {bands: 4, sides: [3, 4]}\nmax_length: 12"), "");
  EXPECT_EQ(checked("causal: true"),
            "model.yaml:3: the latents of a Perceiver read all tokens; leave model.causal out, or "
            "take perceiver_ar");
  EXPECT_EQ(checked("positions: rotary"),
            "model.yaml:3: a Perceiver has no rotary positions; take learned, sinusoidal, axial or "
            "none");
  EXPECT_EQ(checked("repeats: 2\nreads: 3"),
            "model.yaml:4: model.reads 3 is more than model.repeats; repeats is 2");
  EXPECT_EQ(checked("cross: {heads: 3}"),
            "model.yaml:3: rows of 8 channels do not divide among model.cross.heads 3; change one "
            "of them, or set model.cross.head_width");
  EXPECT_EQ(checked("cross: {heads: 3, head_width: 5}"), "");
  EXPECT_EQ(checked("fourier:\n  sides: [3, 4]"),
            "model.yaml:4: model.fourier.sides is given without bands; set model.fourier.bands");
  EXPECT_EQ(checked("fourier: {bands: 4, sides: [3, 4]}\nmax_length: 13"),
            "model.yaml:3: model.fourier.sides has 12 places, but max_length is 13; raise a side");
  EXPECT_EQ(checked("attention: {name: linformer, rank: 65}"),
            "model.yaml:3: linformer.rank is 65, but max_length is 64; lower rank");
  EXPECT_EQ(checked("positions: axial\naxial: {rows: 2, columns: 2}\nmax_length: 5"),
            "model.yaml:4: 2 x 2 axial positions are fewer than max_length 5; raise axial.rows or "
            "axial.columns");
  EXPECT_EQ(checked("latents: 0"),
            "model.yaml:3: model.latents is 0, out of range; it may be 1..1048576");
}

TEST(Perceiver, RefusesWhatItWasNotBuiltFor) {
  const auto perceiver = model(small());
  EXPECT_EQ(error_of([&] {
              run(*perceiver, random_normal({2, 4, 5}, 1));
            }),
            "perceiver: x is [2, 4, 5], but needs [batch, tokens, 6]");
  EXPECT_EQ(error_of([&] {
              run(*perceiver, random_normal({2, 4, 6}, 1), at::ones({2, 5}, at::kBool));
            }),
            "perceiver: keep is [2, 5], but there are 2 rows of 4 tokens");
  auto config = small();
  config.reads = 4;
  EXPECT_EQ(error_of([&] { model(config); }), "perceiver: 4 reads in 3 repeats");
  config = small();
  config.encoder.causal = true;
  EXPECT_EQ(error_of([&] { model(config); }),
            "perceiver: the latents read all tokens, so it is not causal");
  config = small();
  config.encoder.positions = Positions::rotary;
  EXPECT_EQ(error_of([&] { model(config); }), "perceiver: has no rotary positions");
  PerceiverInput input(of_tokens(), 20, 1);
  EXPECT_EQ(error_of([&] {
              input(at::ones({1, 13}, at::kLong), {});
            }),
            "perceiver: 13 tokens, but max_length is 12");
}

}  // namespace
}  // namespace longbow
