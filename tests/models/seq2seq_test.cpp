#include "longbow/models/decoder/seq2seq.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kSources = 7, kTargets = 9, kBegin = 1, kEnd = 2;

Node yaml(const std::string& text) {
  return parse_yaml(text, "m.yaml");
}

struct Made {
  std::shared_ptr<Seq2Seq> model;
  Tensor source = at::tensor({1, 2, 3, 4, 5, 6, 6, 2, 0, 0, 3, 1, 4, 0, 0}, at::kLong).view({3, 5});
  Tensor target =
      at::tensor({1, 3, 4, 5, 6, 7, 1, 8, 3, 0, 0, 0, 1, 5, 5, 4, 0, 0}, at::kLong).view({3, 6});
  Mask source_mask = Mask::from_lengths(at::tensor({5, 3, 3}, at::kLong), 5);
  Mask target_mask = Mask::from_lengths(at::tensor({6, 3, 4}, at::kLong), 6);

  Tensor logits() const {
    Context context = {.mask = target_mask};
    return (*model)(source, source_mask, target, context);
  }
};

TEST(Seq2Seq, KeysBesideThePartsAreThoseOfBoth) {
  const auto whole = with_parts(
      yaml("{width: 32, heads: 4, attention: {name: linformer, rank: 8}, block: {dropout: 0.1}, "
           "decoder: {width: 16, block: {feed_forward: 64}, attention: {name: linear}}, "
           "tie: output}"));
  EXPECT_EQ(to_yaml(*whole.find("encoder")),
            to_yaml(yaml("{width: 32, heads: 4, block: {dropout: 0.1}, "
                         "attention: {name: linformer, rank: 8}}")));
  const auto config = read<Seq2SeqConfig>(whole, "model");
  EXPECT_EQ(config.decoder.width, 16);
  EXPECT_EQ(config.decoder.heads, 4);
  EXPECT_EQ(config.decoder.block.feed_forward.width, 64);
  EXPECT_EQ(config.decoder.block.dropout, 0.1);
  EXPECT_EQ(to_yaml(config.decoder.attention), to_yaml(yaml("{name: linear}")));
  EXPECT_EQ(whole.find("width"), nullptr);
  EXPECT_EQ(config.tie, Tie::output);
  EXPECT_EQ(to_yaml(with_parts(whole)), to_yaml(whole));
}

TEST(Seq2Seq, AKeyOfOnePartAloneIsUnknownBesideThem) {
  EXPECT_EQ(error_of([] { read<Seq2SeqConfig>(yaml("{wdith: 3}"), "model"); }),
            "m.yaml:1: unknown key 'wdith'; did you mean 'width'?");
  EXPECT_NE(error_of([] { read<Seq2SeqConfig>(yaml("{cross_attention: linear}"), "model"); }), "");
}

Made made(const std::string& encoder, const std::string& decoder, const std::string& cross,
          const std::string& residual = "pre_norm", Tie tie = Tie::none) {
  Seq2SeqConfig config;
  config.encoder = {.width = 8, .max_length = 6, .init = Init::xavier};
  config.encoder.attention = yaml(encoder);
  config.decoder = {.width = tie == Tie::all ? 8 : 12, .max_length = 10, .init = Init::xavier};
  config.decoder.attention = yaml(decoder);
  config.decoder.cross_attention = yaml(cross);
  config.decoder.block = read<BlockConfig>(yaml("{rezero_start: 0.7, residual: " + residual + "}"));
  config.tie = tie;
  Made result = {
      std::make_shared<Seq2Seq>(config, tie == Tie::all ? kTargets : kSources, kTargets, 3)};
  result.model->to(at::kDouble);
  result.model->eval();
  return result;
}

struct Kind {
  std::string encoder, decoder, cross, residual = "pre_norm";
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"softmax", "softmax", "softmax"},
      {"linear", "linear", "linear", "post_norm"},
      {"{name: linformer, rank: 4}", "softmax", "{name: linformer, rank: 4}", "reversible"},
      {"{name: local, window: 2}", "{name: local, window: 2}", "softmax", "rezero"},
      {"realformer", "realformer", "realformer"},
      {"luna", "{name: luna, length: 3}", "{name: luna, length: 3}"},
      {"cosformer", "cosformer", "{name: cosformer, memory: positions}"},
      {"softmax", "{name: local, window: 2, back: 0, all_read_first: true}",
       "{name: cosformer, memory: proportions}"},
      {"softmax", "{name: linformer, rank: 4, sharing: layerwise}",
       "{name: linformer, rank: 4, sharing: layerwise}"},
      {"fnet", "none", "[{name: linear, layers: 0}, {name: softmax, layers: 1}]"}};
  return all;
}

