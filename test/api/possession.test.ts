import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentSigner } from '../../clients/node/src/agent.ts';
import { type Api, startApi } from '../support/api.ts';
import { askForward } from '../support/forward-auth.ts';
import { makeAgentKey, proofFor } from '../support/proofs.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { until } from '../support/until.ts';

let api: Api;
let sidecars: readonly TestSidecar[];
beforeAll(async () => {
  api = await startApi();
  sidecars = [
    await startTestSidecar({ api }),
    await startTestSidecar({ api }),
    await startTestSidecar({ api }),
  ];
});
afterAll(async () => {
  for (const sidecar of sidecars ?? []) await sidecar.close();
  await api?.close();
});

const request = { permission_key: 'orders:create' };
const exact = { mode: 'required', replay: 'exact' };

async function issue(more: object = {}, kind: 'ed25519' | 'p256' = 'ed25519') {
  const key = makeAgentKey(kind);
  const { jwt } = await api.issuePassport({ public_key: key.publicJwk, ...more });
  return { jwt, key };
}

async function gateThat(demand: unknown): Promise<string> {
  const gate = await api.createGate({ constraints: { proof_of_possession: demand } });
  for (const sidecar of sidecars) await sidecar.caughtUp();
  return gate.gate_id;
}

type Decides = (
  gateId: string,
  jwt: string,
  proof?: unknown,
) => Promise<{ decision: string; reason: string; attestation_id: string }>;
const atSidecar =
  (place = 0): Decides =>
  async (gateId, jwt, proof) =>
    (
      await (sidecars[place] as TestSidecar).check(gateId, jwt, {
        ...request,
        ...(proof === undefined ? {} : { proof }),
      })
    ).body;
const atControlPlane: Decides = async (gateId, jwt, proof) =>
  (
    await api.call({
      method: 'POST',
      url: `/v1/gates/${gateId}/check`,
      body: { passport: jwt, request: { ...request, ...(proof === undefined ? {} : { proof }) } },
    })
  ).body;

describe.each([
  ['a sidecar', atSidecar()],
  ['the control plane', atControlPlane],
])('proof of possession at %s', (_name, decide) => {
  it.each(['httpsig', 'dpop'] as const)('permits with a good %s proof, once', async (proof) => {
    for (const kind of ['ed25519', 'p256'] as const) {
      const gateId = await gateThat('required');
      const agent = await issue({}, kind);
      const good = proofFor(agent, undefined, { proof });
      expect(await decide(gateId, agent.jwt, good)).toMatchObject({ decision: 'PERMIT' });
      expect(await decide(gateId, agent.jwt, good)).toMatchObject({ reason: 'proof_replayed' });
      expect(await decide(gateId, agent.jwt)).toMatchObject({ reason: 'proof_missing' });
      const stolen = proofFor({ jwt: agent.jwt, key: agent.key }, undefined, { proof });
      expect(await decide(gateId, agent.jwt, { ...stolen, method: 'DELETE' })).toMatchObject({
        reason: 'proof_invalid',
      });
    }
  });

  it('is demanded by the passport at every gate, and at none', async () => {
    const gateId = await gateThat('off');
    const agent = await issue({ constraints: { proof_of_possession: 'required' } });
    expect(await decide(gateId, agent.jwt)).toMatchObject({ decision: 'BLOCK', reason: 'proof_missing' });
    expect(await decide(gateId, agent.jwt, proofFor(agent))).toMatchObject({ decision: 'PERMIT' });
  });
});

it('accepts a proof once over all sidecars and the control plane where the gate says exact', async () => {
  const gateId = await gateThat(exact);
  for (let round = 0; round < 5; round++) {
    const agent = await issue();
    const proof = proofFor(agent);
    const doors = [atSidecar(0), atSidecar(1), atSidecar(2), atControlPlane];
    const answers = await Promise.all([...doors, ...doors].map((decide) => decide(gateId, agent.jwt, proof)));
    expect(answers.filter(({ decision }) => decision === 'PERMIT')).toHaveLength(1);
    expect(new Set(answers.map(({ reason }) => reason ?? null))).toEqual(new Set([null, 'proof_replayed']));
  }
});

