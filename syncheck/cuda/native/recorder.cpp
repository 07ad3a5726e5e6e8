// Records operators that cannot race, without calling into Python.
//
// torch passes an operator to a dispatch mode through the kernel registered at the dispatch key Python. For most `aten`
// operators, this file registers a kernel there that replaces the mode while only the current stream has used the
// memory, or has it to itself again (`syncheck.cuda.owners`): it runs the operator below that key, and records the
// memory that it read and wrote. Everything else goes to the original kernel, and so to the mode.
//
// Another kernel is registered above autograd, at PythonTLSSnapshot, which torch calls first if there is a mode. If
// nothing in between can call Python, it handles the operator in a single step: autograd would pass the mode a `detach`
// of each result that it saves, bypassing the dispatcher (c10/core/TensorImpl.cpp, `shallow_copy_and_detach`).
//
// Threads without Python frames, those of the autograd engine, also record events, and collectives that use memory only
// after everything else that has used it; see `Clocks`.
//
// The GIL guards all state. It is held while arguments and results are looked up, but not while the operator runs.
//
// Source: aten/src/ATen/core/PythonFallbackKernel.cpp; c10/core/impl/TorchDispatchModeTLS.h.

#include "clocks.h"
#include "trace.h"

#include <pybind11/pybind11.h>

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace py = pybind11;

// Declared in torch/csrc/jit/python/pybind_utils.h, which takes long to compile.
namespace torch::jit {
py::object toPyObject(IValue ivalue);
}

namespace {

using syncheck::CallbackKind;

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

constexpr int64_t SHARED = -1;         // replaces the stream of a block that has no single one
constexpr int64_t PER_THREAD = 2;      // the handle of each thread's own default stream
constexpr size_t MAX_ITEMS = 1 << 15;  // the size of the log at which it is passed to the session

// Keys that the mode excludes while an operator runs: those above Python, except the ones left to the operator itself.
const DispatchKeySet BELOW_PYTHON = DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::Python);
const DispatchKeySet HANDLED =
    (DispatchKeySet(DispatchKeySet::FULL) ^ BELOW_PYTHON)
        .remove(DispatchKey::ZeroTensor)
        .remove(DispatchKey::Conjugate)
        .remove(DispatchKey::Negative);

// The same for an operator that autograd has not processed yet.
const DispatchKeySet BELOW_SNAPSHOT =
    DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::PythonTLSSnapshot).remove(DispatchKey::Python);
const DispatchKeySet MODES = DispatchKeySet(DispatchKey::Python) | DispatchKeySet(DispatchKey::PythonTLSSnapshot);
uint64_t keys_after(DispatchKey key) {
  return DispatchKeySet(DispatchKeySet::FULL_AFTER, key).raw_repr() & ~c10::full_backend_mask;
}

// The keys that an operator passes between PythonTLSSnapshot and Python, other than autograd: autocast, vmap,
// functionalization.
const uint64_t BETWEEN =
    (keys_after(DispatchKey::PythonTLSSnapshot) & ~keys_after(DispatchKey::Tracer)) |
    (keys_after(DispatchKey::ADInplaceOrView) & ~keys_after(DispatchKey::Python) &
     ~DispatchKeySet(DispatchKey::Python).raw_repr());

enum class Level { ABOVE_AUTOGRAD, BELOW_AUTOGRAD };

// A composite operator calls other operators, which are dispatched here in turn.
enum class Kind { ORDINARY, ITEM, TO_COPY, COPY, FOREACH_COPY, COMPOSITE, COLLECTIVE };

struct Argument {
  size_t position;
  bool is_write;

  bool operator==(const Argument& other) const {
    return position == other.position && is_write == other.is_write;
  }
};

// Returns whether an argument that switches writes on is False or None.
bool is_off(const c10::IValue& value) {
  return value.isNone() || (value.isBool() && !value.toBool());
}

// How to record an operator; see `DispatchPlan`.
struct Plan {
  PyObject* name = nullptr;  // never released, like the plan
  Kind kind = Kind::ORDINARY;
  bool is_seen = false;
  bool touches = false;
  bool fresh = false;
  int switch_position = -1;  // position of the argument that decides between this plan and `off`
  std::vector<Argument> arguments;
  std::unique_ptr<Plan> off;
  PyObject* function = nullptr;  // a collective's operator in Python; never released

  bool operator==(const Plan& other) const {
    if (!off != !other.off || (off && !(*off == *other.off))) {
      return false;
    }
    return PyUnicode_Compare(name, other.name) == 0 && kind == other.kind && is_seen == other.is_seen &&
        touches == other.touches && fresh == other.fresh && switch_position == other.switch_position &&
        function == other.function && arguments == other.arguments;
  }
};

struct Access {
  int64_t allocation;
  int64_t view;
  bool is_write;

  bool operator==(const Access& other) const {
    return allocation == other.allocation && view == other.view && is_write == other.is_write;
  }
};

struct AccessHash {
  size_t operator()(const Access& access) const {
    return std::hash<int64_t>()((access.allocation * 1000003 + access.view) * 2 + access.is_write);
  }
};

// A block of memory, keyed by the storage that owns it.
struct Block {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  const void* address;
  int64_t allocation;
  int64_t home;  // the only stream that has used it, or the one that comes after all others that have; SHARED if none
  int64_t position;  // of `home` at its latest use here; see `Clocks`
  std::optional<uint64_t> node;  // the backward node that created it
  bool is_native;  // not entered in Python yet
  bool is_passed_on = false;  // several streams have used it; Python does not know its home
};

enum class ItemKind { ALLOCATION, LAUNCH, EVENT, RECORD, WAIT };

struct Item {
  ItemKind kind;
  PyObject* name;  // the operator's name, if the item is a launch
  int64_t ident;   // an allocation or event
  int64_t n_bytes;
  int64_t stream;
  int64_t site;
  size_t first;  // index of its first access
  size_t count;
};

struct Extent {
  int64_t offset;
  int64_t n_bytes;

  bool operator==(const Extent& other) const {
    return offset == other.offset && n_bytes == other.n_bytes;
  }
};

struct ExtentHash {
  size_t operator()(const Extent& extent) const {
    return std::hash<int64_t>()(extent.offset * 1000003 + extent.n_bytes);
  }
};

struct PairHash {
  size_t operator()(const std::pair<int64_t, int64_t>& pair) const {
    return std::hash<int64_t>()(pair.first * 1000003 + pair.second);
  }
};

struct SiteHash {
  size_t operator()(const std::pair<const void*, int>& site) const {
    return std::hash<const void*>()(site.first) * 31 + static_cast<size_t>(site.second);
  }
};

using Accesses = c10::SmallVector<Access, 16>;

// A tensor passed to an operator.
struct Input {
  at::Tensor tensor;
  bool is_write;
};

using Inputs = c10::SmallVector<Input, 8>;

