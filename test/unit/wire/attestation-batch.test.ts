import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emptyExtras, noCarried, noExtras } from '../../../shared/model/attestation.ts';
import { limits } from '../../../shared/model/limits.ts';
import {
  firstTimeMs,
  isSharedParts,
  parseAttestationBatch,
  parseBatchItem,
  readSharedParts,
} from '../../../shared/wire/sync/attestation-batch.ts';
import type { SpooledRecord } from '../../../shared/wire/sync/sync.ts';
import { anySpooledRecord, refusedToken } from '../../support/data/arbitrary-spooled-record.ts';
import { sampleId } from '../../support/data/sample-chains.ts';
import { shortened, spooledRecord } from '../../support/data/spooled-record.ts';

const source = { sidecarId: sampleId('side', 1), accountId: sampleId('acct', 1) };

/** What its members of form 2 say; none: it is in form 1. */
const extrasOf = ({ policy_hash, trust_level, state_age_ms, extras, wallet_path = null }: SpooledRecord) =>
  policy_hash === undefined
    ? noExtras
    : {
        ...emptyExtras,
        walletPath: wallet_path,
        ...{ policyHash: policy_hash, trustLevel: trust_level, stateAgeMs: state_age_ms },
        ...{ domain: extras?.domain ?? null, holdExpiresAtMs: extras?.hold_expires_at_ms ?? null },
        ...{ proof: extras?.proof ?? null, asserted: extras?.asserted ?? false },
        carried: extras?.conditions === undefined ? null : { ...noCarried, conditions: extras.conditions },
      };

describe('parseBatchItem', () => {
  it('reads rendered records back', () => {
    fc.assert(
      fc.property(anySpooledRecord, (spooled) => {
        const item = parseBatchItem(JSON.parse(JSON.stringify(spooled)), source);
        expect(item).toEqual({
          ...{ kind: 'record', tokenHash: spooled.token_hash, federated: null },
          callerMode: spooled.caller_mode,
          took: spooled.took ?? (spooled.decision === 'PERMIT' ? null : []),
          facts: [],
          record: {
            ...{ id: spooled.id, chainId: spooled.chain_id, passportId: spooled.passport_id },
            ...{ gateId: spooled.gate_id, decision: spooled.decision, reason: spooled.reason },
            ...{ requestHash: spooled.request_hash, permissionKey: spooled.permission_key },
            amountMicroUsd: spooled.amount_micro_usd,
            ...{ constraintsEvaluated: spooled.constraints_evaluated, pii: spooled.pii, test: false },
            ...{ resolution: null, refersTo: null, source: source.sidecarId },
            ...{ sourceAccount: source.accountId, timestampMs: spooled.timestamp_ms },
            ...extrasOf(spooled),
          },
        });
      }),
    );
  });

  const wrong: readonly (readonly [change: object, message: string])[] = [
    [{ id: 'att_1' }, 'id is not valid'],
    [{ chain_id: sampleId('att', 1) }, 'chain_id is not valid'],
    [{ passport_id: 7 }, 'passport_id is not valid'],
    [{ gate_id: 'gate_' }, 'gate_id is not valid'],
    [{ decision: 'ALLOW' }, 'decision is not valid'],
    [{ request_hash: `sha256:${'ab'.repeat(32)}\n` }, 'request_hash is not valid'],
    [{ permission_key: 'Orders:create' }, 'permission_key is not valid'],
    [{ amount_micro_usd: -1 }, 'amount_micro_usd is not valid'],
    [{ constraints_evaluated: ['permission', 'passport'] }, 'constraints_evaluated is not valid'],
    [{ pii: [{ pointer: '/x\0', type: 'email' }] }, 'pii is not valid'],
    [{ pii: [{ pointer: '/x', type: 'email', value: 'a@b.c' }] }, 'pii is not valid'],
    [{ pii: Array(33).fill({ pointer: '/x', type: 'email' }) }, 'pii is not valid'],
    [{ timestamp_ms: -1 }, 'timestamp_ms is not valid'],
    [{ token_hash: 'xy'.repeat(32) }, 'token_hash is not valid'],
    [{ caller_mode: 'production' }, 'caller_mode is not valid'],
    [{ took: [7, 7] }, 'took is not valid'],
    [{ took: Array.from({ length: 47 }, (_, n) => n + 1) }, 'took is not valid'],
    [{ ...refusedToken, took: [7] }, 'took does not go with decision'],
    [{ note: 'hello' }, 'unknown field'],
    [{ reason: 'passport_expired' }, 'reason does not go with decision'],
    [{ decision: 'BLOCK' }, 'reason does not go with decision'],
    [{ token_hash: null }, 'token_hash does not go with passport_id'],
    [{ ...refusedToken, token_hash: 'ab'.repeat(32) }, 'token_hash does not go with passport_id'],
    [
      { ...refusedToken, reason: 'passport_revoked' },
      'a decision without a passport blocks because of its token',
    ],
    [{ chain_id: sampleId('pass', 2) }, 'chain_id is not the chain this record belongs to'],
    [{ ...refusedToken, chain_id: sampleId('pass', 1) }, 'chain_id is not the chain this record belongs to'],
    [
      { ...refusedToken, gate_id: null, chain_id: sampleId('gate', 1) },
      'chain_id is not the chain this record belongs to',
    ],
  ];

  it.each(wrong)('refuses %j', (change, message) => {
    const record = { ...spooledRecord(), ...change };
    expect(parseBatchItem(record, source)).toEqual({ kind: 'malformed', message });
  });

  it.each([null, [], 'x', 7, {}])('refuses %j', (value) => {
    expect(parseBatchItem(value, source).kind).toBe('malformed');
  });

  it('reads a void run, and nothing that only looks like one', () => {
    expect(parseBatchItem({ void: 'damaged', count: 3 }, source)).toEqual({
      kind: 'void',
      reason: 'damaged',
      count: 3,
    });
    for (const wrongRun of [
      { void: 'lost', count: 1 },
      { void: 'damaged', count: 0 },
      { void: 'damaged', count: 1.5 },
      { void: 'damaged', count: 1e13 },
      { void: 'damaged' },
      { void: 'damaged', count: 1, id: 'x' },
    ]) {
      expect(parseBatchItem(wrongRun, source).kind).toBe('malformed');
    }
  });

  describe('reads the void of a settlement', () => {
    const entry = {
      voids: sampleId('att', 1),
      took: [3, 7],
      amount_micro_usd: 1_500_000,
      timestamp_ms: 1_000,
    };
    const read = {
      kind: 'settlement_void',
      voids: entry.voids,
      readerId: null,
      took: [3, 7],
      amountMicroUsd: 1_500_000,
    };

    it.each([
      ['of a permit', entry, read],
      ['of a suspend', { ...entry, voids: sampleId('appr', 1) }, { ...read, voids: sampleId('appr', 1) }],
      [
        'with its reading',
        { ...entry, reader_id: sampleId('att', 9) },
        { ...read, readerId: sampleId('att', 9) },
      ],
      ['without an amount', { ...entry, amount_micro_usd: null }, { ...read, amountMicroUsd: null }],
      ['that does not know what it took', { ...entry, took: undefined }, { ...read, took: null }],
    ])('%s', (_what, value, expected) => {
      expect(parseBatchItem(value, source)).toEqual(expected);
    });

    it.each([
      ['voids', { ...entry, voids: sampleId('gate', 1) }],
      ['reader_id', { ...entry, reader_id: sampleId('appr', 1) }],
      ['took', { ...entry, took: [3, 3] }],
      ['took', { ...entry, took: Array.from({ length: limits.leasesPerRecordMax + 1 }, (_, id) => id + 1) }],
      ['amount_micro_usd', { ...entry, amount_micro_usd: -1 }],
      ['timestamp_ms', { ...entry, timestamp_ms: '1' }],
      ['unknown field', { ...entry, id: 'x' }],
    ])('but none whose %s is wrong', (name, value) => {
      const parsed = parseBatchItem(value, source);
      expect(parsed.kind === 'malformed' ? parsed.message : parsed.kind).toContain(name);
    });
  });
});

