#include "longbow/models/canine/canine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/models/hugging_face.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

CanineConfig small(const std::string& attention = "softmax") {
  CanineConfig config;
  config.encoder.width = 8;
  config.encoder.heads = 2;
  config.encoder.layers = 2;
  config.encoder.max_length = 24;
  config.encoder.init = Init::xavier;
  config.encoder.block.feed_forward.width = 12;
  config.encoder.attention = yaml(attention);
  config.first = yaml("{name: local, window: 5, back: 0, ahead: 0}");
  config.hashes = 4;
  config.buckets = 16;
  config.rate = 3;
  config.token_types = 2;
  return config;
}

std::shared_ptr<Canine> model(const CanineConfig& config) {
  auto canine = std::make_shared<Canine>(config, 1);
  canine->to(at::kDouble);
  canine->eval();
  return canine;
}

Tensor text(int64_t batch, int64_t length) {
  return (at::arange(batch * length) * 7919 + 44000).remainder(60000).view({batch, length});
}

CanineOutput run(Canine& canine, const Tensor& characters,
                 const std::vector<int64_t>& lengths = {}) {
  Context context;
  if (!lengths.empty()) context.mask = Mask::from_lengths(at::tensor(lengths), characters.size(1));
  return canine(characters, {}, context);
}

const Tolerance kTight = {1e-12, 1e-12};

// The recorded names of a layer's weights.
void set_layer(std::map<std::string, std::string>& names, const std::string& ours,
               const std::string& theirs) {
  const std::pair<const char*, const char*> parts[] = {
      {"mixer.query", "q"},  {"mixer.key", "k"},       {"mixer.value", "v"},
      {"mixer.output", "o"}, {"feed_forward.up", "1"}, {"feed_forward.down", "2"}};
  for (const auto& [part, suffix] : parts) {
    names[ours + part + ".weight"] = theirs + "w" + suffix;
    names[ours + part + ".bias"] = theirs + "b" + suffix;
  }
  const std::pair<const char*, const char*> norms[] = {{"mixer_norm", "ln1"},
                                                       {"feed_forward_norm", "ln2"}};
  for (const auto& [part, suffix] : norms) {
    names[ours + part + ".weight"] = theirs + suffix + "_gain";
    names[ours + part + ".bias"] = theirs + suffix + "_bias";
  }
}

