#include "tests/cli/mistakes.h"

#include "longbow/attention/mechanism.h"

namespace longbow::cli {
namespace {

// One small change to the tiny config.
struct Slip {
  std::string name, from, to, line;
};

std::vector<Slip> slips(const Workspace& here) {
  return {
      {"typo", "max_steps", "max_stpes",
       "run.yaml:12: unknown key 'max_stpes'; did you mean 'max_steps'?"},
      {"wrong type", "width: 16", "width: wide",
       "run.yaml:5: model.width is 'wide', not an integer; write a whole number such as 64"},
      {"out of range", "dropout: 0.1", "dropout: 1.5",
       "run.yaml:8: model.embedding_dropout is 1.5, out of range; it may be 0..0.99"},
      {"unknown mechanism", "name: linear", "name: liner",
       "run.yaml:10: unknown mechanism 'liner'; did you mean 'linear'?"},
      {"no mechanism", "{name: linear}", "{rank: 3}",
       "run.yaml:10: attention has no name; write {name: softmax}, or another mechanism"},
      {"unknown option", "{name: linear}", "{name: linformer, rnak: 8}",
       "run.yaml:10: unknown key 'rnak'; did you mean 'rank'?"},
      {"unknown choice", "{name: linear}", "{name: linear, map: sine}",
       "run.yaml:10: linear.map is 'sine'; one of: elu, relu, square, softmax, identity, learned"},
      {"options that contradict each other", "{name: linear}", "{name: linear, map: identity}",
       "run.yaml:10: linear.normaliser divides by the sum of weights, but map: identity gives "
       "weights of any sign; set normaliser to rms or none"},
      {"option and heads", "{name: linear}", "{name: softmax, head_mask: [1, 0, 1]}",
       "run.yaml:10: softmax.head_mask has 3 entries for 2 heads; give one for each head, or leave "
       "it out"},
      {"option and length", "{name: linear}", "{name: linformer, rank: 65}\n  max_length: 64",
       "run.yaml:10: linformer.rank is 65, but max_length is 64; lower rank"},
      {"option and data", "{name: linear}", "linformer",
       "run.yaml:10: linformer.rank is 64, but max_length is 16; lower rank"},
      {"option and length of the data", "{name: linear}",
       "{name: linformer, rank: 2, max_length: 3}",
       "run.yaml:10: linformer.max_length is 3, but the layer reads 16 tokens; raise it, or leave "
       "it out"},
      {"per layer", "{name: linear}", "{name: local, per_layer: {window: [4, 8]}}",
       "run.yaml:10: per_layer.window is not a list of 1 values; give one for each layer"},
      {"layers", "{name: linear}", "[{name: linear, layers: 0-1}]",
       "run.yaml:10: layer 1 does not exist; the model has layers 0-0"},
      {"unknown task", "task: recall", "task: recal",
       "run.yaml:1: unknown task 'recal'; did you mean 'recall'?"},
      {"no task", "task: recall\n", "", "run.yaml:1: task is missing; write task: listops"},
      {"unknown objective", "task: recall", "task: recall\nobjective: clasification",
       "run.yaml:2: unknown objective 'clasification'; did you mean 'classification'?"},
      {"objective and data", "task: recall", "task: recall\nobjective: span",
       "objective span: the samples do not have a first and a last place; leave objective out, to "
       "take what the data is made for"},
      {"not causal", "{name: linear}", "{name: fnet}\n  causal: true",
       "run.yaml:10: fnet is not causal; mechanisms that are: " +
           mechanisms_that([](const Promises& p) { return p.future != Future::refused; })},
      {"not to be rotated", "{name: linear}", "{name: fnet}\n  positions: rotary",
       "run.yaml:10: fnet has no queries and keys to rotate; mechanisms that have: " +
           mechanisms_that([](const Promises& p) { return p.rotary; })},
      {"heads", "heads: 2", "heads: 3",
       "run.yaml:6: model.width 16 is not a multiple of model.heads 3; change one of them, or set "
       "model.head_width"},
      {"block", "feed_forward: 32", "feed_forward_kind: none, residual: reversible",
       "run.yaml:9: model.block.residual is reversible, which needs a mixer and a feed-forward "
       "layer; take another residual"},
      {"axial", "layers: 1",
       "layers: 1\n  max_length: 32\n  positions: axial\n  axial: {rows: 4, columns: 7}",
       "run.yaml:10: 4 x 7 axial positions are fewer than max_length 32; raise axial.rows or "
       "axial.columns"},
      {"max_length", "layers: 1", "layers: 1\n  max_length: 8",
       "run.yaml:8: model.max_length is 8, but the data has sequences of up to 16 padded tokens; "
       "raise it, or "
       "cut the data with data.max_tokens"},
      {"schedule", "warmup_steps: 10", "warmup_steps: 10\n  decay: one_cycle",
       "run.yaml:16: one_cycle has no warm-up of its own; leave train.warmup_steps out; "
       "train.one_cycle.rising is what it has instead"},
      {"no end", "max_steps: 240", "max_steps: 0",
       "run.yaml:12: nothing says when training ends; set train.max_steps or train.max_epochs"},
      {"missing data", "data:\n", "data:\n  path: nowhere\n",
       "run.yaml:3: data.path 'nowhere' does not exist; make it with `longbow data make recall "
       "--out DIR`"},
      {"other data", "data:\n", "data:\n  name: listops\n",
       "run.yaml:3: data.name is 'listops', but the task is 'recall'; leave data.name out"},
      {"start", "seed: 5", "start: {from: nowhere}",
       "run.yaml:21: start.from '" + here.path("nowhere").string() +
           "' is not a folder; name one that `longbow train` or `longbow import` wrote"},
      {"freeze", "seed: 5", "start: {freeze: 1}",
       "run.yaml:21: start.from is missing; it names the folder of the weights"},
      {"pretrain", "seed: 5", "pretrain: {objective: classification}",
       "run.yaml:21: 'classification' does not pretrain; one of: causal_lm, masked_lm, "
       "replaced_tokens"},
      {"negative seed", "seed: 5", "seed: -5",
       "run.yaml:21: seed is -5, out of range; it may be 0..9007199254740992"},
  };
}

std::vector<Mistake> in_files(const Workspace& here) {
  return {
      {"no config", {"train", "nope.yaml"}, "nope.yaml: cannot be read; No such file or directory"},
      {"folder as config",
       {"train", "unfinished"},
       "unfinished: is a folder; --resume continues the run in it"},
      {"broken YAML",
       {"train", "broken.yaml"},
       "broken.yaml:1: not valid YAML: end of sequence flow not found; check the indentation, "
       "colons and brackets"},
      {"tab",
       {"train", "tab.yaml"},
       "tab.yaml:2: not valid YAML: illegal tab when looking for indentation; indent with spaces"},
      {"duplicate key",
       {"train", "twice.yaml"},
       "twice.yaml:3: duplicate key 'seed'; keep one of them"},
      {"list as config",
       {"train", "list.yaml"},
       "list.yaml:1: the config is a list, not a map; write its keys below it, each as `key: "
       "value`"},
      {"empty config",
       {"train", "empty.yaml"},
       "empty.yaml:1: task is missing; write task: listops"},
      {"not UTF-8", {"train", "latin.yaml"}, "latin.yaml:1: not UTF-8; save the file as UTF-8"},
      {"broken JSON",
       {"train", "broken.json"},
       "broken.json:2: not valid JSON: a value is expected"},
      {"base",
       {"train", "lost.yaml"},
       "lost.yaml:1: base nope.yaml: cannot be read; No such file or directory; the path is "
       "relative to this file"},
      {"circle of bases",
       {"train", "circle.yaml"},
       "circle.yaml:1: base 'circle.yaml' leads back to itself; remove one `base:`"},
      {"TSV",
       {"train", "tsv.yaml"},
       here.path("tsv/basic_train.tsv").string() + ":2: label 'nine' is not a digit 0-9"},
  };
}

std::vector<Mistake> in_flags() {
  return {
      {"set key",
       {"train", "run.yaml", "--set", "model.wdith=3"},
       "--set model.wdith: unknown key 'wdith'; did you mean 'width'?"},
      {"set form",
       {"train", "run.yaml", "--set", "width"},
       "--set 'width' has no key and value; write --set model.width=64"},
      {"set value",
       {"train", "run.yaml", "--set", "train.max_steps=many"},
       "--set train.max_steps: train.max_steps is 'many', not an integer; write a whole number "
       "such as 64"},
      {"set option",
       {"train", "run.yaml", "--set", "model.attention={name: h1d, block: 7}"},
       "--set model.attention: h1d.block is 7, but halves of it are read; take an even number"},
      {"device",
       {"train", "run.yaml", "--device", "tpu"},
       "--device: unknown device 'tpu'; one of: cpu, cuda, cuda:1"},
      {"progress",
       {"train", "run.yaml", "--progress", "loud"},
       "--progress: 'loud' is not a progress style; one of: auto, bar, plain, json, off"},
      {"seed",
       {"train", "run.yaml", "--seed", "-3"},
       "--seed: '-3' is not a whole number of at least 0; see --help"},
      {"seed beyond 64 bits",
       {"train", "run.yaml", "--seed", "99999999999999999999"},
       "--seed: '99999999999999999999' is more than 9223372036854775807; see --help"},
      {"resume what",
       {"train", "run.yaml", "--resume"},
       "--resume: no run is named; give its folder with --out"},
      {"unknown flag",
       {"train", "run.yaml", "--frob"},
       "The following argument was not expected: --frob; see --help"},
      {"unknown command", {"tarin"}, "unknown command 'tarin'; did you mean 'train'?"},
      {"no command", {}, "A subcommand is required; see --help"},
      {"no argument", {"train"}, "config is required; see --help"},
  };
}

std::vector<Mistake> in_other_commands() {
  return {
      {"describe", {"describe", "linformr"}, "unknown name 'linformr'; did you mean 'linformer'?"},
      {"list", {"list", "linear"}, "The following argument was not expected: linear; see --help"},
      {"doctor",
       {"doctor", "--cuda"},
       "The following argument was not expected: --cuda; see --help"},
      {"eval folder",
       {"eval", "nowhere"},
       "nowhere: is not a run folder: config.yaml is missing; `longbow train` prints the folder it "
       "fills"},
      {"eval unfinished",
       {"eval", "unfinished"},
       "unfinished: holds no finished run: model.safetensors is missing; finish it with `longbow "
       "train --resume`"},
      {"eval split",
       {"eval", "unfinished", "--split", "dev"},
       "--split: unknown split 'dev'; one of: train, valid, test"},
      {"predict folder",
       {"predict", "tsv"},
       "tsv: is not a run folder: config.yaml is missing; `longbow train` prints the folder it "
       "fills"},
      {"predict unfinished",
       {"predict", "unfinished"},
       "unfinished: holds no finished run: model.safetensors is missing; finish it with `longbow "
       "train --resume`"},
      {"predict split",
       {"predict", "unfinished", "--split", "dev"},
       "--split: unknown split 'dev'; one of: train, valid, test"},
      {"predict limit",
       {"predict", "unfinished", "--limit", "-1"},
       "--limit: '-1' is not a whole number of at least 0; see --help"},
      {"generate folder",
       {"generate", "nowhere"},
       "nowhere: is not a run folder: config.yaml is missing; `longbow train` prints the folder it "
       "fills"},
      {"generate count",
       {"generate", "unfinished", "--count", "0"},
       "--count: '0' is not a whole number of at least 1; see --help"},
      {"translate folder",
       {"translate", "nowhere"},
       "nowhere: is not a run folder: config.yaml is missing; `longbow train` prints the folder it "
       "fills"},
      {"translate unfinished",
       {"translate", "unfinished"},
       "unfinished: holds no finished run: model.safetensors is missing; finish it with `longbow "
       "train --resume`"},
      {"maps folder",
       {"maps", "nowhere", "--out", "maps.svg"},
       "nowhere: is not a run folder: config.yaml is missing; `longbow train` prints the folder it "
       "fills"},
      {"maps out", {"maps", "unfinished"}, "--out is required; see --help"},
      {"maps picture",
       {"maps", "unfinished", "--out", "a.png"},
       "--out: 'a.png' is not the name of an SVG file; write --out a.svg"},
      {"maps unfinished",
       {"maps", "unfinished", "--out", "maps.svg"},
       "unfinished: holds no finished run: model.safetensors is missing; finish it with `longbow "
       "train --resume`"},
      {"report folder",
       {"report", "tsv"},
       "tsv: holds neither results.json nor metrics.jsonl; give the folder of an arena or of a "
       "run, or the JSON file of a bench"},
      {"report file",
       {"report", "nope.json"},
       "nope.json: cannot be read; No such file or directory"},
      {"report JSON",
       {"report", "arena"},
       "arena/results.json:1: not valid JSON: a key in double quotes is expected"},
      {"arena config",
       {"arena", "nope.yaml"},
       "nope.yaml: cannot be read; No such file or directory"},
      {"arena option",
       {"arena", "arena.yaml"},
       "arena.yaml:6: gmlp.width is 15, but it is halved; take an even number"},
      {"arena mechanism",
       {"arena", "arena.yaml", "--mechanisms", "liner"},
       "--mechanisms: 'liner' is not in the arena; did you mean 'linear'?"},
      {"arena task",
       {"arena", "arena.yaml", "--tasks", "listops"},
       "--tasks: 'listops' is not in the arena; one of: recall"},
      {"arena seeds",
       {"arena", "arena.yaml", "--seeds", "0"},
       "--seeds: '0' is not a whole number of at least 1; see --help"},
      {"arena of a run config",
       {"arena", "run.yaml"},
       "run.yaml:1: unknown key 'task'; did you mean 'tasks'?"},
      {"bench mechanism",
       {"bench", "--mechanisms", "liner"},
       "--mechanisms: unknown mechanism 'liner'; did you mean 'linear'?"},
      {"bench mode",
       {"bench", "--modes", "foward"},
       "--modes: unknown mode 'foward'; did you mean 'forward'?"},
      {"bench dtype",
       {"bench", "--dtype", "int8"},
       "--dtype: unknown dtype 'int8'; one of: float32, bfloat16, float64"},
      {"bench length",
       {"bench", "--lengths", "16,0"},
       "--lengths: '0' is not a whole number of at least 1; see --help"},
      {"bench word",
       {"bench", "--lengths", "long"},
       "--lengths: 'long' is not a whole number of at least 1; see --help"},
      {"bench heads",
       {"bench", "--width", "16", "--heads", "3"},
       "--heads: width 16 is not a multiple of 3 heads"},
      {"data command",
       {"data", "check", "d"},
       "unknown command 'check'; one of: list, make, verify, stats, cache"},
      {"data set",
       {"data", "make", "recal", "--out", "d"},
       "unknown data set 'recal'; did you mean 'recall'?"},
      {"data out", {"data", "make", "recall"}, "--out is required; see --help"},
      {"data option",
       {"data", "make", "recall", "--out", "d", "--set", "pears=3"},
       "--set pears: unknown key 'pears'; one of: train, valid, test, keys, values, pairs, "
       "pairs_min, queries, joint"},
      {"data range",
       {"data", "make", "recall", "--out", "d", "--set", "pairs=0"},
       "--set pairs: pairs is 0, out of range; it may be 1..60000"},
      {"data folder",
       {"data", "stats", "tsv"},
       "tsv: has no manifest.json; make it with `longbow data make`"},
      {"data manifest",
       {"data", "verify", "made"},
       "made/manifest.json:1: not valid JSON: '}' is missing after the last entry"},
      {"import folder",
       {"import", "nowhere", "--out", "d"},
       "nowhere: is not a model folder: config.json is missing"},
      {"import model",
       {"import", "theirs", "--out", "d"},
       "theirs: holds no weights: model.safetensors is missing; save the model with "
       "safe_serialization"},
      {"export folder",
       {"export", "nowhere", "--out", "d"},
       "nowhere: is not a model folder: config.json is missing"},
      {"export bytes",
       {"export", "unfinished", "--out", "d", "--max-shard-bytes", "-1"},
       "--max-shard-bytes: '-1' is not a whole number of at least 0; see --help"},
  };
}

// What the commands above are given.
void write_files(const Workspace& here) {
  const std::pair<const char*, std::string> files[] = {
      {"broken.yaml", "task: [recall\n"},
      {"twice.yaml", "task: recall\nseed: 1\nseed: 2\n"},
      {"broken.json", "{\"task\": \"recall\",\n \"seed\": }\n"},
      {"tab.yaml", "task: recall\n\tseed: 3\n"},
      {"list.yaml", "- task\n"},
      {"empty.yaml", ""},
      {"lost.yaml", "base: nope.yaml\ntask: recall\n"},
      {"circle.yaml", "base: circle.yaml\n"},
      {"latin.yaml", "task: \xff\n"},
      {"arena.yaml",
       "name: a\ntasks:\n  recall: {}\nmechanisms:\n  - linear\n  - {name: gmlp, width: 15}\n"},
      {"unfinished/config.yaml", kTinyRecall},
      {"tsv/basic_train.tsv", "Source\tTarget\n( ( ( [MAX 2 ) 9 ) ] )\tnine\n"},
      {"tsv/basic_val.tsv", "Source\tTarget\n"},
      {"tsv/basic_test.tsv", "Source\tTarget\n"},
      {"tsv.yaml", "task: listops\ndata: {path: tsv}\n"},
      {"arena/results.json", "[{\"mechanism\": \"linear\",]"},
      {"made/manifest.json", "{\"name\": \"recall\""},
      {"theirs/config.json", "{\"model_type\": \"gpt2\"}"},
  };
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories(here.path(name).parent_path());
    here.write(name, text);
  }
}

}  // namespace

std::vector<Mistake> mistakes(const Workspace& here) {
  write_files(here);
  std::vector<Mistake> all;
  for (const auto& [name, from, to, line] : slips(here))
    all.push_back({name, {"train", "run.yaml"}, line, replaced(kTinyRecall, from, to)});
  for (const auto& group : {in_files(here), in_flags(), in_other_commands()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace longbow::cli
