import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type RunningControlPlane, startControlPlane } from '../../control-plane/main.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { advisoryLocks } from '../../control-plane/storage/locks.ts';
import { startAllInOne } from '../../deploy/all-in-one.ts';
import type { Running } from '../../deploy/run-until-signal.ts';
import { type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import { type Environment, parseSettings, type SettingValues } from '../../shared/runtime/settings.ts';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import {
  type TestDatabase,
  testDatabase,
  testDatabaseServer,
  waitingForLocks,
} from '../support/database/postgres.ts';
import { startTestProvider } from '../support/peers/test-provider.ts';
import { sharedService } from '../support/run/shared-services.ts';

const masterKey = (fill: number) => Buffer.alloc(32, fill).toString('base64url');
const nobodyThere = 'postgres://nobody:hunter2@127.0.0.1:1/nothing';

const notUpToDate =
  'the schema of the database is not up to date yet; the start goes on when the migration is over, here or on the replica that is at it';

describe('startControlPlane', () => {
  let database: TestDatabase;
  let folder: ReturnType<typeof temporaryFolder>;
  const running: RunningControlPlane[] = [];
  beforeEach(async () => {
    database = await testDatabase({ isEmpty: true });
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((one) => one.close()));
    folder.remove();
    await database.drop();
  });

  const start = async (
    environment: Environment = {},
    logger: Logger = silentLogger,
  ): Promise<RunningControlPlane> => {
    const given = { DATA_DIR: folder.path, DATABASE_URL: database.url, MASTER_KEY: masterKey(1), PORT: '0' };
    const settings = parseSettings(['control-plane'], { ...given, ...environment });
    const one = await startControlPlane(settings, { logger, signal: new AbortController().signal });
    running.push(one);
    return one;
  };
  const adminKey = () => readFileSync(join(folder.path, 'admin-api-key'), 'utf8').trim();
  const status = async (origin: string) =>
    (await fetch(`${origin}/v1/accounts`, { headers: { authorization: `Bearer ${adminKey()}` } })).status;

  it('serves an empty database with the key from the file, and again at the next start', async () => {
    const first = await start();
    expect(await status(first.origin)).toBe(200);
    await first.close();
    await expect(fetch(`${first.origin}/livez`)).rejects.toThrow();
    expect(await status((await start()).origin)).toBe(200);
  });

  it('serves with its replicas, each in a folder of its own, that started at the same moment', async () => {
    const replicas = await Promise.all(
      ['a', 'b', 'c'].map((name) =>
        start({ DATA_DIR: join(folder.path, name), ADMIN_API_KEY: `at_live_${'k'.repeat(40)}` }),
      ),
    );
    const answers = await Promise.all(
      replicas.map(async ({ origin }) => (await fetch(`${origin}/.well-known/jwks.json`)).text()),
    );
    expect(new Set(answers).size).toBe(1);
  });

  it.each([
    ['its schema is made', `SELECT pg_advisory_lock(${advisoryLocks.migrations})`],
    ['its keys are read', 'LOCK TABLE signing_keys'],
  ])('begins again where the database goes away while %s', async (_, lock) => {
    const server = await testDatabaseServer();
    const DATABASE_URL = server.url;
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (_: unknown, message: string) => void warnings.push(message) };
    try {
      await (await start({ DATABASE_URL })).close();
      const sql = connect({ url: DATABASE_URL, connectionsMax: 2 });
      let starting: Promise<RunningControlPlane> | undefined;
      await sql
        .begin(async (tx) => {
          await tx.unsafe(lock);
          starting = start({ DATABASE_URL }, logger);
          await until(async () => (await waitingForLocks(sql)) > 0, { what: 'the start waits for a lock' });
          await server.stopServer();
        })
        .catch(() => undefined);
      await sql.end({ timeout: 1 });
      await server.startServer();
      const began = await starting;
      expect(await status(began?.origin ?? '')).toBe(200);
      expect(warnings).toContain('the database went away during the start, which begins again');
      await began?.close();
    } finally {
      await server.stop();
    }
  });

  it.each([
    {
      what: 'its turn',
      block: `SELECT pg_advisory_xact_lock(${advisoryLocks.migrations})`,
      facts: {},
    },
    {
      what: 'a step of its own',
      block: 'CREATE TABLE accounts ()',
      facts: { file: '0001-foundation.sql', step: 1 },
    },
  ])('says that it waits for $what where the schema takes long', async ({ block, facts }) => {
    const notes: [unknown, string][] = [];
    const note = (about: unknown, message: string) => {
      if (/schema|listening/.test(message)) notes.push([about, message]);
    };
    const rolledBack = new Error('rolled back');
    const blocked = database.sql.begin(async (tx) => {
      await tx.unsafe(block);
      void start({}, { ...silentLogger, info: note, warn: note });
      await until(() => notes.length > 0, { what: 'it says something' });
      throw rolledBack;
    });
    await expect(blocked).rejects.toThrow(rolledBack);
    await until(() => notes.length > 1 && running.length === 1, { what: 'it goes on' });
    expect([notes[0], notes.at(-1)]).toEqual([
      [{ seconds: 5, ...facts }, notUpToDate],
      [expect.anything(), 'control plane is listening'],
    ]);
    // On a busy machine a later step takes long too, and says so.
    for (const [, message] of notes.slice(1, -1)) expect(message).toBe(notUpToDate);
  });

  it('refuses another MASTER_KEY, and lets go of everything it had started', async () => {
    await (await start()).close();
    await expect(start({ MASTER_KEY: masterKey(2) })).rejects.toThrow('MASTER_KEY is not the one');
    await start();
  });

  it('names the port that is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const port = typeof address === 'object' ? address?.port : 0;
    await expect(start({ PORT: String(port) })).rejects.toThrow(`PORT ${port} on 127.0.0.1 is in use`);
    other.close();
    await start();
  });

  it('logs in with a provider at a private address where that is allowed, and opens nothing else', async () => {
    const provider = await startTestProvider();
    try {
      const { issuer, clientId, clientSecret } = provider.settings;
      const oidc = { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret };
      await expect(start({ ...oidc, WEBHOOK_ALLOW_PRIVATE: '1' })).rejects.toThrow(
        'OIDC_ALLOW_PRIVATE=1 allows private addresses and http.',
      );
      const { origin } = await start({ ...oidc, OIDC_ALLOW_PRIVATE: '1' });
      const methods = await (await fetch(`${origin}/v1/login-methods`)).json();
      expect(methods).toMatchObject({ oidc: { name: new URL(issuer).host, available: true } });
      const webhook = await fetch(`${origin}/v1/webhooks`, {
        method: 'POST',
        headers: { authorization: `Bearer ${adminKey()}`, 'content-type': 'application/json' },
        body: JSON.stringify({ url: issuer, events: ['passport.revoked'] }),
      });
      expect(webhook.status).toBe(400);
    } finally {
      await provider.close();
    }
  });

  it('names a host on which it cannot listen', async () => {
    await expect(start({ HOST: '203.0.113.1', PORT: '9' })).rejects.toThrow(
      'cannot listen on HOST 203.0.113.1, PORT 9',
    );
  });
});