// Everything that is recorded, and the Python objects involved.
struct State {
  py::object callbacks;  // see `syncheck.cuda.native_recorder.Callbacks`
  py::object reporter;   // a weak reference
  py::object running;    // list: active blocks of `syncheck.ignore`
  py::object inside;     // list: calls during which torch's callbacks are enabled
  py::object buffers;    // dict: pinned buffers, by the address of their storage
  py::object live;       // dict: memory entered in Python, by its address
  py::object events;     // dict: the session's ids of events, by handle
  std::unordered_set<PyObject*> modes;  // the modes of this check
  PyTypeObject* mode = nullptr;         // their class
  c10::DeviceType kind = c10::DeviceType::CUDA;
  bool has_multiple_streams = false;  // several streams have work or memory; otherwise only `stream` on `device`
  c10::DeviceIndex device = -1;
  int64_t stream = 0;
  int64_t next_allocation = 1;
  ska::flat_hash_map<const c10::StorageImpl*, Block> blocks;
  ska::flat_hash_map<const void*, const c10::StorageImpl*> ours;  // by address: blocks that were first seen here
  ska::flat_hash_map<Extent, int64_t, ExtentHash> extents;
  std::unordered_map<std::string, int64_t> views;
  ska::flat_hash_map<int64_t, const c10::StorageImpl*> storages;  // by allocation: the storages of the blocks
  std::unordered_set<int64_t> aliased;  // allocations of several storages, as by DLPack, which the mode handles
  std::unordered_map<c10::Stream, int64_t> streams;  // the session's ids, once there are several streams
  std::unordered_map<std::pair<int64_t, int64_t>, int64_t, PairHash> handles;  // the same by (device, handle)
  std::unordered_set<int64_t> collective_streams;  // streams on which Python has reported a collective
  syncheck::Clocks clocks;
  ska::flat_hash_map<const void*, bool> codes;  // whether a code object is user code; Python keeps it alive
  ska::flat_hash_map<std::pair<const void*, int>, int64_t, SiteHash> sites;
  std::vector<Item> items;
  std::vector<Access> accesses;
  std::vector<int64_t> freed;  // freed blocks that were first seen here; not part of the log
  std::unordered_set<PyObject*> delivered;  // names of operators that the session has received
  size_t n_new = 0;                         // number of blocks not entered in Python
  size_t n_since_purge = 0;                 // number of items taken since the last purge
  int64_t n_recorded = 0;                   // total number of operators

  // Clear everything except the Python objects, which other threads may be reading.
  void clear() {
    blocks = {};
    ours = {};
    extents = {};
    views = {};
    storages = {};
    aliased = {};
    streams = {};
    handles = {};
    collective_streams = {};
    clocks = {};
    codes = {};
    sites = {};
    items = {};
    accesses = {};
    freed = {};
  }
};

State* state = new State;  // never destroyed: threads may still run operators while the process exits
std::atomic<bool> is_active{false};

class GilGuard {
 public:
  GilGuard() : held_(PyGILState_Ensure()) {}
  ~GilGuard() {
    PyGILState_Release(held_);
  }
  GilGuard(const GilGuard&) = delete;
  GilGuard& operator=(const GilGuard&) = delete;

 private:
  PyGILState_STATE held_;
};

// Disables the garbage collector, whose finalizers may call back into this module.
class CollectorPause {
 public:
  CollectorPause() : was_on_(PyGC_Disable() != 0) {}
  ~CollectorPause() {
    if (was_on_) {
      PyGC_Enable();
    }
  }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;

 private:
  bool was_on_;
};

// ---------------------------------------------------------------------------------------------- call sites

// Return the call site of the running `backward()`; 0 if none is running.
int64_t backward_site() {
  static PyObject* const name = PyUnicode_InternFromString("backward_site");
  py::object reporter = state->reporter();
  py::object site = py::reinterpret_steal<py::object>(PyObject_GetAttr(reporter.ptr(), name));
  if (!site) {
    PyErr_Clear();  // the check is over
    return 0;
  }
  return PyLong_AsLongLong(site.ptr());
}

// Return whether the calling thread runs no Python code, as one of the autograd engine between hooks.
bool is_without_python() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  Py_XDECREF(reinterpret_cast<PyObject*>(frame));
  return frame == nullptr;
}

// Return the call site: the innermost frame of user code in this thread.
int64_t site_here() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (frame == nullptr) {
    return backward_site();  // a thread of the autograd engine
  }
  py::object innermost = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(frame));
  py::object current = innermost;
  while (current) {
    frame = reinterpret_cast<PyFrameObject*>(current.ptr());
    py::object code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    auto known = state->codes.find(code.ptr());
    if (known == state->codes.end()) {
      bool is_user_code = state->callbacks.attr("is_user_code")(code).cast<bool>();
      known = state->codes.emplace(code.ptr(), is_user_code).first;
    }
    if (known->second) {
      std::pair<const void*, int> place(code.ptr(), PyFrame_GetLasti(frame));
      auto site = state->sites.find(place);
      if (site == state->sites.end()) {
        int64_t found = state->callbacks.attr("site")(innermost).cast<int64_t>();
        site = state->sites.emplace(place, found).first;
      }
      return site->second;
    }
    current = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
  }
  return state->callbacks.attr("site")(innermost).cast<int64_t>();  // library frames only: depends on all of them
}

// ---------------------------------------------------------------------------------------------- memory

int64_t next_allocation() {
  return state->next_allocation++;
}

// Drop the index entries of a block whose memory is gone.
void retire(const c10::StorageImpl* storage, const Block& block) {
  auto there = state->ours.find(block.address);
  if (there != state->ours.end() && there->second == storage) {
    state->ours.erase(there);
  }
  auto known = state->storages.find(block.allocation);
  if (known != state->storages.end() && known->second == storage) {
    state->storages.erase(known);
  }
  if (block.is_native) {
    state->freed.push_back(block.allocation);
    state->n_new--;
  }
}

using Blocks = decltype(State::blocks);

// Drop a block; return the next one.
Blocks::iterator drop(Blocks::iterator block) {
  retire(block->first, block->second);
  return state->blocks.erase(block);
}

Block* find(const c10::StorageImpl* storage) {
  auto found = state->blocks.find(storage);
  if (found == state->blocks.end()) {
    return nullptr;
  }
  if (found->second.address == storage->data()) {
    return &found->second;
  }
  drop(found);  // the storage was resized
  return nullptr;
}

// Return the sequence number of the backward node that runs in this thread, if any.
std::optional<uint64_t> current_node() {
  auto node = state->has_multiple_streams ? torch::autograd::get_current_node() : nullptr;
  return node ? std::make_optional(node->sequence_nr()) : std::nullopt;
}

void share(int64_t allocation);

Block* keep(const c10::Storage& storage, int64_t allocation, int64_t home, bool is_native) {
  const c10::StorageImpl* key = storage.unsafeGetStorageImpl();
  auto before = state->blocks.find(key);
  if (before != state->blocks.end()) {
    retire(key, before->second);
  }
  auto other = state->storages.find(allocation);
  if (other != state->storages.end() && other->second != key) {
    state->aliased.insert(allocation);
    share(allocation);
  }
  if (state->aliased.count(allocation) != 0) {
    home = SHARED;
  }
  auto node = is_native ? current_node() : std::nullopt;
  auto kept = state->blocks.insert_or_assign(
      key,
      Block{
          storage.getWeakStorageImpl(), storage.data(), allocation, home, state->clocks.position(home), node, is_native});
  state->storages[allocation] = key;
  state->n_new += is_native;
  return &kept.first->second;
}