it('reads the proof at the per-gate address of the request itself, and its URL of trusted headers', async () => {
  const names = ['x-forwarded-method', 'x-forwarded-uri', 'x-forwarded-host'];
  const sidecar = await startTestSidecar({ api, forwardAuth: { trust: 'loopback', headers: names } });
  const gateId = await gateThat('required');
  await sidecar.caughtUp();
  const { privateKey, publicJwk } = makeAgentKey();
  const { jwt } = await api.issuePassport({ public_key: publicJwk });
  await api.call({
    ...{ method: 'PUT', url: `/v1/gates/${gateId}` },
    body: { routes: [{ path: '/orders', permission_key: 'orders:create' }] },
  });
  await sidecar.caughtUp();
  const url = 'https://shop.example/orders?id=7';
  const ask = (change: Readonly<Record<string, string>> = {}, proof: 'httpsig' | 'dpop' = 'httpsig') => {
    const signed = agentSigner(jwt, privateKey, { proof })({ method: 'POST', url });
    const original = {
      'x-forwarded-method': 'POST',
      'x-forwarded-uri': '/orders?id=7',
      'x-forwarded-host': 'shop.example',
    };
    const headers = Object.entries({ ...original, ...signed, ...change });
    return askForward(sidecar, { target: `/${gateId}/`, headers: headers as never });
  };
  for (const proof of ['httpsig', 'dpop'] as const) {
    expect(await ask({}, proof)).toMatchObject({ status: 200, decision: 'PERMIT' });
    const refused = { status: 403, decision: 'BLOCK', reason: 'proof_invalid' };
    expect(await ask({ 'x-forwarded-host': 'other.example' }, proof)).toMatchObject(refused);
    expect(await ask({ 'x-forwarded-method': 'DELETE' }, proof)).toMatchObject(refused);
  }
  const { 'signature-input': input = '', ...others } = agentSigner(jwt, privateKey)({ method: 'POST', url });
  const spaced = { ...others, 'signature-input': input.replaceAll(';', '; ') };
  expect(await ask(spaced)).toMatchObject({ decision: 'PERMIT' });
  const bare = [['authorization', `Passport ${jwt}`]] as const;
  expect(await askForward(sidecar, { target: `/${gateId}/orders`, headers: bare as never })).toMatchObject({
    reason: 'proof_missing',
  });
  await sidecar.close();
});

it('has on record how the agent proved its key', async () => {
  const gateId = await gateThat('required');
  const proofOf = async (id: unknown) => (await api.call({ url: `/v1/attestations/${id}` })).body.proof;
  for (const decide of [atSidecar(), atControlPlane]) {
    for (const proof of ['httpsig', 'dpop'] as const) {
      const agent = await issue();
      const shown = proofFor(agent, undefined, { proof });
      const [permit, replay] = [
        await decide(gateId, agent.jwt, shown),
        await decide(gateId, agent.jwt, shown),
      ];
      await until(async () => (await proofOf(permit.attestation_id)) === proof, {
        what: 'the proof on record',
      });
      await until(async () => (await proofOf(replay.attestation_id)) === null, {
        what: 'no proof on record',
      });
    }
  }
});

it('is demanded by a sidecar that learns of the gate from a snapshot, and only then', async () => {
  const gateId = await gateThat(exact);
  const trusting = await api.createGate({
    constraints: { proof_of_possession: 'required', trusted_issuers: ['*'] },
  });
  const late = await startTestSidecar({ api });
  await late.caughtUp();
  const agent = await issue();
  const { key: foreign } = await api.createAccount();
  const stranger = makeAgentKey();
  const { jwt } = await api.issuePassport({ public_key: stranger.publicJwk }, foreign);
  const ask = async (id: string, passport: string, proof?: unknown) =>
    (await late.check(id, passport, { ...request, ...(proof === undefined ? {} : { proof }) })).body;
  expect(await ask(gateId, agent.jwt)).toMatchObject({ reason: 'proof_missing' });
  expect(await ask(gateId, agent.jwt, proofFor(agent))).toMatchObject({ decision: 'PERMIT' });
  expect(await ask(gateId, jwt)).toMatchObject({ reason: 'issuer_untrusted' });
  expect(await ask(trusting.gate_id, jwt)).toMatchObject({ reason: 'proof_missing' });
  await api.call({
    ...{ method: 'PUT', url: `/v1/gates/${gateId}` },
    body: { constraints: { proof_of_possession: null } },
  });
  await late.caughtUp();
  expect(await ask(gateId, agent.jwt)).toMatchObject({ decision: 'PERMIT' });
  await late.close();
});

it('permits nobody once over all while the control plane is away, and goes on after', async () => {
  const gateId = await gateThat(exact);
  const plain = await gateThat('required');
  const agent = await issue();
  const sidecar = sidecars[0] as TestSidecar;
  const ask = async (id: string) =>
    (await sidecar.check(id, agent.jwt, { ...request, proof: proofFor(agent) })).body;
  expect((await ask(gateId)).decision).toBe('PERMIT');
  sidecar.link.cut();
  try {
    await until(
      async () => {
        const answer = await ask(gateId);
        expect(answer.decision).not.toBe('PERMIT');
        return answer.reason === 'quota_unavailable';
      },
      { what: 'a control plane that is known to be away' },
    );
    expect((await ask(plain)).decision).toBe('PERMIT');
  } finally {
    sidecar.link.restore();
  }
  await until(async () => (await ask(gateId)).decision === 'PERMIT', {
    what: 'a control plane that is back',
  });
});