TEST(Canine, ReproducesTheModelOfHuggingFace) {
  const auto path = parity_file("hf/canine-model.safetensors");
  const auto file = load_safetensors(path);
  const auto said = parse_json(file.metadata.at("config"), path);
  const auto number = [&](const char* key) { return as_integer(*said.find(key), key); };
  const auto at = [&](const std::string& name) { return file.tensors.at(name).to(at::kDouble); };
  CanineConfig config;
  auto& encoder = config.encoder;
  encoder.width = at("y").size(2);
  encoder.heads = number("heads");
  encoder.layers = number("layers");
  encoder.max_length = at("y").size(1);
  encoder.block.norm_epsilon = as_number(*said.find("eps"), "eps");
  encoder.block.feed_forward.width = at("local.w1").size(0);
  config.hashes = number("hashes");
  config.buckets = number("buckets");
  config.rate = number("rate");
  config.kernel = number("up");
  config.token_types = at("type").size(0);
  config.molecules = Molecules::shifted;
  config.first["window"] = Node::integer(number("stride"));
  const auto canine = model(config);

  std::map<std::string, std::string> names = {{"positions", "position"},
                                              {"segments", "type"},
                                              {"embedding_norm.weight", "ln_embed_gain"},
                                              {"embedding_norm.bias", "ln_embed_bias"},
                                              {"pooler.weight", "pooler.w"},
                                              {"pooler.bias", "pooler.b"}};
  for (const std::string part : {"down", "up"}) {
    names[part + ".weight"] = part + ".conv";
    names[part + ".bias"] = part + ".conv_bias";
    names[part + "_norm.weight"] = part + ".ln_gain";
    names[part + "_norm.bias"] = part + ".ln_bias";
  }
  set_layer(names, "first.layers.0.", "local.");
  set_layer(names, "last.layers.0.", "final.");
  for (int64_t layer = 0; layer < encoder.layers; ++layer)
    set_layer(names, "deep.layers." + std::to_string(layer) + ".",
              "deep" + std::to_string(layer) + ".");
  const auto parameters = canine->named_parameters();
  {
    const at::NoGradGuard no_grad;
    for (const auto& entry : parameters) {
      auto value = entry.value();
      if (entry.key() != "hashes") value.copy_(at(names.at(entry.key())));
    }
    for (int64_t k = 0; k < config.hashes; ++k)
      parameters["hashes"][k].copy_(at("hash" + std::to_string(k)));
  }

  const auto keep = file.tensors.at("keep").to(at::kBool);
  Context context = {.mask = {.keep = keep}};
  const auto out = (*canine)(file.tensors.at("ids"), file.tensors.at("type_ids"), context);
  EXPECT_NEAR_TENSOR(out.embedding, at("stage_embedding"), kTight);
  EXPECT_NEAR_TENSOR(out.local, at("stage_local"), kTight);
  EXPECT_NEAR_TENSOR(out.molecules, at("stage_down"), kTight);
  EXPECT_NEAR_TENSOR(out.deep, at("stage_deep"), kTight);
  EXPECT_NEAR_TENSOR(out.joined, at("stage_up"), kTight);
  EXPECT_NEAR_TENSOR(out.characters, at("y"), kTight);
  EXPECT_NEAR_TENSOR(out.pooled, at("y_pooled"), kTight);
  ((out.characters * at("g")).sum() + (out.pooled * at("g_pooled")).sum()).backward();
  int compared = 0;
  const auto compare = [&](const Tensor& got, const std::string& name) {
    if (!file.tensors.count("grad_" + name)) return;
    const auto want = at("grad_" + name);
    const double scale = std::max(1.0, want.abs().max().item<double>());
    EXPECT_NEAR_TENSOR(got, want, (Tolerance{1e-12 * scale, 1e-11})) << name;
    ++compared;
  };
  for (const auto& [ours, theirs] : names) compare(parameters[ours].grad(), theirs);
  compare(parameters["hashes"].grad()[0], "hash0");
  EXPECT_EQ(compared, 15);
}

TEST(Canine, HashesAreFixedAndSaved) {
  const auto canine = model(small());
  const auto primes = canine->named_buffers()["primes"];
  EXPECT_NEAR_TENSOR(primes.to(at::kLong), at::tensor({31, 43, 59, 61}, at::kLong), kExact);
  // 'A' is 65: 66 x 31 = 2046, 66 x 43 = 2838, 66 x 59 = 3894 and 66 x 61 = 4026, modulo 16.
  const auto out = run(*canine, at::full({1, 1}, 65, at::kLong));
  (out.embedding * random_normal({1, 1, 8}, 3)).sum().backward();
  const auto touched = canine->named_parameters()["hashes"].grad().abs().sum(-1) > 0;
  auto want = at::zeros({4, 16}, at::kBool);
  const int64_t buckets[] = {14, 6, 6, 10};
  for (int64_t k = 0; k < 4; ++k) want[k][buckets[k]] = true;
  EXPECT_TRUE(at::equal(touched, want)) << touched;
}

Tensor normed(const Tensor& x) {
  const auto centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + 1e-12).sqrt();
}
double gelu(double x) {
  return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
}

// sum_j W_j rows_(first + j) + b, activated; rows outside are zeros.
Tensor filtered(const Tensor& rows, int64_t first, const Tensor& weight, const Tensor& bias) {
  auto y = bias.detach().clone();
  for (int64_t j = 0; j < weight.size(2); ++j)
    if (first + j >= 0 && first + j < rows.size(0))
      y += weight.select(2, j).detach().matmul(rows[first + j].detach());
  for (int64_t c = 0; c < y.size(0); ++c) y[c] = gelu(y[c].item<double>());
  return y;
}

