import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { type GuardedProcess, startGuarded } from '../../control-plane/storage/guarded-process.ts';
import { postgresUser, type SystemUser } from '../../control-plane/storage/postgres-user.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';

const run = promisify(execFile);

/** Two servers as `docs/operate/failover.md` sets them up: etcd, Patroni, PostgreSQL and a PgBouncer each. */
export interface PatroniCluster {
  /** DATABASE_URL: both PgBouncers, of a role of its own. */
  readonly url: string;
  /** Both servers without a PgBouncer, the primary wanted. */
  readonly directUrl: string;
  readonly nodes: readonly PatroniNode[];
  /** The primary, once there is one and the other follows it as its synchronous standby. */
  whole(): Promise<PatroniNode>;
  /** As Patroni says it just now; null: none. */
  primary(): Promise<PatroniNode | null>;
  switchover(): Promise<void>;
  stop(): Promise<void>;
}

export interface PatroniNode {
  readonly name: string;
  /** kill -9 of the server alone: Patroni notices at once. */
  killPostgres(): Promise<void>;
  /** kill -9 of Patroni, the server and PgBouncer, as when a machine loses its power. */
  killAll(): Promise<void>;
  /** What of it is not running. */
  start(): Promise<void>;
}

/** A machine that others use too takes many times as long as a quiet one. */
const wholeMsMax = 180_000;
const stopMsMax = 20_000;
const lookMs = 200;

interface Place {
  readonly name: string;
  readonly folder: string;
  readonly postgresPort: number;
  readonly restPort: number;
  readonly bouncerPort: number;
}

interface Secrets {
  readonly superuser: string;
  readonly replicator: string;
}

