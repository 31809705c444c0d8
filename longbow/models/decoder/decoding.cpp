#include "longbow/models/decoder/decoding.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/models/decoder/beam_search.h"

namespace longbow {
namespace {

// The same texts `count` times each, beside each other.
void repeat_lanes(State& state, Tensor& logits, int64_t count) {
  if (count == 1) return;
  const auto lanes = at::arange(logits.size(0), logits.options().dtype(at::kLong));
  const auto copies = lanes.repeat_interleave(count);
  state.reorder(copies);
  logits = logits.index_select(0, copies);
}

// Chooses a token for each lane: logits [L, V], step [1] -> [L].
using Choose = std::function<Tensor(const Tensor& logits, const Tensor& step)>;

Tensor most_probable(const Tensor& logits, const Tensor&) {
  return logits.argmax(-1);
}

// At random, by the inverse of the distribution function.
Choose drawn(const DecodingConfig& config, const Random& random, int64_t lanes, int64_t steps) {
  std::vector<Tensor> rows;
  for (int64_t step = 0; step < steps; ++step)
    rows.push_back(random.uniform({lanes}, "decoding." + std::to_string(step)));
  return [=, draws = at::stack(rows)](const Tensor& logits, const Tensor& step) {
    const auto sums = sampling_distribution(logits, config).cumsum(-1);
    const auto u = draws.index_select(0, step).view({lanes, 1}).to(sums.scalar_type());
    const auto all = sums.narrow(1, sums.size(1) - 1, 1);
    // u < 1, but rounding may reach the sum itself: then the last token that has a probability.
    const auto last = (sums < all).sum(-1);
    return at::minimum((sums <= u * all).sum(-1), last);
  };
}

// One text a lane, until all have ended.
class LaneWriter : public TokenWriter {
 public:
  LaneWriter(const Tensor& logits, int64_t steps, Choose choose, const Ending& ending)
      : choose_(std::move(choose)), ending_(ending) {
    const int64_t lanes = logits.size(0);
    const auto ids = logits.options().dtype(at::kLong);
    written = at::zeros({lanes, steps}, ids);
    lengths = at::zeros({lanes}, ids);
    sums = at::zeros({lanes}, logits.options().dtype(at::kDouble));
    last_ = at::zeros({lanes, 1}, ids);
    live_ = at::ones({lanes}, ids.dtype(at::kBool));
  }

  void take(const Tensor& logits, const Tensor& step) override {
    const auto open = ending_.allowed(logits.to(wide(logits)), step);
    const auto ended = live_.logical_not();
    const auto token = choose_(open, step).masked_fill(ended, 0).unsqueeze(1);
    sums.add_(open.log_softmax(-1).gather(1, token).squeeze(1).masked_fill(ended, 0));
    lengths.add_(live_);
    written.index_copy_(1, step, token);
    last_.copy_(token);
    if (ending_.id >= 0) live_.logical_and_(token.squeeze(1) != ending_.id);
  }
  Tensor tokens() const override { return last_; }
  bool over() const override { return !live_.any().item<bool>(); }

  Tensor written, lengths, sums;  // [L, steps], 0 behind the end; [L]; [L] log-probability

 private:
  Choose choose_;
  Ending ending_;
  Tensor last_, live_;
};

// Tokens to write, and the room that they and the prompt need.
int64_t steps_for(const Continuation& model, const Prompt& prompt, int64_t wanted) {
  const int64_t before = prompt.tokens.size(1), room = model.longest - before + 1;
  if (wanted == 0) {
    TORCH_CHECK(model.longest > 0, "decode: max_length is 0, but the model has no limit either");
    wanted = room;
  }
  TORCH_CHECK(model.longest == 0 || (room > 0 && wanted <= room), "decode: ", wanted,
              " tokens after a prompt of ", before, ", but the model holds ", model.longest);
  return wanted;
}

}  // namespace

Decoded decode(const Continuation& model, const Prompt& prompt, int64_t end,
               const DecodingConfig& config, const Random& random, Replay* given) {
  const at::NoGradGuard no_grad;
  check_decoding(config, {});
  const auto own = given ? nullptr : make_replay(prompt.tokens.device(), config.graphs);
  auto& replay = given ? *given : *own;
  const int64_t steps = steps_for(model, prompt, config.max_length);
  auto state = model.start(prompt.tokens.size(1) + steps - 1);
  auto logits = model.next(prompt.tokens, prompt.keep, state);
  const Ending ending = {.id = end, .earliest = config.min_length};
  if (config.method == DecodingMethod::beam) {
    repeat_lanes(state, logits, config.beams);
    return beam_search(model, state, logits, ending, steps, config, replay);
  }
  repeat_lanes(state, logits, config.n_best);
  const auto choose = config.method == DecodingMethod::sample
                          ? drawn(config, random, logits.size(0), steps)
                          : most_probable;
  LaneWriter writer(logits, steps, choose, ending);
  write_tokens(model, state, logits, steps, /*waits=*/true, writer, replay);
  const auto scores =
      (writer.sums / penalty_of(writer.lengths, config)).view({model.lanes, config.n_best});
  const auto order = scores.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
  const auto tokens = writer.written.view({model.lanes, config.n_best, steps});
  return {tokens.gather(1, order.unsqueeze(-1).expand_as(tokens)),
          writer.lengths.view_as(scores).gather(1, order), scores.gather(1, order)};
}

Tensor decode_greedily(const Continuation& model, const Prompt& prompt, int64_t end,
                       int64_t steps) {
  const at::NoGradGuard no_grad;
  steps_for(model, prompt, steps);
  auto state = model.start(prompt.tokens.size(1) + steps - 1);
  const auto logits = model.next(prompt.tokens, prompt.keep, state);
  LaneWriter writer(logits, steps, most_probable, {.id = end, .earliest = 0});
  const auto replay = make_replay(prompt.tokens.device(), /*graphs=*/false);
  write_tokens(model, state, logits, steps, /*waits=*/false, writer, *replay);
  return writer.written;
}

Tensor sampling_distribution(const Tensor& logits, const DecodingConfig& config) {
  const auto all = logits.to(wide(logits)).div(config.temperature).softmax(-1);
  const auto [sorted, order] = all.sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true);
  auto kept = sorted.cumsum(-1) - sorted < config.top_p;  // what stands before does not reach p
  if (config.top_k > 0)
    kept = kept.logical_and(at::arange(sorted.size(-1), order.options()) < config.top_k);
  const auto chosen = sorted.masked_fill(kept.logical_not(), 0);
  return at::zeros_like(all).scatter(-1, order, chosen / chosen.sum(-1, true));
}

}  // namespace longbow
