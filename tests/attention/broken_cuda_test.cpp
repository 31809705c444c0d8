// The laws that need a GPU are shown to fail once, on softmax attention with a flaw.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

struct OtherOnTheGpu {
  double shift(const Tensor& x, bool) { return x.is_cuda() ? 1e-3 : 0; }
};
// A number of the host is baked into a graph when it is captured.
struct CountsItsCalls {
  double shift(const Tensor&, bool) { return ++calls; }
  double calls = 0;
};
struct CountsItsTraining {
  double shift(const Tensor&, bool training) { return training ? ++calls : 0; }
  double calls = 0;
};
// Sound on the CPU and in float64; on the GPU a half type sums in itself.
struct SumsInItsType {
  Tensor shift(const Tensor& x, bool) {
    if (!x.is_cuda()) return at::zeros({}, x.options());
    auto sum = at::ones({}, x.options());
    for (int64_t i = 0; i < 600; ++i) sum = sum + 1;
    return sum / 601 - 1;
  }
};
// Sees the padded tokens on the GPU alone.
struct SeesPadding {
  Tensor shift(const Tensor& x, bool) {
    return x.is_cuda() ? x.mean(1, true) : at::zeros({}, x.options());
  }
};
struct Sound {
  double shift(const Tensor&, bool) { return 0; }
};

template <class Flaw>
class Flawed : public MixerImpl {
 public:
  explicit Flawed(Mixer sound) : sound_(register_module("sound", std::move(sound))) {}

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    return (*sound_)(x, context) + flaw_.shift(x, is_training());
  }

 private:
  Mixer sound_;
  Flaw flaw_;
};

template <class Flaw>
Subject subject() {
  const auto& softmax = find_mechanism("softmax");
  return {.name = "broken",
          .mechanism = "softmax",
          .promises = softmax.promises({}),
          .options = softmax.resolve({}),
          .make = [](const Site& site, const Node&) -> Mixer {
            auto mixer = std::make_shared<Flawed<Flaw>>(make_mixer("softmax", site));
            mixer->label({.name = "broken", .promises = find_mechanism("softmax").promises({})});
            return mixer;
          }};
}

bool holds(const Subject& subject, const Law& law) {
  return static_cast<bool>(keeps(subject, law, at::kCUDA));
}

TEST(BrokenCuda, WithoutAFlawTheLawsHold) {
  for (const auto& law : {kTheGpuAgrees, kACapturedGraphReplays, kPaddingIsInvisible,
                          kTheFutureIsInvisible, kLessPrecisionIsNearby})
    EXPECT_TRUE(keeps(subject<Sound>(), law, at::kCUDA)) << law.sentence;
}

TEST(BrokenCuda, TheGpuAgrees) {
  EXPECT_FALSE(holds(subject<OtherOnTheGpu>(), kTheGpuAgrees));
}

TEST(BrokenCuda, ACapturedGraphReplays) {
  EXPECT_FALSE(holds(subject<CountsItsCalls>(), kACapturedGraphReplays));
  EXPECT_FALSE(holds(subject<CountsItsTraining>(), kACapturedGraphReplays));
}

TEST(BrokenCuda, PaddingIsInvisible) {
  EXPECT_TRUE(keeps(subject<SeesPadding>(), kPaddingIsInvisible));
  EXPECT_FALSE(holds(subject<SeesPadding>(), kPaddingIsInvisible));
}

TEST(BrokenCuda, TheFutureIsInvisible) {
  EXPECT_TRUE(keeps(subject<SeesPadding>(), kTheFutureIsInvisible));
  EXPECT_FALSE(holds(subject<SeesPadding>(), kTheFutureIsInvisible));
}

TEST(BrokenCuda, LessPrecisionIsNearby) {
  EXPECT_TRUE(keeps(subject<SumsInItsType>(), kLessPrecisionIsNearby));
  EXPECT_FALSE(holds(subject<SumsInItsType>(), kLessPrecisionIsNearby));
}

}  // namespace
}  // namespace longbow
