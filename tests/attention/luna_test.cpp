#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/layers/positions.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2, kSlots = 4;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

Tensor psi(const Tensor& x, const std::string& name) {
  return name == "elu" ? at::where(x > 0, x + 1, x.exp())
                       : (1 + (x * std::numbers::ln2).exp()).log() / std::numbers::ln2;
}

// The layer as the paper writes it, with every pair of a pack on its own.
struct Definition {
  const torch::nn::Module& mixer;
  const Node& options;
  const Site& site;

  bool tied() const { return as_boolean(*options.find("tied"), "tied"); }
  Tensor projected(const Tensor& x, const std::string& name) const {
    return x.matmul(oracle::tensor_of(mixer, name + ".weight").t()) +
           oracle::tensor_of(mixer, name + ".bias");
  }
  std::string value_of(const std::string& key, const std::string& value) const {
    return tied() ? key : value;
  }

  Tensor p(const Context& context) const {
    if (context.carry.count("luna")) return context.carry.at("luna");
    const auto own =
        site.shared ? oracle::tensor_of(*site.shared, "luna_p") : oracle::tensor_of(mixer, "p");
    const bool positions = as_boolean(*options.find("positions"), "positions");
    return (positions ? own + oracle::tensor_of(mixer, "positions") : own).unsqueeze(0);
  }

  // softmax(P W_pq (X W_pk)^T) (X W_pv), [B, R, C]
  Tensor packed(const Tensor& source, const Context& context) const {
    const int64_t asked = as_integer(*options.find("pack_heads"), "pack_heads");
    const auto split = [&](const Tensor& t) {
      return split_heads(t, asked > 0 ? asked : site.shape.heads);
    };
    const auto sequence = p(context).expand({source.size(0), -1, -1});
    return merge_heads(oracle::softmax(
        split(projected(sequence, "pack_query")), split(projected(source, "pack_key")),
        split(projected(source, value_of("pack_key", "pack_value"))),
        oracle::visible({.mask = {.keep = context.mask.keep}}, source.size(0), 1, source.size(1))));
  }

  Tensor split(const Tensor& t) const { return split_heads(t, site.shape.heads); }

  // [B or 1, 1, 1, R] of 0 and 1: the first slots, as many as there are tokens.
  Tensor used(const Tensor& source, const Context& context) const {
    const auto shorten = as_string(*options.find("shorten"), "shorten");
    const auto keep = context.mask.keep.defined()
                          ? context.mask.keep
                          : at::ones({source.size(0), source.size(1)}, at::kBool);
    auto used =
        at::zeros({keep.size(0), 1, 1, as_integer(*options.find("length"), "length")}, at::kDouble);
    for (int64_t b = 0; b < keep.size(0); ++b) {
      const auto real = keep[b].sum().item<int64_t>();
      const int64_t most = shorten == "row"     ? real
                           : shorten == "batch" ? source.size(1)
                                                : used.size(3);
      if (real > 0) used[b].narrow(-1, 0, std::min(most, used.size(3))).fill_(1);
    }
    return used;
  }

  Tensor bidirectional(const Tensor& x, const Tensor& source, const Context& context) const {
    const auto y = packed(source, context);
    return oracle::softmax(split(projected(x, "query")), split(projected(y, "key")),
                           split(projected(y, value_of("key", "value"))), used(source, context));
  }

  // For each query the weighted means of all the keys that it sees.
  Tensor causal(const Tensor& x, const Tensor& source, const Context& context) const {
    const auto q = split(projected(x, "query"));
    const auto tokens =
        context.memory.defined() ? projected(source, value_of("pack_key", "pack_value")) : source;
    const auto k = split(projected(tokens, "key")),
               v = split(projected(tokens, value_of("key", "value")));
    const auto slots = split(projected(p(context), "pack_query"));
    const auto u = split(projected(source, "pack_key"));
    const auto w =
        psi(u.matmul(slots.transpose(-2, -1)) / std::sqrt(static_cast<double>(slots.size(-1))),
            as_string(*options.find("psi"), "psi"));  // [B, H, M, R]
    const auto visible = oracle::visible(context, x.size(0), x.size(1), source.size(1));
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(1); ++t) {
      const auto seen = visible.select(2, t).unsqueeze(-1);  // [B, 1, M, 1]
      const auto mean = (w * seen / seen.sum(2, true).clamp_min(1)).transpose(-2, -1);
      rows.push_back(oracle::softmax(q.narrow(2, t, 1), mean.matmul(k), mean.matmul(v),
                                     at::ones({1, 1, 1, 1}, at::kDouble)));
    }
    return at::cat(rows, 2);
  }

  Tensor operator()(const Tensor& x, const Context& context) const {
    const auto source = context.memory.defined() ? context.memory : x;
    const auto o =
        context.mask.causal ? causal(x, source, context) : bidirectional(x, source, context);
    return oracle::without_padding(projected(merge_heads(o), "output"), context);
  }
};