TEST(Canine, SamplingIsThatOfTheFormula) {
  const at::NoGradGuard no_grad;
  for (const int64_t length : {7, 9}) {
    const auto canine = model(small());
    const auto parameters = canine->named_parameters();
    const auto out = run(*canine, text(1, length));
    const auto local = out.local[0];
    std::vector<Tensor> molecules = {local[0]};
    for (int64_t s = 0; 3 * s < length; ++s)
      molecules.push_back(
          filtered(local, 3 * s, parameters["down.weight"], parameters["down.bias"]));
    EXPECT_EQ(molecules.size(), 4u);
    EXPECT_NEAR_TENSOR(out.molecules[0], normed(at::stack(molecules)), (Tolerance{1e-10, 1e-10}));

    std::vector<Tensor> both, joined;
    for (int64_t t = 0; t < length; ++t)
      both.push_back(at::cat({local[t], out.deep[0][t / 3 + 1]}));
    for (int64_t t = 0; t < length; ++t)
      joined.push_back(
          filtered(at::stack(both), t - 1, parameters["up.weight"], parameters["up.bias"]));
    EXPECT_NEAR_TENSOR(out.joined[0], normed(at::stack(joined)), (Tolerance{1e-10, 1e-10}));
    const auto pooled =
        parameters["pooler.weight"].matmul(out.deep[0][0]) + parameters["pooler.bias"];
    EXPECT_NEAR_TENSOR(out.pooled[0], pooled.tanh(), kTight);
  }
}

TEST(Canine, PaddingAndNeighboursChangeNothingWithAnyMechanism) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> lengths = {12, 7, 1};
  for (const auto* attention : {"softmax", "linear", "{name: linformer, rank: 4}",
                                "{name: local, window: 2}", "realformer"}) {
    const auto canine = model(small(attention));
    for (const int64_t padded : {12, 20}) {
      auto batch = text(3, padded);
      batch.narrow(1, 0, 12).copy_(text(3, 12));
      const auto together = run(*canine, batch, lengths);
      for (int64_t row = 0; row < 3; ++row) {
        const auto n = lengths[static_cast<size_t>(row)];
        const auto alone = run(*canine, batch.narrow(0, row, 1).narrow(1, 0, n));
        EXPECT_NEAR_TENSOR(together.characters[row].narrow(0, 0, n), alone.characters[0],
                           (Tolerance{1e-10, 1e-10}))
            << attention << " " << n << " of " << padded;
        EXPECT_NEAR_TENSOR(together.pooled[row], alone.pooled[0], (Tolerance{1e-10, 1e-10}))
            << attention << " " << n << " of " << padded;
      }
    }
  }
}

// Characters 6 to 8 of 12 are the last real chunk, which only its own molecule knows of.
TEST(Canine, TheShiftedMaskHidesTheLastRealChunk) {
  for (const auto molecules : {Molecules::aligned, Molecules::shifted}) {
    auto config = small();
    config.molecules = molecules;
    config.first["window"] = Node::integer(3);
    const auto canine = model(config);
    const auto out = run(*canine, text(1, 12), {9});
    EXPECT_EQ(out.deep.size(1), molecules == Molecules::shifted ? 4 : 5);
    out.embedding.retain_grad();
    out.pooled.sum().backward();
    const auto reached = out.embedding.grad()[0].abs().sum(-1) > 0;
    EXPECT_TRUE(reached.narrow(0, 0, 6).all().item<bool>());
    EXPECT_EQ(reached.narrow(0, 6, 3).any().item<bool>(), molecules == Molecules::aligned);
  }
}

