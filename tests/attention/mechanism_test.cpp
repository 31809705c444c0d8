// Options that do not go together, or not with the model: what every mechanism says of its own.
#include "longbow/attention/mechanism.h"

#include <ATen/ATen.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

Site site_of(int64_t heads, int64_t max_length = 24) {
  return {.shape = {.width = 12, .heads = heads, .max_length = max_length},
          .shared = std::make_shared<Shared>()};
}

Node options_in(const std::string& name, const std::string& options) {
  return parse_yaml("name: " + name + "\n" + options, "m.yaml");
}

struct Mistake {
  std::string name, options;  // line 1 of the file is the name
  std::string line;
  int64_t heads = 2;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"abc", "hide_unwritten: true",
       "m.yaml:2: abc.hide_unwritten is for control: position; leave it out; other controls write "
       "every slot"},
      {"aft", "form: conv\ninner_width: 7",
       "m.yaml:3: aft.inner_width is 7, but form: conv divides it among 2 heads; take a multiple "
       "of the heads"},
      {"cosformer", "length: current\nmemory: proportions",
       "m.yaml:3: cosformer.memory is proportions, which are those of a fixed length; leave length "
       "out, or set memory to content or positions"},
      {"fmmformer", "maps: []",
       "m.yaml:2: fmmformer.maps is empty, but the far field needs one; write maps: [elu]"},
      {"fmmformer", "maps: [elu, tanh, elu]",
       "m.yaml:2: fmmformer.maps names a map twice; name each at most once"},
      {"fmmformer", "length: 5",
       "m.yaml:2: fmmformer.length is for far_norm: none, but there is a denominator; leave length "
       "out, or set far_norm: none"},
      {"fnet", "transform: random\nlength: own",
       "m.yaml:3: fnet.length is for the Fourier transforms, but these matrices are for any "
       "length; leave it out"},
      {"gmlp", "width: 15", "m.yaml:2: gmlp.width is 15, but it is halved; take an even number"},
      {"gmlp", "width: 16\ngroups: 3",
       "m.yaml:3: gmlp.groups is 3, but 8 gated channels do not divide into so many; take a "
       "divisor of the gated channels"},
      {"h1d", "block: 7",
       "m.yaml:2: h1d.block is 7, but halves of it are read; take an even number"},
      {"h1d", "coverage: siblings\nblock: 6",
       "m.yaml:3: h1d.block is 6, but coverage: siblings needs a power of two; take 2, 4, 8 or "
       "more"},
      {"h1d", "coverage: siblings\nrelative_bias: true",
       "m.yaml:3: h1d.relative_bias does not go with coverage: siblings; leave one of them out"},
      {"linear", "map: identity",
       "m.yaml:1: linear.normaliser divides by the sum of weights, but map: identity gives weights "
       "of any sign; set normaliser to rms or none"},
      {"linear", "features: 8", "m.yaml:2: linear.features is for map: learned; leave it out"},
      {"linear", "map: learned\nkey_map: exp",
       "m.yaml:3: linear.key_map maps the channels of a key, but queries have features of map: "
       "learned; leave it out"},
      {"linformer", "rank: 25", "m.yaml:2: linformer.rank is 25, but max_length is 24; lower rank"},
      {"linformer", "", "m.yaml:1: linformer.rank is 64, but max_length is 24; lower rank"},
      {"linformer", "method: convolution\nrank: 5",
       "m.yaml:3: linformer.rank is 5, which does not divide max_length 24, as method: convolution "
       "needs; take a divisor of max_length"},
      {"linformer", "rank: 6\nmethod: mean_pool\nsharing: none",
       "m.yaml:4: linformer.sharing is for projections with weights, but method: mean_pool has "
       "none; leave it out"},
      {"linformer", "rank: 2\nsharing: layerwise\nrank_step: 1",
       "m.yaml:4: linformer.rank_step is 1, but layers that share a projection have one rank; "
       "leave it out, or set sharing: kv"},
      {"linformer", "rank: 6\nmethod: fixed_random\nbias: true",
       "m.yaml:4: linformer.bias is for projections that are learned, but method: fixed_random is "
       "not; leave it out"},
      {"linformer", "rank: 6\ndepthwise: true",
       "m.yaml:3: linformer.depthwise is for method: convolution; leave it out"},
      {"linformer", "rank: 6\nmethod: max_pool\nstart: uniform",
       "m.yaml:4: linformer.start is for projections that are learned, but method: max_pool is "
       "not; leave it out"},
      {"linformer", "rank: 6\ndeviation: inverse",
       "m.yaml:3: linformer.deviation is for method: fixed_random; leave it out"},
      {"linformer", "rank: 6\nmethod: mean_pool\nscale: tokens",
       "m.yaml:4: linformer.scale is for projections with weights, but method: mean_pool has none; "
       "leave it out"},
      {"linformer", "rank: 6\noutput: false",
       "m.yaml:3: linformer.output is false, but 5 heads of width 2 do not make up the model width "
       "12; leave it out, or choose a head_width that does",
       5},
      {"linformer", "rank: 6\noutput: false\noutput_rank: 4",
       "m.yaml:4: linformer.output_rank is the width of a projection that output: false leaves "
       "out; leave one of them out"},
      {"linformer", "rank: 6\ncausal_form: block_causal",
       "m.yaml:3: linformer.causal_form is block_causal, which needs slots that are windows; set "
       "method to mean_pool or convolution"},
      {"linformer", "rank: 6\nmethod: convolution\nscale: tokens\ncausal_form: block_causal",
       "m.yaml:4: linformer.scale is tokens, which does not go with causal_form: block_causal; "
       "leave scale out"},
      {"linformer", "rank: 6\nmethod: mean_pool\nslot_triangle: true\ncausal_form: block_causal",
       "m.yaml:4: linformer.slot_triangle does not go with causal_form: block_causal; leave one of "
       "them out"},
      {"lite", "form: multi_kernel",
       "m.yaml:1: lite.kernels is empty in form: multi_kernel; write kernels: [3, 5]"},
      {"lite", "kernels: [3]",
       "m.yaml:2: lite.kernels is for form: multi_kernel; leave it out, or set the form"},
      {"lite", "form: multi_kernel\nkernels: [3, 0]",
       "m.yaml:3: lite.kernels[1] is 0, out of range; it may be 1..65536"},
      {"lite", "form: multi_kernel\nkernels: [3]\nglu: false",
       "m.yaml:4: lite.glu is false, but form: multi_kernel gates its channels; leave it out"},
      {"lite", "form: plain\nrenorm: true",
       "m.yaml:3: lite.renorm is over a softmax, but these taps have none; set form to light or "
       "dynamic, with weight_softmax"},
      {"lite", "renorm: true\nweight_softmax: false",
       "m.yaml:2: lite.renorm is over a softmax, but these taps have none; set form to light or "
       "dynamic, with weight_softmax"},
      {"lite", "renorm: true\nform: multi_kernel\nkernels: [3]",
       "m.yaml:2: lite.renorm is over a softmax, but these taps have none; set form to light or "
       "dynamic, with weight_softmax"},
      {"lite", "attention_width: 12",
       "m.yaml:2: lite.attention_width gives 12 of 12 channels to attention, but both halves need "
       "some; take more than 0 and less than the model's width"},
      {"lite", "attention_width: 3",
       "m.yaml:2: lite.attention_width gives attention 3 channels, which do not divide among 2 "
       "heads; take a multiple of the heads"},
      {"lite", "form: multi_kernel\nkernels: [3]\nattention_width: 5",
       "m.yaml:4: lite.attention_width leaves 7 channels to the convolution, which gates by "
       "halves; "
       "leave an even number",
       1},
      {"lite", "conv_heads: 5",
       "m.yaml:2: lite.conv_heads gives the convolution 5 heads, which do not divide its 6 "
       "channels; take a divisor of its channels"},
      {"luna", "pack_heads: 5",
       "m.yaml:2: luna.pack_heads is 5, which does not divide the width 12 of the extra sequence; "
       "take a divisor of the width"},
      {"luna", "",
       "m.yaml:1: luna cannot divide an extra sequence of width 12 among 5 heads; take a width "
       "that is a multiple of the heads",
       5},
      {"nystromformer", "conv: 4",
       "m.yaml:2: nystromformer.conv is 4, but a filter has an odd length; take an odd number, or "
       "0 for no filter"},
      {"performer", "map: relu\neps_in_features: 1",
       "m.yaml:3: performer.eps_in_features is for the maps softmax and hyperbolic; leave it out"},
      {"performer", "projection: false",
       "m.yaml:2: performer.projection is false, but only map: generalised can do without one; "
       "leave it out, or set map: generalised"},
      {"performer", "map: no_projection\nfeatures: 5",
       "m.yaml:3: performer.features is 5, but without a projection there are as many as channels, "
       "6; leave it out"},
      {"performer", "map: hyperbolic\nfeatures: 7",
       "m.yaml:3: performer.features is 7, but map: hyperbolic takes them in pairs; take an even "
       "number"},
      {"rfa", "pool: 1",
       "m.yaml:2: rfa.pool is 1, but 2 heads take a matrix each; take as many as there are heads, "
       "or more, or 0 for no pool"},
      {"scaling", "modules: 5",
       "m.yaml:2: scaling.modules is 5, which does not divide the width 12; take a divisor of the "
       "width, or 0 to have one chosen"},
      {"scaling", "",
       "m.yaml:1: scaling cannot divide the width 12 among 5 heads; take a width that is a "
       "multiple of the heads",
       5},
      {"scaling", "across: 2",
       "m.yaml:2: scaling.across is 2, but taps over modules have a middle; take an odd number"},
      {"scatterbrain", "features: 7",
       "m.yaml:2: scatterbrain.features is 7, but map: hyperbolic takes them in pairs; take an "
       "even number"},
      {"scatterbrain", "rounds: 2",
       "m.yaml:2: scatterbrain.rounds is 2, but a window is the same in every round; leave it out, "
       "or set support to clusters or angular"},
      {"scatterbrain", "support: clusters\nwindow: 0",
       "m.yaml:3: scatterbrain.window is 0, but groups need keys; take 1 or more, or set support: "
       "local"},
      {"scatterbrain", "support: angular\nbuckets: 5",
       "m.yaml:3: scatterbrain.buckets is 5, but they come in pairs; take an even number"},
      {"softmax", "head_mask: [1]",
       "m.yaml:2: softmax.head_mask has 1 entries for 2 heads; give one for each head, or leave it "
       "out"},
  };
  return all;
}