describe('a row', () => {
  const { id, request_hash, amount_micro_usd, timestamp_ms, ...shared } = spooledRecord();
  const { chain_id, passport_id, token_hash, ...outcome } = shared;
  const chain = { chain_id, passport_id, token_hash };
  const parts = { chains: [chain], outcomes: [outcome] };
  const row = [id, request_hash, amount_micro_usd, timestamp_ms, null, 0, 0];
  const read = (value: unknown, of: object = parts) => parseBatchItem(value, source, readSharedParts(of));

  it('is read like the whole record, whatever its content', () => {
    fc.assert(
      fc.property(fc.array(anySpooledRecord, { minLength: 1, maxLength: 5 }), (records) => {
        const asParts = records.map(
          ({ id, request_hash, amount_micro_usd, timestamp_ms, took, ...others }, index) => {
            const { state_age_ms, extras = null, ...rest } = others;
            const { chain_id, passport_id, token_hash, wallet_path, ...outcome } = rest;
            return {
              row: [
                ...[id, request_hash, amount_micro_usd, timestamp_ms, took ?? null],
                ...(state_age_ms === undefined ? [] : [state_age_ms, extras]),
                ...[index, index],
              ],
              chain: { chain_id, passport_id, token_hash, wallet_path },
              outcome,
            };
          },
        );
        const of = { chains: asParts.map((one) => one.chain), outcomes: asParts.map((one) => one.outcome) };
        const whole = records.map((record) => parseBatchItem(record, source));
        expect(asParts.map((one) => read(one.row, of))).toEqual(whole);
      }),
    );
  });

  it.each([
    ['chain', [id, request_hash, 1, 1, null, 1, 0]],
    ['outcome', [id, request_hash, 1, 1, null, 0, 1]],
    ['request_hash', [id, `${request_hash}0`, 1, 1, null, 0, 0]],
    ['took', [id, request_hash, 1, 1, 7, 0, 0]],
    ['seven or nine members', [id, request_hash, 1, 1, null, 0, 0, 0]],
    ['outcome', [id, request_hash, 1, 1, null, 0, null, 0, 0]],
    ['extras', [id, request_hash, 1, 1, null, -1, null, 0, 0]],
    ['extras', [id, request_hash, 1, 1, null, 2 ** 31, null, 0, 0]],
    ['extras', [id, request_hash, 1, 1, null, 0, { domain: 'API.example.com' }, 0, 0]],
    ['extras', [id, request_hash, 1, 1, null, 0, { hold_expires_at_ms: '1' }, 0, 0]],
    ['unknown field', { id, request_hash, amount_micro_usd, timestamp_ms, chain: 0, outcome: 0 }],
  ])('is refused where its %s is wrong', (name, value) => {
    expect(read(value)).toMatchObject({ kind: 'malformed', message: expect.stringContaining(name) });
  });

  it.each([
    ['chain_id', { ...parts, chains: [{ ...chain, chain_id: sampleId('att', 1) }] }],
    ['unknown field', { ...parts, chains: [{ ...chain, id }] }],
    ['chain', { ...parts, chains: 7 }],
    ['decision', { ...parts, outcomes: [{ ...outcome, decision: 'ALLOW' }] }],
    ['unknown field', { ...parts, outcomes: [{ ...outcome, took: [1] }] }],
    ['reason does not go with decision', { ...parts, outcomes: [{ ...outcome, decision: 'BLOCK' }] }],
    ['is not the chain', { ...parts, chains: [{ ...chain, chain_id: sampleId('gate', 1) }] }],
  ])('is refused where the parts say a wrong %s, and another record of theirs too', (name, of) => {
    const first = read(row, of);
    expect(first).toMatchObject({ kind: 'malformed', message: expect.stringContaining(name) });
    expect(read(row, of)).toEqual(first);
  });

  it('is refused without shared parts before it', () => {
    expect(parseBatchItem(row, source)).toEqual({ kind: 'malformed', message: 'chain is not valid' });
  });

  it('is told from the parts', () => {
    const others = [{}, row, [], [parts], spooledRecord(), { ...spooledRecord(), chains: [] }, null, []];
    expect(isSharedParts(parts)).toBe(true);
    expect(others.filter(isSharedParts)).toEqual([]);
  });
});

