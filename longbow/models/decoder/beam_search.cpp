#include "longbow/models/decoder/beam_search.h"

#include <ATen/ATen.h>

#include <limits>

namespace longbow {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Some texts of each of B sequences: [B, K], [B, K], [B, K, steps].
struct Texts {
  Tensor scores, lengths, tokens;

  static Texts none(int64_t sequences, int64_t count, int64_t steps, const Tensor& like) {
    const auto ids = like.options().dtype(at::kLong);
    return {at::full({sequences, count}, kNever, like.options()),
            at::zeros({sequences, count}, ids), at::zeros({sequences, count, steps}, ids)};
  }
  Texts picked(const Tensor& index) const {  // [B, J]
    return {scores.gather(1, index), lengths.gather(1, index),
            tokens.gather(1, index.unsqueeze(-1).expand({-1, -1, tokens.size(2)}))};
  }
  // The best `count` of both, best first; the earlier one of two that score alike.
  Texts with(const Texts& others, int64_t count) const {
    const Texts all = {at::cat({scores, others.scores}, 1), at::cat({lengths, others.lengths}, 1),
                       at::cat({tokens, others.tokens}, 1)};
    const auto order = all.scores.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
    return all.picked(order.narrow(1, 0, count));
  }
  void become(const Texts& others) {
    scores.copy_(others.scores);
    lengths.copy_(others.lengths);
    tokens.copy_(others.tokens);
  }
};

class Search : public TokenWriter {
 public:
  Search(const Tensor& logits, const Ending& ending, int64_t steps, const DecodingConfig& config)
      : config_(config), ending_(ending), steps_(steps), beams_(config.beams) {
    const int64_t sequences = logits.size(0) / beams_;
    const auto like = at::empty({0}, logits.options().dtype(at::kDouble));
    finished_ = Texts::none(sequences, beams_, steps, like);
    live_ = Texts::none(sequences, beams_, steps, like);
    live_.scores.select(1, 0).fill_(0);  // the beams are alike: only the first counts
    const auto ids = like.options().dtype(at::kLong);
    done_ = at::zeros({sequences}, like.options().dtype(at::kBool));
    first_lane_ = at::arange(sequences, ids).mul(beams_).unsqueeze(1);
    lanes_ = at::zeros({sequences * beams_}, ids);
    last_ = at::zeros({sequences * beams_, 1}, ids);
  }

  // One token more for every beam.
  void take(const Tensor& logits, const Tensor& step) override {
    const int64_t words = logits.size(1), most = std::min(2 * beams_, beams_ * words);
    const auto gained = ending_.allowed(logits.to(wide(logits)), step).log_softmax(-1);
    const auto sums = live_.scores.unsqueeze(-1) + gained.view({-1, beams_, words});
    const auto [scores, places] = sums.flatten(1).topk(most, 1);
    const auto beams = places.floor_divide(words), ids = places.remainder(words);
    auto next = live_.picked(beams);
    next.scores = scores;
    next.lengths = (step + 1).expand_as(next.lengths);
    next.tokens.index_copy_(2, step, ids.unsqueeze(-1));
    const auto ends = ids == ending_.id;
    finish(next, ends);
    // Those that are no ends, in their order: at most one continuation of a beam is an end.
    const auto order = ends.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/false);
    const auto on = order.narrow(1, 0, beams_);
    live_.become(next.picked(on));
    live_.scores.masked_fill_(ends.gather(1, on), kNever);
    stop();
    lanes_.copy_((beams.gather(1, on) + first_lane_).flatten());
    last_.copy_(ids.gather(1, on).view({-1, 1}));
  }

  Tensor tokens() const override { return last_; }
  Tensor lanes() const override { return lanes_; }
  bool over() const override { return done_.all().item<bool>(); }

  // Texts that did not end count as they stand, where the search was not over.
  Decoded best() const {
    auto rest = live_;
    rest.scores = normalised(live_).masked_fill(done_.unsqueeze(1), kNever);
    auto all = finished_.with(rest, config_.n_best);
    const auto missing = all.scores == kNever;
    return {all.tokens.masked_fill(missing.unsqueeze(-1), 0), all.lengths.masked_fill(missing, 0),
            all.scores};
  }

 private:
  Tensor normalised(const Texts& texts) const {
    return texts.scores / penalty_of(texts.lengths, config_);
  }

  void finish(const Texts& next, const Tensor& ends) {
    const int64_t first = std::min(beams_, ends.size(1));
    Texts ended = {normalised(next).narrow(1, 0, first), next.lengths.narrow(1, 0, first),
                   next.tokens.narrow(1, 0, first)};
    const auto not_now = ends.narrow(1, 0, first).logical_not().logical_or(done_.unsqueeze(1));
    ended.scores = ended.scores.masked_fill(not_now, kNever);
    finished_.become(finished_.with(ended, beams_));
  }

  void stop() {
    const auto worst = finished_.scores.select(1, beams_ - 1);
    if (config_.early_stopping) {
      done_.logical_or_(worst > kNever);
      return;
    }
    // Sums only fall, and the longest text is divided by the most.
    const auto longest = at::full_like(live_.lengths.select(1, 0), steps_);
    const auto hope = live_.scores.amax(1) / penalty_of(longest, config_);
    done_.logical_or_(worst >= hope);
  }

  const DecodingConfig& config_;
  Ending ending_;
  int64_t steps_, beams_;
  Texts finished_, live_;  // with normalised scores; with sums of log-probabilities
  Tensor done_, first_lane_, lanes_, last_;
};

}  // namespace

Tensor Ending::allowed(const Tensor& logits, const Tensor& step) const {
  if (id < 0 || earliest == 0) return logits;
  const auto ids = at::arange(logits.size(1), logits.options().dtype(at::kLong));
  return logits.masked_fill((ids == id).logical_and(step < earliest), kNever);
}

Tensor penalty_of(const Tensor& lengths, const DecodingConfig& config) {
  const auto tokens = lengths.to(at::kDouble).clamp_min(1);
  const bool gnmt = config.penalty == LengthPenalty::gnmt;
  return (gnmt ? (tokens + 5) / 6 : tokens).pow(config.length_penalty);
}

Decoded beam_search(const Continuation& model, const State& state, const Tensor& logits,
                    const Ending& ending, int64_t steps, const DecodingConfig& config,
                    Replay& replay) {
  Search search(logits, ending, steps, config);
  write_tokens(model, state, logits, steps, /*waits=*/true, search, replay);
  return search.best();
}

}  // namespace longbow
