#include <torch/csrc/autograd/autograd.h>

#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The published code reads at most two maps.
int64_t maps_of(const Case& c) {
  return std::min<int64_t>(2, static_cast<int64_t>(c.config.find("kernels")->items.size()));
}

// It keeps |i - j| < diag_size and divides the far field by the root of the padded length.
std::string options_of_case(const Case& c, const std::string& blend) {
  std::string maps;
  for (int64_t l = 0; l < maps_of(c); ++l)
    maps += (l > 0 ? ", " : "") + c.config.find("kernels")->items[static_cast<size_t>(l)].text;
  return "{band: " + std::to_string(c.integer("diag_size") - 1) + ", maps: [" + maps +
         "], far_norm: none, length: " + std::to_string(c.at("q").size(2)) + ", " + blend + "}";
}

// [H or 1, D or 1] from [1], [1, H, 1, 1] or [1, H, 1, D].
Tensor by_head(const Tensor& x) {
  return x.dim() == 1 ? x.view({1, 1}) : x.squeeze(2).squeeze(0);
}

struct Weights {
  Tensor near;              // [H, D]
  std::vector<Tensor> far;  // as many
};

// Its twenty forms, numbered as there, from the ratios s, t, a, b that they have.
Weights weights_of(const Case& c, const Tensor& s, const Tensor& t, const Tensor& a,
                   const Tensor& b) {
  const auto one = at::ones({1, 1}, at::kDouble);
  Tensor near, far;
  switch (c.integer("blend")) {
    case 0:
    case 3:
    case 8:
    case 18:
    case 19:
      near = s, far = one;
      break;
    case 1:
    case 4:
    case 9:
    case 12:
    case 16:
    case 17:
      near = one, far = s;
      break;
    case 2:
    case 5:
    case 14:
    case 15:
      near = s, far = 1 - s;
      break;
    case 6:
      near = one, far = 0 * one;
      break;
    case 7:
      near = 0 * one, far = one;
      break;
    case 10:
    case 11:
    case 13:
      near = s, far = t;
      break;
    default:
      TORCH_CHECK(false, c.name, ": blend ", c.integer("blend"), " is not known");
  }
  if (maps_of(c) == 1) return {near, {far}};
  if (!a.defined()) return {near, {far / 2, far / 2}};
  return b.defined() ? Weights{near, {far * a, far * b}} : Weights{near, {far, far * a}};
}

// Every form by free weights; the gradients of the ratios follow from theirs.
void check_free(const Case& c) {
  const std::vector<std::string> names = {"sparse_ratio", "sparse_ratio2", "lowrank_ratio",
                                          "lowrank_ratio2"};
  std::vector<Tensor> ratios, shaped;
  for (const auto& name : names) {
    ratios.push_back(c.has(name) ? c.at(name).requires_grad_() : Tensor());
    shaped.push_back(c.has(name) ? by_head(ratios.back()) : Tensor());
  }
  const auto weights = weights_of(c, shaped[0], shaped[1], shaped[2], shaped[3]);
  const auto q = c.at("q");
  const auto whole = [&](const Tensor& x) { return x.expand({q.size(1), q.size(3)}); };
  std::vector<Tensor> fars;
  for (const auto& far : weights.far) fars.push_back(whole(far));
  const auto near = whole(weights.near), far = at::stack(fars);
  check_core(c, "fmmformer", options_of_case(c, "blend: free"),
             [&](Layer& layer) {
               layer.set("attention.near", near);
               layer.set("attention.far", far);
             },
             {.after = [&](Layer& layer) {
               const auto sum = (near * layer.gradient("attention.near")).sum() +
                                (far * layer.gradient("attention.far")).sum();
               if (sum.requires_grad()) sum.backward();
               for (size_t i = 0; i < names.size(); ++i)
                 if (ratios[i].defined() && ratios[i].grad().defined())
                   expect_gradient(c, names[i], ratios[i].grad());
             }});
}

// Forms that are a blend of the row: its parameters are the ratios themselves.
void check_named(const Case& c) {
  struct Form {
    std::string blend;
    std::vector<std::pair<std::string, std::string>> parameters;  // ours, theirs
  };
  const std::map<int64_t, Form> forms = {
      {1, {"far", {{"far", "sparse_ratio"}}}},
      {4, {"far", {{"far", "sparse_ratio"}}}},
      {12, {"far", {{"far", "sparse_ratio"}}}},
      {2, {"alpha", {{"alpha", "sparse_ratio"}}}},
      {5, {"alpha", {{"alpha", "sparse_ratio"}}}},
      {13, {"product", {{"near", "sparse_ratio"}, {"far", "sparse_ratio2"}}}}};
  const auto form = forms.find(c.integer("blend"));
  if (form == forms.end()) return;
  const auto s = by_head(c.at("sparse_ratio"));
  const std::string per = s.size(1) > 1 ? "channel" : s.size(0) > 1 ? "head" : "layer";
  const auto& [blend, parameters] = form->second;
  const bool product = blend == "product";
  const int64_t maps = maps_of(c);
  const auto ratio_of = [](int64_t l) { return std::string("lowrank_ratio") + (l > 0 ? "2" : ""); };
  check_core(
      c, "fmmformer", options_of_case(c, "blend: " + blend + ", per: " + per),
      [&, &own = parameters](Layer& layer) {
        for (const auto& [ours, theirs] : own) {
          const auto value = by_head(c.at(theirs));
          layer.set("attention." + ours, ours == "far" ? value.unsqueeze(0) : value);
        }
        std::vector<Tensor> ratios;
        for (int64_t l = 0; l < maps; ++l)
          ratios.push_back(maps > 1 && c.has(ratio_of(l)) ? c.at(ratio_of(l)) : at::ones({1}));
        if (product) layer.set("attention.ratio", at::stack(ratios).view({maps, 1, 1}));
      },
      {.after = [&, &own = parameters](Layer& layer) {
        for (const auto& [ours, theirs] : own)
          expect_gradient(c, theirs,
                          layer.gradient("attention." + ours).reshape(c.at(theirs).sizes()));
        for (int64_t l = 0; l < maps && maps > 1; ++l)
          if (c.has(ratio_of(l)))
            expect_gradient(c, ratio_of(l), layer.gradient("attention.ratio")[l].view({1}));
      }});
}

const Reader lra("fmmformer-lra", {check_free, check_named});

}  // namespace
}  // namespace longbow::parity
