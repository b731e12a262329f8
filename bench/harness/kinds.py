"""Which function measures which kind of scenario."""

from . import (
    measure,
    measure_cache,
    measure_crowd,
    measure_persistence,
    measure_replication,
    measure_types,
)

KINDS = {
    "commands": measure.measure_commands,
    "family": measure.measure_family,
    "threads": measure.measure_threads,
    "memory": measure.measure_memory,
    "idle": measure.measure_idle,
    "types": measure_types.measure_types,
    "collection": measure_types.measure_collection,
    "crowd": measure_crowd.measure_crowd,
    "neighbours": measure_types.measure_neighbours,
    "saving": measure_persistence.measure_saving,
    "loading": measure_persistence.measure_loading,
    "journal": measure_persistence.measure_journal,
    "always": measure_persistence.measure_always,
    "copy": measure_replication.measure_copy,
    "stream": measure_replication.measure_stream,
    "hitrate": measure_cache.measure_hitrate,
    "wave": measure_cache.measure_wave,
    "comeback": measure_cache.measure_comeback,
    "full": measure_cache.measure_full,
}


def measure_one(session, scenario):
    """Measures one scenario on all its servers."""
    session.say(f"{scenario.name}: {scenario.title}")
    KINDS[scenario.kind](session, scenario)
