import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { contentHash, sha256Hex } from '../../shared/crypto/content-hash.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, hashOf, openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type ConnectedSidecar, connectSidecar, settlementCall } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let sidecar: ConnectedSidecar;
let gateId: string;
let passport: Reply['body'];

beforeAll(async () => {
  goToNoon(api);
  sidecar = await connectSidecar(api);
});
beforeEach(async () => {
  passport = await api.issuePassport();
  gateId = (await api.createGate({ constraints: { spend_limits: { daily_usd: 100 } } })).gate_id;
});

const suspend = (hash: number, held: object[], amount = 0) => ({
  sidecar_id: sidecar.sidecarId,
  connection_id: sidecar.connectionId,
  holder: Buffer.from(api.deps.random.bytes(16)).toString('hex'),
  passport_id: passport.passport_id,
  ...{ token_hash: sha256Hex(passport.jwt), gate_id: gateId, gate_version: 1, request_hash: hashOf(hash) },
  idempotency_key: null,
  kind: 'suspend',
  approval_id: api.deps.random.newId('appr', api.deps.clock.now()),
  permission_key: 'orders:create',
  amount_micro_usd: amount,
  constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'approval'],
  pii: [],
  expires_in_ms: 1_000,
  held,
});
const settle = (body: Parameters<typeof settlementCall>[0]) =>
  api.call({ url: '/v1/sync/settlements', key: sidecar.key, body: settlementCall(body) });
const heldFrom = (startsAtMs: number) => ({
  ...{ kind: 'gate_spend', gate_id: gateId, passport_id: null, token_hash: null, window: 'day' },
  starts_at_ms: startsAtMs,
  units: 0,
});

describe('held windows of a suspend', () => {
  const dayStartMs = () => windowAt('day', api.deps.clock.now()).startsAtMs;

  it('must exist', async () => {
    const reply = await settle(suspend(1, [heldFrom(dayStartMs() + 1)]));
    expect(reply.body.answers).toEqual([{ kind: 'refused', message: expect.stringContaining('held') }]);
  });

  it('that do not exist never block the expiry of other approvals', async () => {
    await settle(suspend(1, [heldFrom(dayStartMs() + 1)]));
    await settle(suspend(2, [heldFrom(dayStartMs() + 2)]));
    const { approvalId } = await openAnApproval(api, { expiresInMs: 1_000 });
    api.advance(2_000);
    await expireApprovals(api.deps);
    const rows = await api.deps
      .sql`SELECT FROM approvals WHERE approval_id = ${approvalId} AND due_at_ms IS NULL`;
    expect(rows).toHaveLength(1);
  });
});

describe('an idempotency key without a gate', () => {
  const enforce = (key: string, request: object = {}) =>
    api.call({
      url: '/v1/enforce',
      key,
      body: { passport: passport.jwt, request: { idempotency_key: 'order-1', ...request } },
    });

  it('belongs to one account: another account neither gets its PERMIT nor conflicts with it', async () => {
    const { key } = await api.createAccount();
    const other = await api.createAccount();
    passport = await api.issuePassport({}, key);
    expect((await enforce(other.key)).body).toMatchObject({ decision: 'BLOCK', reason: 'issuer_untrusted' });
    const first = (await enforce(key)).body;
    expect(first).toMatchObject({ decision: 'PERMIT' });
    expect((await enforce(key)).body.attestation_id).toBe(first.attestation_id);
    expectError(await enforce(key, { item: 2 }), 'idempotency_conflict');
    expect((await enforce(other.key)).body).toMatchObject({ decision: 'BLOCK', reason: 'issuer_untrusted' });
  });

  it('is not seen by sidecars of another account', async () => {
    const stranger = await connectSidecar(api, { key: (await api.createAccount()).key });
    const request = { idempotency_key: 'order-1' };
    await enforce(api.adminKey);
    const lookUp = (from: ConnectedSidecar) =>
      api.call({
        url: '/v1/sync/settlements',
        key: from.key,
        body: settlementCall({
          ...{ sidecar_id: from.sidecarId, connection_id: from.connectionId, holder: 'ab'.repeat(16) },
          ...{ kind: 'look_up', passport_id: passport.passport_id, token_hash: sha256Hex(passport.jwt) },
          ...{ gate_id: null, gate_version: 0, request_hash: contentHash(request) },
          ...{ idempotency_key: 'order-1', approval_id: null, short: [] },
        }),
      });
    expect((await lookUp(sidecar)).body.answers).toMatchObject([{ kind: 'replayed' }]);
    expect((await lookUp(stranger)).body.answers).toEqual([{ kind: 'none', may_change: false }]);
  });
});