const bool registered =
    oracle::add("luna", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                           const Tensor& x, const Context& context) {
      return Definition{mixer, options, site}(x, context);
    });

Node spelled_out(const std::string& options) {
  return find_mechanism("luna").resolve(parse_yaml(options, "options"));
}

Mixer made(const std::string& options, const Site& site = kSite) {
  const auto mixer = make_mixer("luna", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

// Biases start at zero, which hides mistakes.
void fill_biases(const Mixer& mixer) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 50;
  for (auto& entry : mixer->named_parameters())
    if (entry.key().ends_with("bias"))
      entry.value().copy_(random_normal(entry.value().sizes(), ++seed));
}

Tensor changed(const std::string& options, const Mask& mask) {
  Context context = {.mask = mask};
  return (*made(options))(random_normal({1, 9, kWidth}, 1), context);
}

// Slot j answers to token j alone, so the pack copies the tokens.
TEST(Luna, WithAPackThatCopiesEachTokenItIsSoftmax) {
  constexpr int64_t kTokens = 11;
  const auto mixer = made("{length: 11, pack_heads: 1, tied: false}");
  const auto softmax = make_mixer("softmax", kSite);
  softmax->to(at::kDouble);
  auto x = random_normal({1, kTokens, kWidth}, 2);
  x = x / x.norm(2, {-1}, true);
  set(mixer, "p", x[0]);
  set(mixer, "pack_query.weight", 1e6 * at::eye(kWidth));
  set(mixer, "pack_key.weight", at::eye(kWidth));
  set(mixer, "pack_value.weight", at::eye(kWidth));
  for (const std::string name : {"query", "key", "value", "output"})
    set(softmax, name + ".weight", mixer->named_parameters()[name + ".weight"]);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax)(x, context), tolerance(at::kDouble));
}

// Numbers, not tensors: one head, one row.
TEST(Luna, CausallyASlotHoldsARunningMean) {
  Site site = kSite;
  site.shape = {.width = 3, .heads = 1};
  const auto mixer = made("{length: 2}", site);
  const int64_t tokens = 7;
  const auto x = random_normal({1, tokens, 3}, 3);
  const auto projected = [&](const Tensor& t, const std::string& name) {
    return t.matmul(oracle::tensor_of(*mixer, name + ".weight").t());
  };
  const auto q = projected(x[0], "query"), k = projected(x[0], "key"),
             u = projected(x[0], "pack_key"),
             p = projected(oracle::tensor_of(*mixer, "p"), "pack_query");
  const double root = std::sqrt(3.0);
  const auto dot = [](const Tensor& a, const Tensor& b) { return (a * b).sum().item<double>(); };
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < tokens; ++t) {
    Tensor sum = at::zeros({3}, at::kDouble);
    double total = 0;
    for (int64_t j = 0; j < 2; ++j) {
      Tensor mean = at::zeros({3}, at::kDouble);
      for (int64_t i = 0; i <= t; ++i)
        mean += std::log2(1 + std::exp2(dot(u[i], p[j]) / root)) * k[i];
      mean /= t + 1;
      const double weight = std::exp(dot(q[t], mean) / root);
      sum += weight * mean;
      total += weight;
    }
    rows.push_back(sum / total);
  }
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, context), projected(at::stack(rows), "output").unsqueeze(0),
                     tolerance(at::kDouble));
}

