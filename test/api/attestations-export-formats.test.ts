import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewRecord } from '../../control-plane/attestations/append-records.ts';
import { attestationsLimits } from '../../control-plane/attestations/limits.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { readCsv } from '../support/base/read-csv.ts';
import { startOwnApi } from '../support/service/api.ts';
import {
  addGateRows,
  append,
  exportText,
  linesOf,
  liveOwner,
  newRecord,
  ownerOf,
  verifyText,
} from '../support/service/exports.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * One export in three formats, over chains of two accounts and both modes whose records do not stand in the
 * order of their times.
 */
const api = useApi(startOwnApi);
let startMs: number;
const keys = { live: '', test: '', other: '', empty: '' };
const hourMs = 3_600_000;

/** The same numbers on every run: a linear congruential generator. */
let seed = 12_345;
function numberBelow(bound: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
  return Math.floor((seed / 2 ** 31) * bound);
}

beforeAll(async () => {
  startMs = api.deps.clock.now() - 100 * hourMs;
  const live = await ownerOf(api);
  const other = await api.createAccount();
  keys.live = api.adminKey;
  keys.test = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
  keys.other = other.key;
  keys.empty = (await api.createAccount()).key;
  const owners = [
    { owner: live, key: keys.live },
    { owner: { ...live, mode: 'test' } as Owner, key: keys.test },
    { owner: liveOwner(other.accountId), key: keys.other },
  ];
  const all: NewRecord[] = [];
  for (const { owner, key } of owners) all.push(...(await recordsOf(owner, key)));
  await append(
    api,
    all.toSorted(() => numberBelow(3) - 1),
  );
});
afterAll(() => expectSoundStore(api));

const awkward = {
  permissionKey: '-orders:create' as PermissionKey,
  pii: [
    { pointer: '/=1+1/"quoted", with comma', type: 'email' },
    { pointer: '/line\r\nbreak/\t😀', type: 'iban' },
  ],
};

/**
 * Chains of passports, of which the longest of live is sent in two slices, short ones of gates, and one of
 * the account.
 */
async function recordsOf(owner: Owner, key: string): Promise<NewRecord[]> {
  const gates = Array.from({ length: 6 }, () => api.deps.random.newId('gate', api.deps.clock.now()));
  await addGateRows(api, owner, gates);
  const someTime = () => ({ timestampMs: (startMs + numberBelow(100) * hourMs) as UnixMillis });
  const someGate = () => must(gates[numberBelow(gates.length)], 'there are gates');
  const made: NewRecord[] = [];
  const isLong = key === keys.live;
  for (const length of [1, 2, 30, ...(isLong ? [attestationsLimits.exportSliceRowsMax + 1] : [])]) {
    const passport = { id: (await api.issuePassport({}, key)).passport_id, owner };
    for (let i = 0; i < length; i++) {
      const gateId = numberBelow(10) === 0 ? null : someGate();
      const change = { ...someTime(), ...(i % 7 === 0 ? awkward : {}) };
      made.push(newRecord(api, { passport, gateId, gateOwner: owner }, change));
    }
  }
  for (let i = 0; i < 20; i++) {
    const gateId = numberBelow(5) === 0 ? null : someGate();
    made.push(newRecord(api, { passport: null, gateId, gateOwner: owner }, someTime()));
  }
  return made;
}

// biome-ignore lint/suspicious/noExplicitAny: an export is inspected member by member
type Json = any;

/** What stands in an export as jsonl, in the shape of one as json. */
function valueOfJsonl(text: string): Json {
  const value: Json = { chains: [] };
  for (const line of linesOf(text)) {
    if ('manifest' in line) value.manifest = line.manifest;
    else if ('chain' in line) value.chains.push({ ...line.chain, attestations: [] });
    else if ('passport' in line) value.attachments = [...(value.attachments ?? []), line];
    else if ('end' in line) value.end = line.end;
    else value.chains.at(-1).attestations.push(line);
  }
  return value;
}

const recordsIn = (value: Json): Json[] => value.chains.flatMap(({ attestations }: Json) => attestations);
const query = (format: string, sinceMs: number | null = null) =>
  `?format=${format}${sinceMs === null ? '' : `&since=${new Date(sinceMs).toISOString()}`}`;
const whose = ['live', 'test', 'other', 'empty'] as const;

