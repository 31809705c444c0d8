#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2, kHead = 3;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

Tensor unit(const Tensor& x) {
  return x / (x.square().sum(-1, true).sqrt() + 1e-3);
}

// The smallest denominator for one visible key.
double least_for(const Node& options, double scale) {
  const double t = as_number(*options.find("temperature"), "temperature"),
               floor = as_number(*options.find("floor"), "floor");
  const bool gaussian = as_string(*options.find("map"), "map") == "gaussian";
  const double unit = scale * scale * as_number(*options.find("features"), "features");
  return floor * unit *
         (gaussian ? std::max(std::exp(-2 / (t * t)), 0x1p-23)
                   : 1 / (2 * std::numbers::pi * t * t));
}

// log g_t and log(1 - g_t), [B, 1 or H, N].
std::pair<Tensor, Tensor> gates(const torch::nn::Module& mixer, const Tensor& x) {
  const auto logit = (x.matmul(oracle::tensor_of(mixer, "attention.gate.weight").t()) +
                      oracle::tensor_of(mixer, "attention.gate.bias"))
                         .transpose(1, 2);
  return {-(-logit).exp().log1p(), -logit.exp().log1p()};
}

// Every pair on its own: features, gates from key to query, and the rule for the denominator.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const bool gaussian = as_string(*options.find("map"), "map") == "gaussian",
             gated = as_string(*options.find("gate"), "gate") != "none";
  const double r = as_number(*options.find("features"), "features"),
               t = as_number(*options.find("temperature"), "temperature"),
               floor = as_number(*options.find("floor"), "floor"),
               given = as_number(*options.find("feature_scale"), "feature_scale"),
               scale = given > 0 ? given : 1 / std::sqrt(r);
  const auto clamp = as_string(*options.find("clamp"), "clamp");
  const auto w = oracle::tensor_of(mixer, "attention.sigma") *
                 oracle::tensor_of(mixer, "attention.projections") / t;
  const auto phi = [&](const Tensor& y) {
    const auto wy = unit(y).matmul(w.transpose(-2, -1));
    return (gaussian ? at::cat({wy.sin(), wy.cos()}, -1) : wy.clamp_min(0)) * scale;
  };
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        auto share = visible;  // of a key in what the query sees, before its features
        if (gated) {
          const auto [log_gate, log_write] = gates(mixer, x);
          const auto real = visible.select(2, visible.size(2) - 1);  // [B, 1, N]
          const auto g = (log_gate * real).cumsum(-1);
          share = visible * at::where(visible > 0,
                                      g.unsqueeze(-1) - g.unsqueeze(-2) + log_write.unsqueeze(-2),
                                      -INFINITY)
                                .exp();
        }
        const auto weights = phi(q).matmul(phi(k).transpose(-2, -1)) * share;
        const auto sum = weights.sum(-1, true), seen = share.sum(-1, true);
        auto least = at::where(seen > 0, seen * least_for(options, scale), 1.0);
        if (clamp != "proportional") least = at::full_like(sum, floor);
        return weights.matmul(v) / at::maximum(clamp == "magnitude" ? sum.abs() : sum, least);
      });
}
const bool registered = oracle::add("rfa", dense);

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("rfa", site, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

void after_step(const Mixer& mixer, int64_t step) {
  for (const auto& module : mixer->modules())
    if (auto* part = dynamic_cast<Part*>(module.get())) part->after_step(step);
}

Tensor projections(const Mixer& mixer) {
  return oracle::tensor_of(*mixer, "attention.projections").clone();
}

Tensor projected(const Mixer& mixer, const std::string& name, const Tensor& x) {
  return x.matmul(oracle::tensor_of(*mixer, name + ".weight").t());
}

// softmax-like attention with a weight for each pair of unit vectors.
Tensor by_kernel(const Mixer& mixer, const Tensor& x,
                 const std::function<Tensor(const Tensor& cosines)>& kernel) {
  const auto heads = [&](const std::string& name) {
    return split_heads(projected(mixer, name, x), kHeads);
  };
  const auto weights = kernel(unit(heads("query")).matmul(unit(heads("key")).transpose(-2, -1)));
  return projected(mixer, "output",
                   merge_heads(weights.matmul(heads("value")) / weights.sum(-1, true)));
}

// The paper's recurrence, one number at a time: S <- g S + (1 - g) phi(k) v^T and z likewise.
Tensor by_loops(const Mixer& mixer, const Tensor& x, int64_t features) {
  const int64_t n = x.size(1), f = 2 * features;
  const auto split = [&](const std::string& name) {
    return split_heads(projected(mixer, name, x), kHeads)[0].contiguous();
  };
  const auto q = split("query"), k = split("key"), v = split("value"), omega = projections(mixer);
  const auto sigma = oracle::tensor_of(*mixer, "attention.sigma");
  const auto g = gates(*mixer, x).first[0].exp();  // [H, N]
  const auto phi = [&](const Tensor& token, int64_t h) {
    std::vector<double> out(static_cast<size_t>(f));
    double length = 0;
    for (int64_t c = 0; c < kHead; ++c) length += std::pow(token[c].item<double>(), 2);
    for (int64_t r = 0; r < features; ++r) {
      double angle = 0;
      for (int64_t c = 0; c < kHead; ++c)
        angle += sigma[h][0][c].item<double>() * omega[h][r][c].item<double>() *
                 token[c].item<double>() / (std::sqrt(length) + 1e-3);
      const double scale = 1 / std::sqrt(static_cast<double>(features));
      out[static_cast<size_t>(r)] = scale * std::sin(angle);
      out[static_cast<size_t>(features + r)] = scale * std::cos(angle);
    }
    return out;
  };
  auto o = at::zeros({1, kHeads, n, kHead}, at::kDouble);
  for (int64_t h = 0; h < kHeads; ++h) {
    std::vector<double> s(static_cast<size_t>(f * kHead)), z(static_cast<size_t>(f));
    for (int64_t t = 0; t < n; ++t) {
      const auto a = phi(q[h][t], h), b = phi(k[h][t], h);
      const double gate = g[h][t].item<double>();
      double sum = 0;
      for (size_t r = 0; r < z.size(); ++r) {
        z[r] = gate * z[r] + (1 - gate) * b[r];
        sum += a[r] * z[r];
      }
      for (int64_t c = 0; c < kHead; ++c) {
        double value = 0;
        for (size_t r = 0; r < z.size(); ++r) {
          auto& entry = s[r * kHead + static_cast<size_t>(c)];
          entry = gate * entry + (1 - gate) * b[r] * v[h][t][c].item<double>();
          value += a[r] * entry;
        }
        o[0][h][t][c] = value / sum;
      }
    }
  }
  return projected(mixer, "output", merge_heads(o));
}

TEST(Rfa, WithAGateItIsTheRecurrence) {
  const auto mixer = made("{gate: head, features: 16, temperature: 1, floor: 1e-12}");
  set(mixer, "attention.sigma", 1 + 0.3 * random_normal({kHeads, 1, kHead}, 1));
  const auto x = random_normal({1, 70, kWidth}, 2);
  Context causal = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, causal), by_loops(mixer, x, 16), (Tolerance{1e-8, 1e-8}));
}

