"""What a row of the tables is: its shape, its budgets, and what its figures are called."""

from dataclasses import dataclass, field, replace

ALL = ("pantala", "valkey", "redis", "memcached")
RESP = ("pantala", "valkey", "redis")
BEST = "best"  # as a server to compare with: whichever of the others did best

VALUE = "__value__"  # last in a command: random bytes of the scenario's length, given on stdin
R = "__rand_int__"  # redis-benchmark puts a random number of 12 digits there
KEY = f"key:{R}"


@dataclass(frozen=True)
class Budget:
    """An upper limit for Pantala's `figure`: a ratio to the server `against`, or absolute.

    `against` may be BEST: then each part (command, size) is held against the server that did best
    in it. With several parts their median has to keep the limit, or, `across="worst"`, each.
    """

    figure: str
    limit: float
    against: str | None = None
    strictly: bool = False  # below the limit, not at it
    across: str = ""  # "worst"; "": the scenario's for a figure, the median for a ratio

    def is_met(self, value):
        return value < self.limit if self.strictly else value <= self.limit

    def text(self):
        sign = "<" if self.strictly else "<="
        unit = f"x {self.against}" if self.against else UNITS.get(self.figure, "")
        each = "each " if self.across == "worst" else ""
        return f"{each}{sign} {self.limit:g} {unit}".strip()


@dataclass(frozen=True)
class Step:
    """A command of a family, or of its preparation."""

    command: str
    requests: int = 0  # 0: the scenario's
    keys: int = 0  # the range of random numbers; 0: the scenario's
    name: str = ""  # instead of the command, where that is long
    needs: tuple = ()  # feeds, each sent to a server once
    before: tuple = ()  # feeds that are sent again before each run

    @property
    def label(self):
        return self.name or self.command


@dataclass(frozen=True)
class Neighbour:
    """What one client does while others are timed: the feeds, one command at a time, and a rest."""

    about: str  # when a server refuses one, those about the same are left out
    phase: str
    feeds: tuple
    rest_s: float = 0.0  # timed as well: what was set off may go on in the background

    @property
    def name(self):
        return f"{self.about}: {self.phase}"


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    kind: str
    figure: str  # the figure that decides, and that the plot shows
    group: str = "core"
    servers: tuple = RESP
    keys: int = 1_000_000
    value_bytes: int = 100
    command: str = ""
    load: str = "redis-benchmark"
    get_percent: int = 100  # pantala-load only
    multi_get: bool = False  # pantala-load only: a batch is one `get` of many keys
    protocol: str = ""  # of the servers that speak several; "": RESP
    clients: int = 50
    pipeline: int = 1
    requests: int = 0
    must_hit: bool = False  # a GET that finds nothing fails the run
    prepare: tuple = ()
    steps: tuple = ()
    sizes: tuple = ()
    feeds: tuple = ()
    elements: int = 0  # that the feeds make
    payload_bytes: float = 0.0  # of each of them: what the client gave
    neighbours: tuple = ()
    threads: tuple = (1,)
    probed_keys: int = 0  # how many keys those who have a neighbour ask for; 0: all
    rate: int = 4_000  # GETs per second of those who have a neighbour
    idle_s: float = 5.0
    scale: int = 1  # feeds, and the steps' requests and keys, are so many times smaller
    across: str = "median"  # how the parts of a scenario make one figure: median, mean, worst
    more: tuple = ()  # arguments of the servers
    replica: str = ""  # the server that copies; "": another of the same kind
    certificate: str = ""  # the load speaks TLS with servers that show this one
    keeps_connections: bool = True  # else each request has one of its own
    traces: tuple = ()  # (name, arguments of pantala-traces)
    memory_mb: int = 0  # the servers' limit
    ttl_s: int = 0  # the deadline of each key
    budgets: tuple = ()
    quick: dict = field(default_factory=dict)  # what is smaller under --quick

    def for_quick(self):
        return replace(self, **self.quick)

    def with_steps(self, wanted):
        """With only those steps, neighbours and traces whose name is `wanted`."""
        steps = tuple(step for step in self.steps if wanted(step.label))
        neighbours = tuple(each for each in self.neighbours if wanted(each.name))
        traces = tuple(each for each in self.traces if wanted(each[0]))
        return replace(self, steps=steps, neighbours=neighbours, traces=traces)


# What a figure is called and measured in.
UNITS = {
    "cpu_us": "µs",
    "cpu_us_delivered": "µs",
    "requests_per_s": "/s",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "p999_ms": "ms",
    "growth": "x",
    "bytes_per_key": "B",
    "bytes_per_element": "B",
    "bytes_over_payload": "B",
    "rss_mb": "MB",
    "p999_idle_ms": "ms",
    "p999_growth": "x",
    "idle_cpu_percent": "%",
    "switches_per_s": "/s",
    "save_s": "s",
    "load_s": "s",
    "load_cpu_s": "s",
    "max_ms": "ms",
    "memory_growth": "x",
    "journal_growth": "x",
    "set_us": "µs",
    "hit_percent": "%",
    "behind_points": "points",
    "peak_growth": "x",
    "comeback": "x",
    "full_growth": "x",
    "copy_s": "s",
    "stream_growth": "x",
}
FIGURES = {
    "cpu_us": "server CPU per command",
    "cpu_us_delivered": "server CPU per delivered message",
    "requests_per_s": "requests per second",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "growth": "CPU per command, two threads against one",
    "bytes_per_key": "RSS per key",
    "bytes_per_element": "RSS per element",
    "bytes_over_payload": "RSS per element, less its payload",
    "rss_mb": "RSS",
    "p999_idle_ms": "p99.9 with an idle neighbour",
    "p999_growth": "p99.9, with the neighbour, the save or the copy, against without",
    "idle_cpu_percent": "CPU while idle",
    "switches_per_s": "context switches while idle",
    "save_s": "time of a save",
    "load_s": "time from the start to the first answer",
    "load_cpu_s": "server CPU of a start",
    "max_ms": "longest wait",
    "memory_growth": "peak memory, while it saves or is copied, against before",
    "journal_growth": "CPU per command with the append-only file against without",
    "set_us": "time per SET, all clients together",
    "hit_percent": "hits",
    "behind_points": "hits less than the best of the others'",
    "peak_growth": "peak memory against that of the live keys",
    "comeback": "RSS 30 s after deletes against that of a server with what is left",
    "full_growth": "CPU per SET at the limit against below it",
    "copy_s": "time until a replica follows",
    "stream_growth": "CPU per command with a replica against without",
}
HIGHER_IS_BETTER = {"requests_per_s", "hit_percent"}
