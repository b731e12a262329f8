// How this server stands to its primary and its replicas, from INFO replication: the fields of
// Redis and of Valkey. Tests: tests/unit/replication.test.ts.

export interface Replica {
  /** Address and port, as the primary knows them. */
  name: string;
  /** online, or what the full copy waits for. */
  state: string;
  offset: number;
  /** Bytes of the stream that it has not confirmed; NaN before it follows the stream. */
  behindBytes: number;
  /** Seconds since it was heard last; NaN when it never was. */
  silentS: number;
}

/** The primary's side as its replica sees it. */
export interface Primary {
  name: string;
  isUp: boolean;
  /** Seconds; NaN when it was never heard. */
  silentS: number;
  /** Seconds; NaN when it is up, or was never up. */
  downS: number;
  /** A full copy that is under way; its size may not be known. */
  copy: { readBytes: number; totalBytes: number } | undefined;
}

export interface Replication {
  isReplica: boolean;
  primary: Primary | undefined;
  replicas: Replica[];
  /** How far this server is in the stream of its history. */
  offset: number;
  history: string;
  /** The history before a failover, and how far it may be continued. */
  former: { history: string; offset: number } | undefined;
  backlog: { size: number; used: number; first: number } | undefined;
}

type Fields = Record<string, string>;

const numberOf = (text: string | undefined) =>
  text === undefined || text === '' ? Number.NaN : Number(text);
/** A length of time; servers write -1 where there is none. */
const secondsOf = (text: string | undefined) => {
  const seconds = numberOf(text);
  return seconds >= 0 ? seconds : Number.NaN;
};

export function replicationOf(info: Fields): Replication {
  const offset = numberOf(info.master_repl_offset);
  const isReplica = info.role === 'slave' || info.role === 'replica';
  const former = info.master_replid2 ?? '';
  return {
    isReplica,
    primary: isReplica ? primaryOf(info) : undefined,
    replicas: replicasOf(info, offset),
    offset,
    history: info.master_replid ?? '',
    former: /[^0]/.test(former)
      ? { history: former, offset: numberOf(info.second_repl_offset) }
      : undefined,
    backlog:
      info.repl_backlog_active === '1'
        ? {
            size: numberOf(info.repl_backlog_size),
            used: numberOf(info.repl_backlog_histlen),
            first: numberOf(info.repl_backlog_first_byte_offset),
          }
        : undefined,
  };
}

function primaryOf(info: Fields): Primary {
  const total = numberOf(info.master_sync_total_bytes);
  const isCopying = info.master_sync_in_progress === '1';
  return {
    name: addressOf(info.master_host, info.master_port),
    isUp: info.master_link_status === 'up',
    silentS: secondsOf(info.master_last_io_seconds_ago),
    downS: secondsOf(info.master_link_down_since_seconds),
    copy: isCopying
      ? {
          readBytes: numberOf(info.master_sync_read_bytes),
          totalBytes: total > 0 ? total : Number.NaN,
        }
      : undefined,
  };
}

/** The lines slave0, slave1 ... in their order. */
function replicasOf(info: Fields, offset: number): Replica[] {
  const replicas: Replica[] = [];
  for (let index = 0; ; index += 1) {
    const line = info[`slave${index}`];
    if (line === undefined) return replicas;
    const parts: Fields = {};
    for (const part of line.split(',')) {
      const at = part.indexOf('=');
      if (at > 0) parts[part.slice(0, at)] = part.slice(at + 1);
    }
    const confirmed = numberOf(parts.offset);
    const isOnline = parts.state === 'online';
    replicas.push({
      name: addressOf(parts.ip, parts.port),
      state: parts.state ?? 'unknown',
      offset: confirmed,
      behindBytes: isOnline ? Math.max(0, offset - confirmed) : Number.NaN,
      silentS: isOnline ? secondsOf(parts.lag) : Number.NaN,
    });
  }
}

const addressOf = (host = '?', port = '?') =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
