import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewRecord } from '../../control-plane/attestations/append-records.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import {
  append,
  download,
  linesOf,
  liveOwner,
  newRecord,
  openTransactions,
  operatorOf,
  readToEnd,
  verifyText,
} from '../support/exports.ts';
import { expectSoundStore } from '../support/test-sidecar.ts';
import { until, untilAnswer } from '../support/until.ts';

let api: Api;
let origin: string;
let owner: Owner;
let gateId: string;
let longPassport: Reply['body'];
let startMs: number;
let other: { readonly accountId: string; readonly key: string };
let testKey: string;

/** More than all the buffers between a database and a reader that reads nothing hold: about 11 MB. */
const longChain = 12_000;
const shortChains = 540;

beforeAll(async () => {
  api = await startApi();
  owner = await operatorOf(api);
  gateId = (await api.createGate()).gate_id;
  longPassport = await api.issuePassport();
  other = await api.createAccount();
  testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
  startMs = api.deps.clock.now() - 100_000_000;
  await append(
    api,
    Array.from({ length: longChain }, (_, i) =>
      recordOf(longPassport.passport_id, { timestampMs: at(i * 1_000) }),
    ),
  );
  // Gates make short chains faster than passports do.
  const gates = await Promise.all(
    Array.from({ length: shortChains }, async () => (await api.createGate()).gate_id),
  );
  await append(
    api,
    gates.flatMap((id, i) => Array.from({ length: 1 + (i % 3) }, () => refusalOf(id))),
  );
  origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(async () => {
  await expectSoundStore(api);
  await api.close();
});

const at = (offsetMs: number) => (startMs + offsetMs) as UnixMillis;

const recordOf = (passportId: string, change: Partial<AttestationRecord> = {}): NewRecord =>
  newRecord(api, { passport: { id: passportId, owner }, gateId, gateOwner: owner }, change);

const refusalOf = (gate: string | null, gateOwner: Owner = owner): NewRecord =>
  newRecord(api, { passport: null, gateId: gate, gateOwner });

const exported = (query = '', key = api.adminKey) =>
  api.call({ url: `/v1/attestations/export${query}`, key });

describe('GET /v1/attestations/export', () => {
  it('answers every chain, whole and in order, and verifies offline', async () => {
    const reply = await exported();
    expect(reply.status).toBe(200);
    expect(reply.headers).toMatchObject({
      'content-type': 'application/x-ndjson',
      'content-disposition': expect.stringMatching(
        /^attachment; filename="attestations-live-\d{8}T\d{6}Z\.jsonl"$/,
      ),
      'cache-control': 'no-store',
    });
    const records = longChain + shortChains * 2;
    expect(await verifyText(api, reply.body)).toMatchObject({
      kind: 'valid',
      chains: shortChains + 1,
      records,
    });
    const lines = linesOf(reply.body);
    expect(lines[0].manifest).toMatchObject({ since: null, key_ids: [expect.any(String)] });
    const { generation } = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    expect(generation).toMatch(/^gen_[0-9a-f]{32}$/);
    expect(lines[0].manifest.generation).toBe(generation);
    expect(lines.at(-1)).toEqual({ end: { chains: shortChains + 1, records } });
  });

  it('starts each chain at its first record not older than since, and leaves out the older chains', async () => {
    const since = at((longChain - 10) * 1_000);
    const reply = await exported(`?format=jsonl&since=${encodeURIComponent(new Date(since).toISOString())}`);
    const lines = linesOf(reply.body);
    const chain = lines.find((line) => line.chain?.chain_id === longPassport.passport_id).chain;
    expect(chain).toMatchObject({ first_sequence: longChain - 9, last_sequence: longChain });
    expect(await verifyText(api, reply.body)).toMatchObject({ kind: 'valid', records: 10 + shortChains * 2 });

    const later = await exported(
      `?since=${encodeURIComponent(new Date(api.deps.clock.now() + 60_000).toISOString())}`,
    );
    expect(linesOf(later.body)).toMatchObject([{ manifest: {} }, { end: { chains: 0, records: 0 } }]);
    expect(await verifyText(api, later.body)).toMatchObject({ kind: 'valid', records: 0 });
  });

  it('holds the chains of the caller, in the mode of the key, and no others', async () => {
    const otherGate = (await api.createGate({}, other.key)).gate_id;
    const testPassport = await api.issuePassport({}, testKey);
    await append(api, [
      refusalOf(otherGate, liveOwner(other.accountId)),
      { ...recordOf(testPassport.passport_id), passportOwner: { ...owner, mode: 'test' } },
    ]);
    const chainsOf = async (key: string) =>
      linesOf((await exported('', key)).body).flatMap((line) => line.chain?.chain_id ?? []);
    expect(await chainsOf(other.key)).toEqual([otherGate]);
    expect(await chainsOf(testKey)).toEqual([testPassport.passport_id]);
  });

  it('answers the chain of the account to its live keys only', async () => {
    const accountRecord = (mode: Owner['mode']): NewRecord =>
      refusalOf(null, { ...liveOwner(other.accountId), mode });
    await append(api, [accountRecord('test'), accountRecord('live')]);
    const otherTestKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' }, other.key)).key;
    expect((await exported('', other.key)).body).toContain(`"chain_id":"${other.accountId}"`);
    expect(linesOf((await exported('', otherTestKey)).body).at(-1)).toEqual({
      end: { chains: 0, records: 0 },
    });
  });

  it('is a snapshot, whatever arrives in the meantime', async () => {
    const { response } = await download(origin, api.adminKey);
    await append(api, [recordOf(longPassport.passport_id), recordOf(longPassport.passport_id)]);
    const { text, isWhole } = await readToEnd(response);
    expect(isWhole).toBe(true);
    expect(await verifyText(api, text)).toMatchObject({ kind: 'valid' });
    const chain = linesOf(text).find((line) => line.chain?.chain_id === longPassport.passport_id).chain;
    expect(chain.last_sequence).toBe(longChain);
  });

  it('frees its connection when the reader leaves, however often', async () => {
    for (let i = 0; i < limits.exportsAtOnceMax + 2; i++) {
      const { request } = await download(origin, api.adminKey);
      await until(async () => (await openTransactions(api)).length === 1, {
        what: 'the export is under way',
      });
      request.destroy();
      await until(async () => (await openTransactions(api)).length === 0, {
        what: 'its transaction is ended',
      });
    }
    expect((await exported()).status).toBe(200);
  });

  it('is refused with overloaded while as many are running as an account may have, or as there may be', async () => {
    const start = async (key: string) => {
      const { response } = await download(origin, key);
      if (response.statusCode === 200) running.push(response);
      else response.resume();
      return response.statusCode;
    };
    const running: IncomingMessage[] = [];
    for (let i = 0; i < limits.exportsPerAccountMax; i++) expect(await start(api.adminKey)).toBe(200);
    expect(await start(api.adminKey)).toBe(503);
    expect((await exported('', other.key)).status, 'of another account').toBe(200);
    expectError(await exported(), 'overloaded');
    for (const response of running) response.destroy();
    await until(async () => (await exported()).status === 200, { what: 'there is room again' });
  });

  it('lacks its end line if the database fails in the middle, so that no verifier accepts it as complete', async () => {
    const { response } = await download(origin, api.adminKey);
    const exporting = await untilAnswer(
      () => openTransactions(api),
      (open) => open.length === 1,
      { what: 'the export alone is under way' },
    );
    await api.deps.sql`SELECT pg_terminate_backend(${must(exporting[0], 'one').pid}::int)`;
    const { text, isWhole } = await readToEnd(response);
    expect(isWhole).toBe(false);
    expect(text).not.toContain('"end"');
    expect(await verifyText(api, text)).toMatchObject({ kind: 'invalid' });
  });

  it.each([
    ['format=xml', 'format'],
    ['format=JSON', 'format'],
    ['format=', 'format'],
    ['format=json&format=csv', 'format'],
    ['since=now', 'since'],
    ['until=2026-01-01T00:00:00Z', 'until'],
  ])('refuses %s', async (query, param) => {
    expectError(await exported(`?${query}`), 'invalid_request', param);
  });

  it('needs a key with attestations:read', async () => {
    const { key } = await api.createKey({ scopes: ['passports:read'] });
    expectError(await exported('', key), 'insufficient_scope');
  });
});
