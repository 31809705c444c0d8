#include "longbow/models/linformer_pytorch/linformer_import.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/tensors/safetensors.h"
#include "tests/support/parity.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

// A model of linformer-pytorch with an input, its output, and gradients of a weighing g of it.
struct Recorded {
  std::string name, kind;
  Node config;
  Tensors state, io;
  Tensor at(const std::string& key) const { return io.at(key).to(at::kDouble); }
};

Recorded load(const fs::path& io) {
  const std::string ending = ".io.safetensors";
  const auto path = io.string();
  const auto stem = path.substr(0, path.size() - ending.size());
  auto file = load_safetensors(path);
  Recorded r = {fs::path(stem).filename().string(), "",
                parse_json(file.metadata.at("config"), stem),
                load_safetensors(stem + ".model.safetensors").tensors, file.tensors};
  r.kind = r.config.find("cls")->text;
  std::erase_if(r.config.entries,
                [](const auto& e) { return e.first == "cls" || e.first == "kind"; });
  r.config["compatible"] = Node::boolean(true);
  const std::string unsaved = "unsaved_";
  for (const auto& [name, tensor] : r.io)
    if (name.starts_with(unsaved)) r.state[name.substr(unsaved.size())] = tensor;
  return r;
}

void compare(const Recorded& r, torch::nn::Module& net, const StateLayout& layout,
             const std::function<Tensor()>& run, const Tensor& x) {
  net.to(at::kDouble);
  net.eval();
  import_state(layout, r.state, r.name);
  const auto y = run();
  EXPECT_NEAR_TENSOR(y, r.at("y"), (Tolerance{1e-12, 1e-12})) << r.name;
  (y * r.at("g")).sum().backward();
  int compared = 0;
  const auto check = [&](const std::string& name, const Tensor& got) {
    const auto want = r.at("grad_" + name);
    const double scale = std::max(1.0, want.abs().max().item<double>());
    EXPECT_NEAR_TENSOR(got, want, (Tolerance{2e-7 * scale, 0})) << r.name << ": " << name;
    ++compared;
  };
  for (const auto& part : layout.parts)
    if (r.io.count("grad_" + part.name)) check(part.name, part.pick(part.whole.grad()));
  if (r.io.count("grad_x")) check("x", x.grad());
  const auto recorded = std::count_if(
      r.io.begin(), r.io.end(), [](const auto& item) { return item.first.starts_with("grad_"); });
  EXPECT_EQ(compared, recorded) << r.name;
  const auto saved = export_state(layout);
  for (const auto& part : layout.parts)
    EXPECT_TRUE(at::equal(saved.at(part.name), r.state.at(part.name).to(at::kDouble)))
        << r.name << ": " << part.name;
}

void reproduce(const Recorded& r) {
  const auto ids = [&](const std::string& key) { return r.io.at(key).to(at::kLong); };
  if (r.kind == "LinformerEncDec") {
    LinformerEncDec net(read<LinformerEncDecConfig>(r.config));
    net.to(at::kDouble);
    compare(r, net, state_layout(net), [&] { return net(ids("x"), ids("target")); }, {});
  } else if (r.kind == "LinformerLM") {
    LinformerLM net(read<LinformerLMConfig>(r.config));
    net.to(at::kDouble);
    compare(r, net, state_layout(net), [&] { return net(ids("x")); }, {});
  } else {
    Linformer net(read<LinformerConfig>(r.config));
    net.to(at::kDouble);
    const auto x = r.at("x").requires_grad_();
    LinformerInputs inputs;
    if (r.io.count("keep")) inputs.input_mask = r.io.at("keep");
    if (r.io.count("embeddings")) inputs.embeddings = r.at("embeddings");
    compare(
        r, net, state_layout(net), [&] { return net(x, inputs); }, x);
  }
}

TEST(LinformerImport, EveryRecordedModelIsReproduced) {
  int count = 0;
  for (const auto& zoo : {parity_file("zoo"), parity_collection() / "zoo"}) {
    if (!fs::is_directory(zoo)) continue;
    for (const auto& entry : fs::directory_iterator(zoo)) {
      const auto name = entry.path().filename().string();
      if (!name.starts_with("linformer-tatp22-") || !name.ends_with(".io.safetensors")) continue;
      EXPECT_EQ(error_of([&] { reproduce(load(entry.path())); }), "") << name;
      ++count;
    }
  }
  EXPECT_GT(count, 4);
}

LinformerConfig small() {
  return {.input_size = 12, .channels = 8, .dim_k = 4, .dim_ff = 10, .nhead = 2, .depth = 2};
}

std::string refused(const LinformerConfig& config, const std::function<void(Tensors&)>& spoil) {
  Linformer net(config, 1);
  const auto layout = state_layout(net);
  auto state = export_state(layout);
  spoil(state);
  const auto before = export_state(layout);
  const auto error = error_of([&] { import_state(layout, state, "net.safetensors"); });
  if (!error.empty())
    for (const auto& [name, value] : export_state(layout))
      EXPECT_TRUE(at::equal(value, before.at(name))) << name;
  return error;
}