// As beside a longer text, of which it gets the padding.
TEST(Canine, ATextShorterThanAShiftedMoleculeIsFilledUp) {
  const at::NoGradGuard no_grad;
  auto config = small();
  config.molecules = Molecules::shifted;
  const auto canine = model(config);
  for (const int64_t length : {1, 2}) {
    const auto alone = run(*canine, text(1, length));
    const auto beside =
        run(*canine, at::constant_pad_nd(text(1, length), {0, 3 - length}), {length});
    EXPECT_EQ(alone.embedding.size(1), length);
    EXPECT_NEAR_TENSOR(alone.characters, beside.characters.narrow(1, 0, length), kTight);
    EXPECT_NEAR_TENSOR(alone.joined, beside.joined.narrow(1, 0, length), kTight);
    EXPECT_NEAR_TENSOR(alone.pooled, beside.pooled, kTight);
  }
  const auto both = text(2, 2);
  EXPECT_NEAR_TENSOR(run(*canine, both, {2, 1}).characters[0],
                     run(*canine, both.narrow(0, 0, 1)).characters[0], kTight);
}

TEST(Canine, TheFirstCharacterCanBeGlobalInTheLocalLayer) {
  auto config = small();
  config.first = yaml(
      "{name: local, window: 5, back: 0, ahead: 0, all_read_first: true, first_reads_all: true}");
  const auto canine = model(config);
  for (const int64_t t : {0, 3, 7, 12}) {
    const auto out = run(*canine, text(1, 14), {13});
    out.embedding.retain_grad();
    out.local[0][t].square().sum().backward();
    const auto reached = out.embedding.grad()[0].abs().sum(-1) > 0;
    for (int64_t j = 0; j < 14; ++j) {
      const bool visible = j < 13 && (t == 0 || j == 0 || j / 5 == t / 5);
      EXPECT_EQ(reached[j].item<bool>(), visible) << t << " reads " << j;
    }
  }
}

TEST(Canine, AnEmptyTextIsFiniteWithFiniteGradients) {
  for (const auto molecules : {Molecules::aligned, Molecules::shifted}) {
    auto config = small();
    config.molecules = molecules;
    const auto canine = model(config);
    const auto out = run(*canine, text(2, 9), {9, 0});
    (out.characters.square().sum() + out.pooled.square().sum()).backward();
    EXPECT_TRUE(out.characters.isfinite().all().item<bool>());
    for (const auto& entry : canine->named_parameters())
      EXPECT_TRUE(entry.value().grad().isfinite().all().item<bool>()) << entry.key();
  }
}

TEST(Canine, GradientsAreThoseOfDifferences) {
  for (const auto molecules : {Molecules::aligned, Molecules::shifted}) {
    auto config = small();
    config.encoder.layers = 1;
    config.molecules = molecules;
    const auto canine = model(config);
    std::vector<Leaf> leaves;
    for (const auto& entry : canine->named_parameters())
      leaves.push_back({entry.key(), entry.value()});
    {  // tables of ordinary size: the norm of small ones bends too much for differences
      const at::NoGradGuard no_grad;
      for (const auto* name : {"hashes", "positions", "segments"})
        canine->named_parameters()[name].mul_(50);
    }
    const auto characters = text(2, 7);
    EXPECT_TRUE(gradcheck(
        [&] {
          const auto out = run(*canine, characters, {7, 4});
          const auto real = out.characters[1].narrow(0, 0, 4);
          return at::cat({out.characters[0].flatten(), real.flatten(), out.pooled.flatten()});
        },
        leaves));
  }
}

TEST(Canine, ASavedModelIsTheSame) {
  const auto canine = model(small());
  auto other = std::make_shared<Canine>(small(), 2);
  other->to(at::kDouble);
  other->eval();
  std::map<std::string, Tensor> saved;
  for (const auto& entry : canine->named_parameters()) saved[entry.key()] = entry.value();
  for (const auto& entry : canine->named_buffers()) saved[entry.key()] = entry.value();
  const auto file = (scratch_folder() / "model.safetensors").string();
  save_safetensors(file, saved);
  const auto loaded = load_safetensors(file).tensors;
  const auto want = run(*canine, text(2, 8)).characters;
  EXPECT_FALSE(at::equal(run(*other, text(2, 8)).characters, want));
  {
    const at::NoGradGuard no_grad;
    for (const auto& entry : other->named_parameters())
      Tensor(entry.value()).copy_(loaded.at(entry.key()));
    for (const auto& entry : other->named_buffers())
      Tensor(entry.value()).copy_(loaded.at(entry.key()));
  }
  EXPECT_NEAR_TENSOR(run(*other, text(2, 8)).characters, want, kExact);
}

