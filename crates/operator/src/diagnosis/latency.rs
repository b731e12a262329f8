//! LATENCY: commands that took very long (`pantala_engine::stats::latency_monitor`), and the
//! histograms of all commands.

use pantala_base::clock::unix_us;
use pantala_commands::{Call, ClientError, Command, CommandResult, Flags, Group, help};

use crate::Operator;
use crate::diagnosis::host;
use pantala_engine::Engine;
use pantala_engine::stats::Octaves;
use pantala_engine::stats::latency_monitor::{Event, LatencySpike};
use pantala_engine::stats::tallies::CommandTally;

const ADMIN: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE);
const TIPS: &[&str] =
    &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("LATENCY", Group::Server, SUBCOMMANDS)
    .since("2.8.13")
    .complexity("Depends on the subcommand.")
    .summary("How long commands take.")];

const SUBCOMMANDS: &[Command] = &[
    Command::new("DOCTOR", doctor, Group::Server)
        .of("LATENCY")
        .arity(2)
        .flags(ADMIN)
        .tips(TIPS)
        .since("2.8.13")
        .summary("Says in words what was recorded."),
    Command::new("GRAPH", graph, Group::Server)
        .of("LATENCY")
        .arity(3)
        .flags(ADMIN)
        .tips(TIPS)
        .since("2.8.13")
        .syntax("event")
        .summary("Draws the spikes of an event."),
    Command::new("HISTORY", history, Group::Server)
        .of("LATENCY")
        .arity(3)
        .flags(ADMIN)
        .tips(TIPS)
        .since("2.8.13")
        .syntax("event")
        .summary("Tells the spikes of an event."),
    Command::new("LATEST", latest, Group::Server)
        .of("LATENCY")
        .arity(2)
        .flags(ADMIN)
        .tips(TIPS)
        .since("2.8.13")
        .summary("Tells the last and the highest spike of every event."),
    Command::new("RESET", reset, Group::Server)
        .of("LATENCY")
        .arity(-2)
        .flags(ADMIN)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum"])
        .since("2.8.13")
        .syntax("[event [event ...]]")
        .summary("Forgets the spikes of the named events, or of all."),
    Command::new("HISTOGRAM", histogram, Group::Server)
        .of("LATENCY")
        .arity(-2)
        .flags(ADMIN)
        .tips(TIPS)
        .since("7.0.0")
        .complexity("O(N) for N commands")
        .syntax("[command [command ...]]")
        .summary("Tells how long commands took, as cumulative counts by powers of two."),
    Command::new("HELP", help, Group::Server)
        .of("LATENCY")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("2.8.13")
        .summary("Tells what the subcommands do."),
];

fn latest(call: &mut Call<'_, '_>) -> CommandResult {
    let events = Engine::of(call).stats.latency_monitor.all();
    let reply = &mut call.reply;
    reply.array(events.len());
    for (name, event) in events {
        let last = event.spikes.back().copied().unwrap_or(LatencySpike { unix_s: 0, took_ms: 0 });
        reply.array(6);
        reply.bulk(name.as_bytes());
        reply.int(last.unix_s);
        reply.int(last.took_ms.cast_signed());
        reply.int(event.highest_ms.cast_signed());
        reply.int(event.sum_ms.cast_signed());
        reply.int(event.count.cast_signed());
    }
    Ok(())
}

fn history(call: &mut Call<'_, '_>) -> CommandResult {
    let event = Engine::of(call).stats.latency_monitor.event(call.args[2]).unwrap_or_default();
    call.reply.array(event.spikes.len());
    for spike in &event.spikes {
        call.reply.array(2);
        call.reply.int(spike.unix_s);
        call.reply.int(spike.took_ms.cast_signed());
    }
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    let forgotten = Engine::of(call).stats.latency_monitor.forget(&call.args[2..]);
    call.reply.int(forgotten.cast_signed() as i64);
    Ok(())
}

fn graph(call: &mut Call<'_, '_>) -> CommandResult {
    let name = String::from_utf8_lossy(call.args[2]);
    let Some(event) = Engine::of(call).stats.latency_monitor.event(call.args[2]) else {
        let text = format!("ERR No samples available for event '{name}'");
        return Err(ClientError::new(text).into());
    };
    let text = draw(&name, &event, unix_us() / 1_000_000);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// The height of a graph, in rows.
const HEIGHT: u64 = 4;
/// The width of a graph, in columns.
const WIDTH: usize = 80;

/// Draws the newest spikes as columns of marks, with their age below, read downwards.
fn draw(name: &str, event: &Event, now_s: i64) -> String {
    let skipped = event.spikes.len().saturating_sub(WIDTH);
    let shown: Vec<LatencySpike> = event.spikes.iter().skip(skipped).copied().collect();
    let high = shown.iter().map(|spike| spike.took_ms).max().unwrap_or(0);
    let low = shown.iter().map(|spike| spike.took_ms).min().unwrap_or(0);
    let ever = event.highest_ms;
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {ever} ms)\n");
    text.push_str(&"-".repeat(WIDTH));
    text.push('\n');
    for row in (1..=HEIGHT).rev() {
        // A column's height is its share of the highest one, at least one row.
        let reaches =
            |spike: &LatencySpike| (spike.took_ms * HEIGHT).div_ceil(high.max(1)).max(1) >= row;
        let marks = shown.iter().map(|spike| if reaches(spike) { '#' } else { ' ' });
        text.push_str(marks.collect::<String>().trim_end());
        text.push('\n');
    }
    let ages: Vec<String> = shown.iter().map(|spike| age(now_s - spike.unix_s)).collect();
    let deepest = ages.iter().map(String::len).max().unwrap_or(0);
    for depth in 0..deepest {
        text.push('\n');
        text.extend(
            ages.iter().map(|age| age.as_bytes().get(depth).map_or(' ', |b| char::from(*b))),
        );
    }
    text.push('\n');
    text
}

fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{}s", seconds.max(0)),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let settings = operator.engine.settings.current();
    let events = operator.engine.stats.latency_monitor.all();
    let mut findings = Vec::new();
    if settings.latency_monitor_threshold_ms == 0 {
        findings.push(
            "The latency monitor is off. Turn it on with CONFIG SET latency-monitor-threshold \
             and a number of milliseconds."
                .to_owned(),
        );
    }
    if events.is_empty() {
        findings.push("No latency spike was recorded.".to_owned());
    }
    let told = events.iter().enumerate();
    findings.extend(told.map(|(at, (name, event))| diagnose(at + 1, name, event)));
    if !events.is_empty() {
        findings.push(
            "Long commands hold up only clients of the same keys; if short ones take long, too, \
             look for a machine that swaps or is short of cores."
                .to_owned(),
        );
        let unusual = host::findings_now(&settings).into_iter();
        findings.extend(unusual.map(|finding| format!("This machine: {finding}")));
    }
    let text = findings.join("\n") + "\n";
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// A description of an event, with advice.
fn diagnose(number: usize, name: &str, event: &Event) -> String {
    let kept = event.spikes.len().max(1) as u64;
    let mean = event.spikes.iter().map(|spike| spike.took_ms).sum::<u64>() / kept;
    let deviation =
        event.spikes.iter().map(|spike| spike.took_ms.abs_diff(mean)).sum::<u64>() / kept;
    let first_s = event.spikes.front().map_or(0, |spike| spike.unix_s);
    let last_s = event.spikes.back().map_or(0, |spike| spike.unix_s);
    let period_s = last_s.abs_diff(first_s) as f64 / kept as f64;
    let advice = match name {
        "command" => "SLOWLOG GET shows which they were, HOTKEYS START which keys they are about.",
        "fast-command" => {
            "These promise to be quick: what held them up is the machine, or values \
                           of megabytes."
        }
        "eviction-cycle" | "eviction-del" => {
            "Raise maxmemory, or lower \
                                              maxmemory-eviction-tenacity; see INFO stats for \
                                              evicted_keys."
        }
        _ => "Very many keys expire at the same moments: spread their deadlines.",
    };
    format!(
        "{number}. {name}: {} latency spikes (average {mean} ms, mean deviation {deviation} ms, \
         period {period_s:.2} s). The worst ever took {} ms. {advice}",
        event.count, event.highest_ms
    )
}

fn histogram(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let mut shown: Vec<(String, CommandTally)> = Vec::new();
    let is_asked = |name: &str| {
        call.args.len() == 2
            || call.args[2..].iter().any(|asked| {
                let parent = name.split('|').next().unwrap_or_default();
                asked.eq_ignore_ascii_case(name.as_bytes())
                    || asked.eq_ignore_ascii_case(parent.as_bytes())
            })
    };
    for (number, row) in operator.engine.registry.rows().iter().enumerate() {
        let name = row.full_name();
        if is_asked(&name) {
            let totals = operator.engine.stats.tallies.row(number);
            if totals.times.total() > 0 {
                shown.push((name, totals));
            }
        }
    }
    call.reply.map(shown.len());
    for (name, totals) in shown {
        call.reply.bulk(name.as_bytes());
        reply_histogram(call, &totals);
    }
    Ok(())
}

fn reply_histogram(call: &mut Call<'_, '_>, totals: &CommandTally) {
    let mut octaves = Octaves::default();
    totals.times.add_to(&mut octaves);
    let rows = octaves.cumulative_us();
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"calls");
    reply.int(totals.times.total().cast_signed());
    reply.bulk(b"histogram_usec");
    reply.map(rows.len());
    for (bound_us, count) in rows {
        reply.int(bound_us.cast_signed());
        reply.int(count.cast_signed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_diagnosed() {
        let spikes = [(10, 30), (20, 50), (40, 40)];
        let spikes = spikes.map(|(unix_s, took_ms)| LatencySpike { unix_s, took_ms });
        let event = Event { spikes: spikes.into(), highest_ms: 90, sum_ms: 210, count: 4 };
        let text = diagnose(2, "expire-cycle", &event);
        let expected = "2. expire-cycle: 4 latency spikes (average 40 ms, mean deviation 6 ms, \
                        period 10.00 s). The worst ever took 90 ms. Very many keys";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_graph_has_a_column_for_each_spike() {
        let spikes =
            [LatencySpike { unix_s: 0, took_ms: 10 }, LatencySpike { unix_s: 90, took_ms: 40 }];
        let event = Event { spikes: spikes.into(), highest_ms: 50, sum_ms: 50, count: 2 };
        let text = draw("command", &event, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 40 ms, low 10 ms (all time high 50 ms)");
        assert_eq!(lines[2..6], [" #", " #", " #", "##"]);
        assert_eq!(lines[7..], ["11", "m0", " s"]);
    }
}