TEST(LinformerImport, WhatDoesNotFitIsListed) {
  EXPECT_EQ(
      refused(small(), [](Tensors& s) { s.erase("seq.1.fn.w_1.bias"); }),
      "net.safetensors: weights do not fit the model: missing seq.1.fn.w_1.bias; build the net "
      "with the options it was saved with");
  EXPECT_EQ(
      refused(small(),
              [](Tensors& s) {
                s["seq.9.norm.weight"] = at::ones({8});
                s["seq.0.fn.w_o.bias"] = at::ones({9});
              }),
      "net.safetensors: weights do not fit the model: seq.0.fn.w_o.bias is [9] instead of [8], "
      "unexpected seq.9.norm.weight; build the net with the options it was saved with");
  // A head is a part of our tensor: its shape is that of a tensor made on the way.
  EXPECT_EQ(
      refused(small(),
              [](Tensors& s) {
                s["seq.0.fn.to_q.1.weight"] = at::ones({5, 8});
              }),
      "net.safetensors: weights do not fit the model: seq.0.fn.to_q.1.weight is [5, 8] instead of "
      "[4, 8]; build the net with the options it was saved with");
}

TEST(LinformerImport, CopiesOfASharedProjectionMustBeEqual) {
  EXPECT_EQ(refused(small(), [](Tensors& s) { s["seq.2.fn.heads.1.F.weight"][0][0] += 1; }),
            "net.safetensors: seq.2.fn.heads.1.F.weight differs from seq.0.fn.heads.0.E.weight, "
            "which is the same tensor; set parameter_sharing to what the net was saved with");
}

TEST(LinformerImport, MatricesThatWereNotSavedAreAskedFor) {
  auto config = small();
  config.depth = 1;
  config.method = ProjectionMethod::no_params;
  EXPECT_EQ(refused(config,
                    [](Tensors& s) {
                      std::erase_if(s, [](const auto& item) {
                        return item.first.find("heads") != std::string::npos;
                      });
                    }),
            "net.safetensors: missing: seq.0.fn.heads.0.E, seq.0.fn.heads.0.F, "
            "seq.0.fn.heads.1.E, seq.0.fn.heads.1.F; linformer-pytorch does not save the matrices "
            "of no_params; add them under these names, [input_size, dim_k] each");
}

TEST(LinformerImport, PositionsHaveTheBaseOfTheOriginal) {
  LinformerLMConfig config;
  config.num_tokens = 5;
  config.input_size = 12;
  config.channels = 8;
  config.dim_k = 4;
  config.nhead = 2;
  LinformerLM net(config);
  const auto layout = state_layout(net);
  auto state = export_state(layout);
  // By hand: 100000^(-2i / 8).
  EXPECT_NEAR_TENSOR(
      state.at("pos_emb.inv_freq").to(at::kDouble),
      at::tensor({1.0, 0.05623413251903491, 0.0031622776601683795, 0.00017782794100389228}),
      (Tolerance{0, 1e-6}));
  state["pos_emb.inv_freq"] = at::pow(10000, -at::arange(0, 8, 2).div(8.0)).to(at::kFloat);
  EXPECT_EQ(error_of([&] { import_state(layout, state, "net.safetensors"); }),
            "net.safetensors: pos_emb.inv_freq is not that of the base 100000; linformer-pytorch "
            "knows no other");
}

// An output projection in two steps, the first of them the identity.
TEST(LinformerImport, FullAttentionIsTheSameWithAnOutputProjectionInTwoSteps) {
  auto config = small();
  config.full_attention = true;
  for (const bool causal : {false, true}) {
    config.causal = causal;
    config.w_o_intermediate_dim.reset();
    Linformer one(config, 1);
    config.w_o_intermediate_dim = 8;
    Linformer two(config, 2);
    Tensors state;
    for (const auto& [name, value] : export_state(state_layout(one))) {
      const auto at = name.find("w_o.");
      if (at == std::string::npos) {
        state[name] = value;
        continue;
      }
      const auto before = name.substr(0, at), after = name.substr(at + 4);
      state[before + "w_o_2." + after] = value;
      state[before + "w_o_1." + after] = after == "weight" ? at::eye(8) : at::zeros({8});
    }
    for (auto* net : {&one, &two}) {
      net->to(at::kDouble);
      net->eval();
    }
    import_state(state_layout(two), state, "net.safetensors");
    const auto x = random_normal({2, 12, 8}, 3);
    const auto mask = at::arange(12).expand({2, 12}) < 9;
    EXPECT_NEAR_TENSOR(two(x), one(x), (Tolerance{1e-12, 0}));
    EXPECT_NEAR_TENSOR(two(x, {.input_mask = mask}), one(x, {.input_mask = mask}),
                       (Tolerance{1e-12, 0}));
  }
}

TEST(LinformerImport, APaddersStateAndUnusedProjectionsAreRead) {
  auto config = small();
  config.full_attention = true;
  Linformer from(config, 1), to(config, 2);
  Tensors state;
  for (const auto& [name, value] : export_state(state_layout(from))) state["net." + name] = value;
  state["net.seq.0.fn.heads.0.E.weight"] = at::ones({4, 12});
  import_state(state_layout(to), state, "net.safetensors");
  from.eval();
  to.eval();
  const auto x = random_normal({1, 12, 8}, 3).to(at::kFloat);
  EXPECT_NEAR_TENSOR(to(x), from(x), kExact);
}

}  // namespace
}  // namespace longbow