// Store a newly allocated block, and drop any stale entries at its address.
void keep_new(const c10::Storage& storage, int64_t allocation, int64_t home) {
  py::object address = py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(const_cast<void*>(storage.data())));
  if (PyDict_Contains(state->live.ptr(), address.ptr()) == 1) {
    state->callbacks.attr("drop_stale")(address);
  }
  auto there = state->ours.find(storage.data());
  if (there != state->ours.end() && there->second != storage.unsafeGetStorageImpl()) {
    auto found = state->blocks.find(there->second);
    if (found != state->blocks.end() && found->second.address == storage.data()) {
      drop(found);
    }
  }
  keep(storage, allocation, home, true);
  state->ours[storage.data()] = storage.unsafeGetStorageImpl();
}

// Return the block that holds a tensor; null if the tensor has no memory.
Block* block_of(const at::Tensor& tensor) {
  if (Block* block = find(tensor.storage().unsafeGetStorageImpl())) {
    return block;
  }
  py::object wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  auto [allocation, home] = state->callbacks.attr("block_of")(wrapped).cast<std::pair<int64_t, int64_t>>();
  return allocation == 0 ? nullptr : keep(tensor.storage(), allocation, home, false);
}

// Return whether a stream comes after all other uses of a block.
bool is_after_others(const Block& block, int64_t stream) {
  return block.home == stream || (block.home > 0 && state->clocks.is_after(stream, block.home, block.position));
}

// Return whether a stream has a block to itself, or has it back after a collective.
bool is_private(const Block& block, int64_t stream) {
  return block.home == stream || (block.is_passed_on && is_after_others(block, stream));
}

// Prepare a tensor's block for a use by a stream other than its owner: Python is notified the first time, and then no
// longer knows the block's home. Return false if the mode has to report the use instead.
bool pass_on(const at::Tensor& tensor, int64_t stream) {
  Block* block = block_of(tensor);
  if (block == nullptr || block->home == stream || block->is_passed_on) {
    return true;
  }
  py::object wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  if (!state->callbacks.attr("passed_on")(wrapped).cast<bool>()) {
    return false;
  }
  block = find(tensor.storage().unsafeGetStorageImpl());
  if (block == nullptr) {
    return false;
  }
  block->is_passed_on = true;
  return true;
}

int64_t extent_view(int64_t offset, int64_t n_bytes) {
  auto found = state->extents.find({offset, n_bytes});
  if (found == state->extents.end()) {
    int64_t view = state->callbacks.attr("extent")(offset, n_bytes).cast<int64_t>();
    found = state->extents.emplace(Extent{offset, n_bytes}, view).first;
  }
  return found->second;
}

int64_t view_of(const at::Tensor& tensor) {
  int64_t offset = tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  if (tensor.is_contiguous()) {
    return extent_view(offset, static_cast<int64_t>(tensor.nbytes()));
  }
  std::string key;
  auto add = [&key](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  add(offset);
  add(static_cast<int64_t>(tensor.scalar_type()));
  for (int64_t size : tensor.sizes()) {
    add(size);
  }
  for (int64_t stride : tensor.strides()) {
    add(stride);
  }
  auto found = state->views.find(key);
  if (found == state->views.end()) {
    py::object wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
    int64_t view = state->callbacks.attr("view")(wrapped).cast<int64_t>();
    found = state->views.emplace(key, view).first;
  }
  return found->second;
}

// ---------------------------------------------------------------------------------------------- events

// Report that something could not be recorded.
void report(py::handle what, const char* text) {
  try {
    state->callbacks.attr("failed")(what, text);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("syncheck");
  }
}

void flush_if_full() {
  if (state->items.size() >= MAX_ITEMS) {
    state->callbacks.attr("flush")();
  }
}

// A callback of torch's GPU trace: an event recorded or waited for, or a synchronization.
struct Callback {
  CallbackKind kind;
  int64_t event;
  int64_t stream;  // the device, if the kind is SYNC_DEVICE
};

using Callbacks = std::vector<Callback>;

thread_local Callbacks* in_collective = nullptr;  // the callbacks of the collective that runs in this thread

// Collects the callbacks of a collective while it runs in this thread.
class CollectiveGuard {
 public:
  explicit CollectiveGuard(Callbacks* callbacks) {
    in_collective = callbacks;
  }
  ~CollectiveGuard() {
    in_collective = nullptr;
  }
  CollectiveGuard(const CollectiveGuard&) = delete;
  CollectiveGuard& operator=(const CollectiveGuard&) = delete;
};

int64_t current_device() {
  const c10::Device device = c10::impl::VirtualGuardImpl(state->kind).getDevice();
  return device.has_index() ? device.index() : 0;
}

// Forwards the deletions of events during a collective, once the collective has been recorded.
class DeletionsGuard {
 public:
  DeletionsGuard() = default;
  ~DeletionsGuard() {
    syncheck::forward_deletions();
  }
  DeletionsGuard(const DeletionsGuard&) = delete;
  DeletionsGuard& operator=(const DeletionsGuard&) = delete;
};

// Return the session's id of a stream of the current device, as torch's callbacks for records and waits pass it.
int64_t stream_with(uintptr_t handle) {
  const int64_t device = current_device();
  const std::pair<int64_t, int64_t> key(device, static_cast<int64_t>(handle));
  auto known = state->handles.find(key);
  if (known != state->handles.end()) {
    return known->second;
  }
  const int64_t ident = state->callbacks.attr("stream")(device, static_cast<int64_t>(handle)).cast<int64_t>();
  if (handle != PER_THREAD) {
    state->handles.emplace(key, ident);
  }
  return ident;
}

// Return the session's id of an event; 0 if it has none.
int64_t event_with(uintptr_t handle) {
  py::object key = py::reinterpret_steal<py::object>(PyLong_FromUnsignedLongLong(handle));
  PyObject* known = PyDict_GetItemWithError(state->events.ptr(), key.ptr());  // borrowed
  return known == nullptr ? 0 : PyLong_AsLongLong(known);
}

// Return the session's id of an event, which is announced if it is new.
int64_t announced_event(uintptr_t handle) {
  int64_t event = event_with(handle);
  if (event == 0) {
    event = state->callbacks.attr("new_event")(static_cast<int64_t>(handle)).cast<int64_t>();
    state->items.push_back({ItemKind::EVENT, nullptr, event, 0, 0, 0, 0, 0});
  }
  return event;
}

// Add an event's record or wait to the log.
void add_callback(const Callback& callback, int64_t site) {
  const bool is_record = callback.kind == CallbackKind::RECORD;
  state->items.push_back(
      {is_record ? ItemKind::RECORD : ItemKind::WAIT, nullptr, callback.event, 0, callback.stream, site, 0, 0});
}

void order_by(const Callback& callback) {
  if (callback.kind == CallbackKind::RECORD) {
    state->clocks.record(callback.event, callback.stream);
  } else if (callback.kind == CallbackKind::WAIT) {
    state->clocks.wait(callback.event, callback.stream);
  }
}

// See `working_stream` in callback_order.py, for operators whose own stream waits first.
int64_t working_stream(const Callbacks& callbacks, int64_t current) {
  if (!callbacks.empty() && callbacks.back().kind == CallbackKind::WAIT) {
    for (const Callback& callback : callbacks) {
      if (callback.kind == CallbackKind::RECORD && callback.event == callbacks.back().event) {
        return callbacks.back().stream;
      }
    }
  }
  std::unordered_set<int64_t> recorded;
  for (auto callback = callbacks.rbegin(); callback != callbacks.rend(); ++callback) {
    if (callback->kind == CallbackKind::RECORD) {
      recorded.insert(callback->stream);
    } else if (callback->kind == CallbackKind::WAIT && recorded.count(callback->stream)) {
      return callback->stream;
    }
  }
  return current;
}

// See `work_index` in callback_order.py, for callbacks without synchronizations.
size_t work_index(const Callbacks& callbacks, int64_t stream) {
  size_t position = callbacks.size();
  for (size_t index = callbacks.size(); index-- > 0;) {
    if (callbacks[index].stream == stream && callbacks[index].kind == CallbackKind::WAIT) {
      break;
    }
    if (callbacks[index].stream == stream && callbacks[index].kind == CallbackKind::RECORD) {
      position = index;
    }
  }
  return position;
}

bool has_only_records_and_waits(const Callbacks& callbacks) {
  for (const Callback& callback : callbacks) {
    if (callback.kind != CallbackKind::RECORD && callback.kind != CallbackKind::WAIT) {
      return false;
    }
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- operators

bool is_plain(const c10::TensorImpl* tensor) {
  return !tensor->key_set().has(DispatchKey::Python) && !tensor->key_set().has(DispatchKey::ZeroTensor) &&
      tensor->layout() == c10::kStrided && tensor->has_storage();
}

template <typename Visit>
bool each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return !tensor.defined() || visit(tensor);
  }
  if (value.isTensorList() || value.isOptionalTensorList() || value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined() && !visit(item.toTensor())) {
        return false;
      }
    }
  }
  return true;
}

