// A C++ program without Python of its own that calls every function. Arguments: environment, profile file, folder.
#include <prune_engine/start.h>

#include "checks.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/json.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace pe = prune_engine;
namespace ffi = tvm::ffi;
using Object = ffi::json::Object;

namespace {

// threads_per_block is x * i[2]; the profile given to this program allows 64.
const char* kTables = R"json({
  "name": "tables",
  "sketches": [
    {"variables": [{"name": "x", "values": [1, 2, 4, 8]}, {"name": "i", "extent": 12, "parts": 3}]},
    {"variables": [{"name": "x", "table": [[3], [5]]}, {"name": "i", "table": [[1, 2, 3], [4, 5, 6]]}]}
  ],
  "symbols": {"threads_per_block": "x * i[2]", "grid_blocks": "ceil_div(100, x)", "flops_total": "1000 * i[0] + x",
              "traffic_dram_bytes": "4096", "shared_bytes_per_block": null}
})json";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  Check(file.good(), "cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Object Json(const std::string& text) { return ffi::json::Parse(text).cast<Object>(); }

ffi::Array<ffi::Any> List(const Object& object, const char* key) {
  return object[ffi::String(key)].cast<ffi::Array<ffi::Any>>();
}

ffi::Tensor Rows(std::vector<int32_t> values, int64_t v = 2) {
  int64_t n = static_cast<int64_t>(values.size()) / v;
  return pe::Owned<int32_t>(std::move(values), {n, v});
}

template <typename T>
std::vector<T> Values(const ffi::Tensor& tensor) {
  const T* data = pe::Data<T>(tensor);
  return std::vector<T>(data, data + tensor.shape().Product());
}

// A tensor that says of itself what it likes; nobody may look at its memory.
ffi::Tensor Lying(std::vector<int64_t> shape, DLDataType dtype = {kDLInt, 32, 1}, DLDevice device = {kDLCPU, 0},
                  std::vector<int64_t> strides = {}, bool has_memory = true, uint64_t byte_offset = 0) {
  struct Held {
    std::vector<int64_t> shape, strides;
    std::vector<int32_t> memory = std::vector<int32_t>(64);
    DLManagedTensor tensor;
  };
  auto* held = new Held;
  held->shape = std::move(shape);
  held->strides = std::move(strides);
  held->tensor.dl_tensor = DLTensor{has_memory ? held->memory.data() : nullptr, device,
                                    static_cast<int32_t>(held->shape.size()), dtype, held->shape.data(),
                                    held->strides.empty() ? nullptr : held->strides.data(), byte_offset};
  held->tensor.manager_ctx = held;
  held->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Held*>(self->manager_ctx); };
  return ffi::Tensor::FromDLPack(&held->tensor);
}

void Tensors(const pe::Space& space, const pe::Profile& profile) {
  const std::string kind = "prune_engine.TensorError";
  auto mask = [&](const ffi::Tensor& rows) { return [&] { pe::MaskCandidates(space, rows, profile); }; };
  Fails(kind, {"rows", "float64 (2, 2)", "int32 (n, 2)"}, mask(pe::Owned<double>({0, 0, 0, 0}, {2, 2})));
  Fails(kind, {"int64 (2, 2)"}, mask(pe::Owned<int64_t>({0, 0, 0, 0}, {2, 2})));
  Fails(kind, {"int32 (4,)"}, mask(pe::Owned<int32_t>({0, 0, 0, 0}, {4})));
  Fails(kind, {"int32 (1, 3)"}, mask(pe::Owned<int32_t>({0, 0, 0}, {1, 3})));
  Fails(kind, {"int32 ()"}, mask(Lying({})));
  Fails(kind, {"(-1, 2)"}, mask(Lying({-1, 2})));
  Fails(kind, {"too many", "1,000,000,000", "16,777,216"}, mask(Lying({1000000000, 2})));
  Fails(kind, {"too many"}, mask(Lying({int64_t{1} << 62, 2})));
  Fails(kind, {"(2, 4611686018427387904)"}, mask(Lying({2, int64_t{1} << 62})));
  Fails(kind, {"cuda", "device cpu"}, mask(Lying({2, 2}, {kDLInt, 32, 1}, {kDLCUDA, 0})));
  Fails(kind, {"contiguous", "(1, 2)"}, mask(Lying({2, 2}, {kDLInt, 32, 1}, {kDLCPU, 0}, {1, 2})));
  Fails(kind, {"contiguous"}, mask(Lying({2, 2}, {kDLInt, 32, 1}, {kDLCPU, 0}, {4, 1})));
  Fails(kind, {"no memory"}, mask(Lying({2, 2}, {kDLInt, 32, 1}, {kDLCPU, 0}, {}, false)));
  Fails(kind, {"not aligned"}, mask(Lying({2, 2}, {kDLInt, 32, 1}, {kDLCPU, 0}, {}, true, 2)));
  Fails(kind, {"int32x2"}, mask(Lying({2, 2}, {kDLInt, 32, 2})));
  Fails(kind, {"candidate 1, variable 0", "got 4", "0 to 3"}, mask(Rows({0, 0, 4, 0})));
  Fails(kind, {"candidate 0, variable 1", "got -1"}, mask(Rows({0, -1})));
  Check(pe::MaskCandidates(space, Lying({0, 2}), profile).shape()[0] == 0, "no candidates are no error");
}

