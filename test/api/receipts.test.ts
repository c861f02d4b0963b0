import { beforeAll, describe, expect, it } from 'vitest';
import { parseRevokedKeys, verifyReceipt } from '../../shared/attestation/decision-receipt.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import type { DecisionReceipt } from '../../shared/wire/evidence/decision-receipt.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { testReceipt } from '../support/service/receipts.ts';
import { startTestEmbedded, startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const ed25519 = chooseEd25519();
const order = { permission_key: 'orders:create', amount: 4 };
const asks = { ...order, receipt: true };

describe('receipts', () => {
  const api = useApi(startOwnApi);
  const sidecar = useSidecar(() => ({ api }));
  let gate: string;
  let passport: { jwt: string; passport_id: string; agent_id: string };
  beforeAll(async () => {
    gate = (await api.createGate()).gate_id;
    passport = await api.issuePassport();
    await sidecar.caughtUp();
    await canIssue(sidecar);
  });

  const canIssue = (at: TestSidecar) =>
    until(async () => (await at.check(gate, passport.jwt, asks)).status === 200, { what: 'a certificate' });

  /** A sidecar that is certified. */
  async function another(options: { readonly folder?: string } = {}): Promise<TestSidecar> {
    const started = await startTestSidecar({ api, ...options });
    await started.caughtUp();
    await canIssue(started);
    return started;
  }
  const readJwks = async () => (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
  const judge = (receipt: unknown, jwks: unknown, list: unknown = { revoked: [] }) => {
    const keys = keyset(ed25519, parseJwks(jwks));
    return verifyReceipt(receipt, { ed25519, keys, revoked: must(parseRevokedKeys(list), 'a list') });
  };
  const verdictOf = async (receipt: unknown) => judge(receipt, await readJwks());
  const recordOf = async (id: string) => {
    const ask = () => api.call({ url: `/v1/attestations/${id}` });
    await until(async () => (await ask()).status === 200, { what: `record ${id}` });
    return (await ask()).body;
  };
  async function expectKept(answer: { decision: string; attestation_id: string; receipt?: DecisionReceipt }) {
    const { receipt } = answer;
    expect(await verdictOf(receipt)).toEqual({ kind: 'valid', receipt });
    const { statement } = must(receipt, 'it has a receipt');
    const record = await recordOf(answer.attestation_id);
    expect(statement).toMatchObject({
      ...{ attestation_id: record.id, chain_id: record.chain_id, gate_id: record.gate_id },
      ...{ decision: record.decision, reason: record.reason, request_hash: record.request_hash },
    });
    expect(Date.parse(statement.log_by) - Date.parse(statement.issued_at)).toBe(24 * 3_600_000);
    return { record, receipt: must(receipt, 'it has a receipt') };
  }

  it('state the first PERMIT of a key, whatever a repetition meets', async () => {
    for (const constraints of [
      { spend_limits: { daily_usd: order.amount } },
      { rate_limits: { requests_per_day: 1 } },
    ]) {
      const { gate_id: once } = await api.createGate({ constraints });
      await sidecar.caughtUp();
      const keyed = { ...asks, idempotency_key: 'once' };
      const first = (await sidecar.check(once, passport.jwt, keyed)).body;
      const again = (await sidecar.check(once, passport.jwt, keyed)).body;
      expect([first.decision, again.decision]).toEqual(['PERMIT', 'PERMIT']);
      expect(again.attestation_id).toBe(first.attestation_id);
      await expectKept(first);
      await expectKept(again);
    }
  });

  it('state what the record will say, at every way in', async () => {
    const bodies: Parameters<typeof expectKept>[0][] = [];
    bodies.push((await sidecar.check(gate, passport.jwt, asks)).body);
    bodies.push((await sidecar.check(null, passport.jwt, asks)).body);
    bodies.push((await sidecar.check(gate, 'no passport', asks)).body);
    bodies.push((await sidecar.check(gate, passport.jwt, { receipt: true })).body);
    const keyed = { ...asks, idempotency_key: 'order-1' };
    bodies.push((await sidecar.check(gate, passport.jwt, keyed)).body);
    const again = (await sidecar.check(gate, passport.jwt, keyed)).body;
    expect(again.attestation_id).toBe(bodies.at(-1)?.attestation_id);
    bodies.push(again);
    const evaluation = {
      subject: { type: 'agent', id: passport.agent_id, properties: { passport: passport.jwt } },
      action: { name: 'orders:create' },
      resource: { type: 'gate', id: gate },
      context: { receipt: true },
    };
    const evaluate = (path: string, body: object) => sidecar.call({ method: 'POST', path, body });
    bodies.push((await evaluate('/access/v1/evaluation', evaluation)).body.context);
    const several = (await evaluate('/access/v1/evaluations', { evaluations: [evaluation] })).body;
    bodies.push(several.evaluations[0].context);
    const stream = await StreamClient.open(sidecar.origin, api.adminKey);
    bodies.push(await stream.ask({ gate_id: gate, passport: passport.jwt, request: asks }));
    stream.socket.close();
    for (const body of bodies) await expectKept(body);
    expect(bodies.map(({ decision }) => decision)).toEqual([
      ...['PERMIT', 'PERMIT', 'BLOCK', 'BLOCK', 'PERMIT', 'PERMIT', 'PERMIT', 'PERMIT', 'PERMIT'],
    ]);
  });

  it('come from a service that embeds a sidecar, too', async () => {
    const { embedded, ...other } = await startTestEmbedded({ api });
    await other.caughtUp();
    const ask = () => embedded.check(gate, { passport: passport.jwt, request: asks });
    await until(async () => (await ask()).decision === 'PERMIT', { what: 'a certificate' });
    await expectKept((await ask()) as never);
    await other.close();
    other.removeFolder();
  });

  it('of a turn have one signature, each with the path of its own statement', async () => {
    const checks = Array.from({ length: 60 }, (_, place) => ({
      passport: passport.jwt,
      request: { ...asks, amount: place },
    }));
    const { body } = await sidecar.call({ path: `/v1/gates/${gate}/check/batch`, body: { checks } });
    const receipts: DecisionReceipt[] = body.results.map(({ receipt }: { receipt: unknown }) => receipt);
    const jwks = await readJwks();
    for (const receipt of receipts) expect(judge(receipt, jwks).kind).toBe('valid');
    const hashes = receipts.map(({ statement }) => statement.request_hash);
    expect(hashes).toEqual(checks.map(({ request }) => contentHash(request)));
    expect(new Set(receipts.map(({ signature }) => signature)).size).toBeLessThan(20);
    const [one, two] = receipts.filter(({ size }) => size > 8) as [DecisionReceipt, DecisionReceipt];
    const changed: Readonly<Record<string, unknown>> = {
      'with the statement of another': { ...one, statement: two.statement },
      'with the path of another': { ...one, path: two.path },
      'at another place': { ...one, index: one.index + 1 },
      'of a smaller turn': { ...one, size: one.size - 1 },
      'with a hash less': { ...one, path: one.path.slice(1) },
      'with a hash more': { ...one, path: [...one.path, must(one.path[0], 'a hash')].slice(0, 10) },
      'with a decision that was not made': { ...one, statement: { ...one.statement, decision: 'BLOCK' } },
      'with a later promise': { ...one, statement: { ...one.statement, log_by: '2099-01-01T00:00:00.000Z' } },
    };
    for (const [what, receipt] of Object.entries(changed))
      expect([what, judge(receipt, jwks)]).toEqual([what, { kind: 'invalid', fault: 'forged' }]);
  });

  it('hold only under the key that the certificate names, and while it is in force', async () => {
    const { receipt } = (await sidecar.check(gate, passport.jwt, asks)).body;
    const other = await another();
    const { receipt: ofOther } = (await other.check(gate, passport.jwt, asks)).body;
    await other.close();
    other.removeFolder();
    expect(ofOther.certificate.kid).not.toBe(receipt.certificate.kid);
    const { certificate } = receipt;
    const faultOf = async (changed: object) => {
      const verdict = await verdictOf({ ...receipt, ...changed });
      return verdict.kind === 'valid' ? null : verdict.fault;
    };
    expect(await faultOf({})).toBe(null);
    expect(await faultOf({ certificate: ofOther.certificate })).toBe('forged');
    expect(await faultOf({ signature: ofOther.signature })).toBe('forged');
    const longer = { ...certificate, expires_at: '2099-01-01T00:00:00.000Z' };
    expect(await faultOf({ certificate: longer })).toBe('certificate_forged');
    const { x, kid } = ofOther.certificate;
    expect(await faultOf({ certificate: { ...certificate, x } })).toBe('certificate_forged');
    expect(await faultOf({ certificate: { ...certificate, x, kid } })).toBe('certificate_forged');
    expect(await faultOf({ history: null })).toBe(null);
    expect(await faultOf({ more: 1 })).toBe('malformed');
    const jwks = await readJwks();
    const others = jwks.keys.filter(({ kid }: { kid: string }) => kid !== certificate.signing_key_id);
    expect(judge(receipt, { keys: others })).toEqual({ kind: 'invalid', fault: 'certificate_key_unknown' });
  });

  it('are not on a SUSPEND, which has no record yet, nor where they are not asked for', async () => {
    const { gate_id: asking } = await api.createGate({ constraints: { approvals: { above_usd: 1 } } });
    await sidecar.caughtUp();
    const { body } = await sidecar.check(asking, passport.jwt, asks);
    expect(body.decision).toBe('SUSPEND');
    expect(body).not.toHaveProperty('receipt');
    for (const receipt of [false, null, undefined])
      expect((await sidecar.check(gate, passport.jwt, { ...order, receipt })).body).not.toHaveProperty(
        'receipt',
      );
    for (const receipt of ['true', 1, {}])
      expectError(
        await sidecar.check(gate, passport.jwt, { ...order, receipt }),
        'invalid_request',
        'request.receipt',
      );
  });

  it('are refused, and nothing is decided, by a sidecar whose key is not certified', async () => {
    const alone = await another();
    await alone.close();
    // Started again without the control plane: its state is on disk, its certificate is not.
    const cutOff = await startTestSidecar({ api, folder: alone.folder, isCutOff: true });
    const plain = () => cutOff.check(gate, passport.jwt, order);
    await until(async () => (await plain()).status === 200, { what: 'a state from disk' });
    const refused = await cutOff.check(gate, passport.jwt, asks);
    expectError(refused, 'service_unavailable');
    expect(refused.body.error.message).toContain('receipt');
    expect((await plain()).status).toBe(200);
    await cutOff.close();
    cutOff.removeFolder();
  });

  it('are shown to the service, which says whether their records are there', async () => {
    const { receipt } = (await sidecar.check(gate, passport.jwt, asks)).body;
    await recordOf(receipt.statement.attestation_id);
    const show = (shown: object) => api.call({ url: '/v1/receipts', body: { receipt: shown } });
    expect((await show(receipt)).body).toEqual({
      ...{ attestation_id: receipt.statement.attestation_id, state: 'on_record', history: 'whole' },
    });
    const stateOf = async (stated: object) => (await show(testReceipt(api, stated))).body.state;
    expect(await stateOf({})).toBe('missing');
    expect(await stateOf({ log_by: '2099-01-01T00:00:00.000Z' })).toBe('awaited');
    const account = { accountId: receipt.certificate.account_id };
    const other = { ...receipt.statement, ...testReceipt(api).statement };
    const { attestation_id } = receipt.statement;
    const contradicted = testReceipt(api, { ...other, attestation_id }, account);
    expect((await show(contradicted)).body.state).toBe('contradicted');
    expectError(await show({ ...receipt, index: 1, size: 2 }), 'invalid_request', 'receipt');
    expectError(await show({ ...receipt, more: 1 }), 'invalid_request', 'receipt.more');
  });

  it('of a revoked key prove nothing, and its sidecar makes another one', async () => {
    const own = await another();
    const { receipt } = (await own.check(gate, passport.jwt, asks)).body;
    await own.close();
    const { kid } = receipt.certificate;
    const revoke = () => api.call({ url: '/v1/signing-keys/revoke-sidecar-key', body: { kid } });
    const revoked = (await revoke()).body;
    expect(revoked.kid).toBe(kid);
    expect((await revoke()).body).toEqual(revoked);
    const readList = async () => (await api.call({ url: '/.well-known/sidecar-keys.json', key: null })).body;
    const list = await untilAnswer(readList, ({ revoked }) => revoked.length > 0, { what: 'the key' });
    expect(list).toEqual({ revoked: [revoked] });
    const verdict = judge(receipt, await readJwks(), list);
    expect(verdict).toEqual({ kind: 'invalid', fault: 'key_revoked' });
    expectError(await api.call({ url: '/v1/receipts', body: { receipt } }), 'invalid_request', 'receipt');
    const again = await another({ folder: own.folder });
    const next = (await again.check(gate, passport.jwt, asks)).body.receipt;
    expect(next.certificate.kid).not.toBe(kid);
    expect((await verdictOf(next)).kind).toBe('valid');
    await again.close();
    again.removeFolder();
  });

  it('are under another certificate once the key that signed the one before is compromised', async () => {
    const ask = () => sidecar.check(gate, passport.jwt, asks);
    const certifiedUntil = async () =>
      (await sidecar.call({ path: '/readyz', key: null })).body.receipts.certified_until;
    const before = (await ask()).body.receipt.certificate;
    expect(await certifiedUntil()).toBe(before.expires_at);
    const body = { purpose: 'attestation', compromised: true };
    expect((await api.call({ url: '/v1/signing-keys/rotate', body })).status).toBe(201);
    await sidecar.caughtUp();
    // From then on, each that is issued verifies.
    const answered = async (): Promise<string | null> => {
      const answer = await ask();
      if (answer.status !== 200) {
        expectError(answer, 'service_unavailable');
        expect(answer.body.error.message).toContain('receipt');
        // It may have been certified again since that answer, never as it was.
        expect(await certifiedUntil()).not.toBe(before.expires_at);
        return null;
      }
      expect((await verdictOf(answer.body.receipt)).kind).toBe('valid');
      return answer.body.receipt.certificate.signing_key_id;
    };
    const signedBy = await untilAnswer(answered, (kid) => kid !== null, { what: 'another certificate' });
    expect(signedBy).not.toBe(before.signing_key_id);
    const { body: text } = await sidecar.call({ path: '/metrics', key: null });
    expect(text).toMatch(/agent_trust_sidecar_receipts_total\{outcome="issued"\} [1-9]\d/);
    expect(text).toMatch(/agent_trust_sidecar_receipts_certified_seconds 6\d{5}/);
  });

  it('certify no key that the sidecar has not', async () => {
    const connected = await api.call({
      url: '/v1/sync/connect',
      body: { sync_version: 7, sidecar_id: 'side_01k7w8f9hdzbnzm1x73rrwwwpj', now_ms: Date.now() },
    });
    const claim = {
      sidecar_id: 'side_01k7w8f9hdzbnzm1x73rrwwwpj',
      connection_id: connected.body.connection_id,
      x: Buffer.from(ed25519.signer(Buffer.alloc(32, 1)).publicKey).toString('base64url'),
      signature: Buffer.alloc(64).toString('base64url'),
    };
    const certified = await api.call({ url: '/v1/sync/receipt-key', body: claim });
    expectError(certified, 'invalid_request', 'signature');
    const gone = { ...claim, connection_id: '1.gone' };
    expect((await api.call({ url: '/v1/sync/receipt-key', body: gone })).status).toBe(409);
  });
});

it('a receipt is the memory of a restore, where no sidecar is left', async () => {
  const api = await startOwnApi();
  const { sql } = api.deps;
  const sidecar = await startTestSidecar({ api });
  const gate = (await api.createGate()).gate_id;
  const { jwt } = await api.issuePassport();
  await sidecar.caughtUp();
  let receipt: DecisionReceipt | null = null;
  await until(
    async () => {
      receipt = (await sidecar.check(gate, jwt, asks)).body.receipt ?? null;
      const told = receipt === null || receipt.history === null ? null : JSON.parse(receipt.history.text);
      const [feed] = await sql`SELECT revision FROM feeds WHERE feed_id = ${told?.account_id ?? ''}`;
      return told !== null && told.feeds?.account[0] === feed?.['revision'];
    },
    { what: 'a receipt that remembers the newest change' },
  );
  await sidecar.close();
  sidecar.removeFolder();
  const show = () => api.call({ url: '/v1/receipts', body: { receipt } });
  expect((await show()).body.history).toBe('whole');
  // As from a backup: the newest change of the account is gone.
  await sql`DELETE FROM changes USING feeds WHERE changes.feed_id = feeds.feed_id AND feeds.feed_id <> 'global'
    AND changes.revision = feeds.revision`;
  await sql`UPDATE feeds SET revision = revision - 1 WHERE feed_id <> 'global' AND revision > 0`;
  expect((await api.call({ url: '/readyz', key: null })).body.history.state).toBe('whole');
  expect((await show()).body.history).toBe('regressed');
  expect((await api.call({ url: '/readyz', key: null })).body.history).toMatchObject({ state: 'regressed' });
  await api.close();
});
