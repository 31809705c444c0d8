// YAML by yaml-cpp's events, which the tree below bounds: 1 MiB of text, 100 levels, 100,000
// nodes after aliases.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "longbow/core/config.h"
#include "longbow/core/limits.h"
#include "longbow/core/listing.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

constexpr size_t kBytesPerNode = 64;  // long texts count as several nodes

// What copying a node costs, in nodes.
size_t cost(const Node& node) {
  size_t total = 1 + node.text.size() / kBytesPerNode;
  for (const auto& item : node.items) total += cost(item);
  for (const auto& [key, value] : node.entries) total += key.size() / kBytesPerNode + cost(value);
  return total;
}

size_t levels(const Node& node) {
  size_t below = 0;
  for (const auto& item : node.items) below = std::max(below, levels(item));
  for (const auto& entry : node.entries) below = std::max(below, levels(entry.second));
  return node.is_list() || node.is_map() ? below + 1 : 0;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(Place start) : start_(std::move(start)) {}
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) fail(mark, "a key is empty or null", "quote it to use it as a name");
    spend(1, mark);
    add({}, mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) fail(mark, "a key is an alias", "write its name");
    auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      fail(mark, "an alias is inside the value that it refers to", "write the values out");
    spend(cost(found->second), mark);
    if (open_.size() + levels(found->second) > kMostLevels) fail_levels(mark);
    attach(found->second, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    // yaml-cpp writes the escapes \N and \_ as bare Latin-1 bytes.
    bool is_text = find_invalid_utf8(value) == std::string::npos;
    if (!is_text) fail(mark, "escapes \\N and \\_ are not supported", "write \\u0085 or \\u00a0");
    bool quoted = tag == "!";
    if (wants_key()) return add_key(mark, value, quoted);
    auto node = quoted ? Node::string(value) : Node::scalar(value);
    spend(cost(node), mark);
    add(std::move(node), mark, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::list(), mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::map(), mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    bool has_key = false;
    std::string key{};
    int key_line = 0;
    std::set<std::string> keys{};
  };

  Place place(int line) const { return {start_.file, start_.line == 0 ? 0 : std::max(line, 1)}; }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what,
                         const std::string& hint) const {
    throw UserError(place(mark.line + 1), what, hint);
  }
  [[noreturn]] void fail_levels(const YAML::Mark& mark) const {
    fail(mark, fmt::format("nested deeper than {} levels", kMostLevels), "check the brackets");
  }

  bool wants_key() const {
    return !open_.empty() && open_.back().node.is_map() && !open_.back().has_key;
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    bool plain = tag.empty() || tag == "?" || tag == "!";
    if (!plain) fail(mark, fmt::format("tag {} is not supported", quote(tag)), "remove it");
  }

  void spend(size_t nodes, const YAML::Mark& mark) {
    spent_ += nodes;
    if (spent_ > kMostConfigValues)
      fail(mark, fmt::format("more than {} values", kMostConfigValues), "use fewer aliases");
  }

  void add_key(const YAML::Mark& mark, const std::string& key, bool quoted) {
    if (key == "<<" && !quoted)
      fail(mark, "merge keys '<<' are not supported", "use `base:` or write the keys out");
    auto& map = open_.back();
    if (!map.keys.insert(key).second)
      fail(mark, fmt::format("duplicate key {}", quote(key)), "keep one of them");
    map.key = key;
    map.key_line = mark.line + 1;
    map.has_key = true;
  }

  void open(Node node, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (wants_key()) fail(mark, "a key is a list or a map", "write a name, or close the bracket");
    check_tag(mark, tag);
    if (open_.size() == kMostLevels) fail_levels(mark);
    spend(1, mark);
    open_.push_back({.node = std::move(node), .mark = mark, .anchor = anchor});
  }

  void close() {
    auto done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.mark, done.anchor);
  }

  void add(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      node.place = place(mark.line + 1);
      spend(cost(node), mark);
      anchors_[anchor] = node;
    }
    attach(std::move(node), mark);
  }

  // A value stands where its key stands: that is where the reader has to look.
  void attach(Node node, const YAML::Mark& mark) {
    bool keyed = !open_.empty() && open_.back().node.is_map();
    node.place = place(keyed ? open_.back().key_line : mark.line + 1);
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (keyed) {
      open_.back().node.entries.emplace_back(std::move(open_.back().key), std::move(node));
      open_.back().has_key = false;
    } else {
      open_.back().node.items.push_back(std::move(node));
    }
  }

  Place start_;
  Node root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  size_t spent_ = 0;
};

// yaml-cpp takes byte 4 for the end of the stream and guesses at encodings, so neither may reach
// it.
void check_bytes(const std::string& text, const Place& start) {
  if (text.size() > kMostConfigBytes)
    throw UserError({start.file, 0}, fmt::format("longer than {} bytes", kMostConfigBytes),
                    "a config is short; is this another file?");
  auto place_of = [&](size_t at) {
    auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    return Place{start.file, start.line == 0 ? 0 : static_cast<int>(lines) + 1};
  };
  size_t broken = find_invalid_utf8(text);
  if (broken != std::string::npos)
    throw UserError(place_of(broken), "not UTF-8", "save the file as UTF-8");
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    bool blank = c == '\n' || c == '\r' || c == '\t';
    if ((c < 0x20 && !blank) || c == 0x7f)
      throw UserError(place_of(i), fmt::format("control character 0x{:02x}", c), "remove it");
  }
}

std::string hint_for(const std::string& message) {
  if (message == YAML::ErrorMsg::TAB_IN_INDENTATION) return "indent with spaces";
  if (message.find("scalar") != std::string::npos) return "check the quotes";
  return "check the indentation, colons and brackets";
}

// yaml-cpp closes a quoted scalar by itself when the text ends on an empty line. A comment there
// changes no document, but inside quotes it is an end in the middle of a line, which yaml-cpp
// refuses.
std::string guarded(const std::string& text) {
  auto last = text.find_last_not_of(" \t");
  bool ends_on_empty_line = last != std::string::npos && text[last] == '\n';
  return ends_on_empty_line ? text.substr(0, last + 1) + "#" : text;
}

Node parse_at(const std::string& text, const Place& start) {
  check_bytes(text, start);
  std::istringstream stream(guarded(text));
  TreeBuilder builder(start), rest(start);
  auto lines = std::max(1, static_cast<int>(std::count(text.begin(), text.end(), '\n')));
  auto place_of = [&](int line) {
    return Place{start.file, start.line == 0 ? 0 : std::clamp(line, 1, lines)};
  };
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (parser.HandleNextDocument(rest))
      throw UserError(place_of(rest.take().place.line), "a second document starts",
                      "keep one document a file");
  } catch (const YAML::Exception& error) {
    throw UserError(place_of(error.mark.line + 1), "not valid YAML: " + shortened(error.msg),
                    hint_for(error.msg));
  }
  auto node = builder.take();
  if (node.place.file.empty()) node.place = start;
  return node;
}

}  // namespace

Node parse_yaml(const std::string& text, const std::string& name) {
  return parse_at(text, {name, 1});
}

Node parse_yaml(const std::string& text, const Place& flag) {
  return parse_at(text, {flag.file, 0});
}

}  // namespace longbow