void Arguments(const pe::Space& space, const pe::Profile& profile) {
  const std::string kind = "prune_engine.ArgumentError";
  auto rows = Rows({0, 0});
  Fails(kind, {"space", "null", "LoadSpace"}, [&] { pe::ScoreCandidates(pe::Space(), rows, profile); });
  Fails(kind, {"profile", "null", "LoadProfile"}, [&] { pe::ScoreCandidates(space, rows, pe::Profile()); });
  Fails(kind, {"space"}, [&] { pe::DescribeSpace(pe::Space(profile.object())); });
  Fails(kind, {"profile"}, [&] { pe::DescribeProfile(pe::Profile(space.object())); });
  ffi::Function mask = ffi::Function::GetGlobalRequired("prune_engine.MaskCandidates");
  Fails(kind, {"rows", "null"}, [&] { mask(space.object(), nullptr, profile.object()); });
  Fails(kind, {"rows", "int 7"}, [&] { mask(space.object(), 7, profile.object()); });
  Fails(kind, {"rows", "str 'seven'"}, [&] { mask(space.object(), "seven", profile.object()); });
  Fails(kind, {"sketch", "bool"}, [&] { mask(space.object(), rows, profile.object(), true); });
  Fails(kind, {"sketch", "float"}, [&] { mask(space.object(), rows, profile.object(), 0.0); });
  Fails(kind, {"symbols", "int 3"}, [&] { mask(space.object(), rows, profile.object(), 0, 3); });
  Fails("prune_engine.SpaceError", {"sketch", "got 2", "0 to 1"}, [&] { pe::MaskCandidates(space, rows, profile, 2); });
  Fails("prune_engine.SpaceError", {"got -1"}, [&] { pe::ChoiceTable(space, 0, -1); });
  Fails("TypeError", {"argument"}, [&] { mask(space.object()); });
  Fails("TypeError", {"argument"}, [&] { mask(space.object(), rows, profile.object(), 0, nullptr, 1); });
  ffi::Function load = ffi::Function::GetGlobalRequired("prune_engine.LoadProfile");
  Fails(kind, {"name_or_path", "null"}, [&] { load(nullptr); });
  Fails(kind, {"name_or_path", "int 3"}, [&] { load(3); });
  Fails("prune_engine.ProfileError", {"'nowhere'"}, [] { pe::LoadProfile("nowhere"); });
  Fails("prune_engine.ProfileError", {"/nowhere.yaml"}, [] { pe::LoadProfile("/nowhere.yaml"); });
  Fails("prune_engine.TextError", {"options", "no JSON"}, [] { pe::LoadProfile("auto", "{"); });
  Fails("prune_engine.TextError", {"options", "not an object"}, [] { pe::LoadProfile("auto", "[1]"); });
  Fails("prune_engine.ConfigError", {"thread_count", "threads"}, [] { pe::LoadProfile("auto", R"({"thread_count": 1})"); });
  Fails("prune_engine.ConfigError", {"no-such-rule"}, [] { pe::LoadProfile("auto", R"({"disabled_rules": ["no-such-rule"]})"); });
  Fails("prune_engine.ConfigError", {"count"}, [&] { pe::PruneSearchSpace(space, profile, R"({"count": -1})"); });
}

