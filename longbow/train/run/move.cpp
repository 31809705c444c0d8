#include "longbow/train/run/move.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "longbow/core/error.h"

namespace longbow {
namespace {

constexpr const char *kEncoder = "encoder.", *kPositions = "encoder.embedding.positions";
constexpr std::array kTables = {"encoder.embedding.words", kPositions,
                                "encoder.embedding.segments"};

bool is_encoder(const std::string& name) {
  return name.starts_with(kEncoder);
}

bool is_same_kind(const Tensor& tensor, const Tensor& wanted) {
  return tensor.is_floating_point() == wanted.is_floating_point();
}

// Tables of the embedding, which may differ in their rows.
bool is_table(const std::string& name, const Tensor& tensor, const Tensor& wanted) {
  return std::find(kTables.begin(), kTables.end(), name) != kTables.end() && tensor.dim() == 2 &&
         wanted.dim() == 2 && tensor.size(1) == wanted.size(1);
}

Tensor tiled(const Tensor& table, int64_t rows) {
  return table.repeat({(rows + table.size(0) - 1) / table.size(0), 1}).narrow(0, 0, rows);
}

Tensor grown(const Tensor& table, const Tensor& wanted) {
  auto result = wanted.detach().clone();
  result.narrow(0, 0, table.size(0)).copy_(table);
  return result;
}

// Tensors of the encoder by name, of other modules the module only.
std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const auto& name : names) {
    const auto entry = is_encoder(name) ? name : name.substr(0, name.find('.')) + ".*";
    if (shown.empty() || shown.back() != entry) shown.push_back(entry);
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

template <class Map>
bool has_encoder(const Map& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& entry) { return is_encoder(entry.first); });
}

}  // namespace

std::string Moved::text() const {
  auto text = fmt::format("{} tensors of {} moved", moved.size(), source);
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) text += fmt::format("; {}: {}", what, listed(names));
  };
  add("cut to the rows wanted", cut);
  add("with more rows, initialised randomly", grown);
  add("repeated for more rows", tiled);
  add("not used", left);
  add("initialised randomly", anew);
  return text;
}

Moved move_weights(const Tensors& from, Tensors& to, const Moving& how) {
  Moved result = {.source = how.source};
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : from) {
    const auto found = to.find(name);
    if (found == to.end() || !is_same_kind(tensor, found->second) ||
        !(how.everything || is_encoder(name))) {
      result.left.push_back(name);
      continue;
    }
    auto& wanted = found->second;
    const bool table = is_table(name, tensor, wanted);
    const auto rows = table ? wanted.size(0) : 0;
    if (tensor.sizes() == wanted.sizes()) {
      wanted = tensor;
    } else if (table && tensor.size(0) > rows) {
      wanted = tensor.narrow(0, 0, rows);
      result.cut.push_back(name);
    } else if (table && how.tile && name == kPositions) {
      wanted = tiled(tensor, rows);
      result.tiled.push_back(name);
    } else if (table) {
      wanted = grown(tensor, wanted);
      result.grown.push_back(name);
    } else {
      result.left.push_back(name);
      continue;
    }
    result.moved.push_back(name);
  }
  for (const auto& [name, tensor] : to)
    if (!std::binary_search(result.moved.begin(), result.moved.end(), name))
      result.anew.push_back(name);
  const bool fits = has_encoder(to)
                        ? std::any_of(result.moved.begin(), result.moved.end(), is_encoder)
                        : !result.moved.empty();
  if (!fits)
    throw UserError(fmt::format("no tensor of {} fits the encoder", how.source),
                    "both models must have an encoder of the same kind and width");
  return result;
}

}  // namespace longbow