// Return whether nothing is active that needs the mode. These sizes may be read without the GIL.
//
// With several streams, whole backward passes are listened to, but the operators recorded here trigger no callbacks.
bool is_simple() {
  return Py_SIZE(state->running.ptr()) == 0 && (state->has_multiple_streams || Py_SIZE(state->inside.ptr()) == 0);
}

// Return whether a tensor is in a pinned buffer that a stream may be using.
bool is_in_buffer(const at::Tensor& tensor) {
  if (PyDict_GET_SIZE(state->buffers.ptr()) == 0 || !tensor.is_cpu()) {
    return false;
  }
  GilGuard lock;
  py::object key = py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(tensor.storage().unsafeGetStorageImpl()));
  return PyDict_Contains(state->buffers.ptr(), key.ptr()) != 0;
}

PyObject* top_mode() {
  const auto& mode = c10::impl::TorchDispatchModeTLS::get_stack_at(0);
  return mode->ptr(&mode->pyinterpreter());
}

bool is_only_mode() {
  return c10::impl::TorchDispatchModeTLS::stack_len() == 1 && Py_TYPE(top_mode()) == state->mode;
}

bool is_recordable_case(const Plan& plan, const Stack& stack, size_t begin) {
  switch (plan.kind) {
    case Kind::ORDINARY:
    case Kind::COMPOSITE:
    case Kind::COLLECTIVE:
      return true;
    case Kind::ITEM:
      return stack[begin].toTensor().is_cpu();
    case Kind::COPY:
      return stack[begin].toTensor().get_device() == stack[begin + 1].toTensor().get_device();
    case Kind::FOREACH_COPY: {
      auto targets = stack[begin].toListRef(), sources = stack[begin + 1].toListRef();
      for (size_t index = 0; index < targets.size() && index < sources.size(); index++) {
        if (targets[index].toTensor().get_device() != sources[index].toTensor().get_device()) {
          return false;
        }
      }
      return targets.size() == sources.size();
    }
    case Kind::TO_COPY: {
      const c10::IValue& wanted = stack[begin + 3];
      if (wanted.isNone()) {
        return true;
      }
      c10::Device device = wanted.toDevice(), now = stack[begin].toTensor().device();
      return device.type() == now.type() && (!device.has_index() || device.index() == now.index());
    }
  }
  return false;
}

// Return the session's id of a device's current stream. While the default stream is the only one, return 0 for any
// other stream. With several streams, the caller holds the GIL.
int64_t stream_of(c10::DeviceIndex device, bool has_multiple_streams) {
  c10::impl::VirtualGuardImpl guard(state->kind);
  const c10::Stream stream = guard.getStream(c10::Device(state->kind, device));
  if (!has_multiple_streams) {
    return stream.id() == 0 ? state->stream : 0;
  }
  auto known = state->streams.find(stream);
  if (known != state->streams.end()) {
    return known->second;
  }
  int64_t ident = state->callbacks.attr("current_stream")(static_cast<int64_t>(device)).cast<int64_t>();
  // the CPU stands in for a GPU in tests, and has no streams
  if (state->kind != c10::DeviceType::CPU && stream.id() != PER_THREAD) {
    state->streams.emplace(stream, ident);
  }
  return ident;
}

// Return the index of a tensor's device; a device type with a single device has no index.
c10::DeviceIndex index_of(const at::Tensor& tensor) {
  return tensor.device().has_index() ? tensor.device().index() : 0;
}

// Collect an operator's input memory and its device; return whether all of it is on one device, which must be that of
// the only stream while there is just one.
bool take_inputs(
    const Plan& plan, const Stack& stack, size_t begin, bool has_multiple_streams, Inputs& inputs,
    c10::DeviceIndex& device) {
  device = has_multiple_streams ? -1 : state->device;
  for (const Argument& argument : plan.arguments) {
    bool is_here = each_tensor(stack[begin + argument.position], [&](const at::Tensor& tensor) {
      if (tensor.device().type() != state->kind || tensor.numel() == 0) {
        return true;
      }
      inputs.push_back({tensor, argument.is_write});
      if (device < 0) {
        device = index_of(tensor);
      }
      return index_of(tensor) == device;
    });
    if (!is_here) {
      return false;
    }
  }
  return true;
}

// Return whether all input memory of an operator passes a test.
template <typename Test>
bool each_block(const Inputs& inputs, Test test) {
  return std::all_of(inputs.begin(), inputs.end(), [&test](const Input& given) {
    const Block* block = block_of(given.tensor);
    return block == nullptr || test(*block);
  });
}

// Return whether an operator's accesses to its input memory on `stream` cannot race.
bool is_private(const Inputs& inputs, int64_t stream) {
  return each_block(inputs, [stream](const Block& block) { return is_private(block, stream); });
}

// Return whether a stream comes after all other uses of an operator's input memory.
bool is_after_others(const Inputs& inputs, int64_t stream) {
  return each_block(inputs, [stream](const Block& block) { return is_after_others(block, stream); });
}

