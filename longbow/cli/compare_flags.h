#pragma once
// The flags of `arena` and `bench`; only main.cpp includes this.
#include "longbow/cli/flags.h"

namespace longbow::cli {

inline void declare_comparing(CLI::App& app, Action& action) {
  static ArenaCommand arena;
  auto* sub = declare(app, action, "arena",
                      "Compare mechanisms on tasks; continues where it stopped", arena);
  sub->add_option("config", arena.config, "YAML or JSON file; `longbow describe arena`")
      ->required();
  sub->add_option("--mechanisms", arena.mechanisms, "only these labels, separated by commas")
      ->delimiter(',');
  sub->add_option("--tasks", arena.tasks, "only these tasks, separated by commas")->delimiter(',');
  sub->add_option("--seeds", arena.seeds, "seeds 1 … N instead of the config's")
      ->check(at_least(1));
  sub->add_option("--out", arena.out, "folder [default runs/NAME]");
  sub->add_flag("--resume", arena.resume, "continue an interrupted arena, which is the default");
  sub->add_option("--jobs", arena.jobs,
                  "cells trained side by side; their throughput is measured alone afterwards")
      ->check(between(1, 64))
      ->capture_default_str();
  sub->add_flag("--untimed", arena.untimed,
                "with --jobs: do not measure afterwards, and show no throughput");
  sub->add_option("--time-budget", arena.time_budget,
                  "for the whole arena, as 90s, 45m or 1.5h: sets train.max_seconds of every cell");
  add_set(sub, arena.set);
  add_device(sub, arena.device);
  add_progress(sub, arena.progress);
  add_examples(sub, {"arena configs/quick.yaml --out runs/quick",
                     "arena configs/quick.yaml --mechanisms softmax,linear --tasks recall",
                     "arena configs/zoo.yaml --device cuda --jobs 4 --time-budget 20m"});

  static BenchCommand bench;
  sub = declare(app, action, "bench",
                "Time and memory at several lengths, next to fused and naive softmax", bench);
  sub->add_option("--mechanisms", bench.mechanisms, "names separated by commas [default all]")
      ->delimiter(',');
  sub->add_option("--mechanism", bench.configured,
                  "one with options, {name: linformer, rank: 64, label: k 64}; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--lengths", bench.lengths,
                  "lengths in tokens, separated by commas [default 256,512,1024,2048,4096; with "
                  "--growth 2048,4096,8192,16384]")
      ->delimiter(',')
      ->check(at_least(1));
  sub->add_option("--modes", bench.modes,
                  "forward, training, decode; separated by commas [default forward,training; with "
                  "--growth training]")
      ->delimiter(',');
  sub->add_flag("--causal", bench.causal,
                "forward and training under a causal mask; decoding always is");
  sub->add_flag("--graphs", bench.graphs,
                "on a GPU, replay each call as a captured graph, as training does; training steps "
                "of whole models always are");
  sub->add_flag("--profile", bench.profile,
                "print where the time goes at the longest length: kernels of a GPU, operators on a "
                "CPU");
  sub->add_flag("--growth", bench.growth,
                "compare how time and memory grow with what the mechanisms promise, without "
                "softmax; by default those that promise less than N^2");
  sub->add_option(
      "--config", bench.config,
      "a run config: time whole training steps of its model, in its precision and batch "
      "size, on random texts, or with --modes decode the tokens that it writes; instead of "
      "--dtype, --batch, --width, --heads");
  add_set(sub, bench.set);
  sub->add_option("--dtype", bench.dtype, "float32, bfloat16 or float64")->capture_default_str();
  sub->add_option("--batch", bench.batch, "sequences at once")
      ->check(at_least(1))
      ->capture_default_str();
  sub->add_option("--tokens", bench.tokens,
                  "tokens at once, instead of --batch: fewer sequences where they are longer")
      ->check(at_least(1));
  sub->add_option("--width", bench.width, "model width in channels")
      ->check(at_least(1))
      ->capture_default_str();
  sub->add_option("--heads", bench.heads, "attention heads")
      ->check(at_least(1))
      ->capture_default_str();
  sub->add_option("--repetitions", bench.repetitions,
                  "timed runs after a warm-up; their median is shown, in ms")
      ->check(at_least(1))
      ->capture_default_str();
  sub->add_option("--json", bench.json, "write the numbers to this file");
  add_device(sub, bench.device);
  add_examples(sub, {"bench --mechanisms linear,linformer --lengths 512,1024,2048",
                     "bench --mechanism '{name: linformer, rank: 32}' --tokens 16384",
                     "bench --growth --width 64 --heads 1 --threads 1",
                     "bench --config text.yaml --lengths 1024,2048,3072,4096 --device cuda"});
}

}  // namespace longbow::cli
