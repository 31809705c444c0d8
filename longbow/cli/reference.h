#pragma once
// What a config may say, from fields(): the parts of a run, the data sets and the objectives, each
// with its keys.
#include <string>
#include <vector>

#include "longbow/core/fields.h"

namespace longbow::cli {

struct Section {
  std::string name, kind, summary;  // kind: part, data set, objective
  std::vector<FieldDoc> keys = {};  // by their whole names, as --set takes them
  std::vector<std::pair<std::string, std::string>> facts = {};  // what its row states, in Markdown
};
const std::vector<Section>& config_sections();

// All sections, one after another. Keys that an objective has from `model` are said there only.
std::string config_text();
// The parts alone: data sets and objectives have pages of their own.
std::string config_markdown();
// The generated part of the page of a data set or an objective, or the keys of a part.
std::string page_of(const Section& section);

std::string text_of(const Section& section);
Node json_of(const Section& section);

// Rows of fields, as every table of options shows them.
std::string text_rows(const std::vector<FieldDoc>& fields);
std::string markdown_rows(const std::vector<FieldDoc>& fields, const std::string& heading);
Node json_rows(const std::vector<FieldDoc>& fields);

}  // namespace longbow::cli
