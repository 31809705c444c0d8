// Each law is shown to fail once: softmax attention in a jacket that breaks that law and, where it
// can, only that.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

// The sound mixer and what a flaw may do around it.
class Jacket : public MixerImpl {
 public:
  explicit Jacket(Mixer sound) : sound_(std::move(sound)) {
    for (const auto& child : sound_->named_children()) register_module(child.key(), child.value());
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override { return (*sound_)(x, context); }
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    sound_->start(state.child["sound"], lanes, capacity, context);
  }
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    return sound_->extend(x, state.child.at("sound"), context);
  }
  Mixer sound_;
};

template <class Flawed>
Subject subject(Promises promises = find_mechanism("softmax").promises({})) {
  return {.name = "broken",
          .mechanism = "softmax",
          .promises = promises,
          .options = find_mechanism("softmax").resolve({}),
          .make = [promises](const Site& site, Node options) -> Mixer {
            options["name"] = Node::string("softmax");
            auto mixer = std::make_shared<Flawed>(make_mixer(options, site));
            if constexpr (requires { mixer->settle(site); }) mixer->settle(site);
            mixer->label({.name = "broken", .promises = promises});
            return mixer;
          }};
}

// Why the law does not hold, or "" when it does.
std::string finding(const Subject& subject, const Law& law) {
  const auto verdict = keeps(subject, law);
  return verdict ? "" : verdict.message();
}

void expect_broken(const Subject& subject, const Law& law, const std::string& reason) {
  const auto found = finding(subject, law);
  EXPECT_NE(found.find(reason), std::string::npos)
      << law.sentence << " should fail with '" << reason << "', but found: '" << found << "'";
}

TEST(Broken, TheJacketAloneBreaksNoLaw) {
  for (const auto& law : {kAnyLengthIsTaken,
                          kPaddingIsInvisible,
                          kAnEmptyRowIsFinite,
                          kTheFutureIsInvisible,
                          kRowsOfABatchAreIndependent,
                          kPermutedTokensGivePermutedOutputs,
                          kAnySplitIntoExtensionsIsTheForwardPass,
                          kLanesMoveAndRestart,
                          kAStateStaysWhereItIs,
                          kAMemoryIsReadWhileDecoding,
                          kGradientsAreThoseOfDifferences,
                          kEqualsItsOracle,
                          kLessPrecisionIsNearby,
                          kLessPrecisionIsNearbyUnderPadding,
                          kLessPrecisionIsNearbyWithAMemory,
                          kLessPrecisionIsNearbyWhileDecoding,
                          kEvaluationIsDeterministic,
                          kASavedModuleIsTheSame,
                          kCostGrowsAsPromised,
                          kLaunchesGrowAsPromised,
                          kAMemoryMayHaveAnotherLengthAndWidth,
                          kRecomputationGivesTheSameGradients})
    EXPECT_EQ(finding(subject<Jacket>(), law), "") << law.sentence;
}

struct LosesOddTokens : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context).narrow(1, 0, x.size(1) / 2 * 2);
  }
};
TEST(Broken, AnyLengthIsTaken) {
  expect_broken(subject<LosesOddTokens>(), kAnyLengthIsTaken,
                "bidirectional, 1 tokens: another shape");
}

struct SeesPadding : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    Context open = context;
    open.mask = {.causal = context.mask.causal};
    return Jacket::mix(x, open);
  }
};
TEST(Broken, PaddingIsInvisible) {
  expect_broken(subject<SeesPadding>(), kPaddingIsInvisible, "other contents in padded places");
}

struct DividesByItsLength : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    if (!context.mask.keep.defined()) return Jacket::mix(x, context);
    const auto length = context.mask.keep.sum(1, true).unsqueeze(-1).to(x.scalar_type());
    return Jacket::mix(x * (length / length), context);
  }
};
TEST(Broken, AnEmptyRowIsFinite) {
  expect_broken(subject<DividesByItsLength>(), kAnEmptyRowIsFinite,
                "bidirectional, a gradient is not finite");
}

struct SeesTheFuture : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    Context open = context;
    open.mask.causal = false;
    return Jacket::mix(x, open);
  }
};
TEST(Broken, TheFutureIsInvisible) {
  expect_broken(subject<SeesTheFuture>(), kTheFutureIsInvisible,
                "1 tokens and another future: worst at");
  expect_broken(subject<SeesTheFuture>(), kTheFutureIsInvisible,
                "1 tokens, gradient to the future: worst at");
}

struct MixesRows : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context) + x.mean(0, true);
  }
};
TEST(Broken, RowsOfABatchAreIndependent) {
  expect_broken(subject<MixesRows>(), kRowsOfABatchAreIndependent, "bidirectional, row 0 alone");
  expect_broken(subject<MixesRows>(), kRowsOfABatchAreIndependent,
                "gradient of row 0 to the others");
}

