//! The server as the HTTP service sees it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use pantala_admin::{
    AdminFacts, AdminHost, Figures, LaneFigures, LocalEnd, MemoryFigures, NewClient, NotReady,
    PastRun, WorkerFigures,
};
use pantala_base::clock::monotonic_us;
use pantala_base::limits::rss_bytes;
use pantala_commands::Session;
use pantala_engine::Engine;
use pantala_engine::condition::states::States;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_persistence::runs::{Run, RunKind};
use pantala_protocol::Version;

use crate::shared::Shared;
use pantala_engine::stats::info_table::InfoTable;
use pantala_operator::info;
use pantala_workers::listener_kind::ListenerKind;
use pantala_workers::workers::inbox::Message;

/// The library name of its clients in CLIENT LIST.
const LIB_NAME: &[u8] = b"console";

/// States in which writes would not last.
const UNKEPT: States = States::UNKEPT.union(States::UNSAVED).union(States::UNWRITTEN);

/// The server behind the HTTP pages: implements [`AdminHost`] on [`Shared`].
pub struct Server(pub Arc<Shared>);

impl AdminHost for Server {
    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn connect(&self, client: NewClient) -> Result<LocalEnd, String> {
        let shared = &self.0;
        let maxclients = shared.engine.settings.current().maxclients;
        let link = shared.workers.room.take_link(maxclients);
        let link = link.ok_or("ERR max number of clients reached")?;
        let (near, far) = pair().map_err(|error| {
            shared.workers.room.went();
            format!("there is no connection: {error}")
        })?;
        let now = shared.engine.acl.in_force();
        let mut session = Session::of_client(shared.engine.notices.directory.next_id(), &now);
        if let Some(login) = client.login {
            session.log_in(login, &now);
        }
        session.version = Version::Resp3;
        session.since_us = monotonic_us();
        (session.peer, session.local) = (client.address, client.local);
        session.lib_name = LIB_NAME.into();
        session.lib_version = env!("CARGO_PKG_VERSION").as_bytes().into();
        let (session, kind) = (Box::new(session), ListenerKind::RespUnix);
        shared.workers.seat(Message::Accepted { socket: far.into(), session, kind });
        Ok(LocalEnd { stream: near, place: Box::new(link) })
    }

    fn facts(&self) -> AdminFacts {
        let (run, settings) = (&self.0.operator.run, self.0.engine.settings.current());
        AdminFacts {
            version: env!("CARGO_PKG_VERSION"),
            port: if settings.port == 0 { settings.tls_port } else { settings.port },
            event_loop: run.io_engine.get().cloned().unwrap_or_default(),
            started_unix_ms: run.started_unix_s * 1000,
            uptime_s: monotonic_us().saturating_sub(run.started_us) / 1_000_000,
        }
    }

    fn readiness(&self) -> Result<(), NotReady> {
        let condition = &self.0.engine.condition;
        let states = condition.lasting.now();
        if condition.shutdown.is_final() || condition.shutdown.is_preparing() {
            return Err(NotReady::Stopping);
        }
        if states.intersects(States::LOADING) {
            return Err(NotReady::Loading);
        }
        match states.intersects(UNKEPT) {
            true => Err(NotReady::DiskFails),
            false => Ok(()),
        }
    }

    fn past_runs(&self) -> Vec<PastRun> {
        self.0.durability.runs.last().into_iter().map(past_run).collect()
    }

    fn info(&self) -> InfoTable {
        info::figures(&self.0.operator)
    }

    fn figures(&self) -> Figures {
        let shared = &*self.0;
        let engine = &shared.engine;
        let following = &shared.replication.following;
        let laned = engine.stats.tallies.sum_ever(|tally| tally.laned.get());
        Figures {
            memory: MemoryFigures {
                used: engine.condition.memory.used(),
                rss: rss_bytes(),
                most: engine.settings.current().memory_limit(),
                peak: engine.condition.memory.peak(),
                not_counted: engine.unwritten_bytes(),
            },
            workers: workers(shared),
            lane: LaneFigures {
                threads: engine.settings.current().slow_lane_threads as u64,
                waiting: engine.lane.waiting() as u64,
                jobs: laned,
            },
            clients: shared.workers.room.connection_count() as u64,
            cpu_s: info::cpu_seconds(),
            persistence: info::persistence(&shared.operator),
            link_is_up: following.is_replica().then(|| following.is_connected()),
            replicas: shared.replication.downstream.replicas.all().len() as u64,
        }
    }
}

fn past_run(run: Run) -> PastRun {
    let Run { kind, why, began_ms, took_ms, keys, bytes, file, error } = run;
    let kind = match kind {
        RunKind::Snapshot => "snapshot",
        RunKind::Rewrite => "rewrite",
    };
    PastRun { kind, why, began_ms, took_ms, keys, bytes, file, error }
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok((near, far))
}

fn workers(shared: &Shared) -> Vec<WorkerFigures> {
    let of = |id: usize| {
        let counts =
            |pick: fn(&ThreadTally) -> u64| shared.workers.tally(id).map_or(0, |t| pick(&t));
        WorkerFigures {
            id,
            connections: shared.workers.connections_of(id) as u64,
            commands: counts(info::calls),
            busy_us: shared.workers.awake_us(id),
            lock_parks: counts(|tally| tally.parked.get()),
        }
    };
    shared.workers.serving().into_iter().map(of).collect()
}
