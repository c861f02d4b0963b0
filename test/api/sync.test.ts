import { beforeAll, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../control-plane/sync/change-transaction.ts';
import { trimChanges } from '../../control-plane/sync/feed-store.ts';
import { syncLimits } from '../../control-plane/sync/limits.ts';
import { propagationOf } from '../../control-plane/sync/propagation.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { hourMs, type UnixMillis } from '../../shared/model/time.ts';
import { feedChannel, globalFeed, syncVersion, syncVersionHeader } from '../../shared/wire/sync/sync.ts';
import {
  type Change,
  parseChangesAnswer,
  parseSignedSnapshot,
  parseSnapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { changeVerifies, snapshotVerifies } from '../../shared/wire/sync/sync-signature.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import { expectWithin, type Timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { standingIn } from '../support/data/model-service.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { liveOwner } from '../support/service/exports.ts';
import { connectSidecar, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
/** Of an account of its own, with one gate and nothing else. */
let accountId: string;
let accountKey: string;
let sidecarKey: string;

beforeAll(async () => {
  ({ accountId, key: accountKey } = await api.createAccount());
  sidecarKey = (await api.createKey({ scopes: ['sidecars:connect'] }, accountKey)).key;
});

const newSidecarId = () => api.deps.random.newId('side', api.deps.clock.now());

const connect = (sidecarId: string, key = sidecarKey, body: object = {}) =>
  api.call({
    url: '/v1/sync/connect',
    key,
    body: { sync_version: syncVersion, sidecar_id: sidecarId, now_ms: api.deps.clock.now(), ...body },
  });

async function connected(key = sidecarKey) {
  const sidecarId = newSidecarId();
  const { body } = await connect(sidecarId, key);
  return { sidecar_id: sidecarId, connection_id: body.connection_id as string };
}

type Position = {
  account_after?: number;
  account_mark?: string;
  global_after?: number;
  global_mark?: string;
  wait_ms?: number;
};

/** The signature of an entry; empty where there is none. */
const markOf = async (feedId: string, revision: number): Promise<string> => {
  const [row] = await api.deps.sql<{ signature: string }[]>`
    SELECT signature FROM changes WHERE feed_id = ${feedId} AND revision = ${revision}`;
  return row?.signature ?? '';
};

async function changes(connection: Record<string, string>, position: Position = {}, key = sidecarKey) {
  const { account_after = 0, global_after = 0 } = position;
  const marks = {
    account_mark: await markOf(accountId, account_after),
    global_mark: await markOf(globalFeed, global_after),
  };
  const query = { account_after, global_after, wait_ms: 0, ...connection, ...marks, ...position };
  const reply = await api.call({ url: `/v1/sync/changes?${new URLSearchParams(entriesOf(query))}`, key });
  return { reply, answer: parseChangesAnswer(JSON.stringify(reply.body)) };
}

const entriesOf = (query: object): Record<string, string> =>
  Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)]));

const snapshotOf = async (key = sidecarKey) => {
  const reply = await api.call({ url: '/v1/sync/snapshot', key });
  const signed = parseSignedSnapshot(JSON.stringify(reply.body));
  const snapshot = signed === null ? null : parseSnapshot(signed.snapshot);
  if (signed === null || snapshot === null) throw new Error(`no snapshot: ${JSON.stringify(reply.body)}`);
  return { signed, snapshot };
};

const heads = async () => {
  const { answer } = await changes(await connected());
  return { account_after: answer?.account_head ?? 0, global_after: answer?.global_head ?? 0 };
};

const revoke = (): Change => ({
  kind: 'passport.standing',
  body: {
    passport: idDigest(api.deps.random.newId('pass', api.deps.clock.now())),
    standing: 'revoked',
    expired_by_day: null,
  },
});

const keys = () => keyset(api.deps.ed25519, api.deps.signingKeys.all());

