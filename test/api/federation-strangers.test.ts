import { beforeAll, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { secondMs } from '../../shared/model/time.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';
import { startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { startOwnApi } from '../support/service/api.ts';
import { connectSidecar, expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar, useStarted } from '../support/service/use-api.ts';

const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
const sidecar = useSidecar(() => ({ api }));
const provider = useStarted(startForeignProvider);
beforeAll(() => provider.addKey('ES256'));

const request = { permission_key: 'orders:create' };
const nowS = () => Math.floor(Date.now() / secondMs);
/** Registers an issuer of the keys of the provider. */
async function pasted(issuer: string, settings: object) {
  const federation = { type: 'jwks', issuer, jwks: { keys: provider.keys }, ...settings };
  const made = await api.createIssuer({ name: 'A provider', federation });
  await sidecar.caughtUp();
  return made.issuer_id;
}

it('takes a token of a service account of Kubernetes, as it is but for issuer and signature', async () => {
  const iss = 'https://kubernetes.example';
  const sub = 'system:serviceaccount:agents:shop';
  const issuerId = await pasted(iss, {
    audiences: ['agent-gates'],
    subjects: ['system:serviceaccount:agents:*'],
    claims: { owner: '/kubernetes.io/namespace' },
    permissions: ['orders:create'],
  });
  const { gate_id } = await api.createGate();
  await sidecar.caughtUp();
  const token = await provider.signExactly({
    ...{ iss, sub, aud: ['agent-gates'], jti: 'ea28ed49-2e11-4280-9ec5-bc3d1d84661a' },
    ...{ iat: nowS() - 300, nbf: nowS() - 300, exp: nowS() + 3_600 },
    'kubernetes.io': {
      namespace: 'agents',
      serviceaccount: { name: 'shop', uid: '14ee3fa4-a7e2-420f-9f9a-dbc4507c3798' },
      warnafter: 1_700_000_000,
    },
  });
  expect((await sidecar.check(gate_id, token, request)).body).toMatchObject({ decision: 'PERMIT' });
  await api.call({ url: `/v1/gates/${gate_id}/check`, body: { passport: token, request } });
  const passport = await api.call({ url: `/v1/passports/${federatedPassportId(issuerId, sub)}` });
  const permissions = ['orders:create'];
  expect(passport.body).toMatchObject({ owner: 'agents', federated: true, permissions });
});

it('believes what a sidecar says of subjects that it has not shown of its own account alone', async () => {
  const iss = 'https://named.example';
  const issuerId = await pasted(iss, { audiences: ['gate'], permissions: ['orders:create'] });
  const other = await api.createAccount();
  const told = async (key: string | undefined, change: object = {}) => {
    const connected = await connectSidecar(api, key === undefined ? {} : { key });
    const { gate_id: gateId } = await api.createGate(
      { constraints: { trusted_issuers: ['*'] } },
      key ?? api.adminKey,
    );
    const subject = 'named in a record';
    const passportId = federatedPassportId(issuerId, subject);
    const nowMs = api.deps.clock.now();
    const record = {
      ...{ ...spooledRecord(), id: api.deps.random.newId('att', nowMs), gate_id: gateId },
      ...{ chain_id: passportId, passport_id: passportId, federated: { issuer_id: issuerId, subject } },
      ...{ token_hash: sha256Hex('a token that nobody has shown'), timestamp_ms: nowMs, ...change },
    };
    return connected.send(1, [record]);
  };
  const own = await told(undefined);
  expect([own.status, own.body]).toMatchObject([200, { next_seq: 2 }]);
  const foreign = await told(other.key);
  expect(foreign.body.error.refused[0].message).toMatch(/token_hash does not show/);
  const another = { issuer_id: issuerId, subject: 'somebody else' };
  expect((await told(undefined, { federated: another })).body.error.refused[0].message).toMatch(
    /not that of the subject/,
  );
  const unknown = { issuer_id: 'iss_01m7w8f9fn41y1y6091p33efsg', subject: 'x' };
  const passport_id = federatedPassportId(unknown.issuer_id as never, 'x');
  expect(
    (await told(undefined, { federated: unknown, passport_id, chain_id: passport_id })).body.error.refused[0]
      .message,
  ).toMatch(/token_hash does not show/);
  await expectSoundStore(api);
});