TEST(Luna, ThePackGoesOnToTheNextLayer) {
  const auto mixer = made("{length: 4, tied: false}");
  fill_biases(mixer);
  const auto options = spelled_out("{length: 4, tied: false}");
  const Definition definition = {*mixer, options, kSite};
  const auto x = random_normal({2, 9, kWidth}, 4);
  Context context = {.mask = Mask::from_lengths(at::tensor({9, 5}), 9)};
  for (int layer = 0; layer < 2; ++layer) {
    const Context before = context;
    const auto y = (*mixer)(x, context);
    EXPECT_NEAR_TENSOR(y, definition(x, before), tolerance(at::kDouble));
    const auto sum = definition.p(before) + definition.packed(x, before);
    const auto normed = at::layer_norm(sum, {kWidth}, oracle::tensor_of(*mixer, "norm.weight"),
                                       oracle::tensor_of(*mixer, "norm.bias"), 1e-5);
    EXPECT_NEAR_TENSOR(context.carry.at("luna"), normed, tolerance(at::kDouble));
  }
}

TEST(Luna, CausalSelfAttentionReadsACarriedSequenceAndLeavesItAsItIs) {
  const auto mixer = made("{length: 4}");
  const auto options = spelled_out("{length: 4}");
  const auto p = random_normal({2, kSlots, kWidth}, 5), x = random_normal({2, 9, kWidth}, 6);
  Context context = {.mask = {.causal = true}, .carry = {{"luna", p}}};
  const auto want = Definition{*mixer, options, kSite}(x, context);
  EXPECT_NEAR_TENSOR((*mixer)(x, context), want, tolerance(at::kDouble));
  EXPECT_TRUE(context.carry.at("luna").is_same(p));
  Context fresh = {.mask = {.causal = true}};
  (void)(*mixer)(x, fresh);
  EXPECT_TRUE(fresh.carry.empty());
}

TEST(Luna, AStackOwnsTheFirstSequence) {
  Site site = kSite;
  site.shared = std::make_shared<Shared>();
  const auto first = made("{length: 4}", site.at("layers.0")),
             second = made("{length: 4}", site.at("layers.1"));
  EXPECT_EQ(site.shared->named_parameters().keys(), std::vector<std::string>{"luna_p"});
  EXPECT_FALSE(first->named_parameters().contains("p"));
  site.shared->to(at::kDouble);
  Context context;
  const auto y = (*first)(random_normal({1, 9, kWidth}, 7), context);
  (*second)(y, context).sum().backward();
  EXPECT_GT(first->named_parameters()["norm.weight"].grad().abs().sum().item<double>(), 0)
      << "the second layer reads what the first has made of P";
  EXPECT_GT(site.shared->parameters()[0].grad().abs().sum().item<double>(), 0);
  EXPECT_EQ(error_of([&] { (void)made("{length: 5}", site.at("layers.2")); }),
            "shared parameter luna_p is [4, 6], but another layer wants [5, 6]");
}

TEST(Luna, InADecoderTheCrossAttentionUpdatesTheSequenceOfBoth) {
  Site site = kSite;
  site.shared = std::make_shared<Shared>();
  const auto options = parse_yaml("{name: luna, length: 4}", "test");
  const auto lower = make_block(options, options, site.at("layers.0"), {}),
             upper = make_block(options, options, site.at("layers.1"), {});
  EXPECT_EQ(site.shared->named_parameters().keys(), std::vector<std::string>{"cross.luna_p"});
  for (const auto& block : {lower, upper}) block->to(at::kDouble);
  site.shared->to(at::kDouble);
  const auto x = random_normal({2, 9, kWidth}, 20), memory = random_normal({2, 5, kWidth}, 21);
  const Context start = {.mask = {.causal = true}, .memory = memory};
  Context context = start, fresh = start;
  const auto y = lower->forward(x, context);

  const auto crossing = lower->named_children()["cross"];
  auto there = site;
  there.shared = site.shared->child("cross");
  const auto spelled = spelled_out("{length: 4}");
  const Definition definition = {*crossing, spelled, there};
  const auto sum = definition.p({}) + definition.packed(memory, {});
  const auto updated = at::layer_norm(sum, {kWidth}, oracle::tensor_of(*crossing, "norm.weight"),
                                      oracle::tensor_of(*crossing, "norm.bias"), 1e-5);
  ASSERT_TRUE(context.carry.count("all.luna"));
  EXPECT_NEAR_TENSOR(context.carry.at("all.luna"), updated, tolerance(at::kDouble));

  const auto self = std::dynamic_pointer_cast<MixerImpl>(upper->named_children()["mixer"]);
  Context with = {.mask = {.causal = true}, .carry = {{"all.luna", updated}}}, without = with;
  without.carry.clear();
  EXPECT_FALSE((*self)(y, with).allclose((*self)(y, without)));
  EXPECT_FALSE(upper->forward(y, context).allclose(upper->forward(y, fresh)));
}

