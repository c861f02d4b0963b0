import { expect, it } from 'vitest';
import { agentSigner } from '../../clients/node/src/agent.ts';
import { until } from '../support/base/until.ts';
import { makeAgentKey, proofFor } from '../support/data/proofs.ts';
import { askForward } from '../support/service/forward-auth.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi();
const headers = ['x-forwarded-method', 'x-forwarded-uri', 'x-forwarded-host'];
const forwardAuth = { trust: 'loopback', headers } as const;
const sidecars = [useSidecar(() => ({ api })), useSidecar(() => ({ api, forwardAuth }))] as const;
const request = { permission_key: 'orders:create' };
const exact = { mode: 'required', replay: 'exact' };

async function issue() {
  const key = makeAgentKey();
  const { jwt } = await api.issuePassport({ public_key: key.publicJwk });
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
const asking = (proof?: unknown) => ({ ...request, ...(proof === undefined ? {} : { proof }) });
const atSidecar =
  (sidecar: TestSidecar): Decides =>
  async (gateId, jwt, proof) =>
    (await sidecar.check(gateId, jwt, asking(proof))).body;
const atControlPlane: Decides = async (gateId, jwt, proof) => {
  const body = { passport: jwt, request: asking(proof) };
  return (await api.call({ url: `/v1/gates/${gateId}/check`, body })).body;
};

it('accepts a proof once over all sidecars and the control plane where the gate says exact', async () => {
  const gateId = await gateThat(exact);
  for (let round = 0; round < 2; round++) {
    const agent = await issue();
    const proof = proofFor(agent);
    const doors = [...sidecars.map(atSidecar), atControlPlane];
    const answers = await Promise.all([...doors, ...doors].map((decide) => decide(gateId, agent.jwt, proof)));
    expect(answers.filter(({ decision }) => decision === 'PERMIT')).toHaveLength(1);
    expect(new Set(answers.map(({ reason }) => reason ?? null))).toEqual(new Set([null, 'proof_replayed']));
  }
});

it('refuses at exact gates what a sidecar gate has taken elsewhere, also what it took while it was cut off', async () => {
  const [taking, asking] = sidecars;
  const [exactGate, plainGate] = [await gateThat(exact), await gateThat('required')];
  const used = async () => {
    const rows = await api.deps.sql<{ count: number }[]>`SELECT count(*)::int AS count FROM used_proofs`;
    return rows[0]?.count ?? 0;
  };
  const take = async (timeoutMs: number, meanwhile: () => void) => {
    const agents = await Promise.all(Array.from({ length: 10 }, issue));
    const proofs = agents.map((agent) => proofFor(agent));
    const before = await used();
    for (const [i, { jwt }] of agents.entries())
      expect((await atSidecar(taking)(plainGate, jwt, proofs[i])).decision).toBe('PERMIT');
    meanwhile();
    await until(async () => (await used()) === before + 10, { what: 'the names', timeoutMs });
    for (const decide of [atSidecar(asking), atControlPlane])
      for (const [i, { jwt }] of agents.entries())
        expect((await decide(exactGate, jwt, proofs[i])).reason).toBe('proof_replayed');
  };
  await take(2_000, () => undefined);
  taking.link.cut();
  try {
    await take(60_000, () => taking.link.restore());
  } finally {
    taking.link.restore();
  }
});

it('tells the ledger what it has taken before it stops', async () => {
  const [exactGate, plainGate] = [await gateThat(exact), await gateThat('required')];
  const stopping = await startTestSidecar({ api });
  const agent = await issue();
  const proof = proofFor(agent);
  await stopping.caughtUp();
  expect((await atSidecar(stopping)(plainGate, agent.jwt, proof)).decision).toBe('PERMIT');
  await stopping.close();
  expect((await atSidecar(sidecars[0])(exactGate, agent.jwt, proof)).reason).toBe('proof_replayed');
});

it('reads the proof at the per-gate address of the request itself, and its URL of trusted headers', async () => {
  const [, sidecar] = sidecars;
  const gateId = await gateThat('required');
  const { privateKey, publicJwk } = makeAgentKey();
  const { jwt } = await api.issuePassport({ public_key: publicJwk });
  const body = { routes: [{ path: '/orders', permission_key: 'orders:create' }] };
  await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body });
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
  const { dpop = '' } = agentSigner(jwt, privateKey, { proof: 'dpop' })({ method: 'POST', url });
  expect(await ask({ dpop })).toMatchObject({ status: 403, reason: 'proof_invalid' });
  const bare = [['authorization', `Passport ${jwt}`]] as const;
  expect(await askForward(sidecar, { target: `/${gateId}/orders`, headers: bare as never })).toMatchObject({
    reason: 'proof_missing',
  });
});

it('has on record how the agent proved its key', async () => {
  const gateId = await gateThat('required');
  const proofOf = async (id: unknown) => (await api.call({ url: `/v1/attestations/${id}` })).body.proof;
  for (const decide of [atSidecar(sidecars[0]), atControlPlane]) {
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

it('permits nobody once over all while the control plane is away, and goes on after', async () => {
  const gateId = await gateThat(exact);
  const plain = await gateThat('required');
  const agent = await issue();
  const [sidecar] = sidecars;
  const ask = (id: string) => atSidecar(sidecar)(id, agent.jwt, proofFor(agent));
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
