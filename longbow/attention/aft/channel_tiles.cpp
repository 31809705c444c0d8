#include "longbow/attention/aft/channel_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace longbow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kRows = 128;  // most queries in a tile

// [T, before + T] bool: the keys that come after query t, which is key before + t.
Tensor later_keys(int64_t queries, int64_t before, at::Device device) {
  return at::ones({queries, before + queries}, at::TensorOptions(at::kBool).device(device))
      .triu_(before + 1);
}

// [..., T, taps] as a matrix [..., T, T + taps - 1]: row t moves t places to the right.
Tensor slanted(const Tensor& taps) {
  const int64_t rows = taps.size(-2), columns = rows + taps.size(-1) - 1;
  return at::constant_pad_nd(taps, {0, rows})
      .flatten(-2)
      .narrow(-1, 0, rows * columns)
      .unflatten(-1, {rows, columns});
}

// One row per query, cut into tiles: [H, tiles or 1, T, taps].
Tensor by_tiles(const Tensor& taps, int64_t queries, int64_t tile) {
  if (taps.size(1) == 1) return taps.unsqueeze(1).expand({-1, -1, tile, -1});
  const int64_t rest = (tile - queries % tile) % tile;
  return at::constant_pad_nd(taps, {0, 0, 0, rest}).unflatten(1, {-1, tile});
}

}  // namespace

// Causally a tile reads the tokens before it by products, and its own pair by pair.
ChannelSums paired_sums(const Tensor& k, const Tensor& v, const PairBias& bias, bool causal) {
  const auto read = [&](const Tensor& left, int64_t first, int64_t count, const Tensor& hidden) {
    const auto& right = bias.right;
    return biased_sums(k.narrow(2, first, count), v.narrow(2, first, count),
                       right.defined() ? PairBias{left, right.narrow(0, first, count)}
                                       : PairBias{left.narrow(1, first, count)},
                       hidden);
  };
  std::vector<ChannelSums> tiles;
  int64_t first = 0;
  for (const auto& left : bias.left.split(causal ? kRows / 2 : kRows, 0)) {
    const int64_t count = left.size(0);
    auto sums = causal ? read(left, first, count, later_keys(count, 0, k.device()))
                       : read(left, 0, k.size(2), {});
    if (causal && first > 0) sums = joined(read(left, 0, first, {}), sums);
    tiles.push_back(sums);
    first += count;
  }
  return joined_rows(tiles);
}

// A tile reads the keys that any of its queries has in its window, without a bias where a query
// itself does not.
ChannelSums windowed_sums(const Tensor& k, const Tensor& v, const Tensor& taps, bool causal) {
  const int64_t n = k.size(2), most = (taps.size(-1) - 1) / 2, reach = std::min(most, n - 1),
                ahead = causal ? 0 : reach;
  const int64_t tile = std::min(n, std::clamp<int64_t>(reach + 1, 16, kRows));
  const int64_t rest = (tile - n % tile) % tile;
  const auto around = [&](const Tensor& t, double none) {  // [B, H, tiles, S, D]
    return at::constant_pad_nd(t, {0, 0, reach, rest + ahead}, none)
        .unfold(2, reach + tile + ahead, tile)
        .transpose(-2, -1);
  };
  const auto near = taps.narrow(-1, most - reach, reach + 1 + ahead);
  auto sums = biased_sums(around(k, -kInfinity), around(v, 0), {slanted(by_tiles(near, n, tile))},
                          causal ? later_keys(tile, reach, k.device()) : Tensor());
  const auto add = [&](const ChannelSums& others) {  // the row at the beginning of each tile
    sums = joined(sums, others.each([&](const Tensor& t, double) {
      return t.slice(2, 0, n, tile).unsqueeze(3);
    }));
  };
  if (reach < n - 1) {
    const auto turned = [](const Tensor& t, double) { return t.flip(2); };
    const auto alone = each_key(k, v);
    add(running(alone).padded(reach + 1, -reach - 1));
    const int64_t shift = std::min(n, tile + ahead);
    if (!causal) add(running(alone.each(turned)).each(turned).padded(-shift, shift));
  }
  return sums.each([&](const Tensor& t, double) { return t.flatten(2, 3).narrow(2, 0, n); });
}

void open_window(State& state, const Tensor& k, const Tensor& v, int64_t reach) {
  open_channel_sums(state, k, v);
  const auto room = [&](const Tensor& t) {
    return std::vector{t.size(0), t.size(1), reach, t.size(3)};
  };
  state.add("near_keys", room(k), k.options(), -kInfinity);
  state.add("near_values", room(v), v.options());
}

// The tokens of the last window and the new ones are one tile; then the window moves on by as many
// tokens of each lane as are real.
ChannelSums grow_window(const Tensor& k, const Tensor& v, const Tensor& taps, const Tensor& keep,
                        State& state) {
  auto &near_k = state.lane.at("near_keys"), &near_v = state.lane.at("near_values");
  const auto past = seen_channel_sums(state);
  const auto all_k = at::cat({near_k, k}, 2), all_v = at::cat({near_v, v}, 2);
  const int64_t tokens = k.size(2), reach = near_k.size(2);
  const auto sums = joined(past, biased_sums(all_k, all_v, {slanted(taps.narrow(-1, 0, reach + 1))},
                                             later_keys(tokens, reach, k.device())));
  const auto options = at::TensorOptions(at::kLong).device(k.device());
  const auto real =
      keep.defined() ? keep.sum(1).view({-1, 1, 1, 1}) : at::full({1, 1, 1, 1}, tokens, options);
  const auto place = at::arange(reach + tokens, options).view({1, 1, -1, 1});
  set_channel_sums(state,
                   joined(past, all_keys(all_k.masked_fill(place >= real, -kInfinity), all_v)));
  const auto stay = place.narrow(2, 0, reach) + real;
  near_k = at::take_along_dim(all_k, stay, 2);
  near_v = at::take_along_dim(all_v, stay, 2);
  return sums;
}

}  // namespace longbow