TEST(Rfa, WithManyFeaturesItIsTheKernel) {
  const auto x = random_normal({2, 9, kWidth}, 3);
  Context context;
  const auto softmax = [](double t) {
    return [t](const Tensor& cosines) { return (cosines / (t * t)).exp(); };
  };
  const auto arccos = [](const Tensor& cosines) {
    const auto angle = cosines.acos();
    return angle.sin() + (std::numbers::pi - angle) * angle.cos();
  };
  const Tolerance estimate = {0.03, 0};
  for (const std::string more : {"", ", orthogonal: true"}) {
    const auto options = "features: 30000" + more;
    auto mixer = made("{" + options + "}");
    EXPECT_NEAR_TENSOR((*mixer)(x, context), by_kernel(mixer, x, softmax(1)), estimate);
    mixer = made("{temperature: 1.5, " + options + "}");
    EXPECT_NEAR_TENSOR((*mixer)(x, context), by_kernel(mixer, x, softmax(1.5)), estimate);
    mixer = made("{map: arccos, " + options + "}");
    EXPECT_NEAR_TENSOR((*mixer)(x, context), by_kernel(mixer, x, arccos), estimate);
  }
}

TEST(Rfa, TheTwoKernelsAndTemperaturesAreFurtherApartThanThatEstimate) {
  const auto x = random_normal({2, 9, kWidth}, 3);
  Context context;
  const auto y = (*made("{features: 30000}"))(x, context);
  for (const std::string other : {"map: arccos", "temperature: 1.5"}) {
    const auto z = (*made("{features: 30000, " + other + "}"))(x, context);
    EXPECT_GT((y - z).abs().max().item<double>(), 0.06) << other;
  }
}