describe('every sync call', () => {
  const urls = ['/v1/sync/snapshot', '/v1/sync/changes?'];
  const posts = ['/v1/sync/connect', '/v1/sync/ack'];

  it('answers 403 to a test key, whatever it holds: the feed shows the live world', async () => {
    const { key } = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    for (const url of [...urls, ...posts, '/v1/sync/attestations']) {
      const method = urls.includes(url) ? 'GET' : 'POST';
      const reply = await api.call({ method, url, key });
      expectError(reply, 'insufficient_scope');
      expect(reply.body.error.message).toContain('live');
    }
  });
});

describe('POST /v1/sync/connect', () => {
  it('answers the account, a connection of its own each time, and the clock', async () => {
    const sidecarId = newSidecarId();
    const first = await connect(sidecarId);
    const second = await connect(sidecarId);
    expect(first.status).toBe(200);
    expect(first.body.account_id).toBe(accountId);
    expect(second.body.connection_id).not.toBe(first.body.connection_id);
    expect(Math.abs(first.body.now_ms - api.deps.clock.now())).toBeLessThan(5_000);
  });

  it('refuses the sidecar id of another account, and leaves that connection as it is', async () => {
    const mine = await connected();
    expectError(await connect(mine.sidecar_id, api.adminKey), 'invalid_request', 'sidecar_id');
    expect((await changes(mine)).reply.status).toBe(200);
  });

  it('takes so many sidecars of an account and no more, and forgets the longest silent ones', async () => {
    const other = await api.createAccount();
    const fill = (silentMs: number) => api.deps.sql`
      INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms,
        acked_account_revision, acked_global_revision, clock_offset_ms)
      SELECT ${`filler-${silentMs}-`} || n, ${other.accountId}, 'x', 0, ${Date.now() - silentMs}::bigint - n, 0, 0, 0
      FROM generate_series(1, ${syncLimits.sidecarsPerAccountMax}) AS n`;
    await fill(-60_000);
    expectError(await connect(newSidecarId(), other.key), 'overloaded');
    // Nobody else is held up, and one that is known comes in again.
    expect((await connect(newSidecarId())).status).toBe(200);
    await api.deps.sql`DELETE FROM sidecars WHERE account_id = ${other.accountId}`;
    await fill(60_000);
    expect((await connect(newSidecarId(), other.key)).status).toBe(200);
    const kept = await api.deps.sql<{ sidecar_id: string }[]>`
      SELECT sidecar_id FROM sidecars WHERE account_id = ${other.accountId}`;
    expect(kept).toHaveLength(syncLimits.sidecarsPerAccountMax + 1 - syncLimits.sidecarsPerTrimMax);
    const ids = kept.map((row) => row.sidecar_id);
    expect(ids).toContain('filler-60000-1');
    expect(ids).not.toContain(`filler-60000-${syncLimits.sidecarsPerAccountMax}`);
  });

  it('refuses another version of the protocol, and an invalid sidecar id', async () => {
    const refused = await connect(newSidecarId(), sidecarKey, { sync_version: 99 });
    expect(refused.status).toBe(400);
    expect(refused.body.error).toMatchObject({ code: 'sync_version_unsupported', speaks: [syncVersion] });
    expectError(
      await connect(api.deps.random.newId('gate', api.deps.clock.now())),
      'invalid_request',
      'sidecar_id',
    );
  });
});

