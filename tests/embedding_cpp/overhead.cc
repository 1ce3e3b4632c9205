// How long calls take, seen from C++: processor time of the calling thread, so that other programs do not count.
// Arguments: environment, and a Python file that registers `overhead.Inside`: the microseconds that rules and draft
// took since it was last asked.
#include <prune_engine/start.h>
#include <time.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/json.h>

#include <algorithm>
#include <cstdio>
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

// A line: the median of whole calls, then median and 95th percentile of what each took beside the work in it.
void Timed(const char* what, int64_t n, int repeats, const std::function<void()>& call) {
  ffi::Function inside = ffi::Function::GetGlobalRequired("overhead.Inside");
  std::vector<double> whole, beside;
  for (int i = 0; i < repeats / 10 + 1; ++i) call();
  for (int i = 0; i < repeats; ++i) {
    inside();
    double start = NowMicros();
    call();
    whole.push_back(NowMicros() - start);
    beside.push_back(whole.back() - inside().cast<double>());
  }
  std::printf("%s\t%lld\t%.2f\t%.2f\t%.2f\n", what, static_cast<long long>(n), At(whole, 0.5), At(beside, 0.5),
              At(beside, 0.95));
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

void Batches(const char* what, const pe::Space& space, const pe::Profile& profile) {
  for (int64_t n : {16, 256, 4096}) {
    std::vector<int32_t> rows = Drawn(space, n);
    ffi::Tensor view = pe::View(rows.data(), {n, static_cast<int64_t>(rows.size()) / n});
    int repeats = n > 1000 ? 100 : 300;
    std::string label = std::string("MaskCandidates, ") + what;
    Timed(label.c_str(), n, repeats, [&] { pe::MaskCandidates(space, view, profile); });
    label = std::string("ScoreCandidates, ") + what;
    Timed(label.c_str(), n, repeats, [&] { pe::ScoreCandidates(space, view, profile); });
  }
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
    Timed("AbiVersion", 0, 5000, [] { pe::AbiVersion(); });
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
  } catch (const ffi::Error& error) {
    std::fprintf(stderr, "%s\n", error.FullMessage().c_str());
    return 1;
  }
}
