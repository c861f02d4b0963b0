import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../base/free-port.ts';
import { call, type Reply } from '../base/http-client.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { until } from '../base/until.ts';
import type { Program, Programs } from './programs.ts';

/**
 * Control planes and sidecars as separate processes on one database, as an operator would run them.
 * Each program keeps its port and its folder when it is stopped and started again.
 */
export interface Installation {
  readonly adminKey: string;
  startControlPlane(env?: Readonly<Record<string, string>>): Promise<Running>;
  /** Resolves when it is ready, or where `isReady` is false as soon as it listens. */
  startSidecar(
    env?: Readonly<Record<string, string>>,
    until?: { readonly isReady: boolean },
  ): Promise<Running>;
  /** Calls the first control plane with the admin key. */
  api(method: string, path: string, body?: unknown): Promise<Reply>;
  /** Of the first account, unless a key of another is given. */
  createGate(body?: Readonly<Record<string, unknown>>, key?: string): Promise<string>;
  issuePassport(
    body?: Readonly<Record<string, unknown>>,
  ): Promise<{ readonly id: string; readonly token: string }>;
  /** Makes a standing approval; its id. */
  approveAhead(body: Readonly<Record<string, unknown>>): Promise<string>;
  /** Its id. */
  createWallet(body?: Readonly<Record<string, unknown>>): Promise<string>;
  /**
   * Exports everything the admin key may see and lets two strangers read it: our command, and the verifier
   * that imports nothing of ours. Throws with what they said unless both agree that it holds; resolves with
   * what our command printed. `since`: each chain from its first record that is not older.
   */
  verifyExport(since?: string): Promise<string>;
  close(): Promise<void>;
}

export interface Running {
  readonly origin: string;
  readonly dataDir: string;
  readonly program: Program;
  /** Ends it as told and starts it again, in its folder, on its port. */
  restart(signal: NodeJS.Signals): Promise<void>;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  start(): Promise<void>;
}