TEST(Rfa, OneKeyGivesItsValue) {
  const auto x = random_normal({2, 1, kWidth}, 4);
  for (const std::string options : {"", "{map: arccos, features: 200}", "{gate: head}"}) {
    const auto mixer = made(options);
    Context context = {.mask = {.causal = true}};
    // Not arccos with a query opposite to the key, which reads nothing.
    if (options.find("arccos") != std::string::npos)
      set(mixer, "query.weight", oracle::tensor_of(*mixer, "key.weight"));
    EXPECT_NEAR_TENSOR((*mixer)(x, context),
                       projected(mixer, "output", projected(mixer, "value", x)),
                       tolerance(at::kDouble))
        << options;
  }
}

// A gate whose logit is the first channel of x.
Mixer steered(const std::string& options) {
  const auto mixer = made(options);
  auto weight = at::zeros({kHeads, kWidth}, at::kDouble);
  weight.select(1, 0).fill_(1);
  set(mixer, "attention.gate.weight", weight);
  set(mixer, "attention.gate.bias", at::zeros({kHeads}, at::kDouble));
  return mixer;
}

// g_t = t / (t + 1) gives all keys so far the same share, also where the smallest denominator acts.
TEST(Rfa, AGateThatAveragesChangesNothing) {
  auto x = random_normal({1, 150, kWidth}, 5);
  x.select(2, 0).copy_(at::arange(150, at::kDouble).log().clamp_min(-700));
  for (const std::string rest : {"", ", floor: 5", ", map: arccos"}) {
    const auto gated = steered("{gate: head" + rest + "}"),
               plain = made("{gate: none" + rest + "}");
    Context causal = {.mask = {.causal = true}};
    EXPECT_NEAR_TENSOR((*gated)(x, causal), (*plain)(x, causal), (Tolerance{1e-8, 1e-8})) << rest;
  }
}

// Equal tokens have equal weights but for the gate: g = 1/2 is a moving average of the values.
TEST(Rfa, AConstantGateIsAMovingAverage) {
  const auto mixer = steered("{gate: head}");
  auto weight = oracle::tensor_of(*mixer, "key.weight").clone();
  weight.narrow(1, 0, kWidth - 1).zero_();
  set(mixer, "key.weight", weight);
  set(mixer, "query.weight", weight);
  auto x = random_normal({1, 90, kWidth}, 6);
  x.select(2, 0).zero_();            // the gate
  x.select(2, kWidth - 1).fill_(1);  // queries and keys
  const auto v = projected(mixer, "value", x);
  auto sum = at::zeros({1, 1, kWidth}, at::kDouble);
  double mass = 0;
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 90; ++t) {
    sum = (sum + v.narrow(1, t, 1)) / 2;
    mass = (mass + 1) / 2;
    rows.push_back(sum / mass);
  }
  Context causal = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, causal), projected(mixer, "output", at::cat(rows, 1)),
                     tolerance(at::kDouble));
}

// Thousands of nearly closed and nearly open gates: nothing overflows, in float32 either.
TEST(Rfa, ExtremeGatesStayFinite) {
  for (const double logit : {-300.0, 300.0}) {
    const auto mixer = steered("{gate: head}");
    mixer->to(at::kFloat);
    auto x = random_normal({1, 3000, kWidth}, 7).to(at::kFloat);
    x.select(2, 0).fill_(logit);
    x.requires_grad_();
    Context causal = {.mask = {.causal = true}};
    const auto y = (*mixer)(x, causal);
    y.sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>()) << logit;
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << logit;
  }
}

TEST(Rfa, AGateIsForEachHeadOrForAllAndStartsAtItsBias) {
  EXPECT_EQ(oracle::tensor_of(*made("{gate: head}"), "attention.gate.weight").sizes(),
            at::IntArrayRef({kHeads, kWidth}));
  const auto shared = made("{gate: shared, gate_bias: 2.5}");
  EXPECT_EQ(oracle::tensor_of(*shared, "attention.gate.weight").sizes(),
            at::IntArrayRef({1, kWidth}));
  EXPECT_EQ(oracle::tensor_of(*shared, "attention.gate.bias").item<double>(), 2.5);
  EXPECT_FALSE(made()->named_parameters().contains("attention.gate.weight"));
}