describe('the version in the header of a call', () => {
  const at = (version: string | null, path: string, body?: object) =>
    api.call({
      url: `/v1/sync/${path}`,
      key: sidecarKey,
      ...(version === null ? {} : { headers: { [syncVersionHeader]: version } }),
      ...(body === undefined ? {} : { body }),
    });
  const calls: readonly (readonly [string, object?])[] = [
    ['connect', {}],
    ['snapshot'],
    ['changes'],
    ['ack', {}],
    ['goodbye', {}],
    ['history', {}],
    ['history/state', {}],
    ['attestations', {}],
    ['leases', {}],
    ['settlements', {}],
  ];

  it.each(['8', '6', '', 'seven', '7, 8'])(
    '%s is refused at every call, before its body is looked at',
    async (version) => {
      for (const [path, body] of calls) {
        const { status, body: answer } = await at(version, path, body);
        expect({ path, status, code: answer.error.code }).toEqual({
          path,
          status: 400,
          code: 'sync_version_unsupported',
        });
        expect(answer.error.message).toMatch(/speaks version 7 .* Upgrade the older of the two programs/);
      }
    },
  );

  it('is 7 where there is none, as of 0.2.0', async () => {
    for (const version of [null, '7']) expect((await at(version, 'snapshot')).status).toBe(200);
    for (const [path, body] of calls.filter(([, body]) => body !== undefined))
      expect((await at(null, path, body)).body.error?.code).not.toBe('sync_version_unsupported');
  });

  it('matters to no other call, and to nobody without a key', async () => {
    const headers = { [syncVersionHeader]: '99' };
    expect((await api.call({ url: '/v1/gates', headers })).status).toBe(200);
    expect((await api.call({ url: '/v1/sync/snapshot', key: 'none', headers })).status).toBe(401);
  });
});

describe('GET /v1/sync/snapshot', () => {
  it('is taken by so many of an account as may run or wait, and 503 for the next, until one is done', async () => {
    const room = limits.snapshotsPerAccountMax + limits.snapshotsWaitingPerAccountMax;
    let release: () => void = () => undefined;
    let holding: Promise<unknown> = Promise.resolve();
    await new Promise<void>((isLocked) => {
      holding = api.deps.sql.begin(async (tx) => {
        await tx`LOCK TABLE issuers IN ACCESS EXCLUSIVE MODE`;
        isLocked();
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      });
    });
    const calls = Array.from({ length: room + 1 }, () =>
      api.call({ url: '/v1/sync/snapshot', key: sidecarKey }),
    );
    expectError(await Promise.race(calls), 'overloaded');
    release();
    await holding;
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(room);
    expect((await api.call({ url: '/v1/sync/snapshot', key: sidecarKey })).status).toBe(200);
  });

  it('is signed, and holds both feeds of this account and nothing of another', async () => {
    const gate = await api.createGate({ trust_level: 'L2' }, accountKey);
    const foreign = await api.createGate();
    const { signed, snapshot } = await snapshotOf();
    expect(snapshotVerifies(keys(), signed)).toBe(true);
    expect(snapshotVerifies(keys(), { ...signed, snapshot: signed.snapshot.replace('L2', 'L1') })).toBe(
      false,
    );
    expect(snapshot.account_id).toBe(accountId);
    expect(snapshot.gates.map((each) => each.gate_id)).toContain(gate.gate_id);
    expect(signed.snapshot).not.toContain(foreign.gate_id);
    expect(snapshot.gates.every((each) => each.account_id === accountId)).toBe(true);
    const own = await api.call({ url: '/v1/api-keys', key: accountKey });
    expect(snapshot.api_keys.map((each) => each.key_id).sort()).toEqual(
      own.body.items.map((each: { key_id: string }) => each.key_id).sort(),
    );
    const told = api.deps.signingKeys.all().filter(({ purpose }) => purpose !== 'log');
    expect([...snapshot.signing_keys].sort(byKid)).toEqual(told.sort(byKid));
  });

  it('names revoked, suspended and recently expired passports, and no others', async () => {
    const active = await api.issuePassport({}, accountKey);
    const revoked = await api.issuePassport();
    const suspended = await api.issuePassport();
    const expired = await api.issuePassport();
    const longExpired = await api.issuePassport();
    for (const passport of [revoked, expired, longExpired]) {
      await api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
    }
    await api.call({ url: `/v1/passports/${suspended.passport_id}/suspend`, body: {} });
    const nowMs = api.deps.clock.now();
    const expire = (id: string, atMs: number) =>
      api.deps.sql`UPDATE passports SET expires_at_ms = ${atMs} WHERE passport_id = ${id}`;
    await expire(expired.passport_id, nowMs - hourMs / 2);
    await expire(longExpired.passport_id, nowMs - 2 * hourMs);
    const { snapshot } = await snapshotOf();
    const standing = (passport: { passport_id: string }) =>
      standingIn(snapshot, passport.passport_id)?.standing;
    expect(standing(active)).toBeUndefined();
    expect(standing(revoked)).toBe('revoked');
    expect(standing(suspended)).toBe('suspended');
    expect(standing(expired)).toBe('revoked');
    expect(standing(longExpired)).toBeUndefined();
  });

  it('contains everything up to its revisions: only later changes are missing', async () => {
    const { snapshot } = await snapshotOf();
    const gate = await api.createGate({}, accountKey);
    const { answer } = await changes(await connected(), {
      account_after: snapshot.account_revision,
      global_after: snapshot.global_revision,
    });
    expect(answer?.entries.map((entry) => [entry.kind, entry.revision])).toEqual([
      ['gate.put', snapshot.account_revision + 1],
    ]);
    expect(answer?.entries[0]?.body).toMatchObject({ gate_id: gate.gate_id });
  });
});

