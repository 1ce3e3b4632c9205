/*!
 * \file prune_engine/prune_engine.h
 * \brief The engine from C++17, by tvm-ffi. Needs tvm-ffi's headers and library, nothing of Python.
 *
 * The functions are there once the Python module `prune_engine.ffi` has been imported in this process: a program
 * without Python calls prune_engine::Start() of start.h first. They may be called from any thread; they run one
 * at a time. Every failure is a tvm::ffi::Error, whose kind() is "prune_engine.ProfileError" and the like.
 *
 * What is here keeps its meaning as long as the major number of the version stays: docs/reference/ffi.md.
 */
#ifndef PRUNE_ENGINE_PRUNE_ENGINE_H_
#define PRUNE_ENGINE_PRUNE_ENGINE_H_

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace prune_engine {

/*! \brief The version of the functions that this header was written for: 1000 * major + minor. */
constexpr int64_t kAbiVersion = 1000;

/*! \brief Bits of what MaskCandidates says of a candidate. */
constexpr uint8_t kLegal = 1;  // no sound rule drops it
constexpr uint8_t kKept = 2;   // no rule at all drops it

/*! \brief Columns of symbols by name: int64 or float64 (n,). */
using Symbols = tvm::ffi::Map<tvm::ffi::String, tvm::ffi::Tensor>;

/*! \brief What Python holds for us, for as long as a copy of this lives. Empty until it is loaded. */
template <typename Tag>
class Handle {
 public:
  Handle() = default;
  explicit Handle(tvm::ffi::Any object) : object_(std::move(object)) {}
  const tvm::ffi::Any& object() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  tvm::ffi::Any object_;
};

/*! \brief A hardware profile with the strategies that judge by it. */
using Profile = Handle<struct ProfileTag>;
/*! \brief A design space. */
using Space = Handle<struct SpaceTag>;

namespace detail {

inline tvm::ffi::Function Found(const char* name) {
  std::optional<tvm::ffi::Function> function = tvm::ffi::Function::GetGlobal(name);
  if (!function.has_value()) {
    throw tvm::ffi::Error("prune_engine.NotStartedError",
                          std::string(name) +
                              ": not registered in this process. Call prune_engine::Start() of "
                              "<prune_engine/start.h>, or import prune_engine.ffi in the Python that runs here; "
                              "the program and that Python must load the same libtvm_ffi.",
                          "");
  }
  return *function;
}

/*! \brief A function by name, after it was seen that ours and the installed version fit. */
inline tvm::ffi::Function Checked(const char* name) {
  // No function-local static that calls Python in its initialisation: its lock and the interpreter's would deadlock.
  static std::atomic<bool> fits{false};
  if (!fits.load(std::memory_order_acquire)) {
    Found("prune_engine.CheckAbi")(kAbiVersion);
    fits.store(true, std::memory_order_release);
  }
  return Found(name);
}

/*! \brief Call a function that is looked up once. It is never destroyed: at exit Python may be gone already. */
#define PRUNE_ENGINE_CALL_(NAME, ...)                                                            \
  ([&]() -> tvm::ffi::Any {                                                                      \
    static std::atomic<const tvm::ffi::Function*> known{nullptr};                                \
    const tvm::ffi::Function* function = known.load(std::memory_order_acquire);                  \
    if (function == nullptr) {                                                                   \
      function = new tvm::ffi::Function(::prune_engine::detail::Checked("prune_engine." #NAME)); \
      known.store(function, std::memory_order_release);                                          \
    }                                                                                            \
    return (*function)(__VA_ARGS__);                                                             \
  }())

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<int32_t> {
  static constexpr DLDataType value{kDLInt, 32, 1};
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DLDataType value{kDLInt, 64, 1};
};
template <>
struct DTypeOf<double> {
  static constexpr DLDataType value{kDLFloat, 64, 1};
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DLDataType value{kDLUInt, 8, 1};
};

template <typename T>
struct Managed {
  std::vector<T> memory;
  std::vector<int64_t> shape;
  DLManagedTensor tensor;

  static tvm::ffi::Tensor Make(std::vector<T> memory, const T* data, std::vector<int64_t> shape) {
    auto owner = std::make_unique<Managed>();
    owner->memory = std::move(memory);
    owner->shape = std::move(shape);
    DLTensor& dl = owner->tensor.dl_tensor;
    dl.data = const_cast<T*>(data != nullptr ? data : owner->memory.data());
    dl.device = DLDevice{kDLCPU, 0};
    dl.ndim = static_cast<int32_t>(owner->shape.size());
    dl.dtype = DTypeOf<T>::value;
    dl.shape = owner->shape.data();
    dl.strides = nullptr;
    dl.byte_offset = 0;
    owner->tensor.manager_ctx = owner.get();
    owner->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Managed*>(self->manager_ctx); };
    tvm::ffi::Tensor made = tvm::ffi::Tensor::FromDLPack(&owner->tensor);
    owner.release();
    return made;
  }
};

inline int64_t Product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t axis : shape) n *= axis;
  return n;
}

}  // namespace detail

/*!
 * \brief A tensor on memory of yours, row by row, without a copy. It must stay until the tensor is gone.
 * \tparam T int32_t, int64_t, double or uint8_t.
 */
template <typename T>
tvm::ffi::Tensor View(const T* data, std::vector<int64_t> shape) {
  return detail::Managed<T>::Make({}, data, std::move(shape));
}