// Below the floor the output falls in proportion to it.
TEST(Rfa, FloorIsTheSmallestDenominator) {
  const auto x = random_normal({1, 8, kWidth}, 8);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    const auto once = (*made("{floor: 1e6}"))(x, context);
    EXPECT_NEAR_TENSOR((*made("{floor: 2e6}"))(x, context) * 2, once, tolerance(at::kDouble));
    EXPECT_GT(once.abs().max().item<double>(), 0);
  }
}

// exp(-2 / T^2) is 0 in float32 for T = 0.1, and so would be the floor of a sum that is negative.
TEST(Rfa, TheFloorHoldsForASmallTemperatureInFloat32) {
  const auto mixer = made("{temperature: 0.1, features: 2}");
  mixer->to(at::kFloat);
  const auto x = random_normal({1, 200, kWidth}, 12).to(at::kFloat);
  Context context = {.mask = {.causal = true}};
  const auto y = (*mixer)(x, context);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_LT(y.abs().max().item<double>(), 1e12);
  const auto exact = made("{temperature: 0.1, features: 2}");
  Context same = {.mask = {.causal = true}};
  EXPECT_GT((*exact)(x.to(at::kDouble), same).abs().max().item<double>(), 1e3)
      << "no sum is near zero or negative, so nothing was tested";
}

// max(s, 1) or max(|s|, 1) with features a tenth of sines and cosines: the rules of the reference.
TEST(Rfa, TheRulesOfTheReferenceAreOptions) {
  const auto x = random_normal({1, 40, kWidth}, 11);
  Context context = {
      .mask = {.causal = true}};  // early queries see few keys, whose sum may be negative
  const auto run = [&](const std::string& options) {
    return (*made("{features: 2, temperature: 0.3, " + options + "}"))(x, context);
  };
  const auto sums = run("feature_scale: 0.1, clamp: value, floor: 1e6") * 1e6;
  EXPECT_NEAR_TENSOR(run("feature_scale: 0.2, clamp: value, floor: 4e6") * 1e6, sums,
                     tolerance(at::kDouble));
  const auto value = run("feature_scale: 0.1, clamp: value, floor: 1e-9"),
             magnitude = run("feature_scale: 0.1, clamp: magnitude, floor: 1e-9");
  EXPECT_FALSE(value.allclose(magnitude)) << "no sum is negative, so nothing was tested";
  EXPECT_NEAR_TENSOR(run("feature_scale: 7, clamp: magnitude, floor: 1e-30"),
                     run("clamp: magnitude, floor: 1e-30"), (Tolerance{1e-9, 1e-9}));
  EXPECT_NEAR_TENSOR(run("feature_scale: 7"), run("feature_scale: 0"), (Tolerance{1e-9, 1e-9}));
}

TEST(Rfa, OrthogonalRowsAreSoInGroupsAndAsLongAsOthers) {
  const auto w = projections(made("{orthogonal: true, features: 3000}"));  // [H, 3000, 3]
  const auto groups = w.view({kHeads, 1000, kHead, kHead});
  const auto products = groups.matmul(groups.transpose(-2, -1));
  EXPECT_NEAR_TENSOR(products, products * at::eye(kHead, at::kDouble), (Tolerance{1e-5, 0}));
  EXPECT_NEAR_TENSOR(w.flatten(0, 1).mean(0), at::zeros({kHead}), (Tolerance{0.05, 0}));
  EXPECT_NEAR_TENSOR(w.square().flatten(0, 1).mean(0), at::ones({kHead}), (Tolerance{0.08, 0}));
  const auto partial = projections(made("{orthogonal: true, features: 4}"));
  EXPECT_EQ(partial.sizes(), at::IntArrayRef({kHeads, 4, kHead}));
}

TEST(Rfa, ProjectionsAreDrawnAnewEveryFewSteps) {
  const auto mixer = made("{redraw: 10}"), resumed = made("{redraw: 10}"),
             fixed = made("{redraw: 0}");
  const auto first = projections(mixer), always = projections(fixed);
  after_step(mixer, 9);  // in evaluation nothing moves
  EXPECT_NEAR_TENSOR(projections(mixer), first, kExact);
  for (const auto& each : {mixer, resumed, fixed}) each->train();
  for (int64_t step = 0; step < 9; ++step) after_step(mixer, step);
  EXPECT_NEAR_TENSOR(projections(mixer), first, kExact);
  for (int64_t step = 9; step < 20; ++step) {
    after_step(mixer, step);
    after_step(fixed, step);
  }
  EXPECT_GT((projections(mixer) - first).abs().max().item<double>(), 0.1);
  after_step(resumed, 19);  // a function of seed and step, not of what was drawn before
  EXPECT_NEAR_TENSOR(projections(resumed), projections(mixer), kExact);
  EXPECT_NEAR_TENSOR(projections(fixed), always, kExact);
}

