import { createPublicKey, verify } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findProofFault } from '../../shared/attestation/answer-proof.ts';
import { parseConstraints } from '../../shared/wire/api/constraints.ts';
import { policyHash } from '../../shared/wire/api/policy-hash.ts';
import { type Authenticator, authenticator, type Deviation } from '../support/data/authenticator.ts';
import { type LoggedIn, type Reply, startApi, startOwnApi } from '../support/service/api.ts';
import { askApproval, goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { challengeOf, giveAnswer, registerPasskey, signAnswer } from '../support/service/signed-answers.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const origin = 'http://localhost:8080';
const api = useApi(() => startOwnApi({ origin }));
let ada: LoggedIn;
let adasKey: Authenticator;
let ben: LoggedIn;
let bensKey: Authenticator;
beforeAll(async () => {
  goToNoon(api);
  ada = await api.createUser({ role: 'approver' });
  adasKey = await registerPasskey(api, ada);
  ben = await api.createUser({ role: 'approver' });
  bensKey = await registerPasskey(api, ben);
});
afterAll(() => expectSoundStore(api));

const constraints = { approvals: { above_usd: 10, passkey: true } };
async function asked(approvals: object = {}) {
  const gate = await api.createGate({
    constraints: { approvals: { ...constraints.approvals, ...approvals } },
  });
  const { passport_id: passportId } = await api.issuePassport();
  const { approvalId: id } = await askApproval(api.deps, { gateId: gate.gate_id, passportId });
  return { id, gateId: gate.gate_id as string, passportId: passportId as string };
}
const get = async (id: string, person: LoggedIn = ada): Promise<Reply['body']> =>
  (await api.call({ url: `/v1/approvals/${id}`, key: null, headers: person.headers })).body;
const isPending = async (id: string) => {
  expect(await get(id)).toMatchObject({ status: 'pending', answers: [] });
};

describe('an answer signed with a passkey', () => {
  it.each(['approved', 'denied'] as const)(
    '%s: stands with its proof, which needs nothing else',
    async (answer) => {
      const { id } = await asked();
      const before = await get(id);
      expect(before).toMatchObject({
        passkey: true,
        policy_hash: policyHash({
          trustLevel: 'L1',
          constraints: parseConstraints(constraints, { param: 'constraints', of: 'gate' }),
          routes: [],
          catalog: null,
        }),
        amount_micro_usd: 25_000_000,
        you: { may_answer: true, passkey: { rp_id: 'localhost', credential_ids: [adasKey.credentialId] } },
      });
      const assertion = await signAnswer(api, { person: ada, made: adasKey, id }, answer);
      const reply = await giveAnswer(api, ada, { id, answer }, assertion);
      expect(reply.body).toMatchObject({ status: answer, answers: [{ user_id: ada.userId, signed: true }] });
      const [stored] = (await get(id, ben)).answers;
      const { assertion: proof } = stored;
      expect(proof).toMatchObject({ rp_id: 'localhost', origin, credential_id: adasKey.credentialId });
      // As an outsider checks it, with nothing of ours.
      const key = createPublicKey({ key: proof.public_key, format: 'jwk' });
      const clientData = Buffer.from(proof.client_data_json, 'base64url');
      expect(JSON.parse(clientData.toString()).challenge).toBe(challengeOf({ ...before, answer }));
      const hash = await crypto.subtle.digest('SHA-256', clientData);
      const message = Buffer.concat([Buffer.from(proof.authenticator_data, 'base64url'), Buffer.from(hash)]);
      expect(verify('sha256', message, key, Buffer.from(proof.signature, 'base64url'))).toBe(true);
      expect(findProofFault({ ...before, answer }, proof)).toBeNull();
      for (const other of [
        { ...before, answer: answer === 'approved' ? ('denied' as const) : ('approved' as const) },
        { ...before, answer, amount_micro_usd: 25_000_001 },
        { ...before, answer, request_hash: `sha256:${'0'.repeat(64)}` },
        { ...before, answer, approval_id: `appr_${'0'.repeat(26)}` },
      ])
        expect(findProofFault(other, proof)).toContain('it signs another');
    },
  );

  it('is kept for each of several people', async () => {
    const { id } = await asked({ approvers: { count: 2 } });
    const sign = (person: LoggedIn, made: Authenticator) => signAnswer(api, { person, made, id }, 'approved');
    const first = await giveAnswer(api, ada, { id, answer: 'approved' }, await sign(ada, adasKey));
    expect(first.body.status).toBe('pending');
    const last = await giveAnswer(api, ben, { id, answer: 'approved' }, await sign(ben, bensKey));
    expect(last.body.status).toBe('approved');
    const { answers } = await get(id);
    expect(answers.map((each: Reply['body']) => each.assertion.credential_id)).toEqual([
      adasKey.credentialId,
      bensKey.credentialId,
    ]);
  });
});

describe('is refused', () => {
  it('without a passkey: to a person, an API key, and a person who has none', async () => {
    const cyd = await api.createUser({ role: 'approver' });
    const { id } = await asked();
    expectError(await giveAnswer(api, ada, { id, answer: 'approved' }), 'passkey_required');
    const byKey = await api.call({ method: 'POST', url: `/v1/approvals/${id}/approve` });
    expectError(byKey, 'not_an_approver');
    expect((await get(id, cyd)).you).toMatchObject({ may_answer: false, why_not: 'no_passkey' });
    const waiting = await api.call({ url: '/v1/approvals?waiting_for=me', key: null, headers: cyd.headers });
    expect(waiting.body.total).toBe(0);
    await isPending(id);
  });

  it.each<[string, Deviation]>([
    ['of another origin', { origin: 'http://localhost:9999' }],
    ['of another host', { origin: 'https://evil.example.com', rpId: 'evil.example.com' }],
    ['for another relying party', { rpId: 'example.com' }],
    ['that was not unlocked', { isUnverified: true }],
    ['by another key', { isForged: true }],
    ['over another challenge', { challenge: Buffer.alloc(32).toString('base64url') }],
    ['of a registration', { type: 'webauthn.create' }],
    ['with a counter that went back', { counter: 0 }],
    ['of another user', { userHandle: Buffer.from(`usr_${'0'.repeat(26)}`).toString('base64url') }],
  ])('%s', async (_, deviation) => {
    const { id } = await asked();
    const assertion = await signAnswer(api, { person: ada, made: adasKey, id }, 'approved', deviation);
    expectError(await giveAnswer(api, ada, { id, answer: 'approved' }, assertion), 'passkey_refused');
    await isPending(id);
  });

  it('with the passkey of somebody else', async () => {
    const { id } = await asked();
    const byBen = await signAnswer(api, { person: ada, made: bensKey, id }, 'approved');
    expectError(await giveAnswer(api, ada, { id, answer: 'approved' }, byBen), 'passkey_refused');
    const unknown = await signAnswer(api, { person: ada, made: authenticator(origin), id }, 'approved');
    expectError(await giveAnswer(api, ada, { id, answer: 'approved' }, unknown), 'passkey_refused');
    await isPending(id);
  });

  it('for another answer or another approval', async () => {
    const { id } = await asked();
    const approval = await signAnswer(api, { person: ada, made: adasKey, id }, 'approved');
    expectError(await giveAnswer(api, ada, { id, answer: 'denied' }, approval), 'passkey_refused');
    const { id: other } = await asked();
    expectError(await giveAnswer(api, ada, { id: other, answer: 'approved' }, approval), 'passkey_refused');
    await isPending(id);
    await isPending(other);
  });

  it.each([true, false])('once more after it was taken back (counting authenticator: %s)', async (counts) => {
    const person = await api.createUser({ role: 'approver' });
    const made = await registerPasskey(api, person);
    const { id } = await asked();
    // Passkeys that are copied between devices count nothing.
    const deviation = counts ? {} : { counter: 0 };
    const assertion = await signAnswer(api, { person, made, id }, 'approved', deviation);
    expect((await giveAnswer(api, person, { id, answer: 'approved' }, assertion)).status).toBe(200);
    const undone = await api.call({
      ...{ method: 'POST', url: `/v1/approvals/${id}/undo`, key: null, headers: person.headers },
    });
    expect(undone.body).toMatchObject({ status: 'pending', answers: [] });
    expectError(await giveAnswer(api, person, { id, answer: 'approved' }, assertion), 'passkey_refused');
    const refused = await giveAnswer(api, person, { id, answer: 'approved' }, mirrored(assertion));
    expectError(refused, 'passkey_refused');
    const anew = await signAnswer(api, { person, made, id }, 'approved', deviation);
    expect((await giveAnswer(api, person, { id, answer: 'approved' }, anew)).body.status).toBe('approved');
  });

  it('after the amount or the request changed', async () => {
    for (const change of [
      (id: string) =>
        api.deps.sql`UPDATE approvals SET amount_micro_usd = 9000000000 WHERE approval_id = ${id}`,
      (id: string) => api.deps.sql`
        UPDATE approvals SET request_hash = ${`sha256:${'1'.repeat(64)}`} WHERE approval_id = ${id}`,
    ]) {
      const { id } = await asked();
      const assertion = await signAnswer(api, { person: ada, made: adasKey, id }, 'approved');
      await change(id);
      expectError(await giveAnswer(api, ada, { id, answer: 'approved' }, assertion), 'passkey_refused');
      await isPending(id);
    }
  });

  it.each<object>([{}, { id: 'x'.repeat(5_000) }, { id: 'abc', response: {} }])(
    'where it is none: %j',
    async (assertion) => {
      const { id } = await asked();
      expectError(await giveAnswer(api, ada, { id, answer: 'approved' }, assertion), 'passkey_refused');
    },
  );
});

/** The other signature (r, n - s) that anybody can make of an ES256 signature. */
function mirrored(assertion: Record<string, unknown>): object {
  const response = assertion['response'] as Record<string, string>;
  const der = Buffer.from(response['signature'] ?? '', 'base64url');
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const r = der.subarray(4, 4 + (der[3] ?? 0));
  const s = BigInt(`0x${der.subarray(4 + r.length + 2).toString('hex')}`);
  const hex = (order - s).toString(16);
  const plain = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex');
  const integer = (plain[0] ?? 0) > 127 ? Buffer.concat([Buffer.from([0]), plain]) : plain;
  const body = Buffer.concat([der.subarray(2, 4 + r.length), Buffer.from([2, integer.length]), integer]);
  const signature = Buffer.concat([Buffer.from([0x30, body.length]), body]).toString('base64url');
  return { ...assertion, response: { ...response, signature } };
}

it('is asked for by a gate only where browsers keep passkeys', async () => {
  const plain = await startApi();
  try {
    const reply = await plain.call({
      url: '/v1/gates',
      body: { name: 'Orders', trust_level: 'L1', constraints },
    });
    expectError(reply, 'invalid_request', 'constraints.approvals.passkey');
    expect(reply.body.error.message).toContain('PUBLIC_URL');
  } finally {
    await plain.close();
  }
});
