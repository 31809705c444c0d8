#pragma once
// A tile of queries and the keys that it reads, a tile at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "longbow/kernels/cpu/machine.h"
#include "longbow/kernels/tile_attention.h"

namespace longbow::kernels {

constexpr int64_t kTileSide = 64;  // queries, keys

// Tokens of one block of queries, at most kTileSide.
struct QueryTile {
  int64_t block, first, rows;  // rows may be 0
  int64_t place;               // of the first query in its block

  QueryTile(int64_t number, int64_t queries, int64_t query_block) {
    const int64_t parts = (query_block + kTileSide - 1) / kTileSide;
    block = number / parts;
    place = number % parts * kTileSide;
    first = block * query_block + place;
    rows = std::clamp<int64_t>(std::min(query_block - place, queries - first), 0, kTileSide);
  }
};

// The keys of a tile: those at places begin … begin + kTileSide - 1 of a list that there are.
struct KeyTile {
  int64_t rows = 0;
  int64_t token[kTileSide], place[kTileSide], position[kTileSide];
  int64_t least = 0, largest = 0;  // positions
  bool consecutive = true;         // each token is the next of the one before it
};

// What a tile of queries sees. Scores lie with a row for each key and a column for each query.
template <class T, class Row>
class Sight {
 public:
  Sight(const TileAttention<T, Row>& task, const QueryTile& tile) : task_(task), tile_(tile) {
    for (int64_t i = 0; i < kTileSide; ++i) {  // behind the last query: copies of it
      const int64_t n = tile.first + std::min(i, tile.rows - 1);
      position_[i] = task.query_positions ? task.query_positions[n] : n;
      group_[i] = task.query_groups ? task.query_groups[n] : 0;
    }
    least_ = *std::min_element(position_, position_ + kTileSide);
    largest_ = *std::max_element(position_, position_ + kTileSide);
  }

  int64_t places() const { return task_.listed * task_.key_block; }

  // The keys at places begin …; none where the queries can see none of them.
  void find(int64_t begin, KeyTile& keys) const {
    keys.rows = 0;
    keys.consecutive = true;
    const int64_t end = std::min(begin + kTileSide, places());
    const int64_t* columns = task_.columns + tile_.block * task_.listed;
    int64_t listed = begin / task_.key_block, offset = begin % task_.key_block;
    for (int64_t place = begin; place < end; ++listed, offset = 0) {
      const int64_t token = columns[listed] * task_.key_block + offset;
      const int64_t count = std::min(end - place, task_.key_block - offset);
      if (columns[listed] >= 0) take(token, std::min(count, task_.keys - token), place, keys);
      place += count;
    }
    if (keys.rows == 0) return;
    if (task_.key_positions)
      for (int64_t j = 0; j < keys.rows; ++j) keys.position[j] = task_.key_positions[keys.token[j]];
    else
      std::copy(keys.token, keys.token + keys.rows, keys.position);
    keys.least = *std::min_element(keys.position, keys.position + keys.rows);
    keys.largest = *std::max_element(keys.position, keys.position + keys.rows);
    const bool too_far = keys.least >= task_.first && least_ - keys.largest > task_.back;
    if (too_far || largest_ - keys.least < -task_.ahead) keys.rows = 0;
  }

  // Adds biases to scores, and makes those of pairs that do not see each other -infinity.
  [[gnu::always_inline]] void apply(const KeyTile& keys, T* scores) const {
    if (task_.key_bias)
      for (int64_t j = 0; j < keys.rows; ++j)
        for (int64_t i = 0; i < kTileSide; ++i)
          scores[j * kTileSide + i] += task_.key_bias[keys.token[j]];
    if (task_.bias)
      each_bias(
          keys, [&](int64_t pair, int64_t number)
                    __attribute__((always_inline)) { scores[pair] += task_.bias[number]; });
    if (!all_visible(keys)) hide(keys, scores);
  }

  // body(place of the pair in a tile of scores, number of its bias).
  template <class Body>
  [[gnu::always_inline]] void each_bias(const KeyTile& keys, const Body& body) const {
    const int64_t labels = task_.high - task_.low + 1;
    for (int64_t i = 0; i < tile_.rows; ++i)
      for (int64_t j = 0; j < keys.rows; ++j) {
        const int64_t label =
            std::clamp(keys.position[j] - position_[i], task_.low, std::max(task_.low, task_.high));
        body(j * kTileSide + i, labels > 0 ? (tile_.first + i) * labels + label - task_.low
                                           : weight(i) + keys.place[j]);
      }
  }

  // The number of query i's first weight among those of the head.
  int64_t weight(int64_t i) const {
    return (tile_.block * task_.query_block + tile_.place + i) * places();
  }

 private:
  // Those of `count` tokens beside each other that are there.
  void take(int64_t token, int64_t count, int64_t place, KeyTile& keys) const {
    int64_t rows = keys.rows;
    for (int64_t j = 0; j < count; ++j) {
      keys.token[rows] = token + j;
      keys.place[rows] = place + j;
      rows += task_.keep ? task_.keep[token + j] : 1;
    }
    if (rows == keys.rows) return;
    const int64_t before = keys.rows == 0 ? keys.token[0] : keys.token[keys.rows - 1] + 1;
    keys.consecutive &= keys.token[keys.rows] == before &&
                        keys.token[rows - 1] - keys.token[keys.rows] == rows - 1 - keys.rows;
    keys.rows = rows;
  }

  bool all_visible(const KeyTile& keys) const {
    const int64_t nearest = least_ - keys.largest, farthest = largest_ - keys.least;
    const bool apart = task_.apart <= 0 || nearest >= task_.apart || farthest <= -task_.apart;
    return !task_.query_groups && apart && farthest <= task_.back && nearest >= -task_.ahead;
  }
  [[gnu::always_inline]] void hide(const KeyTile& keys, T* scores) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    for (int64_t j = 0; j < keys.rows; ++j) {
      const int64_t position = keys.position[j];
      const int64_t back =
          position < task_.first ? std::numeric_limits<int64_t>::max() : task_.back;
      T* const row = scores + j * kTileSide;
      for (int64_t i = 0; i < kTileSide; ++i) {
        const int64_t distance = position_[i] - position;
        const bool near = distance <= back && distance >= -task_.ahead;
        const bool apart = distance >= task_.apart || -distance >= task_.apart;
        row[i] = near && apart ? row[i] : kHidden;
      }
      if (!task_.query_groups) continue;
      const int64_t group = task_.key_groups[keys.token[j]];
      for (int64_t i = 0; i < kTileSide; ++i) row[i] = group_[i] == group ? row[i] : kHidden;
    }
  }

  const TileAttention<T, Row>& task_;
  const QueryTile& tile_;
  int64_t position_[kTileSide], group_[kTileSide], least_, largest_;
};

}  // namespace longbow::kernels