/*! \brief A tensor that owns its memory. Throws where `values` does not fill `shape`. */
template <typename T>
tvm::ffi::Tensor Owned(std::vector<T> values, std::vector<int64_t> shape) {
  if (detail::Product(shape) != static_cast<int64_t>(values.size())) {
    TVM_FFI_THROW(ValueError) << values.size() << " values do not fill a tensor of " << detail::Product(shape);
  }
  return detail::Managed<T>::Make(std::move(values), nullptr, std::move(shape));
}

/*! \brief The memory of a contiguous tensor. Throws for another element type. */
template <typename T>
const T* Data(const tvm::ffi::Tensor& tensor) {
  DLDataType dtype = tensor.dtype();
  constexpr DLDataType wanted = detail::DTypeOf<T>::value;
  if (dtype.code != wanted.code || dtype.bits != wanted.bits || dtype.lanes != 1 || !tensor.IsContiguous()) {
    TVM_FFI_THROW(TypeError) << "a contiguous tensor of another element type was expected";
  }
  return reinterpret_cast<const T*>(static_cast<const char*>(tensor.data_ptr()) + tensor.byte_offset());
}

/*! \brief The version of the installed functions, 1000 * major + minor. */
inline int64_t AbiVersion() { return PRUNE_ENGINE_CALL_(AbiVersion).template cast<int64_t>(); }

/*!
 * \brief A hardware profile by name, by the path of a YAML file, or "auto", which is this machine.
 * \param options JSON object: threads, draft_scorer, disabled_rules, blocked_plugins, plugin_files.
 */
inline Profile LoadProfile(const std::string& name_or_path, const std::string& options = "{}") {
  return Profile(PRUNE_ENGINE_CALL_(LoadProfile, name_or_path, options));
}

/*! \brief The profile as JSON. */
inline std::string DescribeProfile(const Profile& profile) {
  return PRUNE_ENGINE_CALL_(DescribeProfile, profile.object()).template cast<std::string>();
}

/*! \brief A design space of a JSON object with one of the keys workload, module and sketches. */
inline Space LoadSpace(const std::string& source) { return Space(PRUNE_ENGINE_CALL_(LoadSpace, source)); }

/*! \brief The same of a map, whose values may be objects of TVM: an IRModule, a Target, Schedules or Traces. */
inline Space LoadSpace(const tvm::ffi::Map<tvm::ffi::Any, tvm::ffi::Any>& source) {
  return Space(PRUNE_ENGINE_CALL_(LoadSpace, source));
}

/*! \brief The space as JSON: its size, its sketches and their variables. */
inline std::string DescribeSpace(const Space& space) {
  return PRUNE_ENGINE_CALL_(DescribeSpace, space.object()).template cast<std::string>();
}

/*! \brief What the rows of a variable mean: int32 (m, p). */
inline tvm::ffi::Tensor ChoiceTable(const Space& space, int64_t sketch, int64_t variable) {
  return PRUNE_ENGINE_CALL_(ChoiceTable, space.object(), sketch, variable).template cast<tvm::ffi::Tensor>();
}

/*! \brief Row numbers int32 (n, v) of decisions int32 (n, w): the numbers of all variables side by side. */
inline tvm::ffi::Tensor RowsOfDecisions(const Space& space, const tvm::ffi::Tensor& decisions, int64_t sketch = 0) {
  return PRUNE_ENGINE_CALL_(RowsOfDecisions, space.object(), decisions, sketch).template cast<tvm::ffi::Tensor>();
}

/*!
 * \brief What the rules say of n candidates, uint8 (n,): bits kLegal and kKept.
 * \param rows int32 (n, v): row numbers of the sketch's choice tables.
 */
inline tvm::ffi::Tensor MaskCandidates(const Space& space, const tvm::ffi::Tensor& rows, const Profile& profile,
                                       int64_t sketch = 0,
                                       const tvm::ffi::Optional<Symbols>& symbols = {}) {
  return PRUNE_ENGINE_CALL_(MaskCandidates, space.object(), rows, profile.object(), sketch, symbols)
      .template cast<tvm::ffi::Tensor>();
}

/*! \brief What a search may climb on, float64 (n,): 0 where a rule drops a candidate, else 1 / predicted seconds. */
inline tvm::ffi::Tensor ScoreCandidates(const Space& space, const tvm::ffi::Tensor& rows, const Profile& profile,
                                        int64_t sketch = 0,
                                        const tvm::ffi::Optional<Symbols>& symbols = {}) {
  return PRUNE_ENGINE_CALL_(ScoreCandidates, space.object(), rows, profile.object(), sketch, symbols)
      .template cast<tvm::ffi::Tensor>();
}

/*!
 * \brief Search a space, or judge the candidates that came with it: JSON with the keys kept and verdicts.
 * \param options JSON object: count, explore_size, seed.
 */
inline std::string PruneSearchSpace(const Space& space, const Profile& profile, const std::string& options = "{}") {
  return PRUNE_ENGINE_CALL_(PruneSearchSpace, space.object(), profile.object(), options)
      .template cast<std::string>();
}

/*! \brief The same of a space as JSON and a profile by name or path. */
inline std::string PruneSearchSpace(const std::string& space, const std::string& profile,
                                    const std::string& options = "{}") {
  return PRUNE_ENGINE_CALL_(PruneSearchSpace, space, profile, options).template cast<std::string>();
}

#undef PRUNE_ENGINE_CALL_

}  // namespace prune_engine

#endif  // PRUNE_ENGINE_PRUNE_ENGINE_H_
