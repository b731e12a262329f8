// Lines of CLIENT LIST. Tests: tests/unit/clients.test.ts.

export interface Client {
  id: string;
  addr: string;
  name: string;
  library: string;
  user: string;
  db: number;
  cmd: string;
  flags: string;
  /** Seconds. */
  age: number;
  idle: number;
  /** Bytes. */
  memory: number;
  sub: number;
  psub: number;
  ssub: number;
  fields: [string, string][];
  line: string;
}

export function clientsOf(list: string): Client[] {
  return list
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(clientOf);
}

function clientOf(line: string): Client {
  const fields = line.split(' ').map((field): [string, string] => {
    const at = field.indexOf('=');
    return at < 0 ? [field, ''] : [field.slice(0, at), field.slice(at + 1)];
  });
  const of = new Map(fields);
  const text = (name: string) => of.get(name) ?? '';
  const number = (name: string) => Number(of.get(name) ?? 0) || 0;
  return {
    id: text('id'),
    addr: text('addr'),
    name: text('name'),
    library: [text('lib-name'), text('lib-ver')].filter(Boolean).join(' '),
    user: text('user'),
    db: number('db'),
    cmd: text('cmd').replace('|', ' '),
    flags: text('flags'),
    age: number('age'),
    idle: number('idle'),
    memory: number('tot-mem'),
    sub: number('sub'),
    psub: number('psub'),
    ssub: number('ssub'),
    fields,
    line,
  };
}
