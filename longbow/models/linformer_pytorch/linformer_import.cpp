#include "longbow/models/linformer_pytorch/linformer_import.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "longbow/core/listing.h"

namespace longbow {
namespace {

using Pick = std::function<Tensor(const Tensor&)>;

Tensor itself(const Tensor& t) {
  return t;
}

// Collects the parts of one module, whose tensors it knows by name.
class Collector {
 public:
  Collector(const torch::nn::Module& module, StateLayout& layout) : layout_(layout) {
    for (const auto& item : module.named_parameters()) own_[item.key()] = item.value();
    for (const auto& item : module.named_buffers()) own_[item.key()] = item.value();
  }
  bool has(const std::string& ours) const { return own_.count(ours) > 0; }
  void add(const std::string& theirs, const std::string& ours, const Pick& pick = itself) {
    layout_.parts.push_back({theirs, own_.at(ours), pick});
  }
  // Both tensors of a projection or a norm, where it exists.
  void add_pair(const std::string& theirs, const std::string& ours) {
    for (const std::string part : {".weight", ".bias"})
      if (has(ours + part)) add(theirs + part, ours + part);
  }

 private:
  StateLayout& layout_;
  Tensors own_;
};

void add_lengths(const LinformerConfig& c, const Linformer::Place& place, const std::string& fn,
                 Collector& from, StateLayout& layout) {
  const bool fixed = c.method == ProjectionMethod::no_params,
             alone = c.parameter_sharing == LengthSharing::none,
             apart = alone || c.parameter_sharing == LengthSharing::headwise;
  for (int64_t h = 0; h < c.nhead; ++h)
    for (const std::string letter : {"E", "F"}) {
      const auto name = fn + "heads." + std::to_string(h) + "." + letter;
      if (c.full_attention) {
        for (const std::string part : {"", ".weight", ".bias"})
          layout.unused.push_back(name + part);
        continue;
      }
      const std::string e = letter == "F" && apart ? "f" : "e";
      const auto ours = [&](const std::string& tensor) {
        const auto own = "seq." + std::to_string(place.sub_layer) + ".mixer." + tensor,
                   crossing = "shared.linformer_cross_" + tensor;
        if (from.has(own)) return own;
        return place.cross && from.has(crossing) ? crossing : "shared.linformer_" + tensor;
      };
      const auto of_head = [alone, h](const Tensor& t) { return alone ? t[h] : t; };
      if (fixed) {
        from.add(name, ours(e), [of_head](const Tensor& t) { return of_head(t).t(); });
        continue;
      }
      from.add(name + ".weight", ours(e), of_head);
      from.add(name + ".bias", ours(e + "_bias"), of_head);
    }
}

void add_attention(const LinformerConfig& c, const Linformer::Place& place,
                   const std::string& prefix, Collector& from, StateLayout& layout) {
  const auto at = "seq." + std::to_string(place.sub_layer) + ".", fn = prefix + at + "fn.";
  const int64_t width = c.dim_d.value_or(c.channels / c.nhead);
  for (const auto& [theirs, ours] :
       {std::pair{"to_q.", "query"}, {"to_k.", "key"}, {"to_v.", "value"}})
    for (int64_t h = 0; h < c.nhead; ++h)
      from.add(fn + theirs + std::to_string(h) + ".weight", at + "mixer." + ours + ".weight",
               [=](const Tensor& t) { return t.narrow(0, h * width, width); });
  const bool steps = c.w_o_intermediate_dim.has_value();
  const auto last = fn + (steps ? "w_o_2" : "w_o");
  from.add(last + ".weight", at + "mixer.output.weight");
  from.add(last + ".bias", at + "output_bias");
  if (steps) {
    from.add(fn + "w_o_1.weight", at + "mixer.output_in.weight");
    from.add(fn + "w_o_1.bias", at + "output_in_bias");
  }
  add_lengths(c, place, fn, from, layout);
}

void append(StateLayout& layout, StateLayout more) {
  std::move(more.parts.begin(), more.parts.end(), std::back_inserter(layout.parts));
  std::move(more.unused.begin(), more.unused.end(), std::back_inserter(layout.unused));
}

bool ends_with_positions(const std::string& name) {
  return name.ends_with("pos_emb.inv_freq");
}

// A Padder's names without their beginning.
Tensors unwrapped(const Tensors& state) {
  const std::string beginning = "net.";
  for (const auto& [name, tensor] : state)
    if (!name.starts_with(beginning)) return state;
  Tensors inner;
  for (const auto& [name, tensor] : state) inner[name.substr(beginning.size())] = tensor;
  return inner;
}

void check_names(const StateLayout& layout, const Tensors& state, const Place& place) {
  Tensors wanted, given = state;
  std::vector<std::string> fixed;
  for (const auto& part : layout.parts) {
    wanted[part.name] = part.pick(part.whole);
    const bool matrix = part.name.ends_with(".E") || part.name.ends_with(".F");
    if (matrix && !state.count(part.name)) fixed.push_back(part.name);
  }
  for (const auto& name : layout.unused)
    if (!wanted.count(name)) given.erase(name);
  if (!fixed.empty())
    throw UserError(place, "missing: " + listed(fixed),
                    "linformer-pytorch does not save the matrices of no_params; add them under "
                    "these names, [input_size, dim_k] each");
  Misfits misfits;
  misfits.compare(given, wanted);
  misfits.check(place, "build the net with the options it was saved with");
}

}  // namespace

StateLayout state_layout(const Linformer& net, const std::string& prefix) {
  StateLayout layout;
  Collector from(net, layout);
  for (const auto& place : net.attentions())
    add_attention(net.config(), place, prefix, from, layout);
  for (int64_t s = 0; from.has("seq." + std::to_string(s) + ".norm.weight"); ++s) {
    const auto at = "seq." + std::to_string(s) + ".";
    for (const std::string name : {"w_1", "w_2"})
      from.add_pair(prefix + at + "fn." + name, at + name);
    for (const std::string name : {"norm", "resample"})
      from.add_pair(prefix + at + name, at + name);
  }
  return layout;
}

StateLayout state_layout(const LinformerLM& net, const std::string& prefix) {
  StateLayout layout;
  Collector from(net, layout);
  const auto inner = prefix + "linformer.";
  const bool projected = from.has("project_in.weight");
  from.add(prefix + "to_token_emb.weight", "to_token_emb");
  from.add(prefix + "pos_emb.inv_freq", "inv_freq");
  for (const std::string name : {"project_in", "project_out"}) from.add_pair(inner + name, name);
  from.add_pair(prefix + "to_logits", "to_logits");
  append(layout, state_layout(*net.linformer(), projected ? inner + "fn." : inner));
  return layout;
}

StateLayout state_layout(const LinformerEncDec& net) {
  auto layout = state_layout(*net.encoder(), "encoder.");
  append(layout, state_layout(*net.decoder(), "decoder."));
  return layout;
}

void import_state(const StateLayout& layout, const Tensors& given, const std::string& file) {
  const Place place = {.file = file};
  const auto state = unwrapped(given);
  check_names(layout, state, place);
  constexpr double kRounding = 1e-5;
  std::map<const void*, std::string> first;
  for (const auto& [name, whole, pick] : layout.parts) {
    const auto& value = state.at(name);
    if (ends_with_positions(name) &&
        !at::allclose(value.to(at::kDouble), whole.to(at::kDouble), kRounding, 0))
      throw UserError(place, name + " is not that of the base 100000",
                      "linformer-pytorch knows no other");
    const auto [found, fresh] = first.emplace(pick(whole).const_data_ptr(), name);
    if (!fresh && !at::equal(value, state.at(found->second)))
      throw UserError(place, name + " differs from " + found->second + ", which is the same tensor",
                      "set parameter_sharing to what the net was saved with");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, whole, pick] : layout.parts) pick(whole).copy_(state.at(name));
}

Tensors export_state(const StateLayout& layout) {
  Tensors state;
  for (const auto& [name, whole, pick] : layout.parts)
    state[name] = pick(whole.detach()).clone().contiguous();
  return state;
}

}  // namespace longbow
