import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewRecord } from '../../control-plane/attestations/append-records.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import {
  addGateRows,
  append,
  download,
  linesOf,
  liveOwner,
  newRecord,
  openTransactions,
  ownerOf,
  readToEnd,
  verifyText,
} from '../support/service/exports.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let origin: string;
let owner: Owner;
let gateId: string;
let longPassport: Reply['body'];
let startMs: number;
let other: { readonly accountId: string; readonly key: string };
let testKey: string;

/** More than all the buffers between a database and a reader that reads nothing hold: about 11 MB. */
const longChain = 600;
const longFindings = Array.from({ length: limits.piiFindingsMax }, (_, n) => ({
  pointer: `/${n}/${'x'.repeat(550)}`,
  type: 'email' as const,
}));
/** More than an export looks at, and sends, at once. */
const shortChains = 219;

beforeAll(async () => {
  owner = await ownerOf(api);
  gateId = (await api.createGate()).gate_id;
  longPassport = await api.issuePassport();
  other = await api.createAccount();
  testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
  startMs = api.deps.clock.now() - 100_000_000;
  await append(
    api,
    Array.from({ length: longChain }, (_, i) =>
      recordOf(longPassport.passport_id, { timestampMs: at(i * 1_000), pii: longFindings }),
    ),
  );
  const gates = Array.from({ length: shortChains }, (_, i) => `gate_${String(i).padStart(26, '0')}`);
  await addGateRows(api, owner, gates);
  await append(
    api,
    gates.flatMap((id, i) => Array.from({ length: 1 + (i % 3) }, () => refusalOf(id))),
  );
  origin = await api.app.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(() => expectSoundStore(api));

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
    const records = longChain + shortChains * 2;
    expect(await verifyText(api, reply.body)).toMatchObject({
      ...{ kind: 'valid', chains: shortChains + 1, records },
    });
    const lines = linesOf(reply.body);
    expect(lines[0].manifest).toMatchObject({ since: null, key_ids: [expect.any(String)] });
    const { generation } = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    expect(generation).toMatch(/^gen_[0-9a-f]{32}$/);
    expect(lines[0].manifest.generation).toBe(generation);
    expect(lines.at(-1)).toEqual({ end: { chains: shortChains + 1, records } });
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
    ['since=now', 'since'],
    ['until=2026-01-01T00:00:00Z', 'until'],
  ])('refuses %s', async (query, param) => {
    expectError(await exported(`?${query}`), 'invalid_request', param);
  });
});