void Sources() {
  const std::string kind = "prune_engine.ConfigError";
  Fails("prune_engine.TextError", {"no JSON"}, [] { pe::LoadSpace("{'a'"); });
  Fails("prune_engine.TextError", {"nested too deeply"}, [] { pe::LoadSpace(std::string(200000, '[')); });
  Fails(kind, {"workload, module, sketches"}, [] { pe::LoadSpace("{}"); });
  Fails(kind, {"extent", "parts"}, [] { pe::LoadSpace(R"({"sketches": [{"variables": [{"name": "i", "extent": 8}]}]})"); });
  Fails(kind, {"too large a table"}, [] {
    pe::LoadSpace(R"({"sketches": [{"variables": [{"name": "i", "extent": 1073741824, "parts": 16}]}]})");
  });
  Fails(kind, {"two variables"}, [] {
    pe::LoadSpace(R"({"sketches": [{"variables": [{"name": "i", "values": [1]}, {"name": "i", "values": [1]}]}]})");
  });
  Fails(kind, {"not a formula"}, [] {
    pe::LoadSpace(R"({"sketches": [{"variables": [{"name": "i", "values": [1]}]}], "symbols": {"a": "i.real"}})");
  });
  Fails(kind, {"got j"}, [] {
    pe::LoadSpace(R"({"sketches": [{"variables": [{"name": "i", "values": [1]}]}], "symbols": {"a": "i + j"}})");
  });
}

void Tables(const pe::Space& space, const pe::Profile& profile) {
  Object told = Json(pe::DescribeSpace(space));
  Check(told["size"].cast<int64_t>() == 4 * 18 + 4, "size");
  Check(List(told, "sketches").size() == 2, "sketches");
  ffi::Tensor table = pe::ChoiceTable(space, 0, 1);
  Check(table.shape()[0] == 18 && table.shape()[1] == 3, "the shape of a choice table");
  std::vector<int32_t> parts = Values<int32_t>(table), x{1, 2, 4, 8}, rows, decisions;
  for (int32_t a = 0; a < 4; ++a) {
    for (int32_t b = 0; b < 18; ++b) {
      rows.insert(rows.end(), {a, b});
      decisions.insert(decisions.end(), {x[a], parts[3 * b], parts[3 * b + 1], parts[3 * b + 2]});
    }
  }
  Check(Values<int32_t>(pe::RowsOfDecisions(space, pe::View(decisions.data(), {72, 4}))) == rows, "rows of decisions");
  Fails("prune_engine.TensorError", {"candidate 0", "'x'", "[3]"},
        [&] { pe::RowsOfDecisions(space, pe::Owned<int32_t>({3, 12, 1, 1}, {1, 4})); });
  std::vector<uint8_t> flags = Values<uint8_t>(pe::MaskCandidates(space, pe::View(rows.data(), {72, 2}), profile));
  std::vector<double> scores = Values<double>(pe::ScoreCandidates(space, pe::View(rows.data(), {72, 2}), profile));
  int n_illegal = 0;
  for (int i = 0; i < 72; ++i) {
    bool is_legal = decisions[4 * i] * decisions[4 * i + 3] <= 64;
    Check(((flags[i] & pe::kLegal) != 0) == is_legal, "legality of candidate " + std::to_string(i));
    Check((scores[i] > 0) == ((flags[i] & pe::kKept) != 0), "score of candidate " + std::to_string(i));
    n_illegal += !is_legal;
  }
  Check(n_illegal == 1, "one candidate is past the limit");
  Check(Values<uint8_t>(pe::MaskCandidates(space, Rows({1, 1}), profile, 1))[0] & pe::kLegal, "the other sketch");
}