// Prepare all input memory of an operator; see `pass_on`.
bool pass_on_all(const Inputs& inputs, int64_t stream) {
  return std::all_of(
      inputs.begin(), inputs.end(), [stream](const Input& given) { return pass_on(given.tensor, stream); });
}

// Make a stream the owner of all input memory of an operator, which has been looked up before.
void own_all(const Inputs& inputs, int64_t stream) {
  for (const Input& given : inputs) {
    if (Block* block = find(given.tensor.storage().unsafeGetStorageImpl())) {
      block->home = stream;
      block->position = state->clocks.position(stream);
    }
  }
}

Accesses accesses_to(const Inputs& inputs) {
  Accesses accesses;
  for (const Input& given : inputs) {
    if (Block* block = block_of(given.tensor)) {
      const int64_t allocation = block->allocation;
      accesses.push_back({allocation, view_of(given.tensor), given.is_write});
    }
  }
  return accesses;
}

// Return the device of an operator's new results; -1 if none is on a GPU, MIXED if there are several devices.
constexpr c10::DeviceIndex MIXED = -2;
c10::DeviceIndex device_of_results(const Stack& stack, size_t n_results) {
  c10::DeviceIndex device = -1;
  for (size_t index = stack.size() - n_results; index < stack.size(); index++) {
    each_tensor(stack[index], [&](const at::Tensor& tensor) {
      if (tensor.device().type() == state->kind) {
        device = device < 0 || device == index_of(tensor) ? index_of(tensor) : MIXED;
      }
      return device != MIXED;
    });
  }
  return device;
}

// Record new results on a stream, and the writes that fill them.
void take_results(
    const Plan& plan, const Stack& stack, size_t n_results, int64_t stream, int64_t site, Accesses& accesses) {
  for (size_t index = stack.size() - n_results; index < stack.size(); index++) {
    each_tensor(stack[index], [&](const at::Tensor& tensor) {
      if (tensor.device().type() != state->kind || !tensor.has_storage() || tensor.storage().data() == nullptr) {
        return true;
      }
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      if (find(storage) != nullptr) {
        if (plan.touches && tensor.storage_offset() != 0) {  // one of several results in the same block
          accesses.push_back({find(storage)->allocation, view_of(tensor), true});
        }
        return true;
      }
      int64_t allocation = next_allocation();
      keep_new(tensor.storage(), allocation, stream);
      state->items.push_back(
          {ItemKind::ALLOCATION, nullptr, allocation, static_cast<int64_t>(tensor.storage().nbytes()), stream, site, 0, 0});
      if (plan.touches) {
        int64_t n_bytes = static_cast<int64_t>(tensor.nbytes());  // a new tensor fills its storage, or its beginning
        accesses.push_back({allocation, tensor.storage_offset() ? view_of(tensor) : extent_view(0, n_bytes), true});
      }
      return true;
    });
  }
}

void add_launch(const Plan& plan, int64_t stream, int64_t site, const Accesses& accesses) {
  state->items.push_back({ItemKind::LAUNCH, plan.name, 0, 0, stream, site, state->accesses.size(), accesses.size()});
  state->accesses.insert(state->accesses.end(), accesses.begin(), accesses.end());
  state->n_recorded++;
}

void run_below(Level level, const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  if (level == Level::ABOVE_AUTOGRAD) {
    c10::impl::ExcludeDispatchKeyGuard modes(MODES);
    op.redispatchBoxed(keys & BELOW_SNAPSHOT, stack);
  } else {
    c10::impl::ExcludeDispatchKeyGuard above(HANDLED);
    op.redispatchBoxed(keys & BELOW_PYTHON, stack);
  }
}

bool needs_gradient(const Stack& stack, size_t begin) {
  if (!c10::GradMode::is_enabled()) {
    return false;
  }
  for (size_t index = begin; index < stack.size(); index++) {
    if (!each_tensor(stack[index], [](const at::Tensor& tensor) { return !tensor.requires_grad(); })) {
      return true;
    }
  }
  return false;
}

// Return whether autograd only records the operator, without calling a hook or another operator, as it would for the
// tangents of forward-mode differentiation, of which torch has one level at a time.
bool is_only_recorded_by_autograd(bool is_mutable, DispatchKeySet keys, const Stack& stack, size_t begin) {
  return (keys.raw_repr() & BETWEEN) == 0 && !at::SavedTensorDefaultHooks::get_hooks() &&
      torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr &&
      !(is_mutable && needs_gradient(stack, begin));
}

class Kernel : public c10::OperatorKernel {
 public:
  Kernel(c10::SafeKernelFunction original, Level level, bool is_mutable)
      : original_(std::move(original)), level_(level), is_mutable_(is_mutable) {}

  void set_plan(const Plan* plan) {
    plan_.store(plan, std::memory_order_release);
  }