TEST(Luna, SequencesOfOtherLengthsAreNotShared) {
  Site site = kSite;
  site.shared = std::make_shared<Shared>();
  const auto block = make_block(parse_yaml("{name: luna, length: 4}", "test"),
                                parse_yaml("{name: luna, length: 5}", "test"), site, {});
  EXPECT_EQ(site.shared->named_parameters().size(), 2u);
  Context context = {.mask = {.causal = true}, .memory = random_normal({1, 5, kWidth}, 22)};
  block->to(at::kDouble);
  site.shared->to(at::kDouble);
  (void)block->forward(random_normal({1, 3, kWidth}, 23), context);
  EXPECT_EQ(context.carry.at("all.luna").size(1), 5);
  EXPECT_EQ(context.carry.size(), 1u);
}

TEST(Luna, AQueryWithoutAnyKeyGetsTheOutputBias) {
  Site site = kSite;
  site.cross = true;
  const auto mixer = made("{length: 4}", site);
  fill_biases(mixer);
  const auto x = random_normal({2, 3, kWidth}, 8), memory = random_normal({2, 5, kWidth}, 9);
  for (const bool causal : {false, true}) {
    Context context = {.mask = Mask::from_lengths(at::tensor({0, 5}), 5), .memory = memory};
    context.mask.causal = causal;
    EXPECT_NEAR_TENSOR((*mixer)(x, context)[0],
                       oracle::tensor_of(*mixer, "output.bias").expand({3, kWidth}), kExact);
  }
}

// A memory takes the width of the model first, whatever tensor it is.
TEST(Luna, AMemoryMayBeTheTokensThemselves) {
  Site site = kSite;
  site.cross = true;
  const auto mixer = made("{length: 4}", site);
  const auto x = random_normal({2, 5, kWidth}, 24);
  for (const bool causal : {false, true}) {
    Context itself = {.mask = {.causal = causal}, .memory = x},
            copy = {.mask = {.causal = causal}, .memory = x.clone()};
    EXPECT_NEAR_TENSOR((*mixer)(x, itself), (*mixer)(x, copy), kExact) << causal;
  }
}

