#include "longbow/models/decoder/token_loop.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/decoder/decoding.h"
#include "tests/models/languages.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// As on a GPU, where a step that was captured reads and writes what it read and wrote before.
class Captured : public Replay {
 public:
  void run(const std::string&, const std::function<void()>& body) override { body(); }
  bool captures() const override { return true; }
};

TEST(TokenLoop, AStepFindsEverythingWhereItWas) {
  for (const auto* attention : {"softmax", "linear", "{name: local, window: 2}", "gla"})
    for (const auto method :
         {DecodingMethod::greedy, DecodingMethod::beam, DecodingMethod::sample}) {
      const auto model = std::make_shared<TinyLanguageModel>(attention);
      const auto plain = continuation_of(
          model, [=](const Tensor& x) { return model->head(x); }, 3, 20);
      auto watched = plain;
      std::vector<std::vector<const void*>> places;
      watched.next = [&](const Tensor& tokens, const Tensor& keep, State& state) {
        auto& seen = places.emplace_back(std::vector<const void*>{tokens.const_data_ptr()});
        if (method != DecodingMethod::beam)  // whose lanes are copied to where they are read
          for (const auto& lane : state.tensors()) seen.push_back(lane.tensor->const_data_ptr());
        return plain.next(tokens, keep, state);
      };
      const DecodingConfig config = {.method = method, .max_length = 15, .beams = 3};
      const auto prompt = Prompt::begin(3, kBegin, at::kCPU);
      const auto random = Random::from_seed(3);
      Captured replay;
      const auto got = decode(watched, prompt, kEnd, config, random, &replay);
      const auto want = decode(plain, prompt, kEnd, config, random);
      EXPECT_NEAR_TENSOR(got.tokens, want.tokens, kExact) << attention;
      EXPECT_NEAR_TENSOR(got.lengths, want.lengths, kExact) << attention;
      EXPECT_NEAR_TENSOR(got.scores, want.scores, kExact) << attention;
      ASSERT_GT(places.size(), 4u);
      for (size_t i = 2; i < places.size(); ++i) EXPECT_EQ(places[i], places[1]) << attention;
    }
}

TEST(TokenLoop, TheHostLooksAtACapturedStepOnceInAWhile) {
  int64_t more = 0;
  for (const auto method : {DecodingMethod::greedy, DecodingMethod::beam}) {
    const DecodingConfig config = {.method = method, .max_length = 40, .beams = 2};
    int64_t calls = 0;
    auto counted = language(8);
    counted.next = [&calls, next = counted.next](const Tensor& tokens, const Tensor& keep,
                                                 State& state) {
      ++calls;
      return next(tokens, keep, state);
    };
    const auto prompt = Prompt::begin(8, kBegin, at::kCPU);
    const auto want = decode(counted, prompt, kEnd, config);
    const int64_t needed = calls;
    calls = 0;
    Captured replay;
    const auto got = decode(counted, prompt, kEnd, config, {}, &replay);
    EXPECT_NEAR_TENSOR(got.tokens, want.tokens, kExact);
    EXPECT_NEAR_TENSOR(got.lengths, want.lengths, kExact);
    EXPECT_NEAR_TENSOR(got.scores, want.scores, kExact);
    EXPECT_EQ((calls - 1) % 8, 0) << "the first call reads the prompts";
    EXPECT_LT(calls, needed + 8);
    more += calls - needed;
  }
  EXPECT_GT(more, 0);
}

}  // namespace
}  // namespace longbow
