#include "longbow/models/perceiver/perceiver_ar.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/tensors/meter.h"
#include "tests/models/hugging_face.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

constexpr int64_t kVocabulary = 11;
const Tolerance kTight = {1e-11, 1e-11};

PerceiverArConfig small(int64_t latents, const std::string& more = "") {
  return read<PerceiverArConfig>(yaml("{width: 8, heads: 2, layers: 2, max_length: 16, init: "
                                      "xavier, cross: {heads: 2, head_width: 3}, latents: " +
                                      std::to_string(latents) + more + "}"),
                                 "model");
}

std::shared_ptr<PerceiverAr> model(const PerceiverArConfig& config, uint64_t seed = 1) {
  auto made = std::make_shared<PerceiverAr>(config, kVocabulary, seed);
  made->to(at::kDouble);
  made->eval();
  const at::NoGradGuard no_grad;
  for (const auto& entry : made->named_parameters())
    if (entry.key().starts_with("embedding.")) Tensor(entry.value()).mul_(30);
  return made;
}

Tensor tokens(int64_t batch, int64_t length) {
  return (at::arange(batch * length) * 7).remainder(kVocabulary - 1).add(1).view({batch, length});
}

PerceiverAr::Rows run(PerceiverAr& ar, const Tensor& words,
                      const std::vector<int64_t>& lengths = {}, const Tensor& first = {}) {
  Context context;
  if (!lengths.empty()) context.mask = Mask::from_lengths(at::tensor(lengths), words.size(1));
  return ar(words, first, context);
}

Tensor all(PerceiverAr& ar, const Tensor& words, const std::vector<int64_t>& lengths = {}) {
  Context context;
  if (!lengths.empty()) context.mask = Mask::from_lengths(at::tensor(lengths), words.size(1));
  return ar.all(words, context);
}

const char* const kAttentions[] = {"", ", attention: linear",
                                   ", attention: {name: local, window: 3}"};

// The cross layer is the first layer of a causal transformer, when its two norms are alike.
TEST(PerceiverAr, WithAllTokensAsLatentsItIsACausalTransformer) {
  const at::NoGradGuard no_grad;
  auto config = small(16, ", positions: learned");
  config.cross = {.heads = 2};
  const auto ar = model(config);
  LanguageModelConfig plain = {.encoder = config.encoder, .head = config.head};
  plain.encoder.layers = 3;
  LanguageModel transformer(plain, {kVocabulary, kVocabulary}, 2);
  transformer.to(at::kDouble);
  transformer.eval();
  const auto ours = ar->named_parameters();
  for (const std::string end : {".weight", ".bias"})
    ours["cross.source_norm" + end].copy_(ours["cross.norm" + end]);
  for (const auto& entry : transformer.named_parameters()) {
    auto name = entry.key();
    if (name.starts_with("encoder.")) name = name.substr(8);
    const auto moved = [&](const std::string& from, const std::string& to) {
      if (name.starts_with(from)) name = to + name.substr(from.size());
    };
    moved("layers.0.mixer_norm", "cross.norm");
    moved("layers.0.mixer.", "cross.");
    moved("layers.0.", "cross.");
    moved("layers.2.", "blocks.layers.1.");
    moved("layers.1.", "blocks.layers.0.");
    Tensor(entry.value()).copy_(ours[name]);
  }
  for (const int64_t length : {1, 5, 16}) {
    Context context;
    const auto want = transformer(tokens(2, length), context);
    EXPECT_NEAR_TENSOR(run(*ar, tokens(2, length)).logits, want, kTight) << length;
    EXPECT_NEAR_TENSOR(all(*ar, tokens(2, length)), want, kTight) << length;
  }
}

// The last ones, or those after a given place: the same as the last ones of the text up to there.
TEST(PerceiverAr, TheLastTokensAreTheLatents) {
  const at::NoGradGuard no_grad;
  const auto ar = model(small(4));
  const auto words = tokens(2, 11);
  const auto rows = run(*ar, words);
  ASSERT_EQ(rows.logits.sizes(), (at::IntArrayRef{2, 4, kVocabulary}));
  EXPECT_NEAR_TENSOR(rows.places, at::arange(7, 11).expand({2, 4}), kExact);
  const auto early = run(*ar, words, {}, at::tensor({2, 7}, at::kLong));
  EXPECT_NEAR_TENSOR(early.places, at::stack({at::arange(2, 6), at::arange(7, 11)}), kExact);
  EXPECT_NEAR_TENSOR(early.logits[1], rows.logits[1], kTight);
  EXPECT_NEAR_TENSOR(early.logits[0], run(*ar, words.narrow(1, 0, 6)).logits[0], kTight);
}

