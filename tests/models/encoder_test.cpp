#include "longbow/models/encoder/encoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

constexpr int64_t kVocabulary = 11, kLength = 12;

EncoderConfig small(const std::string& attention, int64_t layers = 2) {
  EncoderConfig config = {.width = 8, .heads = 2, .layers = layers, .max_length = kLength};
  config.init = Init::xavier;
  config.attention = yaml(attention);
  return config;
}

Tensor tokens(int64_t batch, int64_t length) {
  return (at::arange(batch * length) * 7).remainder(kVocabulary - 1).add(1).view({batch, length});
}

const std::vector<std::string> kAttentions = {"softmax", "linear", "{name: linformer, rank: 4}",
                                              "{name: local, window: 4}"};

TEST(Encoder, PaddingAndNeighboursChangeNothing) {
  for (const auto& attention : kAttentions)
    for (size_t i = 0; i < names_of(Positions()).size(); ++i) {
      auto config = small(attention);
      config.positions = static_cast<Positions>(i);
      config.block.convolution.width = i % 2 == 0 ? 0 : 3;
      Encoder encoder(config, kVocabulary, 1);
      encoder.eval();
      const auto batch = tokens(3, kLength);
      const std::vector<int64_t> lengths = {12, 5, 1};
      Context context = {.mask = Mask::from_lengths(at::tensor(lengths), kLength)};
      const auto together = encoder(batch, context);
      for (int64_t row = 0; row < 3; ++row) {
        const auto length = lengths[static_cast<size_t>(row)];
        Context own;
        const auto alone = encoder(batch.narrow(0, row, 1).narrow(1, 0, length), own);
        EXPECT_NEAR_TENSOR(together.narrow(0, row, 1).narrow(1, 0, length), alone,
                           (Tolerance{1e-5, 1e-5}))
            << attention;
      }
    }
}

TEST(Encoder, ACausalOneDoesNotSeeTheFuture) {
  auto config = small("linear");
  config.causal = true;
  Encoder encoder(config, kVocabulary, 1);
  auto first = tokens(2, 9), second = first.clone();
  second.narrow(1, 5, 4).fill_(3);
  Context a, b;
  const auto before = encoder(first, a).narrow(1, 0, 5);
  EXPECT_NEAR_TENSOR(encoder(second, b).narrow(1, 0, 5), before, (Tolerance{1e-6, 1e-6}));
  EXPECT_GT((encoder(second, b) - encoder(first, a)).abs().max().item<double>(), 1e-3);
}

TEST(Encoder, EveryParameterIsRegisteredOnceUnderAName) {
  for (const auto& attention : kAttentions) {
    Encoder encoder(small(attention), kVocabulary, 1);
    std::set<std::string> names;
    std::set<void*> storages;
    for (const auto& entry : encoder.named_parameters()) {
      EXPECT_TRUE(names.insert(entry.key()).second) << entry.key();
      EXPECT_TRUE(storages.insert(entry.value().data_ptr()).second) << entry.key();
    }
    EXPECT_TRUE(names.count("layers.1.mixer_norm.weight")) << attention;
  }
}

TEST(Encoder, LinformersLayersShareOneProjection) {
  Encoder encoder(small("{name: linformer, rank: 4, sharing: layerwise}", 3), kVocabulary, 1);
  std::vector<std::string> projections;
  for (const auto& entry : encoder.named_parameters())
    if (entry.value().sizes() == at::IntArrayRef{4, kLength}) projections.push_back(entry.key());
  EXPECT_EQ(projections, std::vector<std::string>{"shared.linformer_e"});
}

TEST(Encoder, OneLayerMoreLeavesTheInitialValuesOfTheOthers) {
  Encoder two(small("softmax", 2), kVocabulary, 1), three(small("softmax", 3), kVocabulary, 1);
  Encoder other(small("softmax", 2), kVocabulary, 2);
  const auto longer = three.named_parameters(), shorter = two.named_parameters();
  for (const auto& entry : shorter)
    EXPECT_NEAR_TENSOR(longer[entry.key()], entry.value(), kExact) << entry.key();
  EXPECT_FALSE(at::equal(other.named_parameters()["embedding.words"], shorter["embedding.words"]));
}

std::map<std::string, Tensor> gradients(EncoderConfig config, Recompute recompute) {
  config.block.recompute = recompute;
  config.block.dropout = 0.2;
  config.embedding_dropout = 0.1;
  Encoder encoder(config, kVocabulary, 1);
  Context context = {.mask = Mask::from_lengths(at::tensor({12, 7}, at::kLong), kLength),
                     .random = Random::from_seed(4, 9)};
  const auto y = encoder(tokens(2, kLength), context);
  y.backward(random_normal(y.sizes(), 6).to(y.scalar_type()));  // sums of a norm have no gradient
  std::map<std::string, Tensor> found;
  for (const auto& entry : encoder.named_parameters()) found[entry.key()] = entry.value().grad();
  return found;
}