void Columns(const pe::Space& space, const pe::Profile& profile) {
  auto rows = Rows({0, 0, 0, 0, 0, 0});
  auto with = [&](ffi::Tensor column) {
    return pe::MaskCandidates(space, rows, profile, 0, pe::Symbols{{"shared_bytes_per_block", std::move(column)}});
  };
  // The profile gives a block 1024 bytes.
  auto flags = Values<uint8_t>(with(pe::Owned<int64_t>({0, 1024, 1025}, {3})));
  Check((flags[0] & 1) && (flags[1] & 1) && !(flags[2] & 1), "a column is judged");
  flags = Values<uint8_t>(with(pe::Owned<double>({2000.0, 0.0, 1.0}, {3})));
  Check(!(flags[0] & 1) && (flags[1] & 1) && (flags[2] & 1), "equal rows with another column");
  flags = Values<uint8_t>(pe::MaskCandidates(space, rows, profile));
  Check((flags[0] & 1) && (flags[2] & 1), "without a column nothing is judged by it");
  Fails("prune_engine.TensorError", {"shared_bytes_per_block", "(2,)", "(3,)"}, [&] { with(pe::Owned<int64_t>({1, 2}, {2})); });
  Fails("prune_engine.TensorError", {"int32"}, [&] { with(pe::Owned<int32_t>({1, 2, 3}, {3})); });
  Fails("prune_engine.TensorError", {"finite", "candidate 1"}, [&] { with(pe::Owned<double>({1, 0.0 / 0.0, 3}, {3})); });
  Fails("prune_engine.ConfigError", {"negative", "candidate 2"}, [&] { with(pe::Owned<int64_t>({1, 2, -3}, {3})); });
  Fails("prune_engine.ConfigError", {"does not declare", "got other", "threads_per_block"}, [&] {
    pe::MaskCandidates(space, rows, profile, 0, pe::Symbols{{"other", pe::Owned<int64_t>({1, 2, 3}, {3})}});
  });
}

void Memory(const pe::Space& space, const pe::Profile& profile) {
  std::vector<int32_t> rows{0, 0};
  ffi::Tensor view = pe::View(rows.data(), {1, 2});
  Check(pe::Data<int32_t>(view) == rows.data(), "a view is no copy");
  Check(Values<uint8_t>(pe::MaskCandidates(space, view, profile))[0] & 1, "legal");
  rows = {3, 17};  // x = 8 with i[2] = 1 or 12: whichever is the last row
  auto flags = Values<uint8_t>(pe::MaskCandidates(space, view, profile));
  auto again = Values<uint8_t>(pe::MaskCandidates(space, Rows({3, 17}), profile));
  Check(flags == again, "a view is read at each call");
  Check(view.use_count() == 1, "nobody keeps the view");
  ffi::Tensor kept;
  {
    pe::Space other = pe::LoadSpace(kTables);
    pe::Profile copy = profile;
    kept = pe::ScoreCandidates(other, Rows({0, 0, 1, 1}), copy);
  }
  Check(kept.shape()[0] == 2 && Values<double>(kept)[0] > 0, "results outlive the handles");
}

void Prune(const pe::Space& space, const pe::Profile& profile, const std::string& file) {
  Object found = Json(pe::PruneSearchSpace(space, profile, R"({"count": 5, "seed": 3})"));
  ffi::Array<ffi::Any> kept = List(found, "kept");
  Check(kept.size() == 5, "five are kept");
  bool is_told = false;
  for (const ffi::Any& one : List(found, "verdicts")) {
    Object verdict = one.cast<Object>();
    is_told |= verdict["strategy"].cast<std::string>() == "rules.threads-per-block" &&
               verdict["outcome"].cast<std::string>() == "dropped" && verdict["count"].cast<int64_t>() == 1;
  }
  Check(is_told, "a verdict on what the rule drops");
  Check(pe::PruneSearchSpace(kTables, file, R"({"count": 5, "seed": 3})") ==
            pe::PruneSearchSpace(space, pe::LoadProfile(file), R"({"count": 5, "seed": 3})"),
        "texts instead of handles, and the same seed twice");
}

