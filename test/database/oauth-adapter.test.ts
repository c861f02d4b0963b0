import type { Adapter } from 'oidc-provider';
import { beforeAll, describe, expect, it } from 'vitest';
import { databaseAdapter } from '../../control-plane/oauth/adapter.ts';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { sealer } from '../../shared/crypto/seal.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { useDatabase } from '../support/database/use-database.ts';

/** What the library's documentation asks of an adapter, model by model. */
const database = useDatabase();
let nowMs = 1_900_000_000_000 as UnixMillis;
const random = systemRandom();
const masterSealer = sealer(random.bytes(32));

const adapterOf = (model: string): Adapter =>
  databaseAdapter(
    {
      sql: database.sql,
      clock: { now: () => nowMs, monotonic: systemClock.monotonic },
      random,
      sealer: masterSealer,
    },
    model,
    () => new Error('already used'),
  );
let ids = 0;
const newId = (): string => {
  ids += 1;
  return `id-${ids}`;
};
const pass = (durationMs: number): void => {
  nowMs = (nowMs + durationMs) as UnixMillis;
};

describe.each(['Grant', 'RefreshToken', 'Session'])('%s', (model) => {
  let adapter: Adapter;
  beforeAll(() => {
    adapter = adapterOf(model);
  });

  it('is found as stored, and can be replaced', async () => {
    const id = newId();
    const payload = { jti: id, kind: model, params: { scope: 'a b', list: [1, null, { é: '\u2028' }] } };
    await adapter.upsert(id, payload, 60);
    expect(await adapter.find(id)).toEqual(payload);
    await adapter.upsert(id, { jti: id, kind: model, scope: 'c' }, 60);
    expect(await adapter.find(id)).toEqual({ jti: id, kind: model, scope: 'c' });
  });

  it('is found under its own value and model only', async () => {
    const id = newId();
    await adapter.upsert(id, { jti: id }, 60);
    expect(await adapter.find(`${id}x`)).toBeUndefined();
    expect(await adapterOf('Another').find(id)).toBeUndefined();
  });

  it('is found until its last moment and not from then on', async () => {
    const id = newId();
    await adapter.upsert(id, { jti: id, uid: id }, 60);
    pass(60 * secondMs - 1);
    expect(await adapter.find(id)).toBeDefined();
    expect(await adapter.findByUid(id)).toBeDefined();
    pass(1);
    expect(await adapter.find(id)).toBeUndefined();
    expect(await adapter.findByUid(id)).toBeUndefined();
  });

  it('shows that it was consumed, and is consumed once', async () => {
    const id = newId();
    await adapter.upsert(id, { jti: id }, 60);
    await adapter.consume(id);
    expect(await adapter.find(id)).toEqual({ jti: id, consumed: Math.floor(nowMs / secondMs) });
    await expect(adapter.consume(id)).rejects.toThrow('already used');
  });

  it('is consumed by one of many at once', async () => {
    const id = newId();
    await adapter.upsert(id, { jti: id }, 60);
    const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => adapter.consume(id)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('is gone when it was destroyed', async () => {
    const id = newId();
    await adapter.upsert(id, { jti: id }, 60);
    await adapter.destroy(id);
    expect(await adapter.find(id)).toBeUndefined();
  });

  it('goes with its grant, and nothing else does', async () => {
    const [mine, alsoMine, other] = [newId(), newId(), newId()];
    const elsewhere = adapterOf('Another');
    for (const id of [mine, alsoMine]) await adapter.upsert(id, { jti: id, grantId: 'grant' }, 60);
    await adapter.upsert(other, { jti: other, grantId: 'another grant' }, 60);
    await elsewhere.upsert(other, { jti: other, grantId: 'grant' }, 60);
    await adapter.revokeByGrantId('grant');
    expect(await adapter.find(mine)).toBeUndefined();
    expect(await adapter.find(alsoMine)).toBeUndefined();
    expect(await adapter.find(other)).toBeDefined();
    expect(await elsewhere.find(other)).toBeDefined();
  });
});

it('finds a session by its uid and a device by its user code', async () => {
  await adapterOf('Session').upsert('session', { jti: 'session', uid: 'a uid' }, 60);
  await adapterOf('DeviceCode').upsert('device', { jti: 'device', userCode: 'ABCD' }, 60);
  expect(await adapterOf('Session').findByUid('a uid')).toMatchObject({ jti: 'session' });
  expect(await adapterOf('DeviceCode').findByUserCode('ABCD')).toMatchObject({ jti: 'device' });
  expect(await adapterOf('Session').findByUid('ABCD')).toBeUndefined();
  expect(await adapterOf('DeviceCode').findByUserCode('a uid')).toBeUndefined();
});

it('takes no row that was put under another name', async () => {
  const [one, other] = [newId(), newId()];
  await adapterOf('AccessToken').upsert(one, { jti: one, accountId: 'mine' }, 60);
  await adapterOf('AccessToken').upsert(other, { jti: other, accountId: 'yours' }, 60);
  await database.sql`
    UPDATE oauth_artifacts SET sealed_payload = (SELECT max(sealed_payload) FROM oauth_artifacts)`;
  const found = await Promise.allSettled([one, other].map((id) => adapterOf('AccessToken').find(id)));
  expect(found.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1);
});

it('removes what has expired as new comes, some at a time', async () => {
  const count = async () =>
    (await database.sql<{ count: number }[]>`SELECT count(*) AS count FROM oauth_artifacts`)[0]?.count ?? 0;
  await database.sql`DELETE FROM oauth_artifacts`;
  const max = oauthLimits.artifactsPerTrimMax;
  for (let index = 0; index < max + 5; index++) await adapterOf('Grant').upsert(newId(), {}, 1);
  pass(secondMs);
  await adapterOf('Grant').upsert(newId(), {}, 60);
  expect(await count()).toBe(5 + 1);
  await adapterOf('Grant').upsert(newId(), {}, 60);
  expect(await count()).toBe(2);
});

describe.each([
  ['tokens of a connection', 'RefreshToken', { grantId: 'crowded' }],
  ['connections of a key', 'Grant', { accountId: 'crowded', clientId: 'https://app.example/' }],
  ["a key's own tokens", 'ClientCredentials', { clientId: 'crowded' }],
])('%s', (_what, model, payload) => {
  it('make room for the newest, and for nothing of others', async () => {
    const adapter = adapterOf(model);
    const max = oauthLimits.artifactsPerParentMax;
    const [oldest, second, other] = [newId(), newId(), newId()];
    await adapter.upsert(other, { ...payload, clientId: 'other', accountId: 'other', grantId: 'other' }, 60);
    await adapter.upsert(oldest, payload, 60);
    pass(1);
    await adapter.upsert(second, payload, 60);
    pass(1);
    await database.sql`
      INSERT INTO oauth_artifacts (model, id_hash, sealed_payload, parent_hash, expires_at_ms)
      SELECT model, ${model} || n, sealed_payload, parent_hash, ${nowMs + 60 * secondMs}
      FROM oauth_artifacts, generate_series(1, ${max - 2}) AS n WHERE id_hash = ${sha256Hex(second)} AND model = ${model}`;
    await adapter.upsert(second, { ...payload, scope: 'anew' }, 60);
    expect(await adapter.find(oldest)).toBeDefined();
    const newest = newId();
    await adapter.upsert(newest, payload, 60);
    expect(await adapter.find(oldest)).toBeUndefined();
    for (const id of [second, other, newest]) expect(await adapter.find(id)).toBeDefined();
  });
});