TEST(Seq2Seq, DecodingStepByStepGivesTheLogitsOfTheWhole) {
  for (const auto& kind : kinds()) {
    const auto m = made(kind.encoder, kind.decoder, kind.cross, kind.residual);
    const auto whole = m.logits();
    EXPECT_EQ(whole.sizes(), (std::vector<int64_t>{3, 6, kTargets}));
    const auto text = m.model->continuation(m.source, m.source_mask, {});
    auto state = text.start(6);
    for (int64_t t = 0; t < 6; ++t) {
      const auto next = text.next(m.target.narrow(1, t, 1), {}, state);
      const auto real = m.target_mask.keep.select(1, t).nonzero().flatten();
      EXPECT_NEAR_TENSOR(next.index_select(0, real), whole.select(1, t).index_select(0, real),
                         tolerance(at::kDouble))
          << kind.decoder << " " << kind.cross << " at " << t;
    }
  }
}

TEST(Seq2Seq, TheFutureAndThePaddingAreInvisibleAndTheSourceIsNot) {
  for (const auto& kind : kinds()) {
    auto m = made(kind.encoder, kind.decoder, kind.cross, kind.residual);
    const auto before = m.logits();
    m.target.select(1, 4).fill_(8);
    EXPECT_NEAR_TENSOR(m.logits().narrow(1, 0, 4), before.narrow(1, 0, 4), (Tolerance{1e-12, 0}));
    EXPECT_FALSE(at::equal(m.logits()[0][4], before[0][4]));
    m = made(kind.encoder, kind.decoder, kind.cross, kind.residual);
    m.source[1].narrow(0, 3, 2).fill_(5);  // behind the end of the second source
    EXPECT_NEAR_TENSOR(m.logits(), before, (Tolerance{1e-12, 0})) << kind.encoder;
    m.source[1][0] = 1;
    EXPECT_FALSE(at::equal(m.logits()[1], before[1]));
    EXPECT_NEAR_TENSOR(m.logits()[0], before[0], (Tolerance{1e-12, 0}));
  }
}

// Padding in front of a source, and an ordinary target.
TEST(Seq2Seq, ASourceMayBePaddedOnTheLeft) {
  for (const std::string cross :
       {"{name: linformer, rank: 4}", "{name: abc, slots: 3, control: position}", "softmax"}) {
    const auto right = made("softmax", "softmax", cross);
    auto left = right;
    left.source = right.source.clone();
    for (const int64_t row : {1, 2}) left.source[row].copy_(right.source[row].roll(2));
    auto keep = at::ones({3, 5}, at::kBool);
    keep.narrow(0, 1, 2).narrow(1, 0, 2).fill_(false);
    left.source_mask = Mask::from_keep(keep);
    EXPECT_NEAR_TENSOR(left.logits(), right.logits(), tolerance(at::kDouble)) << cross;
    const auto decoded = [](const Made& m) {
      const auto text = m.model->continuation(m.source, m.source_mask, {});
      auto state = text.start(6);
      return text.next(m.target.narrow(1, 0, 3), {}, state);
    };
    EXPECT_NEAR_TENSOR(decoded(left), decoded(right), tolerance(at::kDouble)) << cross;
  }
}

// The same model without a state: every step reads the whole prefix.
Continuation without_state(const Made& m, const Tensor& source, const Mask& mask) {
  return {.lanes = source.size(0),
          .longest = 10,
          .start =
              [=](int64_t) {
                State state;
                state.lane = {{"source", source}, {"keep", mask.keep}};
                state.lane["tokens"] = at::zeros({source.size(0), 0}, at::kLong);
                state.fill = {{"source", 0}, {"keep", 0}, {"tokens", 0}};
                return state;
              },
          .next =
              [model = m.model](const Tensor& tokens, const Tensor&, State& state) {
                auto& all = state.lane.at("tokens");
                all = at::cat({all, tokens}, 1);
                Context context;
                const Mask own = {.keep = state.lane.at("keep")};
                return (*model)(state.lane.at("source"), own, all, context).select(1, -1);
              }};
}

