# SPDX-License-Identifier: MIT
"""Makes tables from the benchmarks' JSON lines, with the limits that results must keep (budgets).

Every function here is pure: it turns results into rows. A row's value is the median of the rounds.
A ratio is the median of the ratios of the rounds, so that a noisy moment affects both sides.
Benchmarks that did not run have no row, and are listed under "Not run".
"""
import statistics

MEETS, MISSES = "meets", "misses"


class Table:
    """The rows in order: dicts of what, figure, unit, budget and verdict; the last two may be
    empty."""

    def __init__(self):
        self.rows, self.not_run = [], []

    def add(self, section, what, figure, unit="", budget="", ok=None, digits=1):
        verdict = "" if ok is None else MEETS if ok else MISSES
        self.rows.append({"section": section, "what": what, "figure": figure, "unit": unit,
                          "budget": budget, "verdict": verdict, "digits": digits})

    def skip(self, what, why):
        if (what, why) not in self.not_run:
            self.not_run.append((what, why))


def ratio(above, below):
    """Returns the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(above, below))


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def of(results, bench, **members):
    """Returns the results of one benchmark whose fields have the given values."""
    return [r for r in results if r["bench"] == bench
            and all(r.get(k) == v for k, v in members.items())]


# ---- fetch ----

WAYS = {
    "round-trip": "bare socket, empty reply",
    "inline": "bare socket, bytes in the reply",
    "descriptor": "bare descriptor, unmapped at once",
    "descriptor-kept": "bare descriptor, unmapped at the end",
    "descriptor-epoll": "bare descriptor, event loop",
    "redis": "Redis GET",
    "kiln-wire": "kiln, without libkiln",
    "kiln": "kiln",
    "kiln-table": "kiln, from the in-process cache",
    "miopen-kept": "MIOpen's way, database kept open",
    "miopen-fresh": "MIOpen's way, database opened each time",
}
PAGE = 4096
REDIS_BUDGET = {4096: 1.0, 65536: 1.5, 1 << 20: 20.0}
MIOPEN_BUDGET = {20480: 10.0, 65536: 50.0}
ROUND_TRIP_BUDGET = 1.5
LIBKILN_BUDGET = 1.5  # libkiln, compared with the same frames sent by hand
CPUS = {"any": "", "two": ", client and servers on a CPU each", "one": ", all on one CPU"}


def fetch_rows(table, results):
    settings = []
    for r in of(results, "fetch"):
        setting = (r["clients"], r["size"], r["cpus"], r["touched"])
        if setting not in settings:
            settings.append(setting)
    for setting in settings:
        fetch_setting(table, results, *setting)


def fetch_setting(table, results, clients, size, cpus, touched):
    place = CPUS[cpus]
    if clients > 1 and size > PAGE:
        place += ", every page touched" if touched == size else ", first page touched"
    section = f"Warm fetch, {size_text(size)}, {clients} client{'s' if clients > 1 else ''}{place}"
    ways = {}
    for r in of(results, "fetch", clients=clients, size=size, cpus=cpus, touched=touched):
        if "not_run" in r:
            table.skip(f"{WAYS[r['way']]} ({section})", r["not_run"])
            continue
        ways[r["way"]] = r
        name = WAYS[r["way"]]
        table.add(section, f"{name}: p50", statistics.median(r["p50_us"]), "µs", digits=2)
        table.add(section, f"{name}: p99", statistics.median(r["p99_us"]), "µs", digits=2)
        if clients > 1:
            table.add(section, f"{name}: rate", statistics.median(r["per_s"]), "/s", digits=0)
    if "kiln" in ways:
        fetch_budgets(table, section, ways, size, clients)


def fetch_budgets(table, section, ways, size, clients):
    kiln = ways["kiln"]
    for way in ("descriptor", "descriptor-kept"):
        if clients == 1 and way in ways:
            figure = ratio(kiln["p50_us"], ways[way]["p50_us"])
            table.add(section, f"kiln : {WAYS[way]}, p50", figure, "×", f"≤ {ROUND_TRIP_BUDGET}",
                      figure <= ROUND_TRIP_BUDGET, 2)
    if clients == 1 and "kiln-wire" in ways:
        figure = ratio(kiln["p50_us"], ways["kiln-wire"]["p50_us"])
        table.add(section, f"kiln : {WAYS['kiln-wire']}, p50", figure, "×", f"≤ {LIBKILN_BUDGET}",
                  figure <= LIBKILN_BUDGET, 2)
    if "inline" in ways:
        table.add(section, "kiln : bare socket, bytes in the reply, p50",
                  ratio(kiln["p50_us"], ways["inline"]["p50_us"]), "×", digits=2)
    for way in ("miopen-kept", "miopen-fresh"):
        if way in ways and size in MIOPEN_BUDGET:
            figure = ratio(ways[way]["p50_us"], kiln["p50_us"])
            table.add(section, f"{WAYS[way]} : kiln, p50", figure, "×",
                      f"≥ {MIOPEN_BUDGET[size]:g}", figure >= MIOPEN_BUDGET[size])
    if clients > 1 and "redis" in ways:
        figure = ratio(kiln["per_s"], ways["redis"]["per_s"])
        table.add(section, "kiln : Redis, rate", figure, "×", f"≥ {REDIS_BUDGET[size]:g}",
                  figure >= REDIS_BUDGET[size], 2)


# ---- the others ----

def batch_rows(table, results):
    for r in of(results, "batch"):
        place = ", all on one CPU" if r["one_cpu"] else ""
        section = f"Batch of {r['items']} warm kernels of {size_text(r['size'])}{place}"
        each = statistics.median(r["each_us"])
        what = "per kernel after the first round trip"
        if r["way"] == "kiln":
            table.add(section, f"kiln: {what}", each, "µs", "≤ 2", each <= 2, 2)
            table.add(section, "kiln: the whole batch", statistics.median(r["all_us"]), "µs",
                      digits=0)
        else:
            table.add(section, f"bare descriptors: {what}", each, "µs",
                      digits=2)


def stampede_rows(table, results):
    for r in of(results, "stampede"):
        section = f"{r['clients']} clients at once on the same {r['kernels']} cold kernels " \
                  f"({r['toolchain']})"
        counts = sorted(set(int(c) for c in r["compiles"]))
        table.add(section, "compiles", counts[-1], "", f"= {r['kernels']}",
                  counts == [r["kernels"]], 0)
        table.add(section, "wall clock, one client", statistics.median(r["one_s"]), "s", digits=2)
        figure = ratio(r["many_s"], r["one_s"])
        table.add(section, f"wall clock, {r['clients']} clients : one", figure, "×", "≤ 1.1",
                  figure <= 1.1, 2)


def scaling_rows(table, results):
    for r in of(results, "scaling"):
        section = f"{r['kernels']} cold kernels ({r['toolchain']})"
        bound = 0.9 * r["workers"]
        figure = ratio(r["one_s"], r["many_s"])
        table.add(section, "kernels per second, one compiler",
                  r["kernels"] / statistics.median(r["one_s"]), "/s")
        table.add(section, f"throughput, {r['workers']} compilers : one", figure, "×",
                  f"≥ {bound:g}", figure >= bound, 2)
        direct_rows(table, section, r)


def direct_rows(table, section, r):
    """Adds a row for comparison: the same number of processes call the compiler without kiln."""
    what = f"processes that call {r['toolchain']} directly"
    if "direct_not_run" in r:
        table.skip(f"{what} ({section})", r["direct_not_run"])
        return
    table.add(section, f"kernels per second, one of the {what}",
              r["kernels"] / statistics.median(r["direct_one_s"]), "/s")
    table.add(section, f"throughput, {r['workers']} {what} : one",
              ratio(r["direct_one_s"], r["direct_many_s"]), "×", digits=2)
    table.add(section, f"throughput, {r['workers']} compilers : {r['workers']} {what}",
              ratio(r["direct_many_s"], r["many_s"]), "×", digits=2)


def compile_rows(table, results):
    for r in of(results, "compile"):
        if "not_run" in r:
            table.skip(f"compile with {r['toolchain']}", r["not_run"])
            continue
        section = f"Compile with {r['toolchain']}"
        table.add(section, "direct call", statistics.median(r["direct_ms"]), "ms")
        table.add(section, "through the daemon", statistics.median(r["daemon_ms"]), "ms")
        figure = ratio(r["daemon_ms"], r["direct_ms"])
        table.add(section, "daemon : direct", figure, "×", "≤ 1.1", figure <= 1.1, 2)


FIRST_WAYS = {
    "running": "kilnd is running",
    "stored": "kilnd is started, its databases exist",
    "new": "kilnd is started and creates its databases",
    "stored-64": "kilnd is started, its databases exist, 64 compilers",
    "new-64": "kilnd is started and creates its databases, 64 compilers",
}
# Limit: how much longer the first answer may take if kilnd must be started first.
FIRST_ANSWER_BUDGET_MS = 30


def first_answer_rows(table, results):
    ways = {r["way"]: r["ms"] for r in of(results, "first")}
    running = statistics.median(ways["running"]) if "running" in ways else 0
    for way, ms in ways.items():
        section, more = "The first answer of a job", statistics.median(ms) - running
        judged = way in ("stored", "new")
        table.add(section, f"{FIRST_WAYS[way]}: minimum", min(ms), "ms", digits=2)
        table.add(section, f"{FIRST_WAYS[way]}: median", statistics.median(ms), "ms",
                  f"≤ running + {FIRST_ANSWER_BUDGET_MS}" if judged else "",
                  more <= FIRST_ANSWER_BUDGET_MS if judged else None, 2)


# Limit: how many times slower look-ups may be in a store with 1000 times as many kernels.
FLAT = 1.25


def start_rows(table, results):
    stores = sorted(of(results, "start"), key=lambda r: r["kernels"])
    for r in stores:
        section = f"A store of {r['kernels']} kernels"
        judged = r["kernels"] >= 100000
        ready, resident = statistics.median(r["ready_ms"]), statistics.median(r["resident_mib"])
        table.add(section, "start to first answer", ready, "ms", "≤ 50" if judged else "",
                  ready <= 50 if judged else None)
        table.add(section, "resident, hot set empty", resident, "MiB", "≤ 30" if judged else "",
                  resident <= 30 if judged else None)
        rest = r["resident_after_mib"] - r["shared_after_mib"]
        table.add(section, "resident after look-ups, without the hot set", rest, "MiB",
                  "≤ 30" if judged else "", rest <= 30 if judged else None)
        table.add(section, "look-up on disk: p50", statistics.median(r["disk_us"]), "µs")
        table.add(section, "look-up in the hot set: p50", statistics.median(r["hot_us"]), "µs")
        over = r["file_bytes"] / r["kernels"] - r["size"]
        table.add(section, "disk space per kernel, without its object", over, "B", digits=0)
        table.add(section, "puts while filling", r["fill_per_s"], "/s", digits=0)
    if len(stores) > 1:
        flat_rows(table, stores[0], stores[-1])
    if stores and stores[-1]["kernels"] < 100000:
        table.skip("a store of 100000 kernels", "left out by --quick")
    table.skip("look-up with 1000000 kernels", "would take longer than this benchmark may")


def flat_rows(table, few, many):
    section = f"Look-up cost, {many['kernels']} kernels : {few['kernels']}"
    for member, what in (("hot_us", "in the hot set"), ("disk_us", "on disk")):
        figure = ratio(many[member], few[member])
        table.add(section, what, figure, "×", f"flat (≤ {FLAT})", figure <= FLAT, 2)


# Limit: how many times slower the p99 of look-ups may be while kernels are stored and evicted.
STALL = 2.0


def sandbox_rows(table, results):
    for r in of(results, "sandbox"):
        section = "The start of a compiler process"
        if r["missing"]:
            table.skip("layers of the sandbox", f"this host does not give {r['missing']}")
        table.add(section, "without the sandbox: p10", r["bare_p10_ms"], "ms", digits=2)
        table.add(section, "with the sandbox: p10", r["confined_p10_ms"], "ms", digits=2)
        added = r["confined_p10_ms"] - r["bare_p10_ms"]
        table.add(section, "added by the sandbox", added, "ms", "≤ 5", added <= 5, 2)


def store_rows(table, results):
    ways = {r["way"]: r for r in of(results, "store")}
    if not ways:
        return
    few, many = ways["few"], ways["many"]
    section = f"Look-up in the store, {many['kernels']} kernels : {few['kernels']}"
    for member, what in (("p50_us", "p50"), ("p99_us", "p99")):
        table.add(section, f"{few['kernels']} kernels: {what}", statistics.median(few[member]),
                  "µs")
        table.add(section, f"{many['kernels']} kernels: {what}", statistics.median(many[member]),
                  "µs")
    table.add(section, "p50", ratio(many["p50_us"], few["p50_us"]), "×", digits=2)
    section = "Look-up in the store while another thread stores kernels of 20 KiB"
    for way, name in (("quiet", "no writes"), ("filling", "writes below the limit"),
                      ("evicting", "writes that evict")):
        for member, what in (("p50_us", "p50"), ("p99_us", "p99")):
            table.add(section, f"{name}: {what}", statistics.median(ways[way][member]), "µs")
    figure = ratio(ways["evicting"]["p99_us"], ways["filling"]["p99_us"])
    table.add(section, "writes that evict : writes below the limit, p99", figure, "×", f"≤ {STALL}",
              figure <= STALL, 2)
    table.add(section, "writes that evict : no writes, p99",
              ratio(ways["evicting"]["p99_us"], ways["quiet"]["p99_us"]), "×", digits=2)


PACKINGS = {"bzip2": "bzip2 -9, as MIOpen", "zstd": "zstd without dictionary", "kiln": "kiln"}


def disk_rows(table, results):
    compilers = []
    for r in of(results, "disk"):
        compiler = (r["target"], r["toolchain"])
        if "not_run" in r:
            table.skip(f"packing objects for {r['target']} from {r['toolchain']}", r["not_run"])
        elif compiler not in compilers:
            compilers.append(compiler)
    for target, toolchain in compilers:
        ways = {r["way"]: r for r in of(results, "disk", target=target, toolchain=toolchain)}
        disk_compiler(table, f"ResNet-50's {ways['kiln']['objects']} code objects for {target} "
                      f"({toolchain}), each", ways)


def disk_compiler(table, section, ways):
    kiln, bzip2 = ways["kiln"], ways["bzip2"]
    table.add(section, "not packed", kiln["raw_bytes"] / kiln["objects"], "B", digits=0)
    for way, name in PACKINGS.items():
        r, judged = ways[way], way == "kiln"
        table.add(section, name, r["bytes"] / r["objects"], "B", "< bzip2" if judged else "",
                  r["bytes"] < bzip2["bytes"] if judged else None, 0)
        table.add(section, f"packing, {name}", statistics.median(r["pack_us"]), "µs", digits=0)
        table.add(section, f"unpacking, {name}", statistics.median(r["unpack_us"]), "µs")
    table.add(section, "kiln : bzip2, bytes", kiln["bytes"] / bzip2["bytes"], "×", digits=2)
    table.add(section, "kiln : zstd, bytes", kiln["bytes"] / ways["zstd"]["bytes"], "×", digits=2)
    figure = ratio(bzip2["unpack_us"], kiln["unpack_us"])
    table.add(section, "unpacking, bzip2 : kiln", figure, "×", "≥ 10", figure >= 10)


# ---- tuning databases ----

TUNING_WAYS = {
    "miopen": "MIOpen's way, text in a hash map of the process",
    "miopen-kept": "MIOpen's way, database kept open",
    "miopen-fresh": "MIOpen's way, database opened each time",
    "round-trip": "bare socket, empty reply",
    "same-bytes": "bare socket, bytes in the reply",
    "event-loop": "bare event loop, bytes in the reply",
    "engine": "kiln, in the daemon",
    "kiln": "kiln, over the socket",
}
TUNING_LOOK_UP_BUDGET = {"find": 2, "perf": 5}  # µs, measured in the daemon
IMPORT_BUDGET, FIRST_BUDGET_MS, TUNING_BATCH_BUDGET_US = 3, 1, 2


def tuning_name(r):
    size = f"FindDb of {r['records']} records" if r["kind"] == "find" else \
        f"PerfDb of {r['rows']} rows"
    return f"{size} ({r['file'] if r['genuine'] else 'made up'})"


def processes_text(count):
    return "one process" if count == 1 else f"{count} processes at once"


def tuning_rows(table, results):
    for kind in ("find", "perf"):
        for add_rows in (import_rows, first_rows, tuning_look_up_rows, tuning_batch_rows):
            add_rows(table, [r for r in results if r.get("kind") == kind])


def import_rows(table, results):
    for r in of(results, "tuning_import"):
        section = f"{tuning_name(r)}: import"
        table.add(section, "import", statistics.median(r["import_s"]), "s", digits=2)
        table.add(section, "lines or rows that are not records", r["bad"], digits=0)
        table.add(section, "the file", r["bytes"] / (1 << 20), "MiB")
        table.add(section, "kiln's index", r["index_bytes"] / (1 << 20), "MiB")
        if "wc_s" not in r:
            continue
        table.add(section, "wc", statistics.median(r["wc_s"]), "s", digits=2)
        for member, what in (("sort_c_s", "sort, C locale"), ("sort_s", "sort, this locale")):
            judged = member == "sort_c_s"
            table.add(section, what, statistics.median(r[member]), "s", digits=2)
            figure = ratio(r["import_s"], [a + b for a, b in zip(r["wc_s"], r[member])])
            table.add(section, f"import : wc and {what}", figure, "×",
                      f"≤ {IMPORT_BUDGET}" if judged else "",
                      figure <= IMPORT_BUDGET if judged else None, 2)


def first_rows(table, results):
    for r in of(results, "tuning_first"):
        section = f"{tuning_name(r)}: the first answer of a new process, " \
                  f"{processes_text(r['processes'])}"
        name, time = TUNING_WAYS[r["way"]], statistics.median(r["ms"])
        kept, own = statistics.median(r["kept_bytes"]), statistics.median(r["own_kib"])
        if r["way"] == "engine":
            table.add(section, "kiln's daemon after a restart: opening, first look-up", time, "ms",
                      digits=2)
        elif r["greeted"]:  # the rows of other ways include the time to connect
            name += ", connected before"
            table.add(section, f"{name}: time", time, "ms", digits=2)
            table.add(section, f"{name}: memory kept", kept, "B", "= 0", kept <= 0, 0)
        else:
            judged = r["way"] == "kiln" and r["processes"] == 1
            table.add(section, f"{name}: time", time, "ms",
                      f"≤ {FIRST_BUDGET_MS}" if judged else "",
                      time <= FIRST_BUDGET_MS if judged else None, 2)
            table.add(section, f"{name}: memory kept", kept / 1024, "KiB", digits=0)
            table.add(section, f"{name}: own pages added", own, "KiB", digits=0)
            table.add(section, f"{name}: resident pages added",
                      statistics.median(r["resident_kib"]), "KiB", digits=0)


def tuning_look_up_rows(table, results):
    settings = []
    for r in of(results, "tuning_look_up"):
        setting = (r["processes"], r["cpus"])
        if setting not in settings:
            settings.append(setting)
    for processes, cpus in settings:
        ways = {r["way"]: r for r in of(results, "tuning_look_up", processes=processes,
                                        cpus=cpus)}
        section = f"{tuning_name(next(iter(ways.values())))}: a look-up, " \
                  f"{processes_text(processes)}{CPUS[cpus]}"
        tuning_setting(table, section, ways, processes)


def tuning_setting(table, section, ways, processes):
    for way, r in ways.items():
        mean, name = statistics.median(r["mean_us"]), TUNING_WAYS[way]
        digits = 2 if mean < 1000 else 0
        most = TUNING_LOOK_UP_BUDGET[r["kind"]] if way == "engine" else None
        table.add(section, f"{name}: mean", mean, "µs", f"≤ {most}" if most else "",
                  mean <= most if most else None, digits)
        table.add(section, f"{name}: p50", statistics.median(r["p50_us"]), "µs", digits=digits)
        table.add(section, f"{name}: p99", statistics.median(r["p99_us"]), "µs", digits=digits)
        if processes > 1:
            table.add(section, f"{name}: rate", statistics.median(r["per_s"]), "/s", digits=0)
    for way in ("round-trip", "same-bytes", "event-loop"):
        if "kiln" in ways and way in ways:
            judged = processes == 1 and way == "same-bytes"
            figure = ratio(ways["kiln"]["p50_us"], ways[way]["p50_us"])
            table.add(section, f"kiln : {TUNING_WAYS[way]}, p50", figure, "×",
                      f"≤ {ROUND_TRIP_BUDGET}" if judged else "",
                      figure <= ROUND_TRIP_BUDGET if judged else None, 2)
    for above in ("miopen", "miopen-kept", "miopen-fresh"):
        for below in ("engine", "kiln"):
            if above in ways and below in ways:
                figure = ratio(ways[above]["mean_us"], ways[below]["mean_us"])
                table.add(section, f"{TUNING_WAYS[above]} : {TUNING_WAYS[below]}, mean", figure,
                          "×", digits=2 if figure < 100 else 0)


def tuning_batch_rows(table, results):
    for r in of(results, "tuning_batch"):
        section = f"{tuning_name(r)}: a batch of {r['items']}{CPUS[r['cpus']]}"
        each = statistics.median(r["each_us"])
        table.add(section, "a batch of one record", statistics.median(r["one_us"]), "µs")
        table.add(section, "per record of the batch", each, "µs", f"≤ {TUNING_BATCH_BUDGET_US}",
                  each <= TUNING_BATCH_BUDGET_US, 2)


# ---- libkiln-rtc ----

RTC_PATHS = "314 recorded paths"
# Limits: how much longer libkiln-rtc may take than libkiln for the same bytes.
RTC_HIT_BUDGET_US = {"memory": 150, "files": 1500}
RTC_MISS_BUDGET = 1.03
RTC_START_BUDGET_MS = 2


def rtc_rows(table, results):
    """Each result of a round is a minimum, so a row takes the minimum of the rounds."""
    section = "libkiln-rtc"
    for what, inputs in ("memory", "inputs in memory"), ("files", RTC_PATHS):
        found = of(results, "rtc", what=what)
        if found:
            fetch = min(r["fetch_us"] for r in found)
            more = min(r["hit_us"] for r in found) - fetch
            most = RTC_HIT_BUDGET_US[what]
            name = f"an answered compile, {inputs}: more than a fetch of {fetch:.0f} µs"
            table.add(section, name, more, "µs", f"≤ {most}", more <= most, 0)
    for what, inputs in ("store_memory", "inputs in memory"), ("store_files", RTC_PATHS):
        found = of(results, "rtc", what=what)
        if found:
            more = min(r["store_us"] for r in found) - min(r["bare_us"] for r in found)
            table.add(section, f"a stored compile, {inputs}: more than without libkiln-rtc", more,
                      "µs", digits=0)
    found = of(results, "rtc", what="miss")
    if found:
        figure = min(r["miss_us"] for r in found) / min(r["bare_us"] for r in found)
        table.add(section, "a stored compile : the same without libkiln-rtc, NVRTC", figure, "×",
                  f"≤ {RTC_MISS_BUDGET}", figure <= RTC_MISS_BUDGET, 3)
    for chain, kernel in ("opencl", "an OpenCL kernel"), ("assembly", "an assembly kernel"):
        found = of(results, "rtc", what="comgr_" + chain)
        if found:
            bare, hit = (min(r[name] for r in found) / 1e3 for name in ("bare_us", "hit_us"))
            name = f"an answer for {kernel} of comgr, which compiles it in {bare:.0f} ms"
            table.add(section, name, hit, "ms", digits=1)
    for compiler in "clang", "ptxas":
        found = of(results, "rtc", what="launch_" + compiler)
        if found:
            bare, hit = (min(r[name] for r in found) / 1e3 for name in ("bare_us", "hit_us"))
            name = f"an answer for {compiler}, started by kiln-cc, instead of {bare:.1f} ms"
            table.add(section, name, hit, "ms", digits=1)
    found = of(results, "rtc", what="start")
    if found:
        more = (min(r["start_us"] for r in found) - min(r["bare_us"] for r in found)) / 1e3
        table.add(section, "start of /bin/true: more than without libkiln-rtc", more, "ms",
                  f"≤ {RTC_START_BUDGET_MS}", more <= RTC_START_BUDGET_MS, 2)


SECTIONS = (fetch_rows, batch_rows, stampede_rows, scaling_rows, compile_rows,
            first_answer_rows, start_rows, store_rows, disk_rows, sandbox_rows,
            tuning_rows, rtc_rows)


def make_table(results, not_run=()):
    table = Table()
    for add_rows in SECTIONS:
        add_rows(table, results)
    for what, why in not_run:
        table.skip(what, why)
    return table


def number(row):
    return f"{row['figure']:,.{row['digits']}f}".replace(",", " ")


def text_of(table):
    """Returns the table for a terminal."""
    lines, section = [], None
    width = max((len(r["what"]) for r in table.rows), default=0)
    for row in table.rows:
        if row["section"] != section:
            section = row["section"]
            lines += ["", section]
        lines.append(f"  {row['what']:<{width}}  {number(row):>12} {row['unit']:<4} "
                     f"{row['budget']:<16} {row['verdict']}".rstrip())
    if table.not_run:
        lines += ["", "Not run"] + [f"  {what}: {why}" for what, why in table.not_run]
    judged = [r for r in table.rows if r["verdict"]]
    missed = [r for r in judged if r["verdict"] == MISSES]
    lines += ["", f"{len(judged) - len(missed)} of {len(judged)} budgets met"]
    lines += [f"  misses: {r['section']}: {r['what']} {number(r)} {r['unit']} ({r['budget']})"
              for r in missed]
    return "\n".join(lines)


def markdown_of(table):
    """Returns the table for docs/benchmarks.md."""
    lines, section = [], None
    for row in table.rows:
        if row["section"] != section:
            section = row["section"]
            lines += ["", f"**{section}**", "", "| | value | budget | |",
                      "| --- | ---: | --- | --- |"]
        lines.append(f"| {row['what']} | {number(row)} {row['unit']} | {row['budget']} "
                     f"| {row['verdict']} |")
    if table.not_run:
        lines += ["", "**Not run**", ""] + [f"- {what}: {why}" for what, why in table.not_run]
    return "\n".join(lines).strip() + "\n"
