import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { hashOf } from '../support/service/approvals.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * What a sidecar says of a passport is judged in the same way by whatever door it comes: as a record, as a
 * permit, and as a suspend that opens an approval.
 */
const api = useApi(startOwnApi);
let foreignKey: string;
let sidecar: ConnectedSidecar;
let gateId: string;
let passport: Reply['body'];
let nextSeq: number;

beforeAll(async () => {
  foreignKey = (await api.createAccount({ name: 'Foreign' })).key;
  gateId = (await api.createGate({ constraints: { trusted_issuers: ['*'] } }, foreignKey)).gate_id;
});
beforeEach(async () => {
  sidecar = await connectSidecar(api, { key: foreignKey });
  nextSeq = 1;
  passport = await api.issuePassport();
});

interface Said {
  readonly permissionKey?: string | null;
  readonly amount?: number | null;
  readonly checks?: readonly string[];
  readonly tokenHash?: string;
  readonly gate?: string;
}

const usd = 1_000_000;
const atGate = ['passport', 'trust_level', 'issuer', 'permission'];
const withProof = ['passport', 'trust_level', 'issuer', 'proof_of_possession', 'permission'];
let requests = 0;

const told = ({ permissionKey = 'orders:create', amount = usd, tokenHash, gate = gateId }: Said) => ({
  ...{ request_hash: hashOf(++requests), permission_key: permissionKey, amount_micro_usd: amount },
  ...{ token_hash: tokenHash ?? sha256Hex(passport.jwt), gate_id: gate },
});
const refusalIn = ({ status, body }: Reply): string | null =>
  status === 200 ? null : body.error.refused[0].message;

/** By each door: null where it was taken, else why it was not. */
const doors = {
  record: async (said: Said): Promise<string | null> => {
    const change = { ...told(said), constraints_evaluated: said.checks ?? atGate, took: [] };
    const reply = await sidecar.send(nextSeq, [recordOf(api, { gateId, passport }, change)]);
    if (reply.status === 200) nextSeq = reply.body.next_seq;
    return refusalIn(reply);
  },
  permit: async (said: Said): Promise<string | null> => {
    const change = { ...told(said), constraints_evaluated: said.checks ?? atGate, took: [] };
    const record = recordOf(api, { gateId, passport }, change);
    const { request_hash, gate_id, token_hash } = change;
    const key = { approval_id: null, idempotency_key: `key-${requests}` };
    return settle({ kind: 'permit', ...key, record, request_hash, gate_id, token_hash });
  },
  suspend: (said: Said): Promise<string | null> =>
    settle({
      ...{ ...told(said), kind: 'suspend', idempotency_key: null, pii: [], held: [] },
      ...{ approval_id: api.deps.random.newId('appr', api.deps.clock.now()), expires_in_ms: minuteMs },
      constraints_evaluated: [...(said.checks ?? atGate), 'approval'],
    }),
} as const;

async function settle(settlement: object): Promise<string | null> {
  const reply = await api.call({
    url: '/v1/sync/settlements',
    key: sidecar.key,
    body: settlementCall({
      ...{ sidecar_id: sidecar.sidecarId, connection_id: sidecar.connectionId, holder: 'ab'.repeat(16) },
      ...{ passport_id: passport.passport_id, gate_version: 1, ...settlement },
    }),
  });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  const [answer] = reply.body.answers;
  return answer.kind === 'committed' || answer.kind === 'suspended' ? null : answer.message;
}

const approvalsOf = async (): Promise<number> =>
  (await api.deps.sql`SELECT FROM approvals WHERE passport_id = ${passport.passport_id}`).length;

describe.each(Object.keys(doors) as (keyof typeof doors)[])('by the door of a %s', (door) => {
  const say = (said: Said = {}) => doors[door](said);

  it('a passport of another mode than its gate is refused', async () => {
    const { key: testKey } = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    passport = await api.issuePassport({}, testKey);
    expect(await say()).toBe('passport_id is of another mode');
    expect(await approvalsOf()).toBe(0);
  });

  it('a permission that was not granted is refused', async () => {
    expect(await say({ permissionKey: 'payments:send' })).toBe(
      'permission_key is not granted by passport_id',
    );
    expect(await approvalsOf()).toBe(0);
  });

  it('a permission that is not told is refused, unless the gate looks for personal data', async () => {
    expect(await say({ permissionKey: null })).toBe('permission_key is missing');
    expect(await say({ permissionKey: null, checks: [...atGate, 'pii_controls'] })).toBeNull();
  });

  it('checks that come before are demanded: of the gate, and of the passport itself', async () => {
    for (const missing of atGate) {
      const checks = atGate.filter((name) => name !== missing);
      expect(await say({ checks }), missing).toMatch(/lacks a check/);
    }
    passport = await api.issuePassport({ constraints: { allowed_domains: ['a.example'] } });
    expect(await say()).toMatch(/lacks a check/);
    expect(await say({ checks: [...atGate, 'domain_allowlist'] })).toBeNull();
    passport = await api.issuePassport({ constraints: { proof_of_possession: 'required' } });
    expect(await say()).toMatch(/lacks a check/);
    expect(await say({ checks: withProof })).toBeNull();
  });

  it('an amount is one that a request may name, and the passport may spend at once', async () => {
    expect(await say({ amount: 1e15 })).toBeNull();
    expect(await say({ amount: 1e15 + 1 })).toMatch(/^amount_micro_usd/);
    passport = await api.issuePassport({ constraints: { spend_limits: { per_transaction_usd: 5 } } });
    const checks = [...atGate, 'spend_limit'];
    expect(await say({ checks, amount: 5 * usd })).toBeNull();
    expect(await say({ checks, amount: 5 * usd + 1 })).toMatch(/^amount_micro_usd/);
    expect(await say({ checks, amount: null })).toBe('amount_micro_usd is missing');
  });

  it('a passport that has ended is refused', async () => {
    const endsAtMs = api.deps.clock.now() + 2 * minuteMs;
    passport = await api.issuePassport({ expires_in: '2m' });
    expect(await say()).toBeNull();
    api.advance(endsAtMs - api.deps.clock.now() + limits.decisionDeadlineMs + 1_000);
    expect(await say()).toBe('timestamp_ms is after the end of passport_id');
  });

  it('an unseen token and a gate of another account are refused', async () => {
    expect(await say({ tokenHash: '0'.repeat(64) })).toMatch(/^token_hash/);
    const { gate_id: others } = await api.createGate();
    expect(await say({ gate: others })).toMatch(/^gate_id/);
  });
});

describe('an approval that the passport itself asks for', () => {
  beforeEach(async () => {
    passport = await api.issuePassport({ constraints: { approvals: { above_usd: 10 } } });
  });
  const checks = [...atGate, 'approval'];

  it.each(['record', 'permit'] as const)('is missed in a %s without one', async (door) => {
    expect(await doors[door]({ checks, amount: 10 * usd })).toBeNull();
    expect(await doors[door]({ checks, amount: 11 * usd })).toMatch(/^an approval/);
  });

  it('is asked for by a suspend', async () => {
    expect(await doors.suspend({ amount: 11 * usd })).toBeNull();
  });
});

it('a suspend of a passport that is not active opens nothing', async () => {
  await api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
  expect(await doors.suspend({})).toBeUndefined();
  expect(await approvalsOf()).toBe(0);
});