TEST(PerceiverAr, TheFutureIsInvisible) {
  const at::NoGradGuard no_grad;
  for (const auto* attention : kAttentions) {
    const auto ar = model(small(5, attention));
    const auto words = tokens(2, 12);
    for (const int64_t t : {3, 8, 10}) {
      auto other = words.clone();
      other.narrow(1, t, 12 - t).fill_(2);
      EXPECT_TRUE(at::equal(all(*ar, other).narrow(1, 0, t), all(*ar, words).narrow(1, 0, t)))
          << attention << " " << t;
      const auto before = run(*ar, words), after = run(*ar, other);
      const int64_t seen = std::max<int64_t>(t - 7, 0);  // latents stand at 7 to 11
      EXPECT_TRUE(at::equal(after.logits.narrow(1, 0, seen), before.logits.narrow(1, 0, seen)))
          << attention << " " << t;
      EXPECT_FALSE(at::equal(after.logits, before.logits)) << attention << " " << t;
    }
  }
}

TEST(PerceiverAr, AllIsBlockAfterBlock) {
  const at::NoGradGuard no_grad;
  const auto ar = model(small(5));
  const auto words = tokens(2, 13);
  const auto logits = all(*ar, words);
  for (const auto& [first, end] : {std::pair{0, 5}, {5, 10}})
    EXPECT_NEAR_TENSOR(logits.narrow(1, first, 5), run(*ar, words.narrow(1, 0, end)).logits,
                       kTight);
  // The last block is shorter: a fresh set of latents.
  const auto rest = run(*ar, words.narrow(1, 0, 13), {}, at::tensor({8, 8}, at::kLong));
  EXPECT_FALSE(near_tensor(logits.narrow(1, 10, 3), rest.logits.narrow(1, 2, 3), kTight));
}

TEST(PerceiverAr, PaddingAndNeighboursChangeNothing) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> lengths = {12, 7, 3, 1};
  for (const auto* attention : kAttentions) {
    const auto ar = model(small(5, attention));
    const auto words = tokens(4, 12);
    const auto together = run(*ar, words, lengths);
    const auto each = all(*ar, words, lengths);
    for (int64_t row = 0; row < 4; ++row) {
      const auto n = lengths[static_cast<size_t>(row)], latents = std::min<int64_t>(n, 5);
      const auto own = words.narrow(0, row, 1).narrow(1, 0, n);
      EXPECT_NEAR_TENSOR(together.logits[row].narrow(0, 0, latents), run(*ar, own).logits[0],
                         kTight)
          << attention << " " << n;
      EXPECT_NEAR_TENSOR(each[row].narrow(0, 0, n), all(*ar, own)[0], kTight)
          << attention << " " << n;
      EXPECT_EQ(together.places[row][0].item<int64_t>(), n - latents);
    }
  }
}

TEST(PerceiverAr, AnEmptyTextIsFiniteWithFiniteGradients) {
  const auto ar = model(small(5));
  const auto rows = run(*ar, tokens(2, 9), {9, 0});
  rows.logits.square().sum().backward();
  EXPECT_TRUE(rows.logits.isfinite().all().item<bool>());
  for (const auto& entry : ar->named_parameters())
    EXPECT_TRUE(entry.value().grad().isfinite().all().item<bool>()) << entry.key();
}

// Any split of the tokens, also beyond one set of latents, with prompts of different lengths.
TEST(PerceiverAr, DecodingIsTheForwardPass) {
  const at::NoGradGuard no_grad;
  for (const auto* attention : kAttentions)
    for (const int64_t latents : {1, 4, 16}) {
      const auto ar = model(small(latents, attention));
      const auto words = tokens(2, 14);
      const auto want = all(*ar, words);
      for (const auto& pieces : std::vector<std::vector<int64_t>>{
               std::vector<int64_t>(14, 1), {14}, {3, 1, 7, 3}, {9, 1, 1, 1, 2}}) {
        auto state = ar->start(2, 14, {});
        int64_t at = 0;
        for (const auto piece : pieces) {
          Context context;
          const auto got = ar->extend(words.narrow(1, at, piece), state, context);
          at += piece;
          EXPECT_NEAR_TENSOR(got, want.select(1, at - 1), kTight)
              << attention << " " << latents << " latents, " << at << " tokens";
        }
      }
    }
}

// While the text fits into the latents they only grow, and decoding is the plain forward pass.
TEST(PerceiverAr, GrowingLatentsAreExact) {
  const at::NoGradGuard no_grad;
  const auto ar = model(small(8));
  const auto words = tokens(2, 8);
  auto state = ar->start(2, 8, {});
  for (int64_t t = 0; t < 8; ++t) {
    Context context;
    const auto got = ar->extend(words.narrow(1, t, 1), state, context);
    const auto whole = run(*ar, words.narrow(1, 0, t + 1)).logits;
    EXPECT_NEAR_TENSOR(got, whole.select(1, t), kTight) << t;
  }
}