export async function startPatroni(): Promise<PatroniCluster> {
  const commands = {
    etcd: await findDebianProgram('etcd'),
    patroni: await findDebianProgram('patroni'),
    pgbouncer: await findDebianProgram('pgbouncer'),
    postgres: dirname(realpathSync(await findDebianProgram('initdb'))),
  };
  const user = await postgresUser();
  const folder = temporaryFolder();
  const own = (path: string): string => {
    mkdirSync(path, { mode: 0o700 });
    if (user !== null) chownSync(path, user.uid, user.gid);
    return path;
  };
  const running: GuardedProcess[] = [];
  const stop = async (): Promise<void> => {
    // etcd, the first one, last: without it Patroni stops nothing.
    const [first, ...others] = running.splice(0);
    await Promise.all(others.map((one) => one.stop({ timeoutMs: stopMsMax })));
    await first?.stop({ timeoutMs: stopMsMax });
    folder.remove();
  };
  const start = (command: string, args: readonly string[]): GuardedProcess => {
    const env = { PATH: `${commands.postgres}:/usr/bin:/bin`, LC_ALL: 'C.UTF-8', HOME: folder.path };
    const started = startGuarded({ command, args, env, user });
    running.push(started);
    return started;
  };
  try {
    const etcdPort = await startEtcd(own(join(folder.path, 'etcd')), (args) => start(commands.etcd, args));
    const secrets = {
      superuser: randomBytes(12).toString('hex'),
      replicator: randomBytes(12).toString('hex'),
    };
    const places: Place[] = [];
    for (const name of ['node1', 'node2']) {
      places.push({
        name,
        folder: own(join(folder.path, name)),
        postgresPort: await freePort(),
        restPort: await freePort(),
        bouncerPort: await freePort(),
      });
    }
    const nodes = places.map((place) => {
      const patroniFile = writeOwn(
        user,
        join(place.folder, 'patroni.yml'),
        patroniSettings(place, secrets, { etcdPort, programs: commands.postgres }),
      );
      return new Node(place, {
        patroni: () => start('/bin/sh', namingItself(place, 'patroni', [commands.patroni, patroniFile])),
        pgbouncer: () =>
          start(
            '/bin/sh',
            namingItself(place, 'pgbouncer', [commands.pgbouncer, join(place.folder, 'pgbouncer.ini')]),
          ),
      });
    });
    for (const node of nodes) node.startPatroni();
    const whole = () => wholeCluster(nodes, running);
    const primary = await whole();
    const superuserUrl = `postgres://postgres:${secrets.superuser}@127.0.0.1:${primary.place.postgresPort}/postgres`;
    const owned = new URL(await makeOwnedDatabase(superuserUrl));
    await setRole(superuserUrl);
    for (const place of places) writeOwn(user, join(place.folder, 'pgbouncer.ini'), bouncerSettings(place));
    for (const place of places)
      writeOwn(user, join(place.folder, 'userlist.txt'), `"agent_trust" "${owned.password}"\n`);
    for (const node of nodes) await node.start();
    const urlOf = (port: (place: Place) => number): string =>
      `postgres://agent_trust:${owned.password}@${places.map((place) => `127.0.0.1:${port(place)}`).join(',')}/agent_trust?target_session_attrs=primary`;
    return {
      url: urlOf(({ bouncerPort }) => bouncerPort),
      directUrl: urlOf(({ postgresPort }) => postgresPort),
      nodes,
      whole,
      primary: async () => primaryOf(nodes, await membersOf(nodes)),
      switchover: async () => {
        const { name } = await whole();
        const patronictl = join(dirname(commands.patroni), 'patronictl');
        await run(
          patronictl,
          ['-c', join(folder.path, name, 'patroni.yml'), 'switchover', '--force', 'agent-trust'],
          { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8', HOME: folder.path }, timeout: wholeMsMax },
        );
      },
      stop,
    };
  } catch (error) {
    const lines = running.map((one) => one.lastLines()).join('\n');
    await stop();
    throw new Error(`the servers did not start:\n${lines}`, { cause: error });
  }
}

/** Of a shell that writes its process id down and becomes the command. */
const namingItself = ({ folder }: Place, name: string, command: readonly string[]): readonly string[] => [
  '-c',
  'echo $$ > "$0"; exec "$@"',
  join(folder, `${name}.pid`),
  ...command,
];

async function startEtcd(
  folder: string,
  start: (args: readonly string[]) => GuardedProcess,
): Promise<number> {
  const port = await freePort();
  const peers = `http://127.0.0.1:${await freePort()}`;
  const clients = `http://127.0.0.1:${port}`;
  start([
    ...['--name', 'etcd1', '--data-dir', folder, '--listen-client-urls', clients],
    ...['--advertise-client-urls', clients, '--listen-peer-urls', peers],
    ...['--initial-advertise-peer-urls', peers, '--initial-cluster', `etcd1=${peers}`],
    '--log-level=error',
  ]);
  await until(async () => (await call(`${clients}/health`).catch(() => null))?.status === 200, {
    what: 'etcd',
  });
  return port;
}

function writeOwn(user: SystemUser | null, path: string, text: string): string {
  writeFileSync(path, text, { mode: 0o600 });
  if (user !== null) chownSync(path, user.uid, user.gid);
  return path;
}

/** The settings that the page of operators shows, and what differs from server to server. JSON is YAML. */
function patroniSettings(
  { name, folder, postgresPort, restPort }: Place,
  { superuser, replicator }: Secrets,
  { etcdPort, programs }: { readonly etcdPort: number; readonly programs: string },
): string {
  const shown = parse(blockOfPage('yaml'));
  // The disk is not what is tried here.
  Object.assign(shown.bootstrap.dcs.postgresql.parameters, { fsync: 'off' });
  return JSON.stringify({
    ...shown,
    name,
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    etcd3: { hosts: [`127.0.0.1:${etcdPort}`] },
    postgresql: {
      listen: `127.0.0.1:${postgresPort}`,
      connect_address: `127.0.0.1:${postgresPort}`,
      data_dir: join(folder, 'data'),
      bin_dir: programs,
      pgpass: join(folder, 'pgpass'),
      authentication: {
        superuser: { username: 'postgres', password: superuser },
        replication: { username: 'replicator', password: replicator },
      },
      parameters: { unix_socket_directories: folder },
      pg_hba: [
        'local all all trust',
        'host replication replicator all scram-sha-256',
        'host all all all scram-sha-256',
      ],
    },
  });
}

function bouncerSettings({ folder, postgresPort, bouncerPort }: Place): string {
  const own = {
    'port=5432': `port=${postgresPort}`,
    'listen_addr = *': 'listen_addr = 127.0.0.1',
    'listen_port = 6432': `listen_port = ${bouncerPort}`,
    '/etc/pgbouncer/userlist.txt': join(folder, 'userlist.txt'),
  };
  return Object.entries(own).reduce((text, [shown, here]) => {
    if (!text.includes(shown)) throw new Error(`${page} shows no ${shown}`);
    return text.replace(shown, here);
  }, blockOfPage('ini'));
}

const page = 'docs/operate/failover.md';

/** What the page shows of this language. */
function blockOfPage(language: 'yaml' | 'ini'): string {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
  const block = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'ms').exec(text)?.[1];
  if (block === undefined) throw new Error(`${page} shows no settings as ${language}`);
  return block;
}