TEST(Mechanism, NamesTheLineOfOptionsThatDoNotFit) {
  for (const auto& [name, options, line, heads] : mistakes()) {
    const auto node = options_in(name, options);
    const auto site = site_of(heads);
    EXPECT_EQ(error_of([&] { check_options(node, site); }), line);
    EXPECT_EQ(error_of([&] { (void)make_mixer(node, site); }), line);
  }
}

TEST(Mechanism, EveryVariantFits) {
  const Site site = {.shape = {.width = 16, .heads = 2, .max_length = 128}};
  for (const auto& mechanism : mechanisms()) {
    EXPECT_EQ(error_of([&] { check_options(Node::string(mechanism.name), site); }), "");
    for (const auto& variant : mechanism.variants) {
      auto node = parse_yaml(variant.options, "m.yaml");
      node["name"] = Node::string(mechanism.name);
      EXPECT_EQ(error_of([&] { check_options(node, site); }), "") << variant.options;
    }
  }
}

// The first site that a training step draws at: without a random key it is named.
template <class Module>
std::string drawn_at(Module& module, const Mask& mask) {
  Context context = {.mask = mask};
  const auto error = error_of([&] { (void)module(at::ones({1, 29, 24}), context); });
  return error.substr(0, error.find(": random numbers wanted"));
}