void Compiler(const std::string& folder) {
  pe::Profile profile = pe::LoadProfile("nvidia-a100-sxm-40gb");
  pe::Space space = pe::LoadSpace(R"({"workload": "gemm:256x256x256", "target": "cuda/a100"})");
  Object told = Json(pe::DescribeSpace(space));
  Object sketch = List(told, "sketches")[0].cast<Object>();
  Check(sketch["is_interpreted"].cast<bool>(), "the sketch is read");
  int64_t n_variables = static_cast<int64_t>(List(sketch, "variables").size());
  Object found = Json(pe::PruneSearchSpace(space, profile, R"({"count": 4})"));
  ffi::Array<ffi::Any> kept = List(found, "kept");
  Check(kept.size() == 4, "four are kept");
  // What was kept scores the same by its rows, and comes back legal as traces, after which one that is not.
  std::vector<int32_t> rows;
  ffi::Array<ffi::Any> traces;
  for (const ffi::Any& one : kept) {
    Object candidate = one.cast<Object>();
    if (candidate["sketch"].cast<int64_t>() != 0) continue;
    for (const ffi::Any& row : List(candidate, "rows")) rows.push_back(static_cast<int32_t>(row.cast<int64_t>()));
    double score = candidate["score"].cast<double>();
    auto last = std::vector<int32_t>(rows.end() - n_variables, rows.end());
    double again = Values<double>(pe::ScoreCandidates(space, Rows(last, n_variables), profile))[0];
    Check(std::abs(score - again) <= 1e-9 * score, "the score of a kept candidate");
    traces.push_back(ffi::json::Parse(candidate["trace"].cast<ffi::String>()));
  }
  Check(!rows.empty(), "some are of the first sketch");
  Object source;
  source.Set("module", ffi::String(Read(folder + "/module.json")));
  source.Set("target", ffi::String("cuda/a100"));
  traces.push_back(ffi::json::Parse(Read(folder + "/illegal.json")));
  source.Set("candidates", traces);
  pe::Space given = pe::LoadSpace(std::string(ffi::json::Stringify(source)));
  Object judged = Json(pe::PruneSearchSpace(given, profile));
  Check(List(judged, "kept").size() + 1 == traces.size(), "all but the last are kept");
  Object dropped = List(judged, "dropped")[0].cast<Object>();
  Check(dropped["position"].cast<int64_t>() + 1 == static_cast<int64_t>(traces.size()), "the last is dropped");
  Check(!dropped["reason"].cast<std::string>().empty(), "with a reason");
  // The same as a map, as a program that has TVM's objects passes it.
  Check(Json(pe::DescribeSpace(pe::LoadSpace(source)))["n_candidates"].cast<int64_t>() ==
            static_cast<int64_t>(traces.size()), "a map");
  Fails("prune_engine.ConfigError", {"gemm:1"}, [] { pe::LoadSpace(R"({"workload": "gemm:1"})"); });
  Fails("prune_engine.TargetError", {"nothing"}, [] { pe::LoadSpace(R"({"workload": "gemm:8x8x8", "target": "nothing"})"); });
  Fails("prune_engine.ConfigError", {"module"}, [] { pe::LoadSpace(R"({"module": "{}", "target": "llvm"})"); });
  source.Set("candidates", ffi::Array<ffi::Any>{ffi::json::Parse(R"([[["GetSBlock", [], ["none", "main"], ["b0"]]], []])")});
  Fails("prune_engine.SpaceError", {"candidate 0", "does not fit"}, [&] { pe::LoadSpace(source); });
}