/** What statements outside of transactions need (docs/database.md). */
async function setRole(url: string): Promise<void> {
  const sql = connect({ url, connectionsMax: 1 });
  try {
    const settings = [
      "statement_timeout = '30s'",
      'jit = off',
      'enable_seqscan = off',
      "default_transaction_isolation = 'read committed'",
    ];
    for (const setting of settings) await sql.unsafe(`ALTER ROLE agent_trust SET ${setting}`);
  } finally {
    await sql.end();
  }
}

class Node implements PatroniNode {
  readonly place: Place;
  readonly #start: { readonly patroni: () => GuardedProcess; readonly pgbouncer: () => GuardedProcess };
  #patroni: GuardedProcess | null = null;
  #pgbouncer: GuardedProcess | null = null;

  constructor(place: Place, start: { patroni: () => GuardedProcess; pgbouncer: () => GuardedProcess }) {
    this.place = place;
    this.#start = start;
  }

  get name(): string {
    return this.place.name;
  }

  startPatroni(): void {
    this.#patroni = this.#start.patroni();
  }

  async start(): Promise<void> {
    if (this.#patroni?.isRunning !== true) this.startPatroni();
    if (this.#pgbouncer?.isRunning !== true) this.#pgbouncer = this.#start.pgbouncer();
  }

  async killPostgres(): Promise<void> {
    const pid = this.#postmaster();
    if (pid !== null) process.kill(pid, 'SIGKILL');
  }

  async killAll(): Promise<void> {
    for (const name of ['patroni', 'pgbouncer']) {
      const guarded = name === 'patroni' ? this.#patroni : this.#pgbouncer;
      if (guarded?.isRunning !== true) continue;
      process.kill(Number(readFileSync(join(this.place.folder, `${name}.pid`), 'utf8')), 'SIGKILL');
      await guarded.exited;
    }
    await this.killPostgres();
  }

  #postmaster(): number | null {
    const path = join(this.place.folder, 'data', 'postmaster.pid');
    if (!existsSync(path)) return null;
    return Number(readFileSync(path, 'utf8').split('\n')[0]);
  }
}

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

/** What the first server that answers says of both; null: none answers. */
async function membersOf(nodes: readonly Node[]): Promise<readonly Member[] | null> {
  for (const { place } of nodes) {
    const reply = await call(`http://127.0.0.1:${place.restPort}/cluster`).catch(() => null);
    if (reply?.status === 200) return reply.body.members;
  }
  return null;
}

const primaryOf = (nodes: readonly Node[], members: readonly Member[] | null): Node | null => {
  const leader = members?.find(({ role, state }) => role === 'leader' && state === 'running');
  return nodes.find(({ name }) => name === leader?.name) ?? null;
};

async function wholeCluster(nodes: readonly Node[], running: readonly GuardedProcess[]): Promise<Node> {
  const endsAtMs = performance.now() + wholeMsMax;
  let members: readonly Member[] | null = null;
  while (performance.now() < endsAtMs) {
    members = await membersOf(nodes);
    const primary = primaryOf(nodes, members);
    const hasStandby = members?.some(
      ({ role, state }) => role === 'sync_standby' && ['running', 'streaming'].includes(state),
    );
    if (primary !== null && hasStandby) return primary;
    await pause(lookMs);
  }
  const lines = running.map((one) => one.lastLines()).join('\n--\n');
  throw new Error(`no primary with a synchronous standby: ${JSON.stringify(members)}\n${lines}`);
}
