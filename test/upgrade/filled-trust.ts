import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { makeAgentKey, proofFor } from '../support/data/proofs.ts';
import { startForeignProvider } from '../support/peers/foreign-issuer.ts';
import type { Installation, Running } from '../support/programs/installation.ts';
import { order, useWorld } from './use-world.ts';

const disabled = 'https://schemas.openid.net/secevent/risc/event-type/account-disabled';

/**
 * Whom gates believe: an issuer of others and what it says of its subjects, an owner who is suspended, proofs
 * of possession, tools of an MCP server, the words of enforcement points, and a key of a sidecar that nobody
 * believes any more.
 */
export async function fillTrust(
  world: Installation,
  {
    controlPlane,
    sidecar,
    otherKey,
  }: { readonly controlPlane: Running; readonly sidecar: Running; readonly otherKey: string },
) {
  const { send, create, gate, check, expectDecision } = useWorld(world);
  const provider = await startForeignProvider();
  await provider.addKey('ES256');
  const iss = 'https://provider.example';
  const { body: issuer } = await call(`${controlPlane.origin}/v1/issuers`, {
    key: otherKey,
    body: {
      name: 'Theirs',
      federation: {
        ...{ type: 'jwks', issuer: iss, jwks: { keys: provider.keys }, audiences: ['gate'] },
        ...{ permissions: ['orders:create'], trust_tier: 'L2' },
      },
    },
  });
  const federated = await gate('federated', {
    constraints: { trusted_issuers: ['own', issuer.issuer_id] },
  });
  const exp = Math.floor(Date.now() / 1_000) + 86_400;
  const [planner, gone] = await Promise.all(
    ['planner', 'gone'].map(async (sub) => ({ jwt: await provider.sign({ iss, sub, exp }) })),
  );
  const isPermitted = (passport: { readonly jwt: string }) => async () =>
    (await check(sidecar, federated.gate_id, passport, order)).decision === 'PERMIT';
  for (const each of [planner, gone])
    await until(isPermitted(each as { jwt: string }), { what: 'a sidecar that knows the issuer' });
  const iat = Math.floor(Date.now() / 1_000);
  const events = { [disabled]: { subject: { format: 'iss_sub', iss, sub: 'gone' } } };
  const event = await provider.signExactly(
    { iss, aud: 'gate', jti: 'an event', iat, events },
    { typ: 'secevent+jwt' },
  );
  const taken = await fetch(`${controlPlane.origin}/v1/issuers/${issuer.issuer_id}/events`, {
    ...{ method: 'POST', body: event, headers: { 'content-type': 'application/secevent+jwt' } },
  });
  if (taken.status !== 202) throw new Error(`event: ${taken.status} ${await taken.text()}`);
  await provider.close();

  const owned = await create('/passports', {
    ...{ agent_id: 'owned', permissions: ['orders:create'], owner: 'a team', expires_in_days: 3_650 },
  });
  await create('/owners/a%20team/suspend', {});

  const exact = { mode: 'required', replay: 'exact' };
  const proving = await gate('proving', { constraints: { proof_of_possession: exact } });
  const key = makeAgentKey();
  const keyed = await create('/passports', {
    ...{ agent_id: 'keyed', permissions: ['orders:create'], public_key: key.publicJwk },
  });
  const proof = proofFor({ jwt: keyed.jwt, key });
  await expectDecision('PERMIT', check(controlPlane, proving.gate_id, keyed, { ...order, proof }));

  const report = (tools: readonly string[]) =>
    create('/mcp-pins', {
      ...{ gate_id: federated.gate_id, upstream: 'http://127.0.0.1:3000/mcp', is_whole: true },
      tools: tools.map((description) => ({ definition: JSON.stringify({ description, name: 'search' }) })),
    });
  await report(['Searches.']);
  await report(['Searches the web.']);
  await send('PUT', '/authzen/vocabulary', {
    resources: [{ type: 'order', gate_id: federated.gate_id }],
    actions: [],
  });
  const kid = Buffer.alloc(32, 3).toString('base64url');
  await create('/signing-keys/revoke-sidecar-key', { kid });

  return {
    readable: ['/mcp-pins', '/authzen/vocabulary', `/passports/${owned.passport_id}`],
    trust: {
      gates: { federated: federated.gate_id as string, proving: proving.gate_id as string },
      tokens: { planner: planner?.jwt ?? '', gone: gone?.jwt ?? '', owned: owned.jwt as string },
      used: { passport: keyed.jwt as string, proof },
      revokedKey: kid,
    },
  };
}