  // While torch.jit.trace records, operators go to the mode, which exposes their parts to it.
  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const Plan* plan = plan_.load(std::memory_order_acquire);
    if (plan == nullptr || !is_active.load(std::memory_order_relaxed) || !is_simple() || !is_only_mode() ||
        torch::jit::tracer::isTracing() || !record(*plan, op, keys, stack)) {
      original_.callBoxed(op, keys, stack);
    }
  }

 private:
  // Run and record an operator; return false, without side effects, if it has to go to the mode.
  bool record(const Plan& given, const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const size_t n_arguments = op.schema().arguments().size();
    const size_t begin = stack->size() - n_arguments;
    for (size_t index = begin; index < stack->size(); index++) {
      auto is_supported = [](const at::Tensor& tensor) {
        return is_plain(tensor.unsafeGetTensorImpl()) && !is_in_buffer(tensor);
      };
      if (!each_tensor((*stack)[index], is_supported)) {
        return false;
      }
    }
    if (given.kind == Kind::COMPOSITE) {
      return decompose(op, stack);
    }
    if (given.kind == Kind::COLLECTIVE) {
      return record_collective(given, op, keys, stack);
    }
    if (!is_recordable_case(given, *stack, begin) ||
        (level_ == Level::ABOVE_AUTOGRAD && !is_only_recorded_by_autograd(is_mutable_, keys, *stack, begin))) {
      return false;
    }
    if (!given.is_seen || given.kind == Kind::ITEM) {
      run_below(level_, op, keys, stack);
      return true;
    }
    const Plan& plan = given.off && is_off((*stack)[begin + given.switch_position]) ? *given.off : given;
    Inputs inputs;
    c10::DeviceIndex device = -1;
    const bool has_multiple_streams = state->has_multiple_streams;  // copied, because another thread may change it
    if (!take_inputs(plan, *stack, begin, has_multiple_streams, inputs, device) ||
        !is_recordable(plan, inputs, device, has_multiple_streams)) {
      return false;
    }
    run_below(level_, op, keys, stack);
    if (!inputs.empty() || plan.fresh) {
      GilGuard lock;
      try {
        finish(plan, *stack, plan.fresh ? op.schema().returns().size() : 0, inputs, device);
      } catch (const std::exception& error) {
        report(plan.name, error.what());
      }
    }
    return true;
  }

  // Return whether an operator runs on the only stream, or on the only stream that has used its memory.
  static bool is_recordable(
      const Plan& plan, const Inputs& inputs, c10::DeviceIndex device, bool has_multiple_streams) {
    if (!has_multiple_streams) {
      return stream_of(device, has_multiple_streams) != 0;
    }
    if (inputs.empty()) {
      return true;  // its results determine the device later
    }
    GilGuard lock;
    try {
      return is_private(inputs, stream_of(device, has_multiple_streams));
    } catch (const std::exception& error) {
      report(plan.name, error.what());
      return false;
    }
  }

  // Run and record a collective that C++ code issues, as DDP does during a backward pass; return false, without side
  // effects, if it has to go to the mode.
  bool record_collective(const Plan& plan, const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const size_t begin = stack->size() - op.schema().arguments().size();
    Inputs inputs;
    c10::DeviceIndex device = -1;
    if (!state->has_multiple_streams || in_collective != nullptr ||
        !take_inputs(plan, *stack, begin, true, inputs, device) || inputs.empty()) {
      return false;
    }
    const std::vector<c10::IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(begin), stack->end());
    const State* const check = state;
    {
      GilGuard lock;
      if (!syncheck::is_trace_taken() || !is_without_python() || !is_active || state->modes.count(top_mode()) == 0) {
        return false;
      }
      try {
        state->callbacks.attr("issue")(py::handle(plan.function), lazily(arguments));
      } catch (const std::exception& error) {
        report(plan.name, error.what());
      }
    }
    Callbacks callbacks;
    const DeletionsGuard after;
    {
      CollectiveGuard guard(&callbacks);
      run_below(level_, op, keys, stack);
    }
    GilGuard lock;
    try {
      if (state == check) {
        finish_collective(plan, arguments, *stack, op.schema().returns().size(), inputs, device, callbacks);
      }
    } catch (const std::exception& error) {
      for (const Callback& callback : callbacks) {
        state->clocks.forget(callback.event);
      }
      report(plan.name, error.what());
    }
    return true;
  }

  // Return a function without parameters that returns an operator's arguments as Python objects.
  static py::object lazily(const std::vector<c10::IValue>& arguments) {
    return py::cpp_function([arguments]() {
      py::list converted;
      for (const c10::IValue& argument : arguments) {
        converted.append(torch::jit::toPyObject(argument));
      }
      return py::tuple(converted);
    });
  }

  static void finish_collective(
      const Plan& plan, const std::vector<c10::IValue>& arguments, const Stack& stack, size_t n_results,
      const Inputs& inputs, c10::DeviceIndex device, const Callbacks& callbacks) {
    const int64_t stream = working_stream(callbacks, stream_of(device, true));
    const auto split = callbacks.begin() + static_cast<std::ptrdiff_t>(work_index(callbacks, stream));
    const int64_t site = site_here();
    const Accesses accesses = accesses_to(inputs);
    bool is_recorded = is_active && has_only_records_and_waits(callbacks) &&
        state->collective_streams.count(stream) != 0 && pass_on_all(inputs, stream);
    // No Python code runs from here until the collective is in the log.
    std::for_each(callbacks.begin(), split, order_by);
    is_recorded = is_recorded && is_after_others(inputs, stream);
    if (is_recorded) {
      own_all(inputs, stream);
      std::for_each(callbacks.begin(), split, [site](const Callback& callback) { add_callback(callback, site); });
      add_launch(plan, stream, site, accesses);
      std::for_each(split, callbacks.end(), [site](const Callback& callback) { add_callback(callback, site); });
    }
    std::for_each(split, callbacks.end(), order_by);
    if (is_recorded) {
      state->callbacks.attr("issued")(py::handle(plan.function), lazily(arguments), stream, device);
      flush_if_full();
      return;
    }
    py::list passed;
    for (const Callback& callback : callbacks) {
      passed.append(py::make_tuple(static_cast<int>(callback.kind), callback.event, callback.stream));
    }
    py::tuple results(n_results);
    for (size_t index = 0; index < n_results; index++) {
      results[index] = torch::jit::toPyObject(stack[stack.size() - n_results + index]);
    }
    state->callbacks.attr("log_collective")(py::handle(plan.function), lazily(arguments), results, passed);
    state->collective_streams.insert(stream);
  }

  // Run the operators that a composite operator consists of, as `WatchMode` does. With autograd enabled it never gets
  // here. If something has disabled autograd on the way, the mode handles it, starting from the outermost call's state.
  static bool decompose(const OperatorHandle& op, Stack* stack) {
    const bool is_autograd_off = c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
    if (is_autograd_off && !c10::InferenceMode::is_enabled()) {
      return false;
    }
    op.callBoxedForDispatchKey(DispatchKey::CompositeImplicitAutograd, *stack);
    return true;
  }

  static void finish(
      const Plan& plan, const Stack& stack, size_t n_results, const Inputs& inputs, c10::DeviceIndex device) {
    const c10::DeviceIndex made = device_of_results(stack, n_results);
    if (inputs.empty() && made == -1) {
      return;  // no GPU is involved
    }
    const int64_t stream = made == MIXED ? 0 : stream_of(device < 0 ? made : device, state->has_multiple_streams);
    Accesses accesses = accesses_to(inputs);
    const int64_t site = site_here();
    if (!is_active || state->modes.count(top_mode()) == 0 || stream == 0 || (made >= 0 && device >= 0 && made != device) ||
        (state->has_multiple_streams && !is_private(inputs, stream))) {
      give_up(plan, stack, n_results, inputs);
      return;
    }
    if (state->has_multiple_streams) {
      own_all(inputs, stream);
    }
    take_results(plan, stack, n_results, stream, site, accesses);
    if (!accesses.empty()) {
      add_launch(plan, stream, site, accesses);
    }
    flush_if_full();
  }

  // Let the check's own mode log an operator that cannot be recorded any more: another thread has created a second
  // stream or used the operator's memory on one meanwhile, or the results are on another GPU.
  static void give_up(const Plan& plan, const Stack& stack, size_t n_results, const Inputs& inputs) {
    py::list passed, results;
    for (const Input& input : inputs) {
      py::object wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(input.tensor));
      passed.append(py::make_tuple(wrapped, input.is_write));
    }
    for (size_t index = stack.size() - n_results; index < stack.size(); index++) {
      each_tensor(stack[index], [&](const at::Tensor& tensor) {
        results.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
        return true;
      });
    }
    py::object mode = py::reinterpret_borrow<py::object>(top_mode());
    mode.attr("log_after_run")(py::reinterpret_borrow<py::object>(plan.name), passed, results, py::arg("fills") = plan.touches);
  }

  c10::SafeKernelFunction original_;
  const Level level_;
  const bool is_mutable_;
  std::atomic<const Plan*> plan_{nullptr};
};

auto* kernels = new std::unordered_map<std::string, std::vector<Kernel*>>;

std::string full_name(const std::string& name, const std::string& overload) {
  return overload.empty() ? name : name + "." + overload;
}

