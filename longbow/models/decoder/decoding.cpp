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

// A token for each lane, by the inverse of the distribution function: [L].
Tensor drawn(const Tensor& logits, const DecodingConfig& config, const Random& random,
             int64_t step) {
  const auto probabilities = sampling_distribution(logits, config);
  const auto sums = probabilities.cumsum(-1);
  const auto site = "decoding." + std::to_string(step);
  const auto u = random.uniform({logits.size(0), 1}, site).to(sums.scalar_type());
  const auto all = sums.narrow(1, sums.size(1) - 1, 1);
  // u < 1, but rounding may reach the sum itself: then the last token that has a probability.
  const auto last = (sums < all).sum(-1);
  return at::minimum((sums <= u * all).sum(-1), last);
}

using Choose = std::function<Tensor(const Tensor& logits, int64_t step)>;

struct Written {
  Tensor tokens, lengths, sums;  // [L, steps], [L], [L] log-probability
};

// One text a lane; where `waits`, it ends when all lanes have ended.
Written write_lanes(const Continuation& model, State& state, Tensor logits, const Choose& choose,
                    const Ending& ending, int64_t steps, bool waits) {
  const int64_t lanes = logits.size(0);
  const auto ids = logits.options().dtype(at::kLong);
  auto live = at::ones({lanes}, ids.dtype(at::kBool));
  auto lengths = at::zeros({lanes}, ids);
  auto sums = at::zeros({lanes}, logits.options().dtype(at::kDouble));
  std::vector<Tensor> columns;
  for (int64_t step = 0; step < steps; ++step) {
    const auto open = ending.allowed(logits.to(wide(logits)), step);
    const auto token = choose(open, step).masked_fill(live.logical_not(), 0);
    const auto gained = open.log_softmax(-1).gather(1, token.unsqueeze(1)).squeeze(1);
    sums = sums + gained.masked_fill(live.logical_not(), 0);
    lengths = lengths + live.to(at::kLong);
    columns.push_back(token);
    if (ending.id >= 0) live = live.logical_and(token != ending.id);
    if (step + 1 == steps || (waits && !live.any().item<bool>())) break;
    logits = model.next(token.unsqueeze(1), {}, state);
  }
  const auto tokens = at::stack(columns, 1);
  return {at::constant_pad_nd(tokens, {0, steps - tokens.size(1)}), lengths, sums};
}

Tensor best(const Tensor& logits, int64_t) {
  return logits.argmax(-1);
}

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
               const DecodingConfig& config, const Random& random) {
  const at::NoGradGuard no_grad;
  check_decoding(config, {});
  const int64_t steps = steps_for(model, prompt, config.max_length);
  auto state = model.start(prompt.tokens.size(1) + steps - 1);
  auto logits = model.next(prompt.tokens, prompt.keep, state);
  const Ending ending = {.id = end, .earliest = config.min_length};
  if (config.method == DecodingMethod::beam) {
    repeat_lanes(state, logits, config.beams);
    return beam_search(model, state, logits, ending, steps, config);
  }
  Choose choose = best;
  if (config.method == DecodingMethod::sample)
    choose = [&](const Tensor& scores, int64_t step) {
      return drawn(scores, config, random, step);
    };
  repeat_lanes(state, logits, config.n_best);
  const auto written = write_lanes(model, state, logits, choose, ending, steps, /*waits=*/true);
  const auto scores =
      (written.sums / penalty_of(written.lengths, config)).view({model.lanes, config.n_best});
  const auto order = scores.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
  const auto tokens = written.tokens.view({model.lanes, config.n_best, steps});
  return {tokens.gather(1, order.unsqueeze(-1).expand_as(tokens)),
          written.lengths.view_as(scores).gather(1, order), scores.gather(1, order)};
}

Tensor decode_greedily(const Continuation& model, const Prompt& prompt, int64_t end,
                       int64_t steps) {
  const at::NoGradGuard no_grad;
  steps_for(model, prompt, steps);
  auto state = model.start(prompt.tokens.size(1) + steps - 1);
  const auto logits = model.next(prompt.tokens, prompt.keep, state);
  return write_lanes(model, state, logits, best, {.id = end, .earliest = 0}, steps,
                     /*waits=*/false)
      .tokens;
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