TEST(Seq2Seq, DecodingWithAStateEqualsReadingEveryPrefixAgain) {
  for (const auto& kind : kinds()) {
    const auto m = made(kind.encoder, kind.decoder, kind.cross, kind.residual);
    const auto prompt = Prompt::begin(3, kBegin, at::kCPU);
    for (const auto method :
         {DecodingMethod::greedy, DecodingMethod::beam, DecodingMethod::sample}) {
      const DecodingConfig config = {.method = method,
                                     .max_length = 8,
                                     .n_best = method == DecodingMethod::greedy ? 1 : 2,
                                     .beams = 3,
                                     .length_penalty = 0.6};
      const auto random = Random::from_seed(4);
      const auto stepped = decode(m.model->continuation(m.source, m.source_mask, {}), prompt, kEnd,
                                  config, random),
                 again = decode(without_state(m, m.source, m.source_mask), prompt, kEnd, config,
                                random);
      EXPECT_NEAR_TENSOR(stepped.tokens, again.tokens, kExact) << kind.decoder << kind.cross;
      EXPECT_NEAR_TENSOR(stepped.scores, again.scores, (Tolerance{1e-9, 0}));
    }
  }
}

TEST(Seq2Seq, AReversibleDecoderRebuildsItsInputsWithTheSameGradients) {
  std::map<std::string, Tensor> want;
  for (const bool rebuilds : {false, true}) {
    const auto m = made("softmax", "realformer", "linear", "reversible");
    m.model->train(rebuilds);
    (m.logits() * random_normal({3, 6, kTargets}, 5)).sum().backward();
    for (const auto& entry : m.model->named_parameters())
      if (rebuilds)
        EXPECT_NEAR_TENSOR(entry.value().grad(), want.at(entry.key()), (Tolerance{1e-9, 1e-9}))
            << entry.key();
      else
        want[entry.key()] = entry.value().grad();
  }
  EXPECT_GT(want.at("encoder.embedding.words").abs().sum().item<double>(), 1e-3);
}

TEST(Seq2Seq, TheMemoryIsProjectedOncePerSequence) {
  const auto m = made("softmax", "softmax", "softmax");
  const auto text = m.model->continuation(m.source, m.source_mask, {});
  auto state = text.start(6);
  const auto keys = state.child.at("layers").child.at("0").child.at("cross").lane.at("memory_keys");
  text.next(m.target.narrow(1, 0, 1), {}, state);
  text.next(m.target.narrow(1, 1, 1), {}, state);
  EXPECT_TRUE(state.child.at("layers")
                  .child.at("0")
                  .child.at("cross")
                  .lane.at("memory_keys")
                  .is_same(keys));
  EXPECT_EQ(state.seen[0].item<int64_t>(), 2);
}

std::set<std::string> names(const Made& m) {
  std::set<std::string> found;
  for (const auto& entry : m.model->named_parameters()) found.insert(entry.key());
  return found;
}

TEST(Seq2Seq, TiedMatricesAreOneParameter) {
  const auto none = names(made("softmax", "softmax", "softmax")),
             output = names(made("softmax", "softmax", "softmax", "pre_norm", Tie::output));
  EXPECT_TRUE(none.count("encoder.embedding.words") && none.count("decoder.embedding.words") &&
              none.count("output.weight"));
  EXPECT_TRUE(output.count("encoder.embedding.words") && output.count("decoder.embedding.words") &&
              !output.count("output.weight"));
  const auto all = made("softmax", "softmax", "softmax", "pre_norm", Tie::all);
  EXPECT_TRUE(names(all).count("encoder.embedding.words") &&
              !names(all).count("decoder.embedding.words"));
  all.logits().square().sum().backward();
  const auto words = all.model->named_parameters()["encoder.embedding.words"];
  const auto before = all.logits();
  at::NoGradGuard no_grad;
  words[8].add_(1);  // a target token: its logit and what follows it change
  EXPECT_FALSE(at::equal(all.logits().select(2, 8), before.select(2, 8)));
  EXPECT_GT(words.grad()[8].abs().sum().item<double>(), 0);
}