describe('startAllInOne', () => {
  it('starts nothing more after SIGTERM, and stops all started parts', async () => {
    const database = await testDatabase({ isEmpty: true });
    const folder = temporaryFolder();
    const ending = new AbortController();
    let origin = '';
    const logger: Logger = {
      ...silentLogger,
      info: (fields, message) => {
        if (message !== 'control plane is listening') return;
        origin = 'origin' in fields ? String(fields.origin) : '';
        ending.abort(new Error('told to end'));
      },
      child: () => logger,
    };
    const given = { DATABASE_URL: database.url, MASTER_KEY: masterKey(1), PORT: '0', SIDECAR_PORT: '0' };
    const settings = parseSettings(['control-plane', 'sidecar'], { ...given, DATA_DIR: folder.path });
    await expect(startAllInOne(settings, { logger, signal: ending.signal })).rejects.toThrow('told to end');
    await expect(fetch(`${origin}/livez`)).rejects.toThrow('fetch failed');
    expect(existsSync(join(folder.path, 'sidecar'))).toBe(false);
    folder.remove();
    await database.drop();
  });

  describe.each([1, 2])('while its sidecar of %i threads listens without a state', (threads) => {
    let database: TestDatabase;
    let folder: ReturnType<typeof temporaryFolder>;
    let settings: SettingValues;
    beforeEach(async () => {
      database = await testDatabase({ isEmpty: true });
      folder = temporaryFolder();
      settings = parseSettings(['control-plane', 'sidecar'], {
        DATABASE_URL: database.url,
        MASTER_KEY: masterKey(1),
        DATA_DIR: folder.path,
        PORT: '0',
        SIDECAR_PORT: String(await freePort()),
        SIDECAR_THREADS: String(threads),
      });
      // Makes the tables.
      const { signal } = new AbortController();
      await (await startControlPlane(settings, { logger: silentLogger, signal })).close();
    });
    afterEach(async () => {
      folder.remove();
      await database.drop();
    });

    /** Its snapshot waits for a lock on what a start does not read, for as long as `work` takes. */
    function startBehindLock(
      work: (start: { isOver: boolean }) => Promise<void>,
      signal: AbortSignal,
      onListening: () => void = () => undefined,
    ): Promise<{ starting: Promise<Running> }> {
      let isListening = false;
      const logger: Logger = {
        ...silentLogger,
        info: (_, message) => {
          if (message !== 'sidecar is listening') return;
          isListening = true;
          onListening();
        },
        child: () => logger,
      };
      return database.sql.begin(async (tx) => {
        await tx`LOCK TABLE gates`;
        const starting = startAllInOne(settings, { logger, signal });
        const start = { isOver: false };
        const end = () => {
          start.isOver = true;
        };
        starting.then(end, end);
        // Asked in it, because a start on a busy machine takes longer than a connection may be silent.
        const isWaiting = async () => (await waitingForLocks(tx)) >= threads;
        await until(async () => ((await isWaiting()) || signal.aborted) && isListening, {
          what: 'it listens, and its snapshot waits for the lock',
        });
        await work(start);
        return { starting };
      });
    }

    it('is not said to be ready, and decides from the moment that it is', async () => {
      const readyz = () => fetch(`http://127.0.0.1:${settings.SIDECAR_PORT}/readyz`);
      const { starting } = await startBehindLock(async (start) => {
        expect((await readyz()).status).toBe(503);
        expect(start.isOver).toBe(false);
      }, new AbortController().signal);
      const running = await starting;
      // Each of its own connection, so that every thread gets some.
      const answers = await Promise.all(Array.from({ length: 8 * threads }, readyz));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
      await running.close();
    });

    it.each(['just before', 'while'])('ends on SIGTERM %s it waits', async (when) => {
      const ending = new AbortController();
      const end = () => ending.abort(new Error('told to end'));
      const livez = () => fetch(`http://127.0.0.1:${settings.SIDECAR_PORT}/livez`);
      const isClosed = async () => (await livez().catch(() => null)) === null;
      const { starting } = await startBehindLock(
        async () => {
          end();
          // And not only when the state is there.
          await until(isClosed, { what: 'it listens no more' });
        },
        ending.signal,
        when === 'just before' ? end : undefined,
      );
      await expect(starting).rejects.toThrow('told to end');
    });
  });
});

