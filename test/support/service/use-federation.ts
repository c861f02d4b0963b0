import { afterAll, expect } from 'vitest';
import type { IssuerId } from '../../../shared/model/ids.ts';
import { secondMs } from '../../../shared/model/time.ts';
import { until } from '../base/until.ts';
import { type ForeignProvider, startForeignProvider } from '../peers/foreign-issuer.ts';
import { startOwnApi } from './api.ts';
import { brokenRules } from './sound-database.ts';
import { expectSoundStore } from './test-sidecar.ts';
import { useApi, useSidecar } from './use-api.ts';

export const nowS = () => Math.floor(Date.now() / secondMs);
export const request = { permission_key: 'orders:create', amount: 1 };
export const permit = { decision: 'PERMIT', reason: null };
export const block = (reason: string) => ({ decision: 'BLOCK', reason });

/** Both programs, and providers of tokens that they know, a fresh service for each file. */
export function useFederation() {
  const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
  const sidecar = useSidecar(() => ({ api }));
  const providers: ForeignProvider[] = [];
  afterAll(async () => {
    expect(await brokenRules(api.deps.sql)).toEqual({});
    await expectSoundStore(api);
    await Promise.all(providers.map((each) => each.close()));
  });

  /** A provider with a key, registered; its tokens grant `orders:create`. */
  async function registered(settings: object = {}, alg = 'ES256') {
    const provider = await startForeignProvider();
    providers.push(provider);
    await provider.addKey(alg);
    const issuer = await api.createIssuer({
      name: `Provider at ${provider.issuer}`,
      federation: {
        type: 'oidc',
        issuer: provider.issuer,
        audiences: ['gate'],
        permissions: ['orders:create'],
        trust_tier: 'L2',
        ...settings,
      },
    });
    await sidecar.caughtUp();
    return { provider, issuerId: issuer.issuer_id as IssuerId, issuer };
  }

  /** An issuer whose keys are given, those of this provider. */
  async function pasted({ keys }: ForeignProvider, settings: object) {
    const federation = { type: 'jwks', jwks: { keys }, audiences: ['gate'], permissions: ['orders:create'] };
    const issuer = await api.createIssuer({ name: 'Pasted', federation: { ...federation, ...settings } });
    await sidecar.caughtUp();
    return issuer;
  }

  /** What both programs decide; they must agree. */
  async function decide(gateId: string | null, token: string, asked: object = request) {
    const path = gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`;
    const body = { passport: token, request: asked };
    const here = await api.call({ url: path, body });
    const there = await sidecar.check(gateId, token, asked);
    expect(here.status, JSON.stringify(here.body)).toBe(200);
    expect(there.status, JSON.stringify(there.body)).toBe(200);
    expect(there.body.reason).toBe(here.body.reason);
    expect(there.body.decision).toBe(here.body.decision);
    return { decision: there.body.decision, reason: there.body.reason };
  }

  /** Without its token (contract §16). */
  const evaluateNamed = (gateId: string, id: string) =>
    api.call({
      url: '/access/v1/evaluation',
      body: {
        subject: { type: 'agent', id },
        action: { name: 'orders:create', properties: { amount: 1 } },
        resource: { type: 'gate', id: gateId },
      },
    });

  const gate = async (change: object = {}) => {
    const { gate_id } = await api.createGate(change);
    await sidecar.caughtUp();
    return gate_id as string;
  };

  const untilUsed = (passportId: string, times: number) =>
    until(async () => (await api.call({ url: `/v1/passports/${passportId}` })).body.use_count === times, {
      what: 'each PERMIT of each program in the one chain of the passport',
    });

  /** A provider that is registered, and a gate. */
  const setUp = async (...of: Parameters<typeof registered>) => ({
    ...(await registered(...of)),
    gateId: await gate(),
  });

  return { api, sidecar, registered, pasted, decide, evaluateNamed, gate, untilUsed, setUp };
}
