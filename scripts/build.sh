# What ./quickstart and ./check share: the --cuda option, set-up, and one build of one preset.
preset=release

usage() {
  echo "usage: ./$(basename "$0") [--cuda]"
  sed -n '2s/^# /  /p' "$0"
  echo "  --cuda   build the preset 'cuda'; needs nvcc and a GPU"
}

for argument; do
  case $argument in
    --cuda) preset=cuda ;;
    -h | --help) usage; exit ;;
    *) echo "$(basename "$0"): unknown option '$argument'; see ./$(basename "$0") --help" >&2; exit 2 ;;
  esac
done

step() {
  echo "[$1/$2] $3"
}

set_up() {
  if [[ $preset == release ]]; then
    scripts/setup
    return
  fi
  PATH=$PATH:/usr/local/cuda/bin
  command -v nvcc >/dev/null || { echo "--cuda needs the CUDA toolkit, and there is no nvcc" >&2; exit 2; }
  nvidia-smi >/dev/null 2>&1 || { echo "--cuda needs a GPU, and nvidia-smi finds none" >&2; exit 2; }
  scripts/setup --cuda
}

# Two parallel jobs at least; more where there are cores and 2 GB of memory for each.
memory=$(awk '/MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo)
jobs=$(nproc)
((jobs <= memory)) || jobs=$memory
((jobs >= 2)) || jobs=2

# build TARGET: configures once, with clang where there is one; prints the compiler's output only when it fails.
build() {
  local folder=build/$preset log=build/$preset/build.log
  mkdir -p "$folder"
  if [[ ! -e $folder/build.ninja ]]; then
    if [[ -z ${CXX:-} ]] && command -v clang++ >/dev/null; then
      export CC=clang CXX=clang++
    fi
    cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  fi
  if [[ -t 1 ]]; then
    cmake --build --preset "$preset" --target "$1" --parallel "$jobs"
  else
    cmake --build --preset "$preset" --target "$1" --parallel "$jobs" -- --quiet >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  fi
}
