import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { historyOf } from '../../control-plane/history/history.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { logStateOf } from '../../control-plane/log/log-state.ts';
import { regressionEmitter } from '../../control-plane/webhooks/emit-regression.ts';
import { must } from '../../shared/errors/assert.ts';
import { parseSignedCheckpoint } from '../../shared/log/checkpoint.ts';
import { verifyLogProof } from '../../shared/log/proof.ts';
import { judgeNote } from '../../shared/log/witness-policy.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { until } from '../support/base/until.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import {
  hostileWitness,
  logLines,
  policyOf,
  type TestWitness,
  testWitness,
} from '../support/service/witnesses.ts';

let api: Api;
let witnesses: [TestWitness, TestWitness, TestWitness];
const ends: (() => Promise<void>)[] = [];
/** What a test leaves is of no use to the next one. */
let isSpoilt = true;
beforeEach(async () => {
  if (!isSpoilt) return;
  isSpoilt = false;
  api = await startOwnApi();
  const start = (name: string) => testWitness(name, logLines(api));
  witnesses = await Promise.all([start('w1'), start('w2'), start('w3')]);
});
async function stop() {
  await Promise.all(witnesses.map((each) => each.remove()));
  await api.close();
}
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
  if (isSpoilt) await stop();
});
afterAll(async () => {
  if (!isSpoilt) await stop();
});

type Peer = Parameters<typeof policyOf>[0][number];
/** A writer of the log with these witnesses, any two of them a quorum. */
function logOf(peers: readonly Peer[], { replicaId = api.deps.replicaId, least = 2 } = {}) {
  const deps = { ...api.deps, replicaId, metrics: new Registry(), witnesses: policyOf(peers, least) };
  const writer = new LogWriter(deps, regressionEmitter(api.deps));
  return { round: () => writer.round(() => false), policy: policyOf(peers, least, logLines(api)) };
}

/** A witness behind a proxy, which does `before` with each request before it passes it on. */
async function proxied(
  { name, vkey, origin }: Peer,
  before: (request: IncomingMessage) => Promise<void>,
): Promise<Peer> {
  const proxy = await hostileWitness(name, (request, response) => {
    const pass = async () => {
      const body = request.method === 'POST' ? await text(request) : null;
      await before(request);
      const answer = await fetch(`${origin}${request.url}`, { method: request.method ?? 'GET', body });
      response.writeHead(answer.status).end(await answer.text());
    };
    pass().catch(() => request.destroy());
  });
  ends.push(() => proxy.close());
  return { name, vkey, origin: proxy.origin };
}

const tree = async () => {
  const [row] = await api.deps.sql<
    { size: number; publishedSize: number; witnessedSize: number; witnessed: string | null }[]
  >`SELECT size, published_size AS "publishedSize", witnessed_size AS "witnessedSize", witnessed
    FROM log_trees ORDER BY log DESC LIMIT 1`;
  return must(row, 'there is a log');
};
const faults = () =>
  Object.fromEntries(logStateOf(api.deps.sql).witnesses.map(({ witness, fault }) => [witness, fault]));
const readyz = async () => (await api.call({ url: '/readyz', key: null })).body;
const grow = () => api.createGate();

/** Once the quorum has cosigned, the others have a moment, which a busy machine may take from one of them. */
const untilFaults = (round: () => Promise<unknown>, expected: Readonly<Record<string, string | null>>) =>
  until(
    async () => {
      await grow();
      await round();
      return isDeepStrictEqual(faults(), expected);
    },
    { what: JSON.stringify(expected) },
  );

/** As a recovery tells of them. */
const treesOfAll = (size: number) => ['w1', 'w2', 'w3'].map((witness) => ({ witness, size }));

/** As where a sidecar was told what the database lacks. */
async function regress() {
  isSpoilt = true;
  await api.deps.sql`
    INSERT INTO known_heads (in_generation, feed_id, revision, mark, lost, noticed_at_ms)
    SELECT max(number), 'global', 1000000, 'of a sidecar', 1, 0 FROM generations`;
  await historyOf(api.deps.sql).refresh();
}

/** Returns what restores the log as it is now, as from a backup of the database. */
async function backUp(): Promise<() => Promise<void>> {
  isSpoilt = true;
  const { sql } = api.deps;
  await sql`CREATE TABLE backup AS SELECT * FROM log_trees`;
  const { size } = await tree();
  return async () => {
    await sql`ALTER TABLE log_trees DISABLE TRIGGER log_tree_grows`;
    await sql`DELETE FROM log_trees`;
    await sql`INSERT INTO log_trees SELECT * FROM backup`;
    await sql`ALTER TABLE log_trees ENABLE TRIGGER log_tree_grows`;
    await sql`DELETE FROM log_entries WHERE entry >= ${size}`;
    await sql`DELETE FROM logged_heads`;
  };
}