TEST(PerceiverAr, PromptsMayDifferInLengthAndLanesMove) {
  const at::NoGradGuard no_grad;
  const auto ar = model(small(4));
  const auto words = tokens(3, 9);
  const std::vector<int64_t> lengths = {9, 5, 2};
  auto state = ar->start(3, 14, {});
  Context context = {.mask = Mask::from_lengths(at::tensor(lengths), 9)};
  auto got = ar->extend(words, state, context);
  const auto order = at::tensor({2, 0, 0}, at::kLong);
  state.reorder(order);
  const auto more = tokens(3, 3);
  for (int64_t t = 0; t < 3; ++t) {
    Context step;
    got = ar->extend(more.narrow(1, t, 1), state, step);
  }
  for (int64_t lane = 0; lane < 3; ++lane) {
    const auto from = order[lane].item<int64_t>();
    const auto n = lengths[static_cast<size_t>(from)];
    const auto text = at::cat({words[from].narrow(0, 0, n), more[lane]}).unsqueeze(0);
    EXPECT_NEAR_TENSOR(got[lane], all(*ar, text)[0][n + 2], kTight) << lane;
  }
}

TEST(PerceiverAr, AContinuationIsDecoded) {
  const at::NoGradGuard no_grad;
  const auto ar = model(small(4));
  const auto model_of_texts = ar->continuation(2, {});
  EXPECT_EQ(model_of_texts.longest, 16);
  const auto prompt = tokens(2, 6);
  const auto written = decode(model_of_texts, {prompt}, -1, {.max_length = 5}, {});
  auto text = prompt;
  for (int64_t t = 0; t < 5; ++t)  // the most probable token each time
    text = at::cat({text, all(*ar, text).select(1, text.size(1) - 1).argmax(-1, true)}, 1);
  EXPECT_NEAR_TENSOR(written.tokens.select(1, 0), text.narrow(1, 6, 5), kExact);
}

TEST(PerceiverAr, GradientsAreThoseOfDifferences) {
  for (const bool blocks : {false, true}) {
    auto config = small(3);
    config.encoder.layers = 1;
    const auto ar = model(config);
    std::vector<Leaf> leaves;
    for (const auto& entry : ar->named_parameters()) leaves.push_back({entry.key(), entry.value()});
    const std::vector<int64_t> lengths = {7, 5};
    EXPECT_TRUE(gradcheck(
        [&] {
          if (!blocks) return run(*ar, tokens(2, 7), lengths).logits;
          const auto y = all(*ar, tokens(2, 7), lengths);
          return at::cat({y[0], y[1].narrow(0, 0, 5)});
        },
        leaves));
  }
}

// The prefix of 12 tokens loses half; the latents' own tokens are always read.
TEST(PerceiverAr, PrefixDropoutHidesTokensBeforeTheLatents) {
  auto config = small(4, ", positions: none, prefix_dropout: 0.5");
  const auto ar = model(config);
  const auto words = tokens(2, 16);
  const auto trained = [&](int64_t step) {
    Choices choices = {.mode = Choices::Mode::record};
    Context context = {.random = Random::from_seed(1, step), .choices = &choices};
    ar->train();
    const auto logits = (*ar)(words, {}, context).logits;
    ar->eval();
    return std::pair(logits, choices.kept.at("prefix"));
  };
  const auto [logits, chosen] = trained(1);
  ASSERT_EQ(chosen.sizes(), (at::IntArrayRef{2, 10}));  // 4 latents and 6 of 12
  for (int64_t row = 0; row < 2; ++row) {
    const auto sorted = std::get<0>(chosen[row].sort());
    EXPECT_NEAR_TENSOR(sorted.narrow(0, 6, 4), at::arange(12, 16), kExact);
    const at::NoGradGuard no_grad;  // without positions: the same text without the others
    const auto text = words[row].index_select(0, sorted).unsqueeze(0);
    EXPECT_NEAR_TENSOR(logits[row], run(*ar, text).logits[0], kTight);
  }
  EXPECT_NEAR_TENSOR(trained(1).first, logits, kExact);
  EXPECT_FALSE(at::equal(trained(2).second, chosen));
  EXPECT_FALSE(near_tensor(run(*ar, words).logits, logits, kTight)) << "evaluation reads all";
}