describe('GET /v1/sync/changes', () => {
  it('answers all entries after the given revisions, signed, each feed in order and without holes', async () => {
    const { answer } = await changes(await connected());
    const entries = answer?.entries ?? [];
    for (const [feedId, head] of [
      [accountId, answer?.account_head],
      [globalFeed, answer?.global_head],
    ] as const) {
      const revisions = entries.filter((entry) => entry.feed_id === feedId).map((entry) => entry.revision);
      expect(revisions).toEqual(Array.from({ length: head ?? -1 }, (_, i) => i + 1));
    }
    expect(entries.every((entry) => changeVerifies(keys(), entry))).toBe(true);
    expect(answer?.snapshot_needed).toBe(false);
  });

  it('shows nothing of another account', async () => {
    const foreign = await api.createGate();
    const { reply } = await changes(await connected());
    expect(JSON.stringify(reply.body)).not.toContain(foreign.gate_id);
  });

  it('asks for a snapshot where the sidecar is ahead of the feed', async () => {
    const { answer } = await changes(await connected(), { account_after: 1_000_000 });
    expect(answer).toMatchObject({ snapshot_needed: true, entries: [] });
  });

  it('asks for a snapshot where the entries are no longer kept', async () => {
    await changeTransaction(api.deps, (_tx, change) => change(globalFeed, revoke()));
    const { global_after } = await heads();
    const before = await changes(await connected(), { global_after: global_after - 1 });
    expect(before.answer?.snapshot_needed).toBe(false);
    await api.deps.sql`DELETE FROM changes WHERE feed_id = ${globalFeed} AND revision = ${global_after}`;
    const after = await changes(await connected(), { global_after: global_after - 1 });
    expect(after.answer).toMatchObject({ snapshot_needed: true, entries: [] });
  });

  it('answers with nothing when the wait is over, and with the heads as they are then', async () => {
    const { answer } = await changes(await connected(), { ...(await heads()), wait_ms: 200 });
    expect(answer?.entries).toEqual([]);
    const { held_ms: heldMs, heads_age_ms: headsAgeMs } = must(answer, 'it is answered');
    // The heads were read when the wait was over.
    expect(heldMs - headsAgeMs).toBeGreaterThanOrEqual(195);
  });

  it.each([
    ['is woken by a heartbeat that tells of a newer head', 1],
    ['is not woken by a heartbeat that tells nothing new', 0],
  ])('%s', async (_name, ahead) => {
    const wake = async (): Promise<Timed> => {
      const position = { ...(await heads()), wait_ms: limits.longPollMsMax };
      const beat = JSON.stringify({
        kind: 'heartbeat',
        feed_id: globalFeed,
        head: position.global_after + ahead,
        replica: 'r',
        at_ms: 1,
        signing_key_id: 'k',
        signature: 's',
      });
      const stalledMs = measureStall();
      let heldMs: number | null = null;
      const waiting = changes(await connected(), position).then(({ answer }) => {
        heldMs = answer?.held_ms ?? null;
      });
      // Again and again, because nobody knows when it begins to listen.
      await until(
        () => api.deps.bus.publish(feedChannel(globalFeed), beat) === undefined && heldMs !== null,
        { what: 'the answer comes' },
      );
      await waiting;
      return { ms: must<number>(heldMs, 'it is answered'), stalledMs: stalledMs() };
    };
    if (ahead > 0) await expectWithin(limits.longPollMsMax * 0.8, 'it is woken', wake);
    else expect((await wake()).ms).toBeGreaterThanOrEqual(limits.longPollMsMax - 5);
  });

  it('refuses a wait that is too long, and a revision that is none', async () => {
    const connection = await connected();
    expectError(
      (await changes(connection, { wait_ms: limits.longPollMsMax + 1 })).reply,
      'invalid_request',
      'wait_ms',
    );
    expectError((await changes(connection, { global_after: -1 })).reply, 'invalid_request', 'global_after');
  });

  it('answers 412 to a connection that another has taken over from', async () => {
    const old = await connected();
    await connect(old.sidecar_id);
    const { reply } = await changes(old);
    expectError(reply, 'precondition_failed', 'connection_id');
    expect(reply.body.error.message).toContain('sidecar_id');
  });

  it("rejects a connection of another account's sidecar, and one that is unknown or expired", async () => {
    const mine = await connected();
    expectUnknown((await changes(mine, {}, api.adminKey)).reply);
    await api.deps.sql`DELETE FROM sidecars WHERE sidecar_id = ${mine.sidecar_id}`;
    expectUnknown((await changes(mine)).reply);
  });

  it('does not know the newer of two connections where the database was restored to the older one', async () => {
    const older = await connected();
    const { body } = await connect(older.sidecar_id);
    await api.deps.sql`
      UPDATE sidecars SET connection_id = ${older.connection_id}, connected_at_ms = ${Number.parseInt(older.connection_id, 10)}
      WHERE sidecar_id = ${older.sidecar_id}`;
    expectUnknown((await changes({ ...older, connection_id: body.connection_id })).reply);
    expect((await changes(older)).reply.status).toBe(200);
  });

  it('asks for a snapshot where the entry at the position is another than the sidecar has applied', async () => {
    await changeTransaction(api.deps, (_tx, change) => change(globalFeed, revoke()));
    const { global_after } = await heads();
    const of = async (position: Position) => (await changes(await connected(), position)).answer;
    expect(await of({ global_after })).toMatchObject({ snapshot_needed: false });
    for (const global_mark of ['', await markOf(globalFeed, global_after - 1)]) {
      expect(await of({ global_after, global_mark })).toMatchObject({ snapshot_needed: true, entries: [] });
    }
    const before = { global_after: global_after - 1, global_mark: await markOf(globalFeed, global_after) };
    expect(await of(before)).toMatchObject({ snapshot_needed: true, entries: [] });
  });
});

