// The laws that need a GPU are shown to fail once, on softmax attention with a flaw.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

struct OtherOnTheGpu {
  double shift(const Tensor& x) { return x.is_cuda() ? 1e-3 : 0; }
};
// A number of the host is baked into a graph when it is captured.
struct CountsItsCalls {
  double shift(const Tensor&) { return ++calls; }
  double calls = 0;
};
struct Sound {
  double shift(const Tensor&) { return 0; }
};

template <class Flaw>
class Flawed : public MixerImpl {
 public:
  explicit Flawed(Mixer sound) : sound_(register_module("sound", std::move(sound))) {}

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    return (*sound_)(x, context) + flaw_.shift(x);
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

TEST(BrokenCuda, WithoutAFlawBothLawsHold) {
  EXPECT_TRUE(keeps(subject<Sound>(), kTheGpuAgrees));
  EXPECT_TRUE(keeps(subject<Sound>(), kACapturedGraphReplays));
}

TEST(BrokenCuda, TheGpuAgrees) {
  EXPECT_FALSE(keeps(subject<OtherOnTheGpu>(), kTheGpuAgrees));
}

TEST(BrokenCuda, ACapturedGraphReplays) {
  EXPECT_FALSE(keeps(subject<CountsItsCalls>(), kACapturedGraphReplays));
}

}  // namespace
}  // namespace longbow