TEST(Luna, TheStateIsTwoSumsPerHeadWhateverTheLength) {
  const auto mixer = make_mixer("luna", kSite, "{length: 4}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 2u);
  EXPECT_EQ(state.lane.at("slot_keys").sizes(), at::IntArrayRef({2, 2, 4, 3}));
  EXPECT_EQ(state.lane.at("slot_values").sizes(), at::IntArrayRef({2, 2, 4, 3}));
  EXPECT_EQ(state.lane.at("slot_keys").scalar_type(), at::kFloat);
}

TEST(Luna, DecodingKeepsACarriedSequenceUntilALaneBeginsAnew) {
  const at::NoGradGuard no_grad;
  const auto mixer = made("{length: 4}");
  const auto p = random_normal({2, kSlots, kWidth}, 10), x = random_normal({2, 9, kWidth}, 11);
  Context starting = {.carry = {{"luna", p}}}, context, bare = {.mask = {.causal = true}};
  Context carrying = {.mask = {.causal = true}, .carry = {{"luna", p}}};
  const auto carried = (*mixer)(x, carrying), without = (*mixer)(x, bare);
  State state;
  mixer->start(state, 2, 9, starting);
  EXPECT_NEAR_TENSOR(mixer->extend(x, state, context), carried, tolerance(at::kDouble));
  state.reset(at::ones({2}, at::kBool));
  EXPECT_NEAR_TENSOR(mixer->extend(x, state, context), without, tolerance(at::kDouble));
}

TEST(Luna, EachOptionGivesOtherValues) {
  const auto bidirectional = changed("{length: 4}", {}),
             causal = changed("{length: 4}", {.causal = true});
  EXPECT_FALSE(changed("{length: 5}", {}).allclose(bidirectional));
  EXPECT_FALSE(changed("{length: 4, tied: false}", {}).allclose(bidirectional));
  EXPECT_FALSE(changed("{length: 4, pack_heads: 3}", {}).allclose(bidirectional));
  EXPECT_TRUE(changed("{length: 4, pack_heads: 2}", {}).equal(bidirectional));
  EXPECT_TRUE(changed("{length: 4, pack_heads: 3}", {.causal = true}).equal(causal))
      << "the causal pack has the heads of the read";
  EXPECT_TRUE(changed("{length: 4, psi: elu}", {}).equal(bidirectional));
  EXPECT_FALSE(changed("{length: 4, psi: elu}", {.causal = true}).allclose(causal));
}

TEST(Luna, PositionsAreAddedToTheFirstSequenceOnly) {
  const auto plain = made("{length: 4}"), placed = made("{length: 4, positions: true}");
  const auto table = sinusoids(4, kWidth);
  const auto x = random_normal({2, 9, kWidth}, 12);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}}, given = context;
    const auto p = oracle::tensor_of(*plain, "p") + table.to(at::kDouble);
    given.carry["luna"] = p.unsqueeze(0);
    Context carrying = given;
    EXPECT_NEAR_TENSOR((*placed)(x, context), (*plain)(x, given), tolerance(at::kDouble));
    Context same = carrying;
    EXPECT_TRUE((*placed)(x, carrying).equal((*plain)(x, same)));
  }
}

// Three tokens and a longer sentence beside them: three slots, or as many as that has.
TEST(Luna, ShortenedByRowOrByTheLongestSentence) {
  const auto x = random_normal({2, 7, kWidth}, 13);
  const auto first = [&](const std::string& shorten, int64_t tokens) {
    const auto mixer = made("{length: 9, shorten: " + shorten + "}");
    Context context = {.mask = Mask::from_lengths(at::tensor({int64_t{3}, tokens}), tokens)};
    return (*mixer)(x.narrow(1, 0, tokens), context)[0].narrow(0, 0, 3);
  };
  EXPECT_NEAR_TENSOR(first("row", 7), first("row", 3), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(first("batch", 3), first("row", 3), tolerance(at::kDouble));
  EXPECT_FALSE(first("batch", 7).allclose(first("row", 7)));
  EXPECT_FALSE(first("none", 7).allclose(first("batch", 7)));
  const auto padding = [](const std::string& options) {
    return find_mechanism("luna").promises(parse_yaml(options, "options")).padding;
  };
  EXPECT_EQ(padding("{shorten: row}"), Padding::invisible);
  EXPECT_EQ(padding("{shorten: batch}"), Padding::contents);
}

TEST(Luna, ThePaperStartsTheInnerProjectionsSmaller) {
  Site paper = kSite;
  paper.init = "paper";
  const auto small = made("", paper)->named_parameters(), usual = made("")->named_parameters();
  for (const auto& entry : usual)
    if (entry.key().ends_with("weight") && entry.key() != "norm.weight")
      EXPECT_NEAR_TENSOR(small[entry.key()],
                         entry.value() / (entry.key() == "output.weight" ? 1 : std::numbers::sqrt2),
                         tolerance(at::kFloat));
}

TEST(Luna, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{length: 0}"); }),
            "luna options:1: luna.length is 0, out of range; it may be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{pack_heads: -1}"); }),
            "luna options:1: luna.pack_heads is -1, out of range; it may be >= 0");
  EXPECT_EQ(error_of([] { (void)made("{shorten: always}"); }),
            "luna options:1: luna.shorten is 'always'; one of: none, row, batch");
  EXPECT_EQ(error_of([] { (void)made("{psi: square}"); }),
            "luna options:1: luna.psi is 'square'; one of: softplus, elu");
  EXPECT_EQ(error_of([] { (void)made("{dropout: 1}"); }),
            "luna options:1: luna.dropout is 1, out of range; it may be 0..0.99");
}

}  // namespace
}  // namespace longbow