describe('an export as json', () => {
  it.each(whose)('holds the content of jsonl, and verifies like it: %s', async (who) => {
    const jsonl = valueOfJsonl(await exportText(api, query('jsonl'), keys[who]));
    const text = await exportText(api, query('json'), keys[who]);
    const json = JSON.parse(text);
    const attached = who === 'empty' ? [] : ['attachments'];
    expect(Object.keys(json)).toEqual(['manifest', 'chains', ...attached, 'end']);
    expect({ ...json, manifest: { ...json.manifest, created_at: '' } }).toEqual({
      ...jsonl,
      manifest: { ...jsonl.manifest, created_at: '' },
    });
    expect(recordsIn(json).length > 40).toBe(who !== 'empty');
    expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', ...json.end });
  });
});

describe('an export as csv', () => {
  const unguarded = (cell: string): string => cell.replace(/^'/, '');

  it.each(whose)('holds the records of jsonl in their order: %s', async (who) => {
    const records = recordsIn(valueOfJsonl(await exportText(api, query('jsonl'), keys[who])));
    const rows = readCsv(await exportText(api, query('csv'), keys[who]));
    const cell = (name: string, value: Json): string => {
      if (value === null || (name === 'pii' && value.length === 0)) return '';
      if (name === 'pii') return JSON.stringify(value);
      return Array.isArray(value) ? value.join(' ') : String(value);
    };
    expect(rows.map((row) => Object.entries(row).map(([name, text]) => [name, unguarded(text)]))).toEqual(
      records.map((record) => Object.keys(rows[0] ?? {}).map((name) => [name, cell(name, record[name])])),
    );
    for (const record of records) expect(Object.keys(rows[0] ?? {}).sort()).toEqual(Object.keys(record));
  });

  it('begins with the column names, in their fixed order', async () => {
    expect(await exportText(api, query('csv'), keys.empty)).toBe(
      'id,timestamp,chain_id,sequence,passport_id,gate_id,decision,reason,permission_key,amount_micro_usd,' +
        'constraints_evaluated,pii,test,resolution,source,request_hash,previous_attestation_hash,hash,signature,signing_key_id,' +
        'refers_to,source_account,policy_hash,trust_level,domain,state_age_ms,approval_id,wallet_id,hold_expires_at,' +
        'proof,asserted,conditions,external,facts,permit_token,shadow,units,user,wallet_path\r\n',
    );
  });
});

describe('since', () => {
  it.each(whose)('begins each chain at its first record not older, in every format: %s', async (who) => {
    const whole = valueOfJsonl(await exportText(api, query('jsonl'), keys[who]));
    for (const hours of [0, 50, 99, 200]) {
      const sinceMs = startMs + hours * hourMs;
      const chains = whole.chains.flatMap((chain: Json) => {
        const from = chain.attestations.findIndex(({ timestamp }: Json) => Date.parse(timestamp) >= sinceMs);
        if (from < 0) return [];
        const [first] = chain.attestations.slice(from);
        const { sequence: first_sequence, previous_attestation_hash } = first;
        const attestations = chain.attestations.slice(from);
        return [{ ...chain, first_sequence, previous_attestation_hash, attestations }];
      });
      const jsonl = await exportText(api, query('jsonl', sinceMs), keys[who]);
      expect(valueOfJsonl(jsonl), `${hours} hours`).toMatchObject({
        manifest: { since: new Date(sinceMs).toISOString() },
        chains,
        end: { chains: chains.length, records: recordsIn({ chains }).length },
      });
      expect(await verifyText(api, jsonl)).toMatchObject({ kind: 'valid' });
      const json = await exportText(api, query('json', sinceMs), keys[who]);
      expect(JSON.parse(json).chains).toEqual(chains);
      expect(await verifyText(api, json)).toMatchObject({ kind: 'valid' });
      const csv = readCsv(await exportText(api, query('csv', sinceMs), keys[who]));
      expect(csv.map(({ id }) => id)).toEqual(recordsIn({ chains }).map(({ id }: Json) => id));
    }
  });
});

describe('the headers', () => {
  it.each([
    ['json', 'application/json; charset=utf-8', 'json'],
    ['jsonl', 'application/x-ndjson', 'jsonl'],
    ['csv', 'text/csv; charset=utf-8', 'csv'],
    ['dsse', 'application/x-ndjson', 'dsse.jsonl'],
    ['ocsf', 'application/x-ndjson', 'ocsf.jsonl'],
  ])('name the type and a file: %s', async (format, type, end) => {
    const reply = await api.call({ url: `/v1/attestations/export${query(format)}`, key: keys.test });
    expect(reply.headers).toMatchObject({ 'content-type': type, 'cache-control': 'no-store' });
    expect(reply.headers['content-disposition']).toMatch(
      new RegExp(`^attachment; filename="attestations-test-\\d{8}T\\d{6}Z\\.${end}"$`),
    );
  });
});