std::string refused(const std::string& text) {
  return error_of([&] {
    const auto tree = yaml(text);
    check_seq2seq(read<Seq2SeqConfig>(tree), tree);
  });
}

TEST(Seq2Seq, RefusesMechanismsThatCannotDoTheirPartWithThoseThatCan) {
  auto message = refused("encoder: {attention: fnet}\ndecoder:\n  attention: fnet");
  EXPECT_TRUE(message.starts_with("m.yaml:3: fnet is not causal; mechanisms that are: abc, "))
      << message;
  message = refused("decoder:\n  cross_attention: {name: local, window: 2}");
  EXPECT_TRUE(
      message.starts_with("m.yaml:2: local cannot attend to a memory; mechanisms that do: abc, "))
      << message;
  EXPECT_NE(message.find("softmax"), std::string::npos);
  EXPECT_EQ(message.find("h1d"), std::string::npos) << message;
  message = refused("decoder:\n  cross_attention: nystromformer");
  EXPECT_TRUE(message.starts_with(
      "m.yaml:2: nystromformer does not decode from a memory; mechanisms that do: "))
      << message;
  message = refused(
      "decoder: {layers: 2, attention: [{name: linear, layers: 0},\n{name: "
      "fastformer, layers: 1}]}");
  EXPECT_TRUE(message.starts_with("m.yaml:2: fastformer is not causal; ")) << message;
  EXPECT_EQ(refused("{encoder: {attention: fnet}, decoder: {attention: gmlp}}"), "");
}

TEST(Seq2Seq, RefusesWidthsThatDoNotFit) {
  EXPECT_EQ(refused("encoder: {width: 8}\ndecoder: {width: 12}\ntie: all"),
            "m.yaml:3: tie all needs one width, but the encoder's is 8 and the decoder's 12; set "
            "tie to output, or the widths alike");
  EXPECT_EQ(refused("decoder: {width: 12,\nheads: 5}").substr(0, 9), "m.yaml:2:");
  EXPECT_EQ(refused("encoder: {embedding_width: 8}\ntie: all"),
            "m.yaml:2: tie all needs embeddings of the decoder's width 64, but "
            "encoder.embedding_width is 8; set tie to output, or leave encoder.embedding_width "
            "out");
}

TEST(Seq2Seq, OptionsFitTheEncoderTheDecoderAndItsMemory) {
  const auto rank = [](int64_t length) {
    return "linformer.rank is 8, but max_length is " + std::to_string(length) + "; lower rank";
  };
  const std::string linformer = "{name: linformer, rank: 8}";
  EXPECT_EQ(refused("encoder:\n  max_length: 6\n  attention: " + linformer),
            "m.yaml:3: " + rank(6));
  EXPECT_EQ(refused("decoder:\n  max_length: 7\n  attention: " + linformer),
            "m.yaml:3: " + rank(7));
  EXPECT_EQ(refused("encoder: {max_length: 5}\ndecoder:\n  max_length: 9\n  cross_attention: " +
                    linformer),
            "m.yaml:4: " + rank(5));
  // How long the memory is, is not known.
  EXPECT_EQ(refused("decoder:\n  max_length: 7\n  cross_attention: " + linformer), "");
  EXPECT_EQ(refused("decoder:\n  heads: 4\n  cross_attention: {name: softmax, head_mask: [1, 1]}"),
            "m.yaml:3: softmax.head_mask has 2 entries for 4 heads; give one for each head, or "
            "leave it out");
}

TEST(Seq2Seq, ABlockOfADecoderHasAMixerThatReadsTheMemory) {
  EXPECT_EQ(refused("decoder: {attention: none, block: {residual: reversible}}"), "");
  EXPECT_EQ(refused("decoder:\n  block: {residual: reversible, feed_forward_kind: none}"),
            "m.yaml:2: model.block.residual is reversible, which needs a mixer and a feed-forward "
            "layer; take another residual");
}

}  // namespace
}  // namespace longbow