TEST(Canine, AConfigThatCannotBeBuiltSaysWhere) {
  const auto checked = [](const std::string& text) {
    const auto tree = yaml("width: 8\nheads: 2\nhashes: 4\n" + text);
    return error_of([&] { check_canine(read<CanineConfig>(tree, "model"), tree); });
  };
  EXPECT_EQ(checked("layers: 1"), "");
  EXPECT_EQ(checked("first: {name: lcoal}"),
            "model.yaml:4: unknown mechanism 'lcoal'; did you mean 'local'?");
  EXPECT_EQ(checked("last: {name: local, windw: 3}"),
            "model.yaml:4: unknown key 'windw'; did you mean 'window'?");
  EXPECT_EQ(checked("positions: none"),
            "model.yaml:1: a model of characters is not causal and has learned positions; leave "
            "model.causal and model.positions out");
  // 24 characters are 6 molecules of 4, and the first character.
  EXPECT_EQ(checked("max_length: 24\nattention: {name: linformer, rank: 7}"), "");
  EXPECT_EQ(checked("max_length: 24\nattention: {name: linformer, rank: 8}"),
            "model.yaml:5: linformer.rank is 8, but max_length is 7; lower rank");
  EXPECT_EQ(checked("max_length: 24\nlast: {name: linformer, rank: 25}"),
            "model.yaml:5: linformer.rank is 25, but max_length is 24; lower rank");
  EXPECT_EQ(checked("max_length: 3\nrate: 4"), "");
  EXPECT_EQ(checked("max_length: 3\nrate: 4\nmolecules: shifted"),
            "model.yaml:5: model.rate is 4, but max_length is 3; lower it, or set "
            "model.molecules: aligned");
  const auto odd = yaml("width: 8\nheads: 2\nhashes: 3");
  EXPECT_EQ(error_of([&] { check_canine(read<CanineConfig>(odd, "model"), odd); }),
            "model.yaml:3: model.width 8 is not a multiple of model.hashes 3; change one of them");
}

TEST(Canine, RefusesWhatItWasNotBuiltFor) {
  const auto canine = model(small());
  EXPECT_EQ(error_of([&] { run(*canine, text(1, 25)); }),
            "canine: 25 characters, but max_length is 24");
  Context ragged = {.mask = Mask::from_keep(at::ones({1, 6}, at::kBool))};
  EXPECT_EQ(error_of([&] { (*canine)(text(1, 6), {}, ragged); }),
            "canine: molecules are cut from the front, so real characters must come first");
  auto config = small();
  config.molecules = Molecules::shifted;
  config.rate = 25;
  EXPECT_EQ(error_of([&] { model(config); }),
            "canine: max_length 24 is less than one molecule of 25");
  config.rate = 3;
  config.hashes = 3;
  EXPECT_EQ(error_of([&] { model(config); }), "canine: width 8 is not a multiple of 3 hashes");
  config.hashes = 4;
  config.encoder.heads = 3;
  EXPECT_EQ(error_of([&] { model(config); }), "canine: width 8 is not a multiple of 3 heads");
  config.encoder.heads = 2;
  config.encoder.causal = true;
  EXPECT_EQ(error_of([&] { model(config); }),
            "canine: is not causal and has learned positions up to max_length");
  config.encoder.causal = false;
  config.last = yaml("\nname: sofmax");
  EXPECT_EQ(error_of([&] { model(config); }),
            "model.yaml:2: unknown mechanism 'sofmax'; did you mean 'softmax'?");
}

}  // namespace
}  // namespace longbow
