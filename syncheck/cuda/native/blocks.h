// Blocks of memory and the streams that use them. Included by recorder.cpp only.

#pragma once

#include "state.h"

#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

namespace {

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

}  // namespace
