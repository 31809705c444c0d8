#include "longbow/cli/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "longbow/arena/plan.h"
#include "longbow/models/encoder/encoder_config.h"

namespace longbow::cli {
namespace {

// The keys of a struct alone: one that has keys of its own is a single row.
class Outline {
 public:
  template <class T>
  void operator()(const char* name, T& value, const char* meaning, const Range& limits = {}) {
    if constexpr (Described<T>) {
      rows_.push_back({name, "map", "", "", meaning});
    } else {
      Describer one;
      one(name, value, meaning, limits);
      rows_.push_back(one.take().front());
    }
  }
  std::vector<FieldDoc> take() { return std::move(rows_); }

 private:
  std::vector<FieldDoc> rows_;
};

template <Described T>
std::vector<FieldDoc> outline() {
  T value;
  Outline rows;
  fields(rows, value);
  return rows.take();
}

std::vector<FieldDoc> below(const std::string& prefix, std::vector<FieldDoc> keys) {
  for (auto& key : keys) key.name = prefix + key.name;
  return keys;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts facts_of(const DataSource& source) {
  std::vector<std::string> files;
  for (const auto& file : source.files) files.push_back("`" + file + "`");
  Facts facts = {{"made for", fmt::format("[{0}](../objectives/{0}.md)", source.objective)},
                 {"samples", source.make ? "generated in memory, or by `longbow data make`"
                                         : "read from files that exist already"},
                 {"files", files.empty() ? "those that its options name" : joined(files)}};
  if (!source.defaults.empty()) facts.emplace_back("defaults of `data`", code(source.defaults));
  return facts;
}

Facts facts_of(const Objective& objective) {
  std::vector<std::string> sites;
  for (const auto& site : objective.sites)
    if (!site.name.empty()) sites.push_back(site.name);
  return {{"a trained model is asked with", "`longbow " + objective.command + "`"},
          {"places for a mechanism", sites.empty() ? "one" : joined(sites)},
          {"baselines", objective.baselines ? "yes" : "–"},
          {"pretrains an encoder", objective.pretrains ? "yes" : "–"},
          {"export to Hugging Face", objective.bert != BertHead::none ? "yes" : "–"}};
}

std::vector<Section> made_sections() {
  std::vector<Section> all = {
      {"run", "part", "What `longbow train` reads", outline<RunConfig>()},
      {"data", "part", "Where the samples come from", below("data.", describe<DataConfig>())}};
  for (const auto& source : data_sources())
    all.push_back({source.name, "data set",
                   fmt::format("{} (made for {})", source.description, source.objective),
                   below("data." + source.name + ".", source.options), facts_of(source)});
  all.push_back({"model", "part", "What the models of all objectives share",
                 below("model.", describe<EncoderConfig>())});
  for (const auto& objective : objectives())
    all.push_back({objective.name, "objective", objective.description,
                   below("model.", objective.options), facts_of(objective)});
  all.push_back(
      {"train", "part", "How the model is trained", below("train.", describe<TrainConfig>())});
  all.push_back({"start", "part", "Weights that exist, to go on from",
                 below("start.", describe<StartConfig>())});
  all.push_back({"pretrain", "part", "What the encoder learns of the same data first",
                 below("pretrain.", describe<PretrainConfig>())});
  all.push_back({"arena", "part", "What `longbow arena` reads", outline<arena::ArenaConfig>()});
  return all;
}

// Where the keys of the shared model stand in the model of an objective.
std::string stem_of(const std::string& key) {
  for (const std::string stem : {"model.encoder.", "model.decoder."})
    if (key.starts_with(stem)) return stem;
  return "model.";
}

bool same(const FieldDoc& a, const FieldDoc& b) {
  return a.type == b.type && a.fallback == b.fallback && a.range == b.range &&
         a.meaning == b.meaning;
}

// "`width`, `block.*`": names, with a star for a map all of whose keys are there.
std::string names_in(const std::set<std::string>& names, const std::vector<FieldDoc>& all) {
  std::vector<std::string> shown;
  for (const auto& key : all) {
    const auto name = key.name.substr(6);  // without "model."
    if (!names.count(name)) continue;
    const auto map = name.substr(0, name.find('.') + 1);
    const bool whole = !map.empty() && std::all_of(all.begin(), all.end(), [&](const auto& other) {
      return !other.name.starts_with("model." + map) || names.count(other.name.substr(6)) > 0;
    });
    const auto text = whole ? "`" + map + "*`" : "`" + name + "`";
    if (shown.empty() || shown.back() != text) shown.push_back(text);
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

// An objective without the keys that it shares with `model`, and a sentence about those.
struct Remainder {
  std::string shared;
  std::vector<FieldDoc> keys = {};
};
Remainder remainder(const Section& objective, const std::vector<FieldDoc>& model) {
  Remainder rest;
  std::vector<std::string> stems;
  std::map<std::string, std::set<std::string>> repeated, known;
  for (const auto& key : objective.keys) {
    const auto stem = stem_of(key.name), name = key.name.substr(stem.size());
    const auto found = std::find_if(model.begin(), model.end(), [&](const auto& other) {
      return other.name == "model." + name;
    });
    if (found != model.end()) known[stem].insert(name);
    if (found == model.end() || !same(*found, key)) {
      rest.keys.push_back(key);
      continue;
    }
    if (repeated[stem].empty()) stems.push_back(stem);
    repeated[stem].insert(name);
  }
  for (const auto& stem : stems) {
    const auto place = "`" + stem.substr(0, stem.size() - 1) + "`";
    if (known[stem].size() == model.size())
      rest.shared += fmt::format("{} has the keys of [model](../config.md#model). ", place);
    else
      rest.shared += fmt::format("{} has of the keys of [model](../config.md#model) {}. ", place,
                                 names_in(repeated[stem], model));
  }
  rest.shared += "Keys and defaults of its own:";
  return rest;
}

const Section& shared_model() {
  const auto& all = config_sections();
  return *std::find_if(all.begin(), all.end(), [](const auto& s) { return s.name == "model"; });
}

std::string shown_default(const FieldDoc& field) {
  return field.type == "string" && field.fallback.empty() ? "\"\"" : field.fallback;
}

// "one of a, b" in a Markdown table, where a line can be broken.
std::string spaced(std::string type) {
  for (size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2)
    type.replace(at, 1, ", ");
  return type;
}

// A cell of a Markdown table must not end at the bars of "|u - v|".
std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

}  // namespace

const std::vector<Section>& config_sections() {
  static const auto all = made_sections();
  return all;
}

std::string config_text() {
  std::string text;
  for (const auto& section : config_sections()) {
    if (!text.empty()) text += "\n";
    auto shown = section;
    if (section.kind == "objective") shown.keys = remainder(section, shared_model().keys).keys;
    text += text_of(shown);
  }
  return text;
}

std::string config_markdown() {
  std::string text;
  for (const auto& section : config_sections())
    if (section.kind == "part")
      text += fmt::format("{}## {}\n\n{}.\n\n{}", text.empty() ? "" : "\n", section.name,
                          section.summary, markdown_rows(section.keys, "key"));
  return text;
}

std::string page_of(const Section& section) {
  if (section.kind == "part") return markdown_rows(section.keys, "key");
  std::string text = "| | |\n|---|---|\n";
  for (const auto& [name, value] : section.facts) text += fmt::format("| {} | {} |\n", name, value);
  if (section.kind == "data set") return text + "\n" + markdown_rows(section.keys, "key");
  const auto rest = remainder(section, shared_model().keys);
  return text + "\n" + rest.shared + "\n\n" + markdown_rows(rest.keys, "key");
}

std::string text_of(const Section& section) {
  return fmt::format("{} ({}): {}\n\n{}", section.name, section.kind, section.summary,
                     text_rows(section.keys));
}

Node json_of(const Section& section) {
  return Node::map({{"name", Node::string(section.name)},
                    {"kind", Node::string(section.kind)},
                    {"summary", Node::string(section.summary)},
                    {"options", json_rows(section.keys)}});
}

std::string text_rows(const std::vector<FieldDoc>& fields) {
  size_t width = 0;
  for (const auto& field : fields) width = std::max(width, field.name.size());
  std::string text;
  for (const auto& field : fields) {
    std::vector<std::string> limits;
    if (const auto fallback = shown_default(field); !fallback.empty())
      limits.push_back("default " + fallback);
    if (!field.range.empty()) limits.push_back(field.range);
    text += fmt::format("  {:<{}} {}{}: {}\n", field.name, width, field.type,
                        limits.empty() ? "" : fmt::format(" [{}]", fmt::join(limits, ", ")),
                        field.meaning);
  }
  return text;
}

std::string markdown_rows(const std::vector<FieldDoc>& fields, const std::string& heading) {
  std::string text =
      fmt::format("| {} | type | default | range | meaning |\n|---|---|---|---|---|\n", heading);
  for (const auto& field : fields)
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name, spaced(field.type),
                        code(shown_default(field)), field.range, escaped(field.meaning));
  return text;
}

Node json_rows(const std::vector<FieldDoc>& fields) {
  Node rows = Node::list();
  for (const auto& field : fields)
    rows.items.push_back(Node::map({{"name", Node::string(field.name)},
                                    {"type", Node::string(field.type)},
                                    {"default", Node::string(field.fallback)},
                                    {"range", Node::string(field.range)},
                                    {"meaning", Node::string(field.meaning)}}));
  return rows;
}

}  // namespace longbow::cli