struct CountsTokens : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context) + at::arange(x.size(1), x.options()).unsqueeze(-1);
  }
};
TEST(Broken, PermutedTokensGivePermutedOutputs) {
  expect_broken(subject<CountsTokens>(), kPermutedTokensGivePermutedOutputs, "tokens: worst at");
}

struct ForgetsBetweenExtensions : Jacket {
  using Jacket::Jacket;
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    state.child.at("sound").reset(at::ones({x.size(0)}, at::kBool));
    return Jacket::grow(x, state, context);
  }
};
TEST(Broken, AnySplitIntoExtensionsIsTheForwardPass) {
  const auto found =
      finding(subject<ForgetsBetweenExtensions>(), kAnySplitIntoExtensionsIsTheForwardPass);
  EXPECT_NE(found.find("pieces 1 … of 2: worst at"), std::string::npos) << found;
  EXPECT_EQ(found.find("pieces 20 … of 1:"), std::string::npos)
      << "one piece is the forward pass: " << found;
}

struct KeepsItsOwnState : Jacket {
  using Jacket::Jacket;
  void open(State&, int64_t lanes, int64_t capacity, Context& context) override {
    sound_->start(hidden_, lanes, capacity, context);
  }
  Tensor grow(const Tensor& x, State&, Context& context) override {
    return sound_->extend(x, hidden_, context);
  }
  State hidden_;
};
struct KeepsItsOwnLanes : KeepsItsOwnState {
  using KeepsItsOwnState::KeepsItsOwnState;
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    if (x.size(0) == hidden_.seen.size(0)) return KeepsItsOwnState::grow(x, state, context);
    return at::zeros_like(x);
  }
};
TEST(Broken, LanesMoveAndRestart) {
  expect_broken(subject<KeepsItsOwnState>(), kLanesMoveAndRestart, "lanes");
  expect_broken(subject<KeepsItsOwnLanes>(), kLanesMoveAndRestart, "lanes moved: worst at");
  expect_broken(subject<KeepsItsOwnLanes>(), kLanesMoveAndRestart,
                "a lane that began anew: worst at");
}

struct GrowsItsState : Jacket {
  using Jacket::Jacket;
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    Jacket::open(state, lanes, capacity, context);
    state.add("past", {lanes, 0, 24}, at::kDouble);
  }
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    auto& past = state.lane.at("past");
    past = at::cat({past, x}, 1);
    return Jacket::grow(x, state, context);
  }
};
// What the host remembers is not put back.
struct CountsOnTheHost : Jacket {
  using Jacket::Jacket;
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    steps_ += x.size(1) == 1 ? 1 : 0;
    return Jacket::grow(x, state, context) + static_cast<double>(steps_);
  }
  int64_t steps_ = 0;
};
TEST(Broken, AStateStaysWhereItIs) {
  expect_broken(subject<GrowsItsState>(), kAStateStaysWhereItIs,
                "token 7: past is [3, 8, 24] Double, not [3, 7, 24] Double");
  expect_broken(subject<CountsOnTheHost>(), kAStateStaysWhereItIs, "token 7: worst at");
  EXPECT_EQ(finding(subject<GrowsItsState>(), kLanesMoveAndRestart), "");
}

struct StartsWithoutTheMask : Jacket {
  using Jacket::Jacket;
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    Context open = context;
    open.mask = {};
    Jacket::open(state, lanes, capacity, open);
  }
};
// Adds to every token where it stands.
struct KnowsItsPlace : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return placed(Jacket::mix(x, context), positions_of(x, context));
  }
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto positions = context.positions;
    return placed(Jacket::grow(x, state, context), positions);
  }
  static Tensor placed(const Tensor& y, const Tensor& positions) {
    return y + positions.unsqueeze(-1).to(y.scalar_type());
  }
};
struct CountsEachExtension : KnowsItsPlace {
  using KnowsItsPlace::KnowsItsPlace;
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    return placed(Jacket::grow(x, state, context), positions_of(x, {}));
  }
};
TEST(Broken, AMemoryIsReadWhileDecoding) {
  expect_broken(subject<StartsWithoutTheMask>(), kAMemoryIsReadWhileDecoding,
                "pieces 20 … of 1: worst at");
  EXPECT_EQ(finding(subject<KnowsItsPlace>(), kAMemoryIsReadWhileDecoding), "")
      << "positions go on from one extension to the next";
  expect_broken(subject<CountsEachExtension>(), kAMemoryIsReadWhileDecoding,
                "lanes moved: worst at");
}