// By default and in each variant.
std::vector<Node> attentions_that(bool (*promise)(const Promises&)) {
  std::vector<Node> found;
  for (const auto& row : mechanisms()) {
    auto variants = row.variants;
    variants.insert(variants.begin(), Variant{});
    for (const auto& variant : variants) {
      const auto options = variant.options.empty() ? Node::map() : yaml(variant.options);
      if (!promise(row.promises(options))) continue;
      found.push_back(options);
      found.back()["name"] = Node::string(row.name);
    }
  }
  return found;
}

// The promise is that of the row; which of them project queries and keys, their classes say.
TEST(Encoder, RotaryPositionsAreTakenWhereThereAreQueriesAndKeys) {
  Site site = {.shape = {.width = 8, .heads = 2, .max_length = 128}, .init = "xavier", .seed = 1};
  const auto any = [](const Promises&) { return true; };
  for (const auto& attention : attentions_that(any)) {
    const auto& mechanism = mechanism_of(attention);
    if (mechanism.name == "none") continue;  // has no mixer at all
    site.shared = std::make_shared<Shared>();
    const auto mixer = make_mixer(attention, site);
    // These have positions of their own, relative ones.
    const bool relative = mechanism.name == "transformer_xl" || mechanism.name == "compressive";
    EXPECT_EQ(std::dynamic_pointer_cast<ProjectedMixer>(mixer) != nullptr && !relative,
              mixer->promises().rotary)
        << to_yaml(attention);
    if (!mixer->promises().rotary) continue;
    auto turned = site;
    turned.rotary = Rotary{};
    const auto other = make_mixer(attention, turned);
    EXPECT_TRUE(other->promises().positional);
    mixer->eval();
    other->eval();
    const auto x = random_normal({1, 40, 8}, 3).to(at::kFloat);
    Context a, b;
    a.mask.causal = b.mask.causal = !mixer->promises().bidirectional;
    EXPECT_GT(((*other)(x, a) - (*mixer)(x, b)).abs().max().item<double>(), 1e-4)
        << to_yaml(attention);
  }
}

// Softmax of rotated queries and keys, written out for one layer without feed-forward and norm.
TEST(Encoder, RotaryPositionsTurnQueriesAndKeysOfEveryLayer) {
  auto config = small("softmax", 1);
  config.positions = Positions::rotary;
  config.rotary = {.base = 20, .fraction = 0.5, .planes = Planes::pairs};
  config.block.residual = Residual::rezero;
  config.block.rezero_start = 1;
  config.block.feed_forward.kind = FeedForwardKind::none;
  Encoder encoder(config, kVocabulary, 1);
  const auto p = encoder.named_parameters();
  const auto x = at::embedding(encoder.words(), tokens(1, 7));
  const auto projected = [&](const std::string& name) {
    const auto prefix = "layers.0.mixer." + name;
    return split_heads(at::linear(x, p[prefix + ".weight"], p[prefix + ".bias"]), 2);
  };
  const auto places = at::arange(7).unsqueeze(0);
  const auto q = config.rotary(projected("query"), places),
             k = config.rotary(projected("key"), places);
  const auto read = (q.matmul(k.transpose(-2, -1)) / 2).softmax(-1).matmul(projected("value"));
  const auto y = x + at::linear(merge_heads(read), p["layers.0.mixer.output.weight"],
                                p["layers.0.mixer.output.bias"]);
  Context context;
  EXPECT_NEAR_TENSOR(encoder(tokens(1, 7), context), y, tolerance(at::kFloat));
}

TEST(Encoder, RecomputationGivesTheSameGradients) {
  auto attentions = kAttentions;
  attentions.push_back("{name: linformer, rank: 4, sharing: layerwise}");
  for (const auto& attention : attentions) {
    const auto want = gradients(small(attention), Recompute::none);
    for (const auto recompute : {Recompute::block, Recompute::attention})
      for (const auto& [name, gradient] : gradients(small(attention), recompute))
        EXPECT_NEAR_TENSOR(gradient, want.at(name), (Tolerance{1e-6, 1e-5}))
            << attention << " " << name;
  }
}

bool decodes(const Promises& p) {
  return p.decode;
}

std::shared_ptr<Encoder> causal_encoder(const Node& attention, Positions positions,
                                        Residual residual = Residual::pre_norm) {
  auto config = small("softmax");
  config.attention = attention;
  config.max_length = 128;
  config.causal = true;
  config.positions = positions;
  config.block.residual = residual;
  config.block.convolution.width = positions == Positions::rotary ? 3 : 0;
  auto encoder = std::make_shared<Encoder>(config, kVocabulary, 1);
  encoder->to(at::kDouble);
  encoder->eval();
  return encoder;
}

Tensor in_pieces(Encoder& encoder, State& state, const Tensor& input,
                 const std::vector<int64_t>& split, const Tensor& keep = {}) {
  std::vector<Tensor> pieces;
  Context context;  // one for all, as a caller would have it
  int64_t first = 0;
  for (const auto count : split) {
    if (keep.defined()) context.mask = Mask::from_keep(keep.narrow(1, first, count));
    pieces.push_back(encoder.extend(input.narrow(1, first, count), state, context));
    first += count;
  }
  return at::cat(pieces, 1);
}

