// How long calls take, seen from C++: processor time of the calling thread, so that other programs do not count.
// Arguments: environment, and a Python file that registers `overhead.Inside`, the microseconds that rules and draft
// took in each call since it was last asked, and `overhead.Prepare` with `overhead.FromPython`, the same batch asked
// from Python, which returns the microseconds.
#include <prune_engine/start.h>
#include <time.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/json.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

namespace pe = prune_engine;
namespace ffi = tvm::ffi;

namespace {

double NowMicros() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

double At(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

ffi::Function Global(const char* name) { return ffi::Function::GetGlobalRequired(name); }

double Took(const std::function<void()>& call) {
  double start = NowMicros();
  call();
  return NowMicros() - start;
}

// A line: the median of whole calls; median and 95th percentile of what each took beside the work in it.
void Line(const std::string& what, int64_t n, const std::vector<double>& whole, const std::vector<double>& beside) {
  std::printf("%s\t%lld\t%.2f\t%.2f\t%.2f", what.c_str(), static_cast<long long>(n), At(whole, 0.5),
              At(beside, 0.5), At(beside, 0.95));
}

// A call that asks for no work. `before` is done before each, and not counted.
void Bare(const std::string& what, int64_t n, int repeats, const std::function<void()>& before,
          const std::function<void()>& call) {
  std::vector<double> whole;
  for (int i = 0; i < repeats; ++i) {
    before();
    whole.push_back(Took(call));
  }
  Line(what, n, whole, whole);
  std::printf("\n");
  std::fflush(stdout);
}

// A batch: calls one right after the other, then in turns with the same batch asked from Python. Two more numbers: the
// median of the differences, and half of what holds it in 95 of 100 cases. `before` is done before each call.
void Batch(const std::string& what, int64_t n, int repeats, const std::function<void()>& before,
           const std::function<void()>& call) {
  for (int i = 0; i < repeats / 10 + 1; ++i) call();
  ffi::Function inside = Global("overhead.Inside"), from_python = Global("overhead.FromPython");
  inside();
  std::vector<double> whole, beside, differences;
  for (int i = 0; i < repeats; ++i) {
    before();
    whole.push_back(Took(call));
  }
  ffi::Array<double> work = inside().cast<ffi::Array<double>>();
  for (int i = 0; i < repeats; ++i) beside.push_back(whole[i] - work[i]);
  for (int i = 0; i < repeats; ++i) {
    double from_here = 0, from_there = 0;
    for (int turn = 0; turn < 2; ++turn) {
      before();
      ((i + turn) % 2 ? from_here : from_there) = (i + turn) % 2 ? Took(call) : from_python().cast<double>();
    }
    differences.push_back(from_here - from_there);
  }
  inside();
  Line(what, n, whole, beside);
  double share = 0.98 / std::sqrt(static_cast<double>(repeats));  // ranks of the interval, by the binomial law
  double half = (At(differences, 0.5 + share) - At(differences, 0.5 - share)) / 2;
  std::printf("\t%.2f\t%.2f\n", At(differences, 0.5), half);
  std::fflush(stdout);
}

std::vector<int32_t> Drawn(const pe::Space& space, int64_t n) {
  auto told = ffi::json::Parse(pe::DescribeSpace(space)).cast<ffi::json::Object>();
  auto sketches = told[ffi::String("sketches")].cast<ffi::Array<ffi::Any>>();
  auto variables = sketches[0].cast<ffi::json::Object>()[ffi::String("variables")].cast<ffi::Array<ffi::Any>>();
  std::mt19937 random(0);
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < n; ++i) {
    for (const ffi::Any& variable : variables) {
      int64_t size = variable.cast<ffi::json::Object>()[ffi::String("rows")].cast<int64_t>();
      rows.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(size)));
    }
  }
  return rows;
}

void Nothing() {}

// What a host does between its calls: it reads and writes more than the caches next to the processor hold.
void OtherWork() {
  static std::vector<double> memory(1 << 20);
  for (double& number : memory) number = 0.5 * number + 1;
}

