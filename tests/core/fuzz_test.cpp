// Seeded mutations of valid documents: each is read and written back to the same tree, or refused
// in one line.
#include <gtest/gtest.h>

#include <algorithm>

#include "longbow/core/fields.h"
#include "longbow/core/seed.h"

namespace longbow {
namespace {

enum class Sharing { none, kv };
constexpr std::array<std::string_view, 2> names_of(Sharing) {
  return {"none", "kv"};
}

struct Settings {
  int64_t rank = 64;
  int32_t window = 3;
  double dropout = 0.1;
  float scale = 1;
  bool causal = false;
  Sharing sharing = Sharing::none;
  std::string title;
  std::optional<int64_t> seed;
  std::vector<double> rates;
  Node attention = Node::map();
};
template <class V>
void fields(V& v, Settings& s) {
  v("rank", s.rank, "", range(1, 65536));
  v("window", s.window, "");
  v("dropout", s.dropout, "", range(0, 1));
  v("scale", s.scale, "");
  v("causal", s.causal, "");
  v("sharing", s.sharing, "");
  v("title", s.title, "");
  v("seed", s.seed, "");
  v("rates", s.rates, "", above(0));
  v("attention", s.attention, "");
}

const std::vector<std::string> kYaml = {
    "# a run\nrank: 64\nwindow: -3\ndropout: 1e-3\nscale: .5\ncausal: true\nsharing: kv\ntitle: "
    "\"a: b\\n\"\n"
    "seed: ~\nrates: [1, 2.5, 1e-05]\nattention:\n  name: linformer\n  per_layer:\n    window: "
    "[32, 64]\n",
    "a: &x {b: 'it''s', c: \"\\u00e9\\x41\"}\nd: *x\ne: |\n  two\n  lines\nf: >-\n  folded\n  "
    "text\n? g\n: - 1\n  - - 2\n    - {}\n",
    "{\"a\": [1, 2, {\"b\": null}], \"c\": \"한글 😀\", \"d\": {\"e\": false}}\n"};
const std::vector<std::string> kJson = {
    "{\"a\": [1, -2.5e+3, {\"b\": null}], \"c\": \"\\u00e9\\ud83d\\ude00\\n\", \"d\": {\"e\": "
    "false, \"f\": []}}\n",
    "[[], {}, \"\", 0, true, \"한글\"]"};

std::string mutated(std::string text, Stream& stream) {
  constexpr std::string_view kTelling = "[]{}:,-?&*!|>'\"%@`#~ \n\t\r\\0e.<=x\x04\xff\x80";
  auto position = [&] {
    return static_cast<size_t>(stream.below(static_cast<int64_t>(text.size()) + 1));
  };
  for (int64_t edits = 1 + stream.below(4); edits > 0; --edits) {
    size_t at = position(), length = static_cast<size_t>(stream.below(8));
    char telling =
        kTelling[static_cast<size_t>(stream.below(static_cast<int64_t>(kTelling.size())))];
    switch (stream.below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << stream.below(8)));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.insert(at, 1, telling);
        break;
      case 3:
        text.erase(std::min(at, text.size()), length);
        break;
      case 4:
        text.insert(position(), text.substr(at, 4 * length));
        break;
      default:
        text.insert(at, length * length * length, telling);
        break;
    }
  }
  return text;
}

struct Tally {
  int accepted = 0, refused = 0;
};

// Runs `act`; anything but success or a UserError of one line fails.
template <class Act>
void attempt(const std::string& text, Tally& tally, const Act& act) {
  try {
    act();
    ++tally.accepted;
  } catch (const UserError& error) {
    std::string message = error.what();
    EXPECT_TRUE(!message.empty() && message.find('\n') == std::string::npos) << message;
    ++tally.refused;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << " from:\n" << text;
  }
}

void expect_both(const Tally& tally) {
  EXPECT_GT(tally.accepted, 100);
  EXPECT_GT(tally.refused, 100);
}

}  // namespace

TEST(Fuzz, YamlIsReadBackEqualOrRefused) {
  Stream stream(1, "yaml");
  Tally tally;
  for (int i = 0; i < 6000; ++i) {
    auto text = mutated(kYaml[static_cast<size_t>(i) % kYaml.size()], stream);
    attempt(text, tally, [&] {
      auto node = parse_yaml(text, "f.yaml");
      EXPECT_EQ(parse_yaml(to_yaml(node), "again.yaml"), node) << text << "\nbecame\n"
                                                               << to_yaml(node);
      EXPECT_NO_THROW(parse_json(to_json(node), "again.json")) << to_json(node);
    });
  }
  expect_both(tally);
}

TEST(Fuzz, JsonIsReadBackEqualOrRefused) {
  Stream stream(2, "json");
  Tally tally;
  for (int i = 0; i < 6000; ++i) {
    auto text = mutated(kJson[static_cast<size_t>(i) % kJson.size()], stream);
    attempt(text, tally, [&] {
      auto node = parse_json(text, "f.json");
      EXPECT_EQ(parse_json(to_json(node), "again.json"), node) << text;
      EXPECT_EQ(parse_json(to_json(node, 2), "again.json"), node) << text;
      EXPECT_EQ(parse_yaml(to_yaml(node), "again.yaml"), node) << text << "\nbecame\n"
                                                               << to_yaml(node);
    });
  }
  expect_both(tally);
}

TEST(Fuzz, StructsAreReadBackEqualOrRefused) {
  Stream stream(3, "struct");
  Tally tally;
  for (int i = 0; i < 6000; ++i) {
    auto text = mutated(kYaml[0], stream);
    attempt(text, tally, [&] {
      auto node = written(read<Settings>(parse_yaml(text, "f.yaml")));
      EXPECT_EQ(written(read<Settings>(parse_yaml(to_yaml(node), "again.yaml"))), node) << text;
    });
  }
  expect_both(tally);
}

}  // namespace longbow