const expectUnknown = (reply: Awaited<ReturnType<Api['call']>>) => {
  expect(reply.status).toBe(409);
  expect(reply.body.error).toMatchObject({ code: 'connection_unknown', status: 409 });
};

describe('POST /v1/sync/ack, and the requests that wait for it', () => {
  /** Two entries: one that may be acknowledged already, and one that is waited for. */
  let early: number;
  let late: number;
  beforeAll(async () => {
    const write = () => changeTransaction(api.deps, (_tx, change) => change(globalFeed, revoke()));
    early = await write();
    late = await write();
    owner = liveOwner(accountId);
  });

  const ack = async (connection: object, globalRevision: number, mark?: string) =>
    api.call({
      url: '/v1/sync/ack',
      key: sidecarKey,
      body: {
        ...connection,
        account_revision: 0,
        account_mark: '',
        global_revision: globalRevision,
        global_mark: mark ?? (await markOf(globalFeed, globalRevision)),
      },
    });
  const forgetOthers = () => api.deps.sql`UPDATE sidecars SET last_seen_at_ms = 0`;
  let owner: Owner;
  const seen = (waitMs = 0) => propagationOf(api.deps, owner, late, { waitMs });

  it('counts the connected sidecars and those that have acknowledged', async () => {
    await forgetOthers();
    const [fast, slow] = [await connected(), await connected()];
    expect((await ack(fast, late)).status).toBe(200);
    await ack(slow, early);
    expect(await seen()).toEqual({ revision: late, sidecars: 2, acknowledged: 1, silent: [] });
  });

  it('counts the sidecars that serve the passports of the account, and no others', async () => {
    await forgetOthers();
    const stranger = await api.createAccount();
    const host = await api.createAccount();
    for (const { key } of [stranger, host]) {
      const foreign = await connectSidecar(api, { key });
      if (key !== host.key) continue;
      const gateId = (await api.createGate({}, key)).gate_id;
      await foreign.send(1, [recordOf(api, { gateId, passport: await api.issuePassport({}, accountKey) })]);
    }
    expect(await seen()).toEqual({ revision: late, sidecars: 1, acknowledged: 0, silent: [] });
  });

  it('sees an acknowledgement that another replica received', async () => {
    await forgetOthers();
    const slow = await connected();
    const waiting = seen(5_000);
    await api.deps
      .sql`UPDATE sidecars SET acked_global_revision = ${late} WHERE sidecar_id = ${slow.sidecar_id}`;
    // Long before it would have given up: by then the sidecar would not count as connected any more.
    expect(await waiting).toEqual({ revision: late, sidecars: 1, acknowledged: 1, silent: [] });
  });

  it('gives up when the time is over, and when the last silent sidecar no longer counts as connected', async () => {
    await forgetOthers();
    const { sidecar_id } = await connected();
    expect(await seen(60)).toMatchObject({ sidecars: 1, acknowledged: 0 });
    await api.deps.sql`
      UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms - ${limits.sidecarConnectedMs} WHERE sidecar_id = ${sidecar_id}`;
    expect(await seen(5_000)).toMatchObject({ sidecars: 0, silent: [sidecar_id] });
  });

  it.each([4_000, -4_000])(
    'counts a sidecar also where the clock of a replica differs by %i ms',
    async (aheadMs) => {
      await forgetOthers();
      const now = () => (api.deps.clock.now() + aheadMs) as UnixMillis;
      const other = { ...api.deps, clock: { ...api.deps.clock, now } };
      const sidecar = await connected();
      expect(await propagationOf(other, owner, late, { waitMs: 0 })).toMatchObject({
        sidecars: 1,
        acknowledged: 0,
      });
      await ack(sidecar, late);
      expect(await propagationOf(other, owner, late, { waitMs: 0 })).toMatchObject({
        sidecars: 1,
        acknowledged: 1,
      });
    },
  );

  it('takes nothing back when an old acknowledgement comes late, and everything when the sidecar starts again', async () => {
    await forgetOthers();
    const sidecar = await connected();
    await ack(sidecar, late);
    await ack(sidecar, early);
    expect((await seen()).acknowledged).toBe(1);
    await connect(sidecar.sidecar_id);
    expect((await seen()).acknowledged).toBe(0);
  });

  it('accepts no acknowledgement of an unknown position, and withdraws the earlier one', async () => {
    await forgetOthers();
    const sidecar = await connected();
    await ack(sidecar, late + 1_000, 'of-another-history');
    expect((await seen()).acknowledged).toBe(0);
    await ack(sidecar, late, await markOf(globalFeed, early));
    expect((await seen()).acknowledged).toBe(0);
    await ack(sidecar, late);
    expect((await seen()).acknowledged).toBe(1);
    await ack(sidecar, late, 'of-another-history');
    expect((await seen()).acknowledged).toBe(0);
  });

  it('takes a connect that comes late, or twice, for the same process: it ends nothing', async () => {
    const sidecarId = newSidecarId();
    const process = 'a'.repeat(32);
    const first = await connect(sidecarId, sidecarKey, { process });
    const again = await connect(sidecarId, sidecarKey, { process });
    expect(again.body.connection_id).not.toBe(first.body.connection_id);
    for (const { body } of [first, again]) {
      const connection = { sidecar_id: sidecarId, connection_id: body.connection_id };
      expect((await ack(connection, 0)).status).toBe(200);
      expect((await changes(connection)).reply.status).toBe(200);
    }
    await connect(sidecarId, sidecarKey, { process: 'b'.repeat(32) });
    const { connection_id } = again.body;
    expectError(
      await ack({ sidecar_id: sidecarId, connection_id }, 0),
      'precondition_failed',
      'connection_id',
    );
  });

  it('lets a process connect again where a newer connection was never used, as one of a dead process is', async () => {
    const sidecarId = newSidecarId();
    await connect(sidecarId, sidecarKey, { process: 'b'.repeat(32) });
    const agedMs = syncLimits.connectionUnusedMsMax + 1_000;
    const age = (usedMs: number) => api.deps.sql`
      UPDATE sidecars SET connected_at_ms = ${Date.now() - agedMs}, last_seen_at_ms = ${Date.now() - agedMs + usedMs}
      WHERE sidecar_id = ${sidecarId}`;
    const earlier = { sidecar_id: sidecarId, connection_id: `${Date.now() - 2 * agedMs}.${'a'.repeat(32)}` };
    expectError(await ack(earlier, 0), 'precondition_failed', 'connection_id');
    await age(1);
    expectError(await ack(earlier, 0), 'precondition_failed', 'connection_id');
    await age(0);
    expectUnknown(await ack(earlier, 0));
  });
});