TEST(PerceiverAr, LessPrecisionIsNearby) {
  const at::NoGradGuard no_grad;
  const auto config = small(6);
  const auto exact = model(config);
  for (const auto& entry : exact->named_parameters())
    Tensor(entry.value()).copy_(entry.value().to(at::kBFloat16));
  const auto want = run(*exact, tokens(3, 16), {16, 9, 4}).logits;
  for (const auto& [type, error] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 0.05}}) {
    PerceiverAr low(config, kVocabulary, 1);
    const auto from = exact->named_parameters();
    for (const auto& entry : low.named_parameters()) Tensor(entry.value()).copy_(from[entry.key()]);
    low.to(type);
    low.eval();
    const auto got = run(low, tokens(3, 16), {16, 9, 4}).logits.to(at::kDouble);
    EXPECT_LT(((got - want).norm() / want.norm()).item<double>(), error) << type;
  }
}

TEST(PerceiverAr, CostGrowsLinearlyWithTheTokens) {
  auto config = small(8);
  config.encoder.max_length = 8192;
  config.encoder.positions = Positions::none;
  const auto used = [&](int64_t length) {
    PerceiverAr ar(config, kVocabulary, 1);
    return measure([&] { run(ar, tokens(1, length)).logits.sum().backward(); });
  };
  const auto base = used(2048), twice = used(4096), four = used(8192);
  EXPECT_NEAR((four.operations - twice.operations) / (twice.operations - base.operations), 2, 0.01);
  EXPECT_LT(static_cast<double>(four.peak_bytes), 2.1 * static_cast<double>(twice.peak_bytes));
  EXPECT_EQ(four.launches, base.launches);
}

TEST(PerceiverAr, ASavedModelIsTheSame) {
  const at::NoGradGuard no_grad;
  const auto ar = model(small(4)), other = model(small(4), 2);
  std::map<std::string, Tensor> saved;
  for (const auto& entry : ar->named_parameters()) saved[entry.key()] = entry.value();
  const auto file = (scratch_folder() / "model.safetensors").string();
  save_safetensors(file, saved);
  const auto loaded = load_safetensors(file).tensors;
  const auto want = run(*ar, tokens(2, 8)).logits;
  EXPECT_FALSE(at::equal(run(*other, tokens(2, 8)).logits, want));
  for (const auto& entry : other->named_parameters())
    Tensor(entry.value()).copy_(loaded.at(entry.key()));
  EXPECT_NEAR_TENSOR(run(*other, tokens(2, 8)).logits, want, kExact);
}

TEST(PerceiverAr, AConfigThatCannotBeBuiltSaysWhere) {
  const auto checked = [](const std::string& text) {
    const auto tree = yaml("width: 8\nheads: 2\n" + text);
    return error_of([&] { check_perceiver_ar(read<PerceiverArConfig>(tree, "model"), tree); });
  };
  EXPECT_EQ(checked("layers: 1"), "");
  EXPECT_EQ(checked("causal: false"),
            "model.yaml:3: perceiver_ar is causal; leave model.causal out, or take perceiver");
  EXPECT_EQ(checked("positions: rotary"),
            "model.yaml:3: a Perceiver has no rotary positions; take learned, sinusoidal, axial or "
            "none");
  EXPECT_EQ(checked("cross: {heads: 3}"),
            "model.yaml:3: rows of 8 channels do not divide among model.cross.heads 3; change one "
            "of them, or set model.cross.head_width");
  EXPECT_TRUE(checked("attention: fnet").starts_with("model.yaml:3: fnet is not causal; "));
  EXPECT_EQ(
      checked("embedding_width: 4"),
      "model.yaml:3: words of width 4 are tied to a model of width 8 without a transform; set "
      "model.transform: true, or model.tied: false");
  EXPECT_EQ(checked("prefix_dropout: 1"),
            "model.yaml:3: model.prefix_dropout is 1, out of range; it may be 0..0.99");
}

TEST(PerceiverAr, RefusesWhatItWasNotBuiltFor) {
  const auto ar = model(small(4));
  EXPECT_EQ(error_of([&] { run(*ar, tokens(1, 17)); }),
            "perceiver_ar: 17 tokens, but max_length is 16");
  Context ragged = {.mask = Mask::from_keep(at::ones({1, 6}, at::kBool))};
  EXPECT_EQ(error_of([&] { (*ar)(tokens(1, 6), {}, ragged); }),
            "perceiver_ar: real tokens must come first");
  EXPECT_EQ(error_of([&] { ar->start(1, 17, {}); }),
            "perceiver_ar: a capacity of 17 tokens, but max_length is 16");
  State empty;
  Context context;
  EXPECT_EQ(error_of([&] { ar->extend(tokens(1, 1), empty, context); }),
            "perceiver_ar: extend before start");
  auto config = small(4);
  config.encoder.causal = false;
  EXPECT_EQ(error_of([&] { model(config); }), "perceiver_ar: is causal");
  config = small(4, ", positions: rotary");
  EXPECT_EQ(error_of([&] { model(config); }), "perceiver_ar: has no rotary positions");
}

}  // namespace
}  // namespace longbow
