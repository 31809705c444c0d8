#include "longbow/text/formats/tokenizer_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "longbow/core/limits.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

constexpr size_t kMostEntries = 10'000'000;  // of a vocabulary or of merges

// Steps through the text and counts its lines, which the parser does not tell.
class LineCounter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCounter(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCounter& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  friend bool operator!=(const LineCounter& a, const LineCounter& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  int* line_;
};

// What nlohmann's parser reports, value by value. All its functions return true to go on; mistakes
// are thrown.
class DocumentBuilder {
 public:
  DocumentBuilder(std::string name, int* line) : name_(std::move(name)), line_(line) {}

  bool null() { return value(Node()); }
  bool boolean(bool given) { return value(Node::boolean(given)); }
  bool number_integer(int64_t given) { return integer(given); }
  bool number_unsigned(uint64_t given) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return given > kMost ? value(Node::scalar(std::to_string(given)))
                         : integer(static_cast<int64_t>(given));
  }
  bool number_float(double given, const std::string& text) {
    if (bulk_ == Bulk::pieces) return score(given);
    return value(Node::scalar(text));
  }
  bool string(std::string& given) {
    if (bulk_ == Bulk::none) return value(Node::string(std::move(given)));
    if (bulk_ == Bulk::entries) fail(fmt::format("the id of {} must be a number", quote(key_)));
    if (inner_ == 0 && bulk_ == Bulk::merges) return merge(given);
    if (inner_ == 0) fail("vocab must be a list of [piece, score]");
    item_.push_back(std::move(given));
    return true;
  }
  bool binary(std::vector<uint8_t>&) { fail("binary values are no JSON"); }

  bool start_object(size_t) {
    if (bulk_ != Bulk::none) fail(fmt::format("{} has an object inside", bulk_name()));
    if (begins_bulk("vocab")) return begin_bulk(Bulk::entries, document.has_entries);
    return open(Node::map());
  }
  bool start_array(size_t) {
    if (bulk_ == Bulk::none && begins_bulk("vocab"))
      return begin_bulk(Bulk::pieces, document.has_pieces);
    if (bulk_ == Bulk::none && begins_bulk("merges"))
      return begin_bulk(Bulk::merges, document.has_merges);
    if (bulk_ == Bulk::none) return open(Node::list());
    if (bulk_ == Bulk::entries || inner_ > 0)
      fail(fmt::format("{} has a list inside", bulk_name()));
    item_.clear();
    has_score_ = false;
    inner_ = 1;
    return true;
  }
  bool end_object() { return bulk_ == Bulk::entries ? end_bulk() : close(); }
  bool end_array() {
    if (bulk_ == Bulk::none) return close();
    if (inner_ == 0) return end_bulk();
    inner_ = 0;
    return bulk_ == Bulk::pieces ? end_piece() : end_merge();
  }
  bool key(std::string& given) {
    key_ = std::move(given);
    return true;
  }
  template <class Error>
  bool parse_error(size_t, const std::string&, const Error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what"
    const std::string message = error.what();
    const auto colon = message.find(": ");
    fail("not valid JSON: " +
         one_line(colon == std::string::npos ? message : message.substr(colon + 2), 200));
  }

  TokenizerDocument document;

 private:
  enum class Bulk { none, entries, pieces, merges };

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(Place{name_, *line_}, what);
  }
  const char* bulk_name() const { return bulk_ == Bulk::merges ? "merges" : "vocab"; }

  bool begins_bulk(const char* name) const {
    return open_.size() == 2 && key_ == name && path_.size() == 2 && path_[1] == "model" &&
           open_[1]->is_map();
  }
  bool begin_bulk(Bulk bulk, bool& has) {
    if (has) fail(fmt::format("duplicate key {}", quote(key_)));
    has = true;
    bulk_ = bulk;
    inner_ = 0;
    return true;
  }
  bool end_bulk() {
    bulk_ = Bulk::none;
    return true;
  }
  void count_entry(size_t entries) const {
    if (entries > kMostEntries)
      fail(fmt::format("{} has more than {} entries", bulk_name(), kMostEntries));
  }

  bool integer(int64_t given) {
    if (bulk_ == Bulk::pieces) return score(static_cast<double>(given));
    if (bulk_ != Bulk::entries) return value(Node::integer(given));
    if (given < 0 || given > std::numeric_limits<int32_t>::max())
      fail(fmt::format("the id of {} is {}", quote(key_), given));
    document.entries.emplace_back(std::move(key_), static_cast<int32_t>(given));
    count_entry(document.entries.size());
    return true;
  }
  bool score(double given) {
    if (inner_ == 0 || has_score_) fail("vocab must be a list of [piece, score]");
    score_ = given;
    has_score_ = true;
    return true;
  }
  bool end_piece() {
    if (item_.size() != 1 || !has_score_) fail("vocab must be a list of [piece, score]");
    document.pieces.emplace_back(std::move(item_[0]), score_);
    count_entry(document.pieces.size());
    return true;
  }
  bool merge(const std::string& text) {
    const auto space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      fail(fmt::format("merge {} is not two tokens with a space between", quote(text)));
    document.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    count_entry(document.merges.size());
    return true;
  }
  bool end_merge() {
    if (item_.size() != 2) fail("a merge must be two tokens");
    document.merges.emplace_back(std::move(item_[0]), std::move(item_[1]));
    count_entry(document.merges.size());
    return true;
  }

  // Where the next value goes: the root, the end of a list or a new key of a map.
  Node& next_place() {
    if (++values_ > kMostValues) fail(fmt::format("more than {} values", kMostValues));
    if (open_.empty()) return document.root;
    auto& parent = *open_.back();
    if (parent.is_list()) return parent.items.emplace_back();
    parent.entries.emplace_back(std::move(key_), Node());
    return parent.entries.back().second;
  }
  bool value(Node node) {
    if (bulk_ != Bulk::none) fail(fmt::format("{} has a value of another kind", bulk_name()));
    node.place = {name_, *line_};
    next_place() = std::move(node);
    return true;
  }
  // Parents are not touched while a child is open, so pointers to them stay good.
  bool open(Node node) {
    if (open_.size() >= kMostLevels) fail(fmt::format("nested deeper than {} levels", kMostLevels));
    path_.push_back(key_);
    auto& place = next_place();
    place = std::move(node);
    place.place = {name_, *line_};
    open_.push_back(&place);
    return true;
  }
  bool close() {
    refuse_duplicates(*open_.back());
    open_.pop_back();
    path_.pop_back();
    return true;
  }
  void refuse_duplicates(const Node& node) const {
    auto keys = node.keys();
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) fail(fmt::format("duplicate key {}", quote(*twice)));
  }

  std::string name_, key_;
  int* line_;
  std::vector<Node*> open_;
  std::vector<std::string> path_;  // the keys of what is open
  size_t values_ = 0;
  Bulk bulk_ = Bulk::none;
  int inner_ = 0;  // 1 inside an item of a bulk list
  std::vector<std::string> item_;
  double score_ = 0;
  bool has_score_ = false;
};

}  // namespace

TokenizerDocument parse_tokenizer_document(const std::string& text, const std::string& name) {
  int line = 1;
  DocumentBuilder builder(name, &line);
  nlohmann::json::sax_parse(LineCounter(text.data(), &line),
                            LineCounter(text.data() + text.size(), &line), &builder);
  return std::move(builder.document);
}

}  // namespace longbow