describe('the command', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let command: string;
  beforeAll(async () => {
    command = join(await sharedService('programs'), 'deploy/agent-trust.js');
    folder = temporaryFolder();
  });
  afterAll(() => folder.remove());

  function run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const child = spawn(process.execPath, [command, ...args], {
      env: { PATH: process.env['PATH'] ?? '', DATA_DIR: join(folder.path, 'data'), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const outputs = Promise.all([text(child.stdout), text(child.stderr)]);
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk;
    });
    const ended = once(child, 'exit').then(async ([code]) => {
      const [out, err] = await outputs;
      return { code: code as number | null, out, err };
    });
    return { child, ended, said: (what: string) => stderr.includes(what) };
  }

  it('names the remedy for unusable files in its folder', async () => {
    const dataDir = join(folder.path, 'occupied');
    mkdirSync(dataDir, { mode: 0o700 });
    writeFileSync(join(dataDir, 'postgres'), 'no folder', { mode: 0o600 });
    const { code, err } = await run(['control-plane'], { PORT: '0', DATA_DIR: dataDir }).ended;
    expect(code).toBe(1);
    expect(err).toMatch(
      /^agent-trust: DATA_DIR .*\/occupied cannot be used: .*\/occupied\/postgres.*; fix that, .*\n$/,
    );
  });

  it('ends at once with exit code 0 on SIGTERM while it waits for the database', async () => {
    const { child, ended, said } = run(['control-plane'], {
      DATABASE_URL: nobodyThere,
      MASTER_KEY: masterKey(1),
    });
    await until(() => said('the database cannot be reached yet'), { what: 'the first attempt' });
    child.kill('SIGTERM');
    const { code, err } = await ended;
    expect(code).toBe(0);
    expect(err).toContain('"place":"127.0.0.1:1"');
    expect(err).toMatch(/"signal":"SIGTERM".*"msg":"stopping".*"msg":"stopped"/s);
    expect(err).not.toContain('hunter2');
  });

  it('says what to restore when the master key of the embedded database is another one, or lost', async () => {
    const env = { PORT: '0', DATA_DIR: join(folder.path, 'embedded') };
    const first = run(['control-plane'], env);
    await until(() => first.said('control plane is listening'), { what: 'it listens' });
    first.child.kill('SIGINT');
    expect((await first.ended).code).toBe(0);
    writeFileSync(join(folder.path, 'embedded', 'master-key'), masterKey(9));
    const other = await run(['control-plane'], env).ended;
    expect(other.code).toBe(1);
    expect(other.err).toContain('restore DATA_DIR/master-key');
    rmSync(join(folder.path, 'embedded', 'master-key'));
    const lost = await run(['control-plane'], env).ended;
    expect(lost.code).toBe(1);
    expect(lost.err).toMatch(
      /master-key is missing, .* Restore the file from your backup, or set MASTER_KEY/,
    );
    expect(existsSync(join(folder.path, 'embedded', 'master-key'))).toBe(false);
  });
});