State started(Encoder& encoder, int64_t lanes) {
  State state;
  Context context;
  encoder.start(state, lanes, kLength, context);
  return state;
}

const std::vector<std::vector<int64_t>> kSplits = {
    {12}, {5, 1, 6}, std::vector<int64_t>(kLength, 1)};
const Tolerance kSame = {1e-9, 1e-9};

TEST(Encoder, AnySplitIntoExtensionsIsTheForwardPass) {
  const at::NoGradGuard no_grad;
  const auto input = tokens(2, kLength);
  auto keep = at::ones({2, kLength}, at::kBool);
  keep[1].narrow(0, 3, 4).fill_(false);
  keep[0][0].fill_(false);
  const auto real = keep.unsqueeze(-1).to(at::kDouble);
  const auto subjects = attentions_that(decodes);
  ASSERT_GT(subjects.size(), 20u);
  for (const auto& attention : subjects) {
    const auto promises = mechanism_of(attention).promises(options_of(attention));
    // Where it can be, with rotary positions and a convolution in the blocks.
    const auto encoder =
        causal_encoder(attention, promises.rotary ? Positions::rotary : Positions::learned);
    Context whole, holed = {.mask = Mask::from_keep(keep)};
    const auto want = (*encoder)(input, whole), with_holes = (*encoder)(input, holed);
    for (const auto& split : kSplits) {
      auto state = started(*encoder, 2);
      EXPECT_NEAR_TENSOR(in_pieces(*encoder, state, input, split), want, kSame)
          << to_yaml(attention);
      state = started(*encoder, 2);
      EXPECT_NEAR_TENSOR(in_pieces(*encoder, state, input, split, keep) * real, with_holes * real,
                         kSame)
          << to_yaml(attention) << "with holes";
      EXPECT_NEAR_TENSOR(state.seen, keep.sum(1), kExact);
    }
  }
}

TEST(Encoder, EveryKindOfPositionAndResidualGoesOnWhileDecoding) {
  const at::NoGradGuard no_grad;
  const auto input = tokens(2, kLength);
  const auto compare = [&](Positions positions, Residual residual) {
    const auto encoder = causal_encoder(yaml("softmax"), positions, residual);
    Context whole;
    const auto want = (*encoder)(input, whole);
    auto state = started(*encoder, 2);
    EXPECT_NEAR_TENSOR(in_pieces(*encoder, state, input, {5, 1, 6}), want, kSame)
        << name_of(positions) << " " << name_of(residual);
  };
  for (size_t i = 0; i < names_of(Positions()).size(); ++i)
    compare(static_cast<Positions>(i), Residual::pre_norm);
  for (size_t i = 0; i < names_of(Residual()).size(); ++i)
    compare(Positions::learned, static_cast<Residual>(i));
}

TEST(Encoder, LanesMoveAndRestart) {
  const at::NoGradGuard no_grad;
  const auto encoder = causal_encoder(yaml("linear"), Positions::rotary);
  const auto input = tokens(3, kLength), beams = at::tensor({2, 0, 0}, at::kLong);
  auto state = started(*encoder, 3);
  Context context;
  (void)encoder->extend(input.narrow(1, 0, 5), state, context);
  state.reorder(beams);
  state.reset(at::tensor({0, 0, 1}, at::kLong).to(at::kBool));
  const auto next = input.narrow(1, 5, 4), y = encoder->extend(next, state, context);
  Context moved, fresh;
  const auto before = input.narrow(1, 0, 5).index_select(0, beams);
  const auto went_on = (*encoder)(at::cat({before, next}, 1), moved).narrow(1, 5, 4);
  EXPECT_NEAR_TENSOR(y.narrow(0, 0, 2), went_on.narrow(0, 0, 2), kSame);
  EXPECT_NEAR_TENSOR(y[2], (*encoder)(next, fresh)[2], kSame);
}

TEST(Encoder, SaysWhyItCannotBeExtended) {
  State state;
  Context context;
  Encoder both_ways(small("softmax", 1), kVocabulary, 1);
  EXPECT_EQ(error_of([&] { both_ways.start(state, 1, kLength, context); }),
            "encoder: only a causal one can be extended");
  const auto encoder = causal_encoder(yaml("softmax"), Positions::learned);
  EXPECT_EQ(error_of([&] { encoder->start(state, 1, 129, context); }),
            "encoder: a capacity of 129 tokens, but max_length is 128");
  EXPECT_EQ(error_of([&] { encoder->extend(tokens(1, 1), state, context); }),
            "encoder: extend before start");
}

TEST(Encoder, RefusesWhatItWasNotBuiltFor) {
  Encoder encoder(small("softmax", 1), kVocabulary, 1);
  Context context;
  EXPECT_EQ(error_of([&] { encoder(tokens(1, 13), context); }),
            "encoder: 13 tokens, but max_length is 12");
  auto odd = small("softmax", 1);
  odd.heads = 3;
  EXPECT_EQ(error_of([&] { Encoder(odd, kVocabulary, 1); }),
            "encoder: width 8 is not a multiple of 3 heads");
}

}  // namespace
}  // namespace longbow