describe('witnesses of the log', () => {
  it('cosign what grows, and a record is proven with their quorum', async () => {
    const { round, policy } = logOf(witnesses, { least: 3 });
    await round();
    for (let i = 0; i < 3; i++) {
      await grow();
      await round();
    }
    const { size, publishedSize, witnessedSize, witnessed } = await tree();
    expect([publishedSize, witnessedSize]).toEqual([size, size]);
    const signed = must(parseSignedCheckpoint(witnessed ?? ''), 'a checkpoint');
    expect(judgeNote(policy, signed.note)).toEqual({
      ...{ isLogSigned: true, isWitnessed: true, witnesses: ['w1', 'w2', 'w3'], forged: [] },
    });
    const { log } = await readyz();
    expect(log).toMatchObject({ state: 'working', size, witnessed_size: size });
    expect(log.witnesses.map(({ fault }: { fault: null }) => fault)).toEqual([null, null, null]);
    const gate = await grow();
    const { jwt } = await api.issuePassport();
    const { body } = await api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create' } },
    });
    await round();
    // The API of this test has no witnesses itself, so its proofs name the published checkpoint: the same.
    const proof = await api.call({ url: `/v1/attestations/${body.attestation_id}/proof` });
    expect(verifyLogProof(proof.body, policy)).toMatchObject({
      kind: 'valid',
      witnesses: ['w1', 'w2', 'w3'],
    });
  });

  it('may be away, slow, forge or answer nonsense, as long as a quorum cosigns; each is named', async () => {
    const [one, two, gone] = witnesses;
    const hostile = await Promise.all([
      hostileWitness('silent', () => undefined),
      hostileWitness('nonsense', (_request, response) => response.end('cosigned, believe me\n')),
      hostileWitness('forger', (_request, response) =>
        response.end(`— other.example ${Buffer.alloc(76, 1).toString('base64')}\n`),
      ),
      hostileWitness('flood', (_request, response) => {
        const write = () => {
          while (!response.destroyed && response.write('x'.repeat(65_536)));
        };
        response.on('drain', write).on('error', () => undefined);
        write();
      }),
      hostileWitness('liar', (_request, response) => response.writeHead(409).end('1000000\n')),
      hostileWitness('strict', (_request, response) => response.writeHead(403).end()),
      hostileWitness('stranger', (_request, response) => response.writeHead(404).end()),
      hostileWitness('mover', (_request, response) => response.writeHead(307, { location: '/' }).end()),
    ]);
    ends.push(...hostile.map((each) => () => each.close()));
    await gone.close();
    // Whoever says nothing is waited for half a second.
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    const shorter = vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => timeout(500));
    ends.push(async () => shorter.mockRestore());
    const { round } = logOf([one, two, gone, ...hostile]);
    await round();
    await untilFaults(round, {
      ...{ w1: null, w2: null, w3: 'away', silent: 'away', nonsense: 'bad_answer', forger: 'forged' },
      ...{
        flood: 'away',
        liar: 'claims_more',
        strict: 'key_refused',
        stranger: 'unknown_log',
        mover: 'away',
      },
    });
    const { size, witnessedSize } = await tree();
    expect(witnessedSize).toBe(size);
    witnesses[2] = await gone.restart();
  });

  it('do not count while their clock is more than 5 minutes off, and are named', async () => {
    const shifted = (byMs: number) => ({
      clock: { ...systemClock, now: () => (systemClock.now() + byMs) as UnixMillis },
    });
    const start = (name: string, byMs: number) => testWitness(name, logLines(api), shifted(byMs));
    const ahead = await start('ahead', 3_600_000);
    const old = await start('old', -systemClock.now() + 1_000);
    const near = await start('near', -240_000);
    ends.push(...[ahead, old, near].map((each) => () => each.remove()));
    const { round } = logOf([witnesses[0], ahead, old]);
    const before = (await tree()).witnessedSize;
    const expected = { w1: null, ahead: 'untimely', old: 'untimely' };
    await untilFaults(round, expected);
    expect((await tree()).witnessedSize).toBe(before);
    const [row] = await api.deps.sql<{ published: string }[]>`
      SELECT published FROM log_trees ORDER BY log DESC LIMIT 1`;
    expect(row?.published).not.toMatch(/ahead|old\.example/);
    const enough = logOf([witnesses[0], near, ahead]);
    await untilFaults(enough.round, { w1: null, near: null, ahead: 'untimely' });
    const { size, witnessedSize } = await tree();
    expect(witnessedSize).toBe(size);
  });

  it('answer 413 to a body that is too long, and go on', async () => {
    const [witness] = witnesses;
    const post = (body: string) => fetch(`${witness.origin}/add-checkpoint`, { method: 'POST', body });
    for (const bytes of [266_305, 1_048_576, 16_777_216])
      expect((await post('x'.repeat(bytes))).status).toBe(413);
    expect((await post('x'.repeat(266_304))).status).toBe(400);
  });

  it('stop nothing but the quorum while they are away, and catch up', async () => {
    const [one, two, three] = witnesses;
    const { round } = logOf(witnesses);
    await round();
    const before = await tree();
    await two.close();
    await three.close();
    await grow();
    await round();
    const during = await tree();
    expect(during.size).toBeGreaterThan(before.size);
    expect([during.publishedSize, during.witnessedSize]).toEqual([during.size, before.witnessedSize]);
    witnesses = [one, await two.restart(), await three.restart()];
    await round();
    const after = await tree();
    expect(after.witnessedSize).toBe(after.size);
  });

  it('are asked by a new writer before it signs anything', async () => {
    await logOf(witnesses).round();
    const before = await tree();
    const [one, two, three] = witnesses;
    await Promise.all([two.close(), three.close()]);
    await grow();
    const { round } = logOf(witnesses);
    await round();
    expect((await tree()).size).toBe(before.size);
    expect((await readyz()).log.state).toBe('unconfirmed');
    witnesses = [one, await two.restart(), await three.restart()];
    await round();
    expect((await tree()).size).toBeGreaterThan(before.size);
    expect((await readyz()).log.state).toBe('working');
  });

  it('show a history that went back: nothing is signed, and a recovery begins a new log', async () => {
    const { sql } = api.deps;
    await logOf(witnesses).round();
    const saved = await tree();
    const restore = await backUp();
    await untilFaults(logOf(witnesses).round, { w1: null, w2: null, w3: null });
    const cosigned = await tree();
    await restore();
    await grow();
    await logOf(witnesses).round();
    expect((await tree()).size).toBe(saved.size);
    const lost = cosigned.size - saved.size;
    expect((await readyz()).history).toEqual({
      state: 'regressed',
      missing: { changes: 0, chains: 0, records: 0, entries: lost },
    });
    expect((await api.call({ url: '/v1/gates', body: { name: 'No', trust_level: 'L1' } })).status).toBe(503);
    const recover = (apply: boolean) => api.call({ url: '/v1/sync/history/recover', body: { apply } });
    const told = (await recover(false)).body;
    expect(told.lost_trees).toMatchObject(treesOfAll(cosigned.size));
    expect((await recover(true)).body).toMatchObject({ applied: true, state: 'whole' });
    expect(historyOf(sql).isRegressed).toBe(false);
    // The witnesses have to be told of the new log first.
    const next = logOf(witnesses);
    await next.round();
    expect(await tree()).toMatchObject({ size: 0, witnessedSize: 0 });
    expect(faults()).toEqual({ w1: 'unknown_log', w2: 'unknown_log', w3: 'unknown_log' });
    // Caches keep tiles for a year, so those of the new log have addresses of their own.
    const served = async (path: string) => (await api.call({ url: path, key: null })).body;
    const checkpointAt = async (path: string) => {
      const { checkpoint } = must(
        parseSignedCheckpoint(String(await served(path))),
        `a checkpoint at ${path}`,
      );
      return [checkpoint.origin, checkpoint.size];
    };
    const status = async (path: string) => (await api.app.inject({ method: 'GET', url: path })).statusCode;
    expect(await checkpointAt('/log/checkpoint')).toEqual(['127.0.0.1:8080/log', saved.size]);
    expect(await status('/log/2/checkpoint')).toBe(404);
    const alone = new LogWriter({ ...api.deps, metrics: new Registry() }, async () => undefined);
    await alone.round(() => false);
    const { size } = await tree();
    await until(async () => (await status('/log/2/checkpoint')) === 200, { what: 'the new log' });
    expect(await checkpointAt('/log/2/checkpoint')).toEqual(['127.0.0.1:8080/log/2', size]);
    expect(await status(`/log/2/tile/0/000.p/${size}`)).toBe(200);
    expect(await status(`/log/tile/0/000.p/${saved.size}`)).toBe(200);
    for (const path of [
      ...[`/log/tile/0/000.p/${saved.size + 1}`, `/log/2/tile/0/000.p/${size + 1}`],
      ...['/log/1/checkpoint', '/log/3/checkpoint', '/log/02/checkpoint'],
    ])
      expect([path, await status(path)]).toEqual([path, 404]);
  });

  it('show no loss to a replica that stood still while another one wrote', async () => {
    const { sql } = api.deps;
    await logOf(witnesses).round();
    const before = await tree();
    isSpoilt = true;
    const other = logOf(witnesses, { replicaId: 'another-replica-of-a-test' });
    let taken: Promise<unknown> | null = null;
    const takeOver = async () => {
      await sql`UPDATE log_trees SET writer_until_ms = 0`;
      await grow();
      await other.round();
    };
    // From its claim to its question to the witnesses, as a process that was stopped is.
    const stopped = () => {
      taken ??= takeOver();
      return taken.then(() => undefined);
    };
    await logOf(await Promise.all(witnesses.map((each) => proxied(each, stopped)))).round();
    const after = await tree();
    expect(after.size).toBeGreaterThan(before.size);
    expect([after.publishedSize, after.witnessedSize]).toEqual([after.size, after.size]);
    expect((await readyz()).history.state).toBe('whole');
  });

  it('cannot stop the log with a checkpoint that it signed before', async () => {
    const [one, two] = witnesses;
    let first = '';
    const rewinder = await hostileWitness('rewinder', (request, response) => {
      void text(request).then((body) => {
        first ||= body.slice(body.indexOf('\n\n') + 2);
        if (request.method === 'POST') response.writeHead(422).end();
        else response.end(first);
      });
    });
    ends.push(() => rewinder.close());
    const { round } = logOf([one, two, rewinder]);
    await round();
    await untilFaults(round, { w1: null, w2: null, rewinder: 'refused' });
    const { size, witnessedSize } = await tree();
    expect(parseSignedCheckpoint(first)?.checkpoint.size).toBeLessThan(size);
    expect(witnessedSize).toBe(size);
    expect((await readyz()).history.state).toBe('whole');
  });

  it('show a history that went back, also one alone that answers when the quorum has cosigned', async () => {
    const [one, two, three] = witnesses;
    await logOf(witnesses).round();
    const restore = await backUp();
    await grow();
    await logOf([three], { least: 1 }).round();
    await restore();
    let isAway = true;
    const waiting: (() => void)[] = [];
    const late = await proxied(three, async ({ method }) => {
      if (isAway) throw new Error('this witness is away');
      // What it holds it shows only when the round is over.
      if (method === 'GET') await new Promise<void>((resolve) => waiting.push(resolve));
    });
    const { round } = logOf([one, two, late]);
    await untilFaults(round, { w1: null, w2: null, w3: 'away' });
    isAway = false;
    await until(
      async () => {
        await grow();
        await round();
        for (const resolve of waiting.splice(0)) resolve();
        await historyOf(api.deps.sql).refresh();
        return historyOf(api.deps.sql).isRegressed;
      },
      { what: 'the tree of the third witness' },
    );
  });

  it('are all waited for by a new writer: one that is slower than the quorum may hold what was lost', async () => {
    const [one, two, three] = witnesses;
    await logOf(witnesses).round();
    const restore = await backUp();
    const saved = await tree();
    await grow();
    await logOf([three], { least: 1 }).round();
    await restore();
    const late = await proxied(three, () => new Promise((resolve) => setTimeout(resolve, 300)));
    await grow();
    await logOf([one, two, late]).round();
    expect((await tree()).size).toBe(saved.size);
    expect((await readyz()).history.state).toBe('regressed');
  });

  it('are asked what is lost also where a sidecar showed it first', async () => {
    await logOf(witnesses).round();
    const restore = await backUp();
    await untilFaults(logOf(witnesses).round, { w1: null, w2: null, w3: null });
    const { size } = await tree();
    await restore();
    await regress();
    await logOf(witnesses).round();
    const { body } = await api.call({ url: '/v1/sync/history/recover', body: { apply: false } });
    expect(body.lost_trees).toMatchObject(treesOfAll(size));
  });

  it('know what was published: where there are none, each recovery begins a new log', async () => {
    const alone = new LogWriter({ ...api.deps, metrics: new Registry() }, async () => undefined);
    await alone.round(() => false);
    await regress();
    const recovered = await api.call({ url: '/v1/sync/history/recover', body: { apply: true } });
    expect(recovered.body).toMatchObject({ applied: true, state: 'whole', lost_trees: [] });
    await grow();
    await alone.round(() => false);
    const logs = await api.deps.sql<{ origin: string }[]>`SELECT origin FROM log_trees ORDER BY log`;
    expect(logs.map(({ origin }) => origin)).toEqual(['127.0.0.1:8080/log', '127.0.0.1:8080/log/2']);
    expect((await tree()).publishedSize).toBeGreaterThan(0);
  });
});