// Register kernels for those operators of a namespace that have no kernel of their own at a key.
void install_at(const std::string& space, DispatchKey key, Level level) {
  auto* library = new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);  // never destroyed
  const std::string prefix = space + "::";
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind(prefix, 0) != 0) {
      continue;
    }
    auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(key) ||
        (level == Level::ABOVE_AUTOGRAD && op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))) {
      continue;
    }
    auto kernel = std::make_unique<Kernel>(op->getComputedKernelForDispatchKey(key), level, op->schema().is_mutable());
    const std::string full = full_name(name.name, name.overload_name);
    (*kernels)[full].push_back(kernel.get());
    library->impl(full.substr(prefix.size()).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

// Register all kernels, once per process. The `profiler` operators mark steps of DDP and of optimizers. Collectives that
// autograd has not processed yet go to the mode.
void install() {
  if (kernels->empty()) {
    install_at("c10d", DispatchKey::Python, Level::BELOW_AUTOGRAD);
    for (const char* space : {"aten", "profiler"}) {
      install_at(space, DispatchKey::Python, Level::BELOW_AUTOGRAD);
      install_at(space, DispatchKey::PythonTLSSnapshot, Level::ABOVE_AUTOGRAD);
    }
  }
}

// ---------------------------------------------------------------------------------------------- Python interface

std::unique_ptr<Plan> plan_from(const py::dict& given) {
  auto plan = std::make_unique<Plan>();
  py::object name = given["name"];
  plan->name = name.release().ptr();
  plan->kind = static_cast<Kind>(given["kind"].cast<int>());
  if (plan->kind == Kind::COMPOSITE) {
    return plan;
  }
  if (plan->kind == Kind::COLLECTIVE) {
    plan->function = py::object(given["function"]).release().ptr();
  }
  plan->is_seen = given["is_seen"].cast<bool>();
  plan->touches = given["touches"].cast<bool>();
  plan->fresh = given["fresh"].cast<bool>();
  plan->switch_position = given["switch"].cast<int>();
  for (py::handle argument : given["arguments"]) {
    auto pair = argument.cast<std::pair<size_t, bool>>();
    plan->arguments.push_back({pair.first, pair.second});
  }
  if (!given["off"].is_none()) {
    plan->off = plan_from(given["off"].cast<py::dict>());
  }
  return plan;
}

auto* plans = new std::unordered_multimap<std::string, std::unique_ptr<const Plan>>;

// Return a plan that is never destroyed, because threads may be using it; equal plans of an earlier check are reused.
const Plan* kept(std::unique_ptr<Plan> plan) {
  const char* name = PyUnicode_AsUTF8(plan->name);
  auto known = plans->equal_range(name);
  for (auto other = known.first; other != known.second; ++other) {
    if (*other->second == *plan) {
      return other->second.get();
    }
  }
  return plans->emplace(name, std::move(plan))->second.get();
}

bool set_plan(const std::string& name, const std::string& overload, const py::dict& given) {
  auto found = kernels->find(full_name(name, overload));
  if (found == kernels->end()) {
    return false;
  }
  const Plan* plan = kept(plan_from(given));
  for (Kernel* kernel : found->second) {
    kernel->set_plan(plan);
  }
  return true;
}

size_t n_plans() {
  return plans->size();
}

// Drop everything, and record for another check.
void attach(
    py::object callbacks,
    py::object reporter,
    int64_t next,
    py::list running,
    py::list inside,
    py::dict buffers,
    py::dict live,
    py::dict events,
    py::type mode,
    const std::string& kind) {
  install();
  is_active = false;
  auto* before = state;
  state = new State;
  state->callbacks = std::move(callbacks);
  state->reporter = std::move(reporter);
  state->next_allocation = next;
  state->running = std::move(running);
  state->inside = std::move(inside);
  state->buffers = std::move(buffers);
  state->live = std::move(live);
  state->events = std::move(events);
  state->mode = reinterpret_cast<PyTypeObject*>(mode.ptr());
  state->kind = c10::Device(kind).type();
  before->clear();
  for (auto& entry : *kernels) {
    for (Kernel* kernel : entry.second) {
      kernel->set_plan(nullptr);
    }
  }
}

void watch(py::object mode) {
  state->modes.insert(mode.ptr());
}

// Record the operators of the only stream with work or memory, which is a device's default stream.
void start(int64_t stream, int64_t device) {
  state->has_multiple_streams = false;
  state->stream = stream;
  state->device = static_cast<c10::DeviceIndex>(device);
  is_active = true;
}

// Record operators on all streams, each limited to memory that only its stream has used.
void start_multiple() {
  state->clocks.forget_order();  // other uses of the memory were not seen until now
  state->has_multiple_streams = true;
  is_active = true;
}

Blocks::iterator block_with(int64_t allocation) {
  auto found = state->storages.find(allocation);
  return found == state->storages.end() ? state->blocks.end() : state->blocks.find(found->second);
}

// Mark an allocation as used by a single stream, whose accesses cannot race until another stream uses it.
void own(int64_t allocation, int64_t stream) {
  auto block = block_with(allocation);
  if (block != state->blocks.end()) {
    stream = state->aliased.count(allocation) ? SHARED : stream;
    block->second.home = stream;
    block->second.position = state->clocks.position(stream);
    block->second.is_passed_on = false;
  }
}

// Mark an allocation as used by several streams.
void share(int64_t allocation) {
  own(allocation, SHARED);
}

// Mark all memory that was passed on here as used by several streams, because it may be used in ways that are not seen.
void share_passed_on() {
  for (auto& entry : state->blocks) {
    if (entry.second.is_passed_on) {
      entry.second.home = SHARED;
    }
  }
}

// Note that a stream has used memory in an operator that was not recorded here.
void used_elsewhere(int64_t stream) {
  state->clocks.use_elsewhere(stream);
}

// Forget an event's record, because it was recorded again and not here.
void forget_event(int64_t event) {
  state->clocks.forget(event);
}

// Drop an allocation that was entered in Python and freed; its storage may live on, with no memory or other memory.
void forget(int64_t allocation) {
  auto block = block_with(allocation);
  if (block != state->blocks.end()) {
    drop(block);
  }
}

void stop() {
  is_active = false;
}

// Drop all recorded accesses after the host has waited for them: they can no longer race.
void complete() {
  state->accesses.clear();
  for (Item& item : state->items) {
    item.first = item.count = 0;
  }
}

// Drop the recorded accesses of a stream that the host has waited for: they can no longer race.
void complete_stream(int64_t stream) {
  for (Item& item : state->items) {
    if (item.stream == stream) {
      item.count = 0;
    }
  }
}

// Drop the blocks whose last owner is gone.
void purge() {
  for (auto it = state->blocks.begin(); it != state->blocks.end();) {
    if (it->second.storage.expired()) {
      it = drop(it);
    } else {
      ++it;
    }
  }
}

// Return the monitor call that represents an item other than a launch.
py::tuple call_of(const Item& item) {
  switch (item.kind) {
    case ItemKind::ALLOCATION:
      return py::make_tuple("allocate", item.ident, item.stream, item.n_bytes, 0, item.site);
    case ItemKind::EVENT:
      return py::make_tuple("event", item.ident, item.site);
    case ItemKind::RECORD:
      return py::make_tuple("record", item.ident, item.stream, item.site);
    default:
      return py::make_tuple("wait", item.ident, item.stream, item.site, state->callbacks.attr("by_torch"));
  }
}

// Add the monitor calls that represent the recorded operations to a deque, in order; see `CallBuffer`.
//
// If `is_condensed`, leave out memory that was allocated and freed meanwhile, and accesses that are repeated later.
// `is_condensed` must be false where an allocation alone may produce a finding.
//
// No other call can be added in between: garbage collection, which may free memory, is disabled meanwhile.
void take_calls(bool is_condensed, const py::object& deque) {
  state->n_since_purge += state->items.size();
  // With frequent calls, purging costs no more than the recording did, unless the exact time of a free matters.
  if (!state->has_multiple_streams || !is_condensed || 4 * state->n_since_purge >= state->blocks.size()) {
    state->n_since_purge = 0;
    purge();
  }
  CollectorPause pause;
  std::vector<Item> items;
  std::vector<Access> accesses;
  std::vector<int64_t> freed;
  items.swap(state->items);
  accesses.swap(state->accesses);
  freed.swap(state->freed);
  std::unordered_set<int64_t> dead(freed.begin(), freed.end()), born;
  std::unordered_set<Access, AccessHash> again;
  if (!is_condensed) {
    dead.clear();
  }
  std::vector<py::object> calls;  // in reverse order
  int64_t n_elided = 0, site_elided = 0, stream_elided = 0;
  auto close = [&]() {
    if (n_elided != 0) {
      calls.push_back(py::make_tuple("launches_elided", stream_elided, n_elided, site_elided));
      n_elided = 0;
    }
  };
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->kind == ItemKind::ALLOCATION && dead.count(item->ident)) {
      born.insert(item->ident);
      continue;
    }
    if (item->kind != ItemKind::LAUNCH) {
      close();
      calls.push_back(call_of(*item));
      continue;
    }
    py::list last;
    for (size_t index = item->first; index < item->first + item->count; index++) {
      const Access& access = accesses[index];
      if (!dead.count(access.allocation) && !(is_condensed && again.count(access))) {
        last.append(py::make_tuple(access.allocation, access.view, access.is_write));
      }
    }
    if (last.empty() && !state->delivered.insert(item->name).second) {
      if (item->stream != stream_elided) {
        close();
      }
      if (n_elided++ == 0) {
        site_elided = item->site;
        stream_elided = item->stream;
      }
      continue;
    }
    state->delivered.insert(item->name);
    again.insert(accesses.begin() + item->first, accesses.begin() + item->first + item->count);
    close();
    calls.push_back(py::make_tuple(
        "launch", item->stream, py::reinterpret_borrow<py::object>(item->name), last, item->site));
  }
  close();
  py::list made;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    made.append(*call);
  }
  for (int64_t allocation : freed) {
    if (!born.count(allocation)) {
      made.append(py::make_tuple("free", allocation, 0));
    }
  }
  deque.attr("extend")(made);
}