export async function installation(
  programs: Programs,
  options: {
    readonly databaseUrl: string;
    readonly redisUrl?: string;
    /** `ADMIN_API_KEY` and `MASTER_KEY` of a database that has been in use. Default: new ones. */
    readonly secrets?: { readonly adminKey: string; readonly masterKey: string };
    /** Further settings of every program. */
    readonly env?: Readonly<Record<string, string>>;
    /** How long a program may take until it is ready. Default: a minute. */
    readonly readyMsMax?: number;
  },
): Promise<Installation> {
  const folder = temporaryFolder();
  const running: Running[] = [];
  const { adminKey, masterKey } = options.secrets ?? {
    adminKey: `at_live_${randomBytes(24).toString('hex')}`,
    masterKey: randomBytes(32).toString('base64url'),
  };
  const redis: Readonly<Record<string, string>> =
    options.redisUrl === undefined ? {} : { REDIS_URL: options.redisUrl };
  let controlPlaneOrigin = '';
  let sidecarKey = '';

  const api = (method: string, path: string, body?: unknown, key = adminKey): Promise<Reply> =>
    call(`${controlPlaneOrigin}/v1${path}`, {
      method,
      key,
      ...(body === undefined ? {} : { body }),
    });

  async function run(
    args: readonly string[],
    port: number,
    env: Readonly<Record<string, string>>,
    place: '/readyz' | '/livez' = '/readyz',
  ): Promise<Running> {
    const dataDir = join(folder.path, `${args[0]}-${running.length}`);
    const launch = () =>
      programs.start(args, { DATA_DIR: dataDir, LOG_LEVEL: 'info', ...redis, ...options.env, ...env });
    const origin = `http://127.0.0.1:${port}`;
    let program = launch();
    const self: Running = {
      origin,
      dataDir,
      get program() {
        return program;
      },
      stop: (signal) => program.stop(signal),
      start: async () => {
        program = launch();
        await answering(`${origin}${place}`, program, options.readyMsMax);
      },
      restart: async (signal) => {
        await program.stop(signal);
        await self.start();
      },
    };
    running.push(self);
    await answering(`${origin}${place}`, program, options.readyMsMax);
    return self;
  }

  return {
    adminKey,
    api,
    startControlPlane: async (env = {}) => {
      const port = await freePort();
      const started = await run(['control-plane'], port, {
        PORT: String(port),
        DATABASE_URL: options.databaseUrl,
        MASTER_KEY: masterKey,
        ADMIN_API_KEY: adminKey,
        ...env,
      });
      if (controlPlaneOrigin === '') controlPlaneOrigin = started.origin;
      return started;
    },
    startSidecar: async (env = {}, { isReady } = { isReady: true }) => {
      if (sidecarKey === '') {
        const answer = await api('POST', '/api-keys', { name: 'sidecars', scopes: ['sidecars:connect'] });
        sidecarKey = answer.body.key;
      }
      const port = await freePort();
      const settings = {
        SIDECAR_PORT: String(port),
        CONTROL_PLANE_URL: controlPlaneOrigin,
        SIDECAR_API_KEY: sidecarKey,
        ...env,
      };
      return run(['sidecar'], port, settings, isReady ? '/readyz' : '/livez');
    },
    createGate: async (body = {}, key = adminKey) => {
      const answer = await api('POST', '/gates', { name: 'gate', trust_level: 'L1', ...body }, key);
      if (answer.status !== 201) throw new Error(`gate: ${JSON.stringify(answer.body)}`);
      return answer.body.gate_id;
    },
    issuePassport: async (body = {}) => {
      const answer = await api('POST', '/passports', {
        agent_id: `agent-${randomBytes(6).toString('hex')}`,
        permissions: ['orders:create'],
        ...body,
      });
      if (answer.status !== 201) throw new Error(`passport: ${JSON.stringify(answer.body)}`);
      return { id: answer.body.passport_id, token: answer.body.jwt };
    },
    approveAhead: async (body) => {
      const answer = await api('POST', '/approvals/standing', body);
      if (answer.status !== 201) throw new Error(`standing approval: ${JSON.stringify(answer.body)}`);
      return answer.body.standing_approval_id;
    },
    createWallet: async (body = {}) => {
      const answer = await api('POST', '/wallets', { name: 'a wallet', ...body });
      if (answer.status !== 201) throw new Error(`wallet: ${JSON.stringify(answer.body)}`);
      return answer.body.wallet_id;
    },
    verifyExport: async (since = '') => {
      const file = join(folder.path, 'export.jsonl');
      const jwks = join(folder.path, 'jwks.json');
      const exported = await api('GET', `/attestations/export?format=jsonl${since && `&since=${since}`}`);
      writeFileSync(file, exported.body);
      writeFileSync(jwks, JSON.stringify((await call(`${controlPlaneOrigin}/.well-known/jwks.json`)).body));
      execFileSync(process.execPath, [independentVerifier, file, jwks], { encoding: 'utf8' });
      const ours = programs.start(['attestations', 'verify', file, '--jwks', jwks], {});
      const code = await ours.exited;
      if (code !== 0) throw new Error(`attestations verify ended with ${code}:\n${ours.output()}`);
      return ours.output();
    },
    close: async () => {
      await Promise.all(running.map((one) => (one.program.isRunning ? one.stop('SIGKILL') : null)));
      folder.remove();
    },
  };
}

const independentVerifier = fileURLToPath(new URL('../data/independent-verifier.mjs', import.meta.url));

function answering(url: string, program: Program, timeoutMs = 60_000): Promise<void> {
  const isReady = async (): Promise<boolean> => {
    if (!program.isRunning) throw new Error('the program ended before it was ready');
    return (await call(url).catch(() => null))?.status === 200;
  };
  return until(isReady, { what: `a program that is ready: ${url}`, timeoutMs }).catch((error: unknown) => {
    const state = program.isRunning ? whereItIs(program.pid) : '';
    throw new Error(`${error instanceof Error ? error.message : error}\n${program.output()}\n${state}`);
  });
}

/** What Linux knows of each thread of a process that gives no sign of life; nothing on other systems. */
function whereItIs(pid: number): string {
  const tasks = `/proc/${pid}/task`;
  if (!existsSync(tasks)) return '';
  const read = (thread: string, file: string) => {
    try {
      return readFileSync(join(tasks, thread, file), 'utf8').trim();
    } catch {
      return 'gone';
    }
  };
  const lines = readdirSync(tasks).map((thread) =>
    ['comm', 'wchan', 'syscall', 'schedstat'].map((file) => `${file} ${read(thread, file)}`).join(', '),
  );
  return lines.join('\n');
}
