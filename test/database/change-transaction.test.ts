import { beforeAll, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../control-plane/sync/change-transaction.ts';
import { readEntries } from '../../control-plane/sync/feed-store.ts';
import { syncLimits } from '../../control-plane/sync/limits.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type FeedId, feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { type Change, type ChangeEntry, parseChangeEntry } from '../../shared/wire/sync/sync-schema.ts';
import { changeVerifies } from '../../shared/wire/sync/sync-signature.ts';
import { until } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: AccountId;
const published: ChangeEntry[] = [];

beforeAll(async () => {
  accountId = (await api.createAccount()).accountId as AccountId;
  for (const feedId of [globalFeed, accountId] as const) {
    await api.deps.bus.subscribe(feedChannel(feedId), (text) => {
      const entry = parseChangeEntry(text);
      if (entry !== null) published.push(entry);
    });
  }
});

const revocation = (): Change => ({
  kind: 'passport.standing',
  body: {
    passport: idDigest(api.deps.random.newId('pass', api.deps.clock.now())),
    standing: 'revoked',
    expired_by_day: null,
  },
});

const stored = (feedId: string) => api.deps.sql<ChangeEntry[]>`
  SELECT feed_id, revision, coalesce(lag(signature) OVER (PARTITION BY feed_id ORDER BY revision), '') AS previous,
    kind, body, signing_key_id, signature FROM changes
  WHERE feed_id = ${feedId} ORDER BY revision`;

const publishedOn = (feedId: string) => published.filter((entry) => entry.feed_id === feedId);

describe('changeTransaction', () => {
  it('publishes after the commit exactly what it stored, signed by the sync key', async () => {
    const before = (await stored(globalFeed)).length;
    const revision = await changeTransaction(api.deps, async (_tx, change) => {
      const given = await change(globalFeed, revocation());
      await new Promise((resolve) => setImmediate(resolve));
      expect(publishedOn(globalFeed).some((entry) => entry.revision === given)).toBe(false);
      return given;
    });
    expect(revision).toBe(before + 1);
    await until(() => publishedOn(globalFeed).at(-1)?.revision === revision, { what: 'the entry is pushed' });
    const entry = (await stored(globalFeed)).at(-1);
    expect(publishedOn(globalFeed).at(-1)).toEqual(entry);
    const keys = keyset(api.deps.ed25519, api.deps.signingKeys.all());
    expect(entry !== undefined && changeVerifies(keys, entry)).toBe(true);
    expect(entry !== undefined && changeVerifies(keys, { ...entry, revision: revision + 1 })).toBe(false);
  });

  it('neither stores nor publishes anything where the work fails', async () => {
    const before = (await stored(globalFeed)).length;
    const failed = changeTransaction(api.deps, async (_tx, change) => {
      await change(globalFeed, revocation());
      throw new Error('on purpose');
    });
    await expect(failed).rejects.toThrow('on purpose');
    expect(await stored(globalFeed)).toHaveLength(before);
    const next = await changeTransaction(api.deps, (_tx, change) => change(globalFeed, revocation()));
    await until(() => publishedOn(globalFeed).at(-1)?.revision === next, {
      what: 'the next entry is pushed',
    });
    expect(publishedOn(globalFeed).filter((entry) => entry.revision === next)).toHaveLength(1);
    expect(next).toBe(before + 1);
  });

  it('returns what the work returns, an array of promises included', async () => {
    const result = await changeTransaction(api.deps, async () => [1, 2] as const);
    expect(result).toEqual([1, 2]);
  });

  it('refuses to lock the heads in another order than account, then global', async () => {
    const wrong = changeTransaction(api.deps, async (_tx, change) => {
      await change(globalFeed, revocation());
      await change(accountId, { kind: 'gate.delete', body: { gate_id: newGateId() } });
    });
    await expect(wrong).rejects.toThrow('heads are locked in order');
  });

  it('gives 50 concurrent writers revisions without holes, in commit order, whichever of them fail', async () => {
    const first = (await stored(globalFeed)).length + 1;
    const publishedBefore = publishedOn(globalFeed).length;
    let aborted = 0;
    const writers = Array.from({ length: 50 }, async (_, i) => {
      const isAborted = (api.deps.random.bytes(1)[0] ?? 0) < 85;
      const isBoth = i % 5 === 0;
      try {
        await changeTransaction(api.deps, async (_tx, change) => {
          if (isBoth) await change(accountId, { kind: 'gate.delete', body: { gate_id: newGateId() } });
          await change(globalFeed, revocation());
          if (isAborted) throw new Error('on purpose');
        });
      } catch {
        aborted++;
      }
    });
    await Promise.all(writers);
    const entries = (await stored(globalFeed)).filter((entry) => entry.revision >= first);
    expect(entries).toHaveLength(50 - aborted);
    expect(entries.map((entry) => entry.revision)).toEqual(entries.map((_, i) => first + i));
    const [head] = await api.deps.sql`SELECT revision FROM feeds WHERE feed_id = ${globalFeed}`;
    expect(head?.['revision']).toBe(first + entries.length - 1);
    await until(() => publishedOn(globalFeed).length === publishedBefore + entries.length, {
      what: 'every committed entry is pushed once',
    });
    const ofAccount = await stored(accountId);
    expect(ofAccount.map((entry) => entry.revision)).toEqual(ofAccount.map((_, i) => i + 1));
  });

  it('shows no revision before all earlier ones', async () => {
    const writers = Array.from({ length: 30 }, () =>
      changeTransaction(api.deps, (_tx, change) => change(globalFeed, revocation())),
    );
    let isDone = false;
    const all = Promise.all(writers).then(() => {
      isDone = true;
    });
    let looks = 0;
    while (!isDone) {
      const [seen] = await api.deps.sql<{ count: number; newest: number }[]>`
        SELECT count(*) AS count, coalesce(max(revision), 0)::bigint AS newest FROM changes WHERE feed_id = ${globalFeed}`;
      expect(seen?.count).toBe(seen?.newest);
      looks++;
    }
    await all;
    expect(looks).toBeGreaterThan(0);
  });

  it('chains what it writes at once, and sends sidecars to a snapshot for the rest of very much', async () => {
    const before = (await stored(globalFeed)).at(-1);
    const many = Array.from({ length: syncLimits.changesAtOnceMax + 5 }, revocation);
    const head = await changeTransaction(api.deps, (_tx, change) => change(globalFeed, ...many));
    const at = before?.revision ?? 0;
    expect(head).toBe(at + syncLimits.changesAtOnceMax + 1);
    const entries = (await stored(globalFeed)).filter(({ revision }) => revision > at);
    expect(entries).toHaveLength(syncLimits.changesAtOnceMax);
    const keys = keyset(api.deps.ed25519, api.deps.signingKeys.all());
    expect(entries.every((entry) => changeVerifies(keys, entry))).toBe(true);
    const last = entries.at(-1);
    const mark = { revision: last?.revision ?? 0, mark: last?.signature ?? '' };
    const read = (after: typeof mark) =>
      readEntries(api.deps.sql, { feedId: globalFeed, after, head, countMax: 500 });
    expect(await read({ revision: at, mark: before?.signature ?? '' })).toHaveLength(500);
    expect(await read(mark)).toBeNull();
    const next = await changeTransaction(api.deps, (_tx, change) => change(globalFeed, revocation()));
    expect(next).toBe(head + 1);
    const { sql } = api.deps;
    const behind = {
      feedId: globalFeed as FeedId,
      after: { revision: head, mark: '' },
      head: next,
      countMax: 500,
    };
    const [entry] = (await readEntries(sql, behind)) ?? [];
    expect(entry !== undefined && changeVerifies(keys, entry)).toBe(true);
  });
});

const newGateId = () => api.deps.random.newId('gate', api.deps.clock.now());
