"""Measures Pantala beside Redis, Valkey and memcached in one run.

```
  run (command line) -> session  what is measured, on which servers, where the results go
                          |
      scenarios  the table: one row per piece of work, its preparation, its budget
        datatypes       the rows of lists, hashes, sets, ...     scenario  what a row is
      kinds      which function measures which kind of row       -> one record per run, as JSON
        measure         strings: commands, families, threads, memory, idle
        measure_types   data types: commands, collections, neighbours
        servers         finds, starts, pauses, stops them     resp  a few questions to ask them
        accounting      CPU time, memory, switches, from /proc
        redis_benchmark command line and output
        load            pantala-load: fills, and load that speaks memcached
        feed            generated commands over one socket: what collections are made of
        prober          a program of its own: GETs at a steady pace, and their latencies
      verdict    medians, ratios paired by round, budgets      <- reads records only
      report, plot                                             <- read verdicts and records only
      machine    what machine, which versions
      callgrind  instruction counts (bench/instructions)
```

Invariants

1. The deciding figure is CPU time that the kernel charged to the server's threads.
2. Runs of different servers are interleaved round by round; a ratio is formed within a round.
3. Everything in a report derives from raw.jsonl: `run --from DIR` writes the same report again.
4. No host name and no absolute path of the machine goes into raw.jsonl or the report.
5. A server that was started is stopped, by its own process id, however the run ends.

Only the standard library is used. Tests: tests/, `python3 -m unittest` in bench/.
"""