struct AddsToTheGradientAlone : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context) + (x - x.detach());
  }
};
TEST(Broken, GradientsAreThoseOfDifferences) {
  expect_broken(subject<AddsToTheGradientAlone>(), kGradientsAreThoseOfDifferences,
                "bidirectional: the gradient of x along direction 0");
}

struct IsSlightlyOff : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context) * (1 + 1e-6);
  }
};
TEST(Broken, EqualsItsOracle) {
  expect_broken(subject<IsSlightlyOff>(), kEqualsItsOracle, "bidirectional, 1 tokens: worst at");
  auto unheard = subject<Jacket>();
  unheard.mechanism = "unheard";
  expect_broken(unheard, kEqualsItsOracle,
                "no oracle; tests/attention/unheard_test.cpp registers it");
}

// Right within a tile, wrong after it.
struct ForgetsAfterATile : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    const auto y = Jacket::mix(x, context);
    return context.mask.keep.defined() ? cut(y, positions_of(x, context)) : y;
  }
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto positions = context.positions;
    return cut(Jacket::grow(x, state, context), positions);
  }
  static Tensor cut(const Tensor& y, const Tensor& positions) {
    return y.masked_fill((positions > 1024).unsqueeze(-1), 0);
  }
};
TEST(Broken, ALongSequence) {
  EXPECT_EQ(finding(subject<Jacket>(), kALongSequenceHidesItsPadding), "");
  EXPECT_EQ(finding(subject<Jacket>(), kALongSequenceDecodes), "");
  EXPECT_EQ(finding(subject<ForgetsAfterATile>(), kPaddingIsInvisible), "");
  expect_broken(subject<ForgetsAfterATile>(), kALongSequenceHidesItsPadding,
                "the longer row alone: worst at");
  expect_broken(subject<ForgetsAfterATile>(), kALongSequenceDecodes, "pieces: worst at");
}

struct SumsInLowPrecision : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    auto sum = at::ones({}, x.options());
    for (int64_t i = 0; i < x.size(1); ++i) sum = sum + 1;
    return Jacket::mix(x, context) * (sum / static_cast<double>(x.size(1) + 1));
  }
};
// Turns the channels that lie below their mean over the tokens.
struct TurnsWhatIsBelowTheMean : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    const auto y = Jacket::mix(x, context);
    return at::where(chosen(context, [&] { return y > y.mean(1, true); }), y, -y);
  }
  virtual Tensor chosen(Context&, const std::function<Tensor()>& make) { return make(); }
};
struct PicksWhatItTurns : TurnsWhatIsBelowTheMean {
  using TurnsWhatIsBelowTheMean::TurnsWhatIsBelowTheMean;
  Tensor chosen(Context& context, const std::function<Tensor()>& make) override {
    return context.pick("turned", make);
  }
};
// Of a float32 sum no more than float16's digits are left.
Tensor with_lost_digits(const Tensor& y) {
  return y.scalar_type() == at::kFloat ? y.to(at::kHalf).to(at::kFloat) : y;
}
struct LosesDigitsUnderPadding : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    const auto y = Jacket::mix(x, context);
    return context.mask.keep.defined() ? with_lost_digits(y) : y;
  }
};
struct LosesDigitsOfAMemory : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    const auto y = Jacket::mix(x, context);
    return context.memory.defined() ? with_lost_digits(y) : y;
  }
};
struct LosesDigitsInDecoding : Jacket {
  using Jacket::Jacket;
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    return with_lost_digits(Jacket::grow(x, state, context));
  }
};
TEST(Broken, LessPrecisionIsNearbyUnderPaddingWithAMemoryAndWhileDecoding) {
  expect_broken(subject<LosesDigitsUnderPadding>(), kLessPrecisionIsNearbyUnderPadding,
                "bidirectional, padded, Float, values: row");
  expect_broken(subject<LosesDigitsOfAMemory>(), kLessPrecisionIsNearbyWithAMemory,
                "bidirectional, Float, values: row");
  expect_broken(subject<LosesDigitsInDecoding>(), kLessPrecisionIsNearbyWhileDecoding,
                "alone, Float, values: row");
  EXPECT_EQ(finding(subject<LosesDigitsUnderPadding>(), kLessPrecisionIsNearby), "");
}

TEST(Broken, LessPrecisionIsNearby) {
  expect_broken(subject<SumsInLowPrecision>(), kLessPrecisionIsNearby,
                "bidirectional, BFloat16, values: row");
  expect_broken(subject<TurnsWhatIsBelowTheMean>(), kLessPrecisionIsNearby,
                "bidirectional, BFloat16, values: row");
  EXPECT_EQ(finding(subject<PicksWhatItTurns>(), kLessPrecisionIsNearby), "")
      << "a choice that is picked is that of float64";
}