// A mixer draws under its own name, and its block does not: one site is one set of numbers.
TEST(Mechanism, DropsByOtherNumbersThanItsBlock) {
  const Site site = {.shape = {.width = 24, .heads = 2, .max_length = 128}, .path = "block"};
  const auto block = make_block(Node::string("softmax"), site, {.dropout = 0.3});
  const auto run = [&](const Tensor& x, Context& context) { return block->forward(x, context); };
  const auto of_block = drawn_at(run, {});
  EXPECT_EQ(of_block.rfind("block.", 0), 0u) << of_block;
  EXPECT_NE(of_block.rfind("block.mixer.", 0), 0u) << of_block;
  for (const auto& subject : subjects()) {
    if (!subject.options.find("dropout")) continue;
    const auto built = build(subject, {.dropout = 0.3, .type = at::kFloat});
    built.mixer->train();
    for (const auto& mask : modes(subject.promises))
      EXPECT_EQ(drawn_at(*built.mixer, mask).rfind(built.site.path + ".", 0), 0u) << subject.name;
  }
}

TEST(Mechanism, ALengthThatIsNotKnownIsNotChecked) {
  for (const auto* options : {"rank: 25", "method: convolution\nrank: 5", ""})
    EXPECT_EQ(error_of([&] { check_options(options_in("linformer", options), site_of(2, 0)); }),
              "");
}

}  // namespace
}  // namespace longbow