describe('runUntilSignal', () => {
  let module: string;
  beforeAll(async () => {
    module = join(await sharedService('programs'), 'deploy/run-until-signal.js');
  });

  /**
   * A program that says "running", runs `body`, and says "closing" when it is closed, which takes `closeMs`.
   * On its monotonic clock a second passes with each SIGUSR2, and nothing otherwise.
   */
  function runProgram(options: { body?: string; closeMs?: number; drainGraceMs?: number }) {
    const program = `
      import(${JSON.stringify(module)}).then(async ({ runUntilSignal }) => {
        const say = (what) => process.stdout.write(what + '\\n');
        let nowMs = 0;
        performance.now = () => nowMs;
        process.on('SIGUSR2', () => { nowMs += 1000; say('later'); });
        const start = async () => {
          setInterval(() => undefined, 1000);
          setTimeout(() => { say('running'); ${options.body ?? ''} });
          return { startDraining: () => say('draining'), close: () => { say('closing'); return new Promise((done) => setTimeout(done, ${options.closeMs ?? 0})); } };
        };
        const logger = { error: (_, message) => say(message), info: (fields, message) => say([message, ...Object.values(fields)].join(' ')) };
        process.exit(await runUntilSignal(start, logger, { drainGraceMs: ${options.drainGraceMs ?? 0} }));
      });`;
    const child = spawn(process.execPath, ['--eval', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    // Not at its exit: what it wrote last may still be in the pipe then.
    const ended = once(child, 'close').then(([code]) => ({ code, output }));
    return { child, ended, said: (what: string) => until(() => output.includes(what), { what }) };
  }

  it.each(['SIGINT', 'SIGTERM'] as const)('closes on %s and ends with 0, and says so', async (signal) => {
    const { child, ended, said } = runProgram({});
    await said('running');
    child.kill(signal);
    expect(await ended).toEqual({
      code: 0,
      output: `running\nstopping ${signal}\ndraining\nclosing\nstopped\n`,
    });
  });

  it('takes the signal that npm repeats as the same one, and a later one as impatience', async () => {
    const body = "let times = 0; process.on('SIGINT', () => say('signal ' + ++times));";
    const { child, ended, said } = runProgram({ body, closeMs: 60_000 });
    await said('running');
    child.kill('SIGINT');
    await said('closing');
    child.kill('SIGINT');
    // Different signals that wait together are not taken in their order.
    await said('signal 2');
    child.kill('SIGUSR2');
    await said('later');
    expect(child.exitCode).toBeNull();
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
  });

  it.each([
    ['an error that nobody catches', "throw new Error('broken');", 'uncaughtException'],
    ['a rejection that nobody handles', "Promise.reject(new Error('broken'));", 'unhandledRejection'],
  ])('closes after %s and ends with 1', async (_what, body, event) => {
    const { code, output } = await runProgram({ body }).ended;
    expect(code).toBe(1);
    expect(output).toMatch(new RegExp(`^running\\n${event}: .*\\ndraining\\nclosing\\nstopped\\n$`));
  });
});
