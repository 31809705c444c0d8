#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "longbow/attention/mechanism.h"
#include "longbow/cli/columns.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/reference.h"
#include "longbow/report/table/grid.h"
#include "longbow/tasks/task.h"

namespace longbow::cli {
namespace {

// Exponents whatever the mask is, of those that there are.
double largest(const Promises& p, double bidirectional, double causal) {
  if (!p.bidirectional) return causal;
  return p.future == Future::refused ? bidirectional : std::max(bidirectional, causal);
}
double largest_time(const Promises& p) {
  return largest(p, p.time, p.causal_time);
}
double largest_memory(const Promises& p) {
  return largest(p, p.memory, p.causal_memory);
}
std::string power(double exponent) {
  return fmt::format("N^{:g}", exponent);
}

Node json_of(const Promises& p) {
  return Node::map({{"padding", Node::string(name_of(p.padding))},
                    {"future", Node::string(name_of(p.future))},
                    {"bidirectional", Node::boolean(p.bidirectional)},
                    {"cross", Node::boolean(p.cross)},
                    {"globals", Node::boolean(p.globals)},
                    {"decode", Node::boolean(p.decode)},
                    {"positional", Node::boolean(p.positional)},
                    {"time_exponent", Node::number(largest_time(p))},
                    {"memory_exponent", Node::number(largest_memory(p))}});
}

// By mask: bidirectional, causal; those that there are.
Node by_mask(const Promises& p, const Node& all, const Node& causal) {
  Node forms = Node::map();
  if (p.bidirectional) forms["bidirectional"] = all;
  if (p.future != Future::refused) forms["causal"] = causal;
  return forms;
}
Node launches_of(const Promises& p) {
  return by_mask(p, Node::string(name_of(p.launches)), Node::string(name_of(p.causal_launches)));
}
Node exponents_of(const Promises& p) {
  const auto both = [](double time, double memory) {
    return Node::map({{"time", Node::number(time)}, {"memory", Node::number(memory)}});
  };
  return by_mask(p, both(p.time, p.memory), both(p.causal_time, p.causal_memory));
}

std::string text_by_mask(const Promises& p, const std::string& all, const std::string& causal) {
  if (p.future == Future::refused || (p.bidirectional && all == causal)) return all;
  return p.bidirectional ? fmt::format("{}, causal {}", all, causal) : causal;
}
std::string text_of_launches(const Promises& p) {
  return text_by_mask(p, name_of(p.launches), name_of(p.causal_launches));
}

Node json_of(const Mechanism& m) {
  Node variants = Node::list();
  for (const auto& variant : m.variants)
    variants.items.push_back(Node::map(
        {{"name", Node::string(variant.name)}, {"options", Node::string(variant.options)}}));
  return Node::map({{"name", Node::string(m.name)},
                    {"family", Node::string(m.family)},
                    {"paper", Node::string(m.paper)},
                    {"cost", Node::string(m.cost)},
                    {"summary", Node::string(m.summary)},
                    {"exact", Node::string(m.exact)},
                    {"promises", json_of(m.promises({}))},
                    {"rotary", Node::boolean(m.promises({}).rotary)},
                    {"launches", launches_of(m.promises({}))},
                    {"exponents", exponents_of(m.promises({}))},
                    {"variants", variants},
                    {"options", json_rows(m.options)}});
}

const char* yes(bool value) {
  return value ? "yes" : "–";
}

// The part of a mechanism's page that is generated: docs/mechanisms/<name>.md holds it between two
// marks.
std::string page_of(const Mechanism& m) {
  const auto p = m.promises({});
  std::string text = "| | |\n|---|---|\n";
  text += fmt::format("| family | {} |\n| paper | {} |\n| cost | {} |\n| exact when | {} |\n",
                      m.family, m.paper, m.cost, m.exact);
  text += fmt::format(
      "| padding | {} |\n| future | {} |\n| bidirectional | {} |\n| cross-attention | {} |\n",
      name_of(p.padding), name_of(p.future), yes(p.bidirectional), yes(p.cross));
  text += fmt::format("| global tokens | {} |\n| decoding state | {} |\n| knows positions | {} |\n",
                      yes(p.globals), yes(p.decode), yes(p.positional));
  const auto exponents = [](double time, double memory) {
    return power(time) + ", " + power(memory);
  };
  text += fmt::format(
      "| rotary positions | {} |\n| time, memory | {} |\n", yes(p.rotary),
      text_by_mask(p, exponents(p.time, p.memory), exponents(p.causal_time, p.causal_memory)));
  text += fmt::format("| kernel launches | {} |\n\n", text_of_launches(p));
  return text + markdown_rows(m.options, "option");
}

std::string text_of(const Mechanism& m) {
  const auto p = m.promises({});
  std::string text = fmt::format("{}: {}\n\n", m.name, m.summary);
  text += fmt::format("  family     {}\n  paper      {}\n  cost       {}\n  exact when {}\n",
                      m.family, m.paper, m.cost, m.exact);
  text += fmt::format("  page       docs/mechanisms/{}.md\n\nPromises of the default options\n",
                      m.name);
  text += fmt::format(
      "  padding {}, future {}, bidirectional {}, cross-attention {}, global tokens {},\n",
      name_of(p.padding), name_of(p.future), yes(p.bidirectional), yes(p.cross), yes(p.globals));
  text += fmt::format(
      "  decoding state {}, knows positions {}, takes rotary ones {}, time {}, memory "
      "{},\n  kernel launches {}\n\nOptions\n",
      yes(p.decode), yes(p.positional), yes(p.rotary),
      text_by_mask(p, power(p.time), power(p.causal_time)),
      text_by_mask(p, power(p.memory), power(p.causal_memory)), text_of_launches(p));
  text += text_rows(m.options);
  text += "\nVariants that the laws also run\n";
  for (const auto& v : m.variants) text += fmt::format("  {:<14} {}\n", v.name, v.options);
  return text;
}

// Costs are formulas of any length: a document has room for them, a terminal has not.
struct Column {
  const char* name;
  std::string (*cell)(const Mechanism&, const Promises&);
  bool in_document = true, on_terminal = true;
};
const std::vector<Column>& list_columns() {
  static const std::vector<Column> all = {
      {"mechanism", [](const Mechanism& m, const Promises&) { return m.name; }},
      {"family", [](const Mechanism& m, const Promises&) { return m.family; }},
      {"cost", [](const Mechanism& m, const Promises&) { return m.cost; }, true, false},
      {"padding", [](const Mechanism&, const Promises& p) { return name_of(p.padding); }},
      {"future", [](const Mechanism&, const Promises& p) { return name_of(p.future); }},
      {"cross", [](const Mechanism&, const Promises& p) { return std::string(yes(p.cross)); }},
      {"decode", [](const Mechanism&, const Promises& p) { return std::string(yes(p.decode)); }},
      {"time", [](const Mechanism&, const Promises& p) { return power(largest_time(p)); }},
      {"memory", [](const Mechanism&, const Promises& p) { return power(largest_memory(p)); },
       false},
  };
  return all;
}

reporting::Grid table(bool Column::*shown) {
  reporting::Grid grid = {.title = "", .note = "", .columns = {}, .rows = {}};
  for (const auto& column : list_columns())
    if (column.*shown) grid.columns.emplace_back(column.name);
  grid.text_columns = grid.columns.size();
  for (const auto& m : mechanisms()) {
    const auto p = m.promises({});
    auto& row = grid.rows.emplace_back();
    for (const auto& column : list_columns())
      if (column.*shown) row.push_back({.text = column.cell(m, p)});
  }
  return grid;
}

std::string legend() {
  return two_columns({
      {"padding",
       "invisible: padded tokens change nothing. contents: how many there are matters, what they "
       "hold does not. visible: they change real tokens. refused: none may be given."},
      {"future",
       "what a causal mask is worth. exact: later tokens change nothing. rounded: nothing but "
       "rounding. frozen: nothing once discrete choices are fixed. refused: there is no causal "
       "form."},
      {"cross", "reads another sequence than its own (cross-attention)"},
      {"decode", "writes token by token from a state, without reading the past again"},
      {"time, memory",
       "how a training step grows with the length N of the sequence, under the mask that costs "
       "more"},
  });
}

// Those whose attention is over something else than tokens: latents, molecules.
std::vector<std::string> objectives_of_other_lengths() {
  std::vector<std::string> names;
  for (const auto& objective : objectives())
    if (std::any_of(objective.sites.begin(), objective.sites.end(),
                    [](const AttentionSite& site) { return !site.reads.empty(); }))
      names.push_back(objective.name);
  return names;
}

void print(const std::string& text) {
  fmt::print("{}", text);
}

std::string described(const Mechanism& mechanism, const DescribeCommand& command) {
  return command.json       ? to_json(json_of(mechanism), 2) + "\n"
         : command.markdown ? page_of(mechanism)
                            : text_of(mechanism);
}

std::string described(const Section& section, const DescribeCommand& command) {
  return command.json       ? to_json(json_of(section), 2) + "\n"
         : command.markdown ? page_of(section)
                            : text_of(section);
}

std::string described_config(const DescribeCommand& command) {
  if (!command.json) return command.markdown ? config_markdown() : config_text();
  Node sections = Node::list();
  for (const auto& section : config_sections()) sections.items.push_back(json_of(section));
  return to_json(sections, 2) + "\n";
}

struct Entry {
  std::string name, kind, summary;
};
std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  for (const auto& m : mechanisms()) all.push_back({m.name, "mechanism", m.summary});
  for (const auto& section : config_sections())
    all.push_back({section.name, section.kind, section.summary});
  all.push_back({"config", "part", "Every key of every part, data set and objective"});
  return all;
}

// What can be described.
std::string contents(const DescribeCommand& command) {
  Node list = Node::list();
  std::string markdown = "| name | kind | summary |\n|---|---|---|\n";
  std::map<std::string, NamedRows> rows;
  for (const auto& [name, kind, summary] : all_entries()) {
    list.items.push_back(Node::map({{"name", Node::string(name)},
                                    {"kind", Node::string(kind)},
                                    {"summary", Node::string(summary)}}));
    markdown += fmt::format("| `{}` | {} | {} |\n", name, kind, summary);
    rows[kind].emplace_back("  " + name, summary);
  }
  if (command.json) return to_json(list, 2) + "\n";
  if (command.markdown) return markdown;
  return "longbow describe NAME, where NAME is one of\n\nMechanisms\n" +
         two_columns(rows["mechanism"]) + "\nParts of a config\n" + two_columns(rows["part"]) +
         "\nData sets\n" + two_columns(rows["data set"]) + "\nObjectives\n" +
         two_columns(rows["objective"]);
}

std::string described(const DescribeCommand& command) {
  if (command.name.empty()) return contents(command);
  std::vector<std::string> known = {"config"};
  if (command.name == "config") return described_config(command);
  for (const auto& section : config_sections()) {
    if (section.name == command.name) return described(section, command);
    known.push_back(section.name);
  }
  for (const auto& mechanism : mechanisms()) {
    if (mechanism.name == command.name) return described(mechanism, command);
    known.push_back(mechanism.name);
  }
  throw UserError("unknown name " + quote(command.name), suggest(command.name, known));
}

}  // namespace

int run(const ListCommand& command) {
  if (command.json) {
    Node rows = Node::list();
    for (const auto& m : mechanisms()) rows.items.push_back(json_of(m));
    print(to_json(rows, 2) + "\n");
    return 0;
  }
  if (!command.markdown) {
    print(reporting::console_grid(table(&Column::on_terminal)) + "\n" + legend() +
          "\nOptions, cost, exact limit and paper: longbow describe NAME\n" +
          fmt::format("Models that change the length are objectives: longbow describe {}\n",
                      fmt::join(objectives_of_other_lengths(), ", ")));
    return 0;
  }
  const auto grid = table(&Column::in_document);
  print(fmt::format("| {} |\n|", fmt::join(grid.columns, " | ")));
  for (size_t i = 0; i < grid.columns.size(); ++i) print("---|");
  print("\n");
  for (const auto& row : grid.rows) {
    print("|");
    for (const auto& cell : row) print(" " + cell.text + " |");
    print("\n");
  }
  return 0;
}

int run(const DescribeCommand& command) {
  print(described(command));
  return 0;
}

}  // namespace longbow::cli
