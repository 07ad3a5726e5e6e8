"""Payload that gives a spawned, unchecked child its virtual GPUs."""

import pickle
import subprocess
import sys

from syncheck.sim import spawn_payload
from syncheck.sim.spawn_payload import SpawnPayload


def test_it_acts_once_the_child_has_imported_torch(monkeypatch):
    installed = []
    monkeypatch.setattr(SpawnPayload, "_install", lambda self: installed.append(self.n_devices))
    monkeypatch.setattr(spawn_payload, "after_import", lambda name, act: act() if name == "torch" else None)
    pickle.loads(pickle.dumps(SpawnPayload(3)))
    assert installed == [3]


def test_a_child_that_never_imports_torch_pays_nothing(tmp_path):
    path = tmp_path / "payload"
    path.write_bytes(pickle.dumps(SpawnPayload(2)))
    code = f"import pickle, sys; pickle.load(open({str(path)!r}, 'rb')); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