// Return (owner, allocation, home, node or None) of the block at an address, or None if it is already entered in
// Python; mark it as entered. If the given storage is an alias, not the owner, several streams may use the block.
py::object take_block(int64_t storage, int64_t address) {
  auto there = state->ours.find(reinterpret_cast<const void*>(address));
  auto found = there == state->ours.end() ? state->blocks.end() : state->blocks.find(there->second);
  if (found == state->blocks.end() || !found->second.is_native) {
    return py::none();
  }
  Block& block = found->second;
  auto owner = block.storage.lock();
  if (!owner || owner->data() != block.address) {
    return py::none();
  }
  block.is_native = false;
  state->n_new--;
  if (owner.get() != reinterpret_cast<const c10::StorageImpl*>(storage)) {
    block.home = SHARED;
  }
  const int64_t allocation = block.allocation, home = block.home;
  py::object node = block.node ? py::object(py::int_(*block.node)) : py::object(py::none());
  py::object wrapped = py::reinterpret_steal<py::object>(THPStorage_Wrap(c10::Storage(std::move(owner))));
  return py::make_tuple(wrapped, allocation, home, node);
}

// Return the storages whose blocks are not entered in Python.
py::list unknown_storages() {
  py::list made;
  if (state->n_new == 0) {
    return made;
  }
  std::vector<c10::Storage> storages;  // collected first: no Python code may run during the iteration
  for (auto& entry : state->blocks) {
    auto storage = entry.second.is_native ? entry.second.storage.lock() : nullptr;
    if (storage) {
      storages.emplace_back(std::move(storage));
    }
  }
  for (c10::Storage& storage : storages) {
    made.append(py::reinterpret_steal<py::object>(THPStorage_Wrap(std::move(storage))));
  }
  return made;
}

bool has_calls() {
  return !state->items.empty() || !state->freed.empty();
}

int64_t n_recorded() {
  return state->n_recorded;
}

}  // namespace

namespace syncheck {

bool take_callback(CallbackKind kind, uintptr_t handle, uintptr_t stream_handle) {
  if (!is_active || !state->has_multiple_streams || !Py_IsInitialized()) {
    return false;
  }
  GilGuard lock;
  const bool is_sync = kind != CallbackKind::RECORD && kind != CallbackKind::WAIT;
  if (!is_without_python() ||
      (in_collective == nullptr && (is_sync || !is_active || Py_SIZE(state->running.ptr()) != 0))) {
    return false;
  }
  int64_t event = 0;
  try {
    const int64_t stream = kind == CallbackKind::SYNC_EVENT ? 0
        : kind == CallbackKind::SYNC_DEVICE ? current_device()
                                            : stream_with(stream_handle);
    event = kind == CallbackKind::RECORD ? announced_event(handle) : handle ? event_with(handle) : 0;
    if (handle != 0 && event == 0) {
      return true;  // an event that predates the check, so what it covers is unknown
    }
    const Callback callback{kind, event, stream};
    if (in_collective != nullptr) {
      in_collective->push_back(callback);
    } else {
      add_callback(callback, site_here());
      order_by(callback);
      flush_if_full();
    }
  } catch (const std::exception& error) {
    state->clocks.forget(event);
    report(py::str("an event"), error.what());
  }
  return true;
}

bool is_in_collective() {
  return in_collective != nullptr;
}

}  // namespace syncheck

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("attach", &attach);
  module.def("set_plan", &set_plan);
  module.def("n_plans", &n_plans);
  module.def("watch", &watch);
  module.def("next_allocation", &next_allocation);
  module.def("start", &start);
  module.def("start_multiple", &start_multiple);
  module.def("own", &own);
  module.def("share", &share);
  module.def("complete", &complete);
  module.def("complete_stream", &complete_stream);
  module.def("forget", &forget);
  module.def("stop", &stop);
  module.def("take_calls", &take_calls);
  module.def("take_block", &take_block);
  module.def("unknown_storages", &unknown_storages);
  module.def("has_calls", &has_calls);
  module.def("n_recorded", &n_recorded);
  module.def("share_passed_on", &share_passed_on);
  module.def("used_elsewhere", &used_elsewhere);
  module.def("forget_event", &forget_event);
  module.def("mute_trace", &syncheck::mute_trace);
}
