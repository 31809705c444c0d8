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
};
const std::vector<Section>& config_sections();

// All sections, one after another. Keys that an objective has from `model` are said there only.
std::string config_text();
std::string config_markdown();

std::string text_of(const Section& section);
Node json_of(const Section& section);

// Rows of fields, as every table of options shows them.
std::string text_rows(const std::vector<FieldDoc>& fields);
std::string markdown_rows(const std::vector<FieldDoc>& fields, const std::string& heading);
Node json_rows(const std::vector<FieldDoc>& fields);

}  // namespace longbow::cli