TEST(Rfa, APoolIsPickedFromInTrainingAndReadFromItsStartInEvaluation) {
  const auto mixer = made("{pool: 7, redraw: 1, features: 4}");
  const auto pool = oracle::tensor_of(*mixer, "attention.pool").clone();
  const auto x = random_normal({1, 9, kWidth}, 9);
  Context context;
  const auto evaluated = (*mixer)(x, context);
  mixer->train();
  EXPECT_NEAR_TENSOR((*mixer)(x, context), evaluated, kExact);
  int64_t moved = 0;
  for (int64_t step = 0; step < 8; ++step) {
    after_step(mixer, step);
    const auto now = projections(mixer);
    const auto same = (now.unsqueeze(1) == pool.unsqueeze(0)).flatten(2).all(-1);  // [H, pool]
    EXPECT_TRUE(same.sum(1).equal(at::ones({kHeads}, at::kLong)))
        << "each head has one of the pool";
    EXPECT_LE(same.sum(0).max().item<int64_t>(), 1) << "no two heads have the same";
    moved += (*mixer)(x, context).equal(evaluated) ? 0 : 1;
  }
  EXPECT_GE(moved, 6);
  EXPECT_NEAR_TENSOR(oracle::tensor_of(*mixer, "attention.pool"), pool, kExact);
  mixer->eval();
  EXPECT_NEAR_TENSOR((*mixer)(x, context), evaluated, kExact);
}

TEST(Rfa, TheStateIsOneSumPerHeadWhateverTheLength) {
  Context context;
  for (const auto& [options, features] :
       {std::pair<std::string, int64_t>{"{features: 5}", 10}, {"{features: 5, map: arccos}", 5}}) {
    const auto mixer = make_mixer("rfa", kSite, options);
    mixer->to(at::kBFloat16);
    State state;
    mixer->start(state, 2, 1000000, context);
    ASSERT_EQ(state.lane.size(), 1u);
    EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, kHeads, features, kHead + 1}));
    EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
  }
  State gated;
  made("{gate: shared}")->start(gated, 2, 1000000, context);
  EXPECT_EQ(gated.lane.at("decay").sizes(), at::IntArrayRef({2, 1, 1, 1}));
}

TEST(Rfa, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{map: relu}"); }),
            "rfa options:1: rfa.map is 'relu'; one of: gaussian, arccos");
  EXPECT_EQ(error_of([] { (void)made("{gate: both}"); }),
            "rfa options:1: rfa.gate is 'both'; one of: none, head, shared");
  EXPECT_EQ(error_of([] { (void)made("{clamp: abs}"); }),
            "rfa options:1: rfa.clamp is 'abs'; one of: proportional, value, magnitude");
  EXPECT_EQ(error_of([] { (void)made("{feature_scale: -1}"); }),
            "rfa options:1: rfa.feature_scale is -1, out of range; it may be >= 0");
  EXPECT_EQ(error_of([] { (void)made("{features: 0}"); }),
            "rfa options:1: rfa.features is 0, out of range; it may be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{temperature: 0}"); }),
            "rfa options:1: rfa.temperature is 0, out of range; it may be > 0");
  EXPECT_EQ(error_of([] { (void)made("{redraw: -1}"); }),
            "rfa options:1: rfa.redraw is -1, out of range; it may be >= 0");
  EXPECT_EQ(error_of([] { (void)made("{pool: -1}"); }),
            "rfa options:1: rfa.pool is -1, out of range; it may be 0..65536");
  EXPECT_EQ(error_of([] { (void)made("{floor: 0}"); }),
            "rfa options:1: rfa.floor is 0, out of range; it may be > 0");
}

TEST(Rfa, AGateNeedsACausalMaskAndNoMemory) {
  const auto mixer = made("{gate: head}");
  const auto x = random_normal({1, 3, kWidth}, 10);
  Context context, crossing = {.mask = {.causal = true}, .memory = x};
  EXPECT_EQ(
      error_of([&] { (*mixer)(x, context); }).find("rfa: is causal only; mechanisms that do: "),
      0u);
  EXPECT_EQ(error_of([&] {
              (*mixer)(x, crossing);
            }).find("rfa: cannot attend to a memory; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