describe('firstTimeMs', () => {
  const record = spooledRecord({ timestamp_ms: 7 });
  const [parts, row] = shortened([record]);

  it.each([
    ['a row after its parts', [parts, row, spooledRecord()]],
    ['a whole record', [record, row]],
    ['a record after what is none', [null, [], 'x', [null, null, null, '7'], row]],
  ])('is that of %s', (_what, items) => {
    expect(firstTimeMs(items)).toBe(7);
  });

  it('is null where there is no record', () => {
    expect(firstTimeMs([])).toBeNull();
    expect(firstTimeMs([parts, { void: 'damaged', count: 2 }])).toBeNull();
  });
});

describe('parseAttestationBatch', () => {
  const batch = {
    sidecar_id: source.sidecarId,
    connection_id: 'c',
    epoch: '0'.repeat(32),
    first_seq: 1,
    records: [spooledRecord()],
  };

  it('takes a full batch and no larger one', () => {
    const full = Array(limits.ingestRecordsMax).fill({});
    expect(parseAttestationBatch({ ...batch, records: full }).items).toHaveLength(full.length);
    expect(() => parseAttestationBatch({ ...batch, records: [...full, {}] })).toThrow(
      `1 to ${limits.ingestRecordsMax}`,
    );
  });

  it('does not count shared parts, and takes none that are alone', () => {
    const parts = { chains: [], outcomes: [] };
    const full = Array(limits.ingestRecordsMax).fill({});
    const { items } = parseAttestationBatch({ ...batch, records: [parts, ...full, parts] });
    expect(items).toHaveLength(full.length + 2);
    expect(() => parseAttestationBatch({ ...batch, records: [parts] })).toThrow(
      `1 to ${limits.ingestRecordsMax}`,
    );
  });

  it.each([
    [{ sidecar_id: 'side_1' }, 'sidecar_id'],
    [{ connection_id: null }, 'connection_id'],
    [{ epoch: '0'.repeat(31) }, 'epoch'],
    [{ first_seq: 0 }, 'first_seq'],
    [{ records: [] }, 'records'],
    [{ more: 1 }, 'more'],
  ])('refuses %j and names the field', (change, param) => {
    expect(() => parseAttestationBatch({ ...batch, ...change })).toThrow(
      expect.objectContaining({ code: 'invalid_request', param }),
    );
  });
});
