// What the native recorder knows: plans of operators, blocks of memory, and the log. Included by recorder.cpp only.

#pragma once

#include "clocks.h"

#include <pybind11/pybind11.h>

#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace py = pybind11;

namespace {

constexpr int64_t SHARED = -1;         // replaces the stream of a block that has no single one
constexpr int64_t PER_THREAD = 2;      // the handle of each thread's own default stream
constexpr size_t MAX_ITEMS = 1 << 15;  // the size of the log at which it is passed to the session

// A composite operator calls other operators, which are dispatched here in turn.
enum class Kind { ORDINARY, ITEM, TO_COPY, COPY, FOREACH_COPY, COMPOSITE, COLLECTIVE };

struct Argument {
  size_t position;
  bool is_write;

  bool operator==(const Argument& other) const {
    return position == other.position && is_write == other.is_write;
  }
};

// Return whether an argument that switches writes on is False or None.
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

enum class ItemKind { ALLOCATION, LAUNCH, EVENT, RECORD, WAIT, CALL };

struct Item {
  ItemKind kind;
  PyObject* name;  // the operator's name, if the item is a launch; an owned tuple, if it is any other monitor call
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
  size_t operator()(const std::pair<const void*, const void*>& site) const {
    return std::hash<const void*>()(site.first) * 31 + std::hash<const void*>()(site.second);
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
  ska::flat_hash_map<std::pair<const void*, const void*>, int64_t, SiteHash> sites;  // by code and instruction
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

}  // namespace
