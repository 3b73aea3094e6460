"""The example that preloads tables finds what it loaded."""

import importlib

import pytest

from stoker import registry, testing
from stoker.registry import Registry


def test_preloaded_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with registry.use(Registry()) as declared, testing.memory():
        example = importlib.reload(importlib.import_module("examples.preloading"))
        monkeypatch.setattr(example, "TABLE_MB", 1)
        assert [hook.__name__ for hook in declared.preload] == ["load_positions", "load_places"]
        example.nearest.enqueue({"latitude": 10.0, "longitude": 20.0})
        example.mean.enqueue({})
        nearest, mean = testing.run_jobs()
    assert nearest.value["latitude"] == pytest.approx(10.0, abs=0.1)
    assert mean.value == pytest.approx(0.0, abs=0.1)
    assert len(example.tables.positions) * 8 == 1 << 20