describe('old changes', () => {
  it('go when they are older than the retention, and no sooner', async () => {
    const { global_after: head } = await heads();
    await changeTransaction(api.deps, (_tx, change) => change(globalFeed, revoke()));
    const nowMs = api.deps.clock.now();
    await api.deps.sql`
      UPDATE changes SET created_at_ms = ${nowMs - syncLimits.changeRetentionMs} WHERE revision <= ${head}`;
    expect(await trimChanges(api.deps.sql, nowMs)).toBe(0);
    expect(await trimChanges(api.deps.sql, (nowMs + 1) as UnixMillis)).toBeGreaterThan(0);
    const { answer } = await changes(await connected(), { ...(await heads()), global_after: head });
    expect(answer?.entries).toHaveLength(1);
  });

  it('leave the newest of a feed, however old, by which sidecars show which history they have', async () => {
    const nowMs = api.deps.clock.now();
    await api.deps.sql`UPDATE changes SET created_at_ms = 0`;
    await trimChanges(api.deps.sql, nowMs);
    const { account_after, global_after } = await heads();
    const rows = await api.deps.sql<{ revision: number }[]>`
      SELECT revision FROM changes WHERE feed_id IN (${accountId}, ${globalFeed}) ORDER BY feed_id = ${globalFeed}`;
    expect(rows.map((row) => row.revision)).toEqual([account_after, global_after]);
    const { answer } = await changes(await connected(), { account_after, global_after });
    expect(answer).toMatchObject({ snapshot_needed: false, entries: [] });
  });
});

const byKid = (a: { kid: string }, b: { kid: string }) => (a.kid < b.kid ? -1 : 1);