void Threads(const pe::Space& space, const pe::Profile& profile) {
  std::vector<int32_t> rows;
  for (int32_t a = 0; a < 4; ++a) {
    for (int32_t b = 0; b < 18; ++b) rows.insert(rows.end(), {a, b});
  }
  const std::vector<double> due = Values<double>(pe::ScoreCandidates(space, pe::View(rows.data(), {72, 2}), profile));
  std::atomic<int> n_right{0}, n_errors{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      // Half of them have handles of their own.
      pe::Space own = number % 2 ? pe::LoadSpace(kTables) : space;
      for (int call = 0; call < 25; ++call) {
        n_right += Values<double>(pe::ScoreCandidates(own, pe::View(rows.data(), {72, 2}), profile)) == due;
        try {
          pe::MaskCandidates(own, Rows({9, 9}), profile);
        } catch (const ffi::Error& error) {
          n_errors += error.kind() == "prune_engine.TensorError";
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Check(n_right == 200, "each thread gets its results");
  Check(n_errors == 200, "each thread gets its errors");
}

void Abi() {
  Check(pe::AbiVersion() / 1000 == pe::kAbiVersion / 1000, "the major number");
  ffi::Function check = ffi::Function::GetGlobalRequired("prune_engine.CheckAbi");
  check(pe::kAbiVersion);
  check(pe::AbiVersion());
  Fails("prune_engine.AbiError", {"newer"}, [&] { check(2000); });
  Fails("prune_engine.AbiError", {"Build it again"}, [&] { check(999); });
  Fails("prune_engine.AbiError", {}, [&] { check(pe::AbiVersion() + 1); });
  Fails("prune_engine.AbiError", {}, [&] { check(-1); });
  Fails("prune_engine.ArgumentError", {"null"}, [&] { check(nullptr); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string environment = argv[1], file = argv[2], folder = argv[3];
  int n_failed = 0;
  n_failed += Case("not_started", [] {
    Fails("prune_engine.NotStartedError", {"prune_engine::Start()"}, [] { pe::AbiVersion(); });
  });
  n_failed += Case("no_environment", [&] {
    Fails("prune_engine.StartError", {"'/nowhere'", "bin/python"}, [] { pe::Start("/nowhere"); });
    Fails("prune_engine.StartError", {"PRUNE_ENGINE_PYTHON"}, [] { pe::Start(); });
    setenv("PRUNE_ENGINE_PYTHON", "/nowhere", 1);
    Fails("prune_engine.StartError", {"PRUNE_ENGINE_PYTHON: no Python environment"}, [] { pe::Start(); });
    unsetenv("PRUNE_ENGINE_PYTHON");
  });
  n_failed += Case("start", [&] {
    pe::Start(environment);
    pe::Start(environment);
    std::thread([] { pe::AbiVersion(); }).join();
    Check(!PyGILState_Check(), "Python's lock is free");
  });
  n_failed += Case("abi", Abi);
  pe::Profile profile;
  pe::Space space;
  n_failed += Case("profile", [&] {
    profile = pe::LoadProfile(file, R"({"disabled_rules": []})");
    Object told = Json(pe::DescribeProfile(profile));
    Check(told["profile"].cast<Object>()["name"].cast<std::string>() == "small-gpu", "its name");
    Check(List(told, "rules").size() > 5, "its rules");
  });
  n_failed += Case("space", [&] { space = pe::LoadSpace(kTables); });
  n_failed += Case("tables", [&] { Tables(space, profile); });
  n_failed += Case("columns", [&] { Columns(space, profile); });
  n_failed += Case("memory", [&] { Memory(space, profile); });
  n_failed += Case("prune", [&] { Prune(space, profile, file); });
  n_failed += Case("threads", [&] { Threads(space, profile); });
  n_failed += Case("tensors", [&] { Tensors(space, profile); });
  n_failed += Case("arguments", [&] { Arguments(space, profile); });
  n_failed += Case("sources", Sources);
  n_failed += Case("compiler", [&] { Compiler(folder); });
  n_failed += Case("traceback", [] {
    try {
      pe::LoadProfile("nowhere");
    } catch (const ffi::Error& error) {
      std::string trace = error.TracebackMostRecentCallLast();
      Check(trace.find("registry.py") != std::string::npos && trace.find("main") != std::string::npos, trace);
      return;
    }
    throw std::runtime_error("no error");
  });
  std::cout << "done" << std::endl;
  return n_failed != 0;
}