void Both(const std::string& what, const pe::Space& space, const pe::Profile& profile, int64_t n, int repeats,
          const std::function<void()>& before) {
  std::vector<int32_t> rows = Drawn(space, n);
  ffi::Tensor view = pe::View(rows.data(), {n, static_cast<int64_t>(rows.size()) / n});
  ffi::Function prepare = Global("overhead.Prepare");
  prepare("flags", space.object(), view, profile.object());
  Batch("MaskCandidates, " + what, n, repeats, before, [&] { pe::MaskCandidates(space, view, profile); });
  prepare("scores", space.object(), view, profile.object());
  Batch("ScoreCandidates, " + what, n, repeats, before, [&] { pe::ScoreCandidates(space, view, profile); });
}

void Batches(const std::string& what, const pe::Space& space, const pe::Profile& profile) {
  for (int64_t n : {16, 256, 4096}) Both(what, space, profile, n, n > 1000 ? 60 : 200, Nothing);
}

// What cannot be had for less after a batch: crossing the language, and copying the rows of a large batch.
void Floors(const pe::Space& space, const pe::Profile& profile) {
  int64_t n = 4096;
  std::vector<int32_t> rows = Drawn(space, n), copy(rows.size());
  ffi::Tensor view = pe::View(rows.data(), {n, static_cast<int64_t>(rows.size()) / n});
  auto batch = [&] { pe::ScoreCandidates(space, view, profile); };
  Bare("AbiVersion, after a batch", 0, 60, batch, [] { pe::AbiVersion(); });
  Bare("memcpy of the rows, after a batch", n, 60, batch,
       [&] { std::memcpy(copy.data(), rows.data(), rows.size() * sizeof(int32_t)); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    pe::Start(argv[1]);
    std::ifstream file(argv[2]);
    std::stringstream text;
    text << file.rdbuf();
    PyGILState_STATE state = PyGILState_Ensure();
    int failed = PyRun_SimpleString(text.str().c_str());
    PyGILState_Release(state);
    if (failed) return 1;
    pe::Profile profile = pe::LoadProfile("nvidia-a100-sxm-40gb");
    Bare("AbiVersion", 0, 2000, Nothing, [] { pe::AbiVersion(); });
    // The same call with nothing to do: no rule, no draft.
    auto told = ffi::json::Parse(pe::DescribeProfile(profile)).cast<ffi::json::Object>();
    ffi::Array<ffi::Any> names;
    for (const ffi::Any& rule : told[ffi::String("rules")].cast<ffi::Array<ffi::Any>>()) {
      names.push_back(rule.cast<ffi::json::Object>()[ffi::String("name")]);
    }
    ffi::json::Object options;
    options.Set("draft_scorer", nullptr);
    options.Set("disabled_rules", names);
    pe::Profile nothing = pe::LoadProfile("nvidia-a100-sxm-40gb", std::string(ffi::json::Stringify(options)));
    pe::Space gemm = pe::LoadSpace(R"({"workload": "gemm:512x512x512", "target": "cuda/a100"})");
    Batches("nothing to judge by", gemm, nothing);
    Batches("choice tables", pe::LoadSpace(R"json({"sketches": [{"variables": [
        {"name": "threads", "values": [32, 64, 128, 256, 512, 1024, 2048]},
        {"name": "each", "values": [1, 2, 4, 8]}]}],
      "symbols": {"threads_per_block": "threads", "grid_blocks": "ceil_div(1048576, threads * each)",
                  "flops_total": "2 * 1048576", "traffic_dram_bytes": "3 * 4 * 1048576"}})json"), profile);
    Batches("a GEMM of TVM's", gemm, profile);
    for (int64_t n : {16, 256}) Both("the GEMM, after 8 MiB of the host's", gemm, profile, n, 100, OtherWork);
    Floors(gemm, profile);
  } catch (const ffi::Error& error) {
    std::fprintf(stderr, "%s\n", error.FullMessage().c_str());
    return 1;
  }
}
