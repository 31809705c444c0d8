#include "longbow/corpus/readers/splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "longbow/core/error.h"
#include "longbow/core/option_error.h"
#include "longbow/core/seed.h"

namespace longbow::corpus {
namespace {

uint64_t hash_of(const Record& record, SplitKey key) {
  if (key == SplitKey::id) return hash_name(record.id);
  if (key == SplitKey::group) return hash_name(record.group);
  uint64_t hash = hash_name(record.texts.at(0));
  // Each hash is part of what the next stream is drawn from, so ("ab", "c") is not ("a", "bc").
  for (size_t i = 1; i < record.texts.size() && key == SplitKey::texts; ++i)
    hash = Stream(hash, "texts").at(hash_name(record.texts[i])).key();
  return hash;
}

}  // namespace

void check_split(const SplitOptions& options) {
  require_option(options.valid_fraction + options.test_fraction < 1, "test_fraction",
                 "and valid_fraction leave no training records", "their sum is below 1");
}

HashSplit::HashSplit(const SplitOptions& options, uint64_t seed) : options_(options), seed_(seed) {
  check_split(options);
}

Side HashSplit::side(const Record& record) const {
  const bool is_unkeyed = (options_.key == SplitKey::id && record.id.empty()) ||
                          (options_.key == SplitKey::group && record.group.empty());
  if (is_unkeyed)
    throw UserError(record.place(),
                    fmt::format("the record has no {} to split by", name_of(options_.key)),
                    "set key: texts or key: first_text");
  const double drawn = Stream(seed_, "split").at(hash_of(record, options_.key)).uniform();
  if (drawn < options_.test_fraction) return Side::test;
  if (drawn < options_.test_fraction + options_.valid_fraction) return Side::valid;
  return Side::train;
}

OrderedSplit::OrderedSplit(const SplitOptions& options, int64_t total) {
  check_split(options);
  const auto before = [&](double fraction) {
    // 1 - 0.1 - 0.1 of a round number must be a round number.
    constexpr double kRounding = 1e-9;
    return static_cast<int64_t>(std::floor(static_cast<double>(total) * (fraction + kRounding)));
  };
  valid_ = before(1 - options.valid_fraction - options.test_fraction);
  test_ = options.test_fraction == 0 ? total : before(1 - options.test_fraction);
}

Side OrderedSplit::side(int64_t position) const {
  return position < valid_ ? Side::train : position < test_ ? Side::valid : Side::test;
}

std::array<std::string_view, 3> OrderedSplit::cut(std::string_view text) const {
  const auto boundary = [&](int64_t offset) {
    auto at = std::min(static_cast<size_t>(offset), text.size());
    while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
      --at;
    return at;
  };
  const auto valid = boundary(valid_), test = boundary(test_);
  return {text.substr(0, valid), text.substr(valid, test - valid), text.substr(test)};
}

TextSize measure(TextFile& file) {
  TextSize size;
  bool ends_in_line = false;
  for (auto block = file.block(); !block.empty(); block = file.block()) {
    size.lines += std::count(block.begin(), block.end(), '\n');
    size.bytes += static_cast<int64_t>(block.size());
    ends_in_line = block.back() != '\n';
  }
  size.lines += ends_in_line;
  return size;
}

}  // namespace longbow::corpus