struct DrawsInEvaluation : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context) + context.random.uniform({1}, "broken").to(x.scalar_type());
  }
};
TEST(Broken, EvaluationIsDeterministic) {
  expect_broken(subject<DrawsInEvaluation>(), kEvaluationIsDeterministic,
                "evaluated with another key");
}

struct HasASecret : Jacket {
  using Jacket::Jacket;
  void settle(const Site& site) { secret_ = initial_normal(site, "secret", {site.shape.width}, 1); }
  Tensor mix(const Tensor& x, Context& context) override {
    return Jacket::mix(x, context) + secret_.to(x.scalar_type());
  }
  Tensor secret_;
};
struct RegistersTwice : Jacket {
  using Jacket::Jacket;
  void settle(const Site&) {
    register_parameter("again", sound_->named_parameters()["query.weight"]);
  }
};
TEST(Broken, ASavedModuleIsTheSame) {
  expect_broken(subject<HasASecret>(), kASavedModuleIsTheSame, "bidirectional, loaded: worst at");
  expect_broken(subject<RegistersTwice>(), kASavedModuleIsTheSame,
                "query.weight is also registered as again");
}

struct StoresAllPairs : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    const auto pairs =
        x.select(-1, 0).unsqueeze(-1) > x.select(-1, 0).unsqueeze(-2);  // [B, N, N] bool
    return Jacket::mix(x, context) + pairs.any(-1, true).to(x.scalar_type()) * 0;
  }
};
TEST(Broken, CostGrowsAsPromised) {
  expect_broken(subject<StoresAllPairs>(), kCostGrowsAsPromised,
                "bidirectional: bytes allocated grow");
  auto promises = find_mechanism("softmax").promises({});
  promises.time = 1;
  expect_broken(subject<Jacket>(promises), kCostGrowsAsPromised, "bidirectional: operations grow");
  promises.time = 2;
  promises.causal_time = 1;
  expect_broken(subject<Jacket>(promises), kCostGrowsAsPromised, "causal: operations grow");
}

struct AddsInChunks : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    std::vector<Tensor> chunks;
    for (const auto& chunk : Jacket::mix(x, context).split(256, 1)) chunks.push_back(chunk + 1);
    return at::cat(chunks, 1);
  }
};
TEST(Broken, LaunchesGrowAsPromised) {
  auto promises = find_mechanism("softmax").promises({});
  for (const auto promise : {Launches::constant, Launches::logarithmic}) {
    promises.launches = promises.causal_launches = promise;
    expect_broken(subject<AddsInChunks>(promises), kLaunchesGrowAsPromised,
                  "bidirectional: operators started over 1024, 2048 and 4096 tokens");
  }
}

struct LosesTheLastKey : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    Context shorter = context;
    const int64_t keys = context.memory.size(1) - 1;
    shorter.memory = context.memory.narrow(1, 0, keys);
    if (context.mask.keep.defined()) shorter.mask.keep = context.mask.keep.narrow(1, 0, keys);
    return Jacket::mix(x, shorter);
  }
};
TEST(Broken, AMemoryMayHaveAnotherLengthAndWidth) {
  expect_broken(subject<LosesTheLastKey>(), kAMemoryMayHaveAnotherLengthAndWidth,
                "9 queries, 23 keys: the last query does not see the last key");
}

// A mixer whose label promises more than its row.
TEST(Broken, AMemoryThatIsNotReadIsRefused) {
  auto promises = find_mechanism("softmax").promises({});
  promises.cross = false;
  EXPECT_EQ(finding(subject<Jacket>(promises), kAMemoryThatIsNotReadIsRefused), "");
  auto lying = subject<Jacket>();
  lying.promises.cross = false;
  expect_broken(lying, kAMemoryThatIsNotReadIsRefused, "bidirectional: taken");
  expect_broken(lying, kAMemoryThatIsNotReadIsRefused, "start: taken");
}

TEST(Broken, AMemoryIsReadAtOneCost) {
  expect_broken(subject<Jacket>(), kAMemoryIsReadAtOneCost, "a token costs ");
}

struct IsAnotherTheSecondTime : Jacket {
  using Jacket::Jacket;
  Tensor mix(const Tensor& x, Context& context) override {
    const auto y = Jacket::mix(x, context);
    return context.recomputing ? 2 * y : y;
  }
};
TEST(Broken, RecomputationGivesTheSameGradients) {
  expect_broken(subject<IsAnotherTheSecondTime>(), kRecomputationGivesTheSameGradients,
                "bidirectional, Double, gradient 0: worst at");
}

}  // namespace
}  // namespace longbow
