import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { followSigningKeys } from '../../control-plane/signing/follow-signing-keys.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../shared/crypto/passport-token.ts';
import type { KeyPurpose } from '../../shared/model/signing-key.ts';
import { parseSignedSnapshot, parseSnapshot } from '../../shared/wire/sync-schema.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { startTestSidecar } from '../support/sidecar.ts';
import { connectSidecar } from '../support/test-sidecar.ts';
import { until } from '../support/until.ts';

/** What somebody can do who writes to the database and has no MASTER_KEY. */
let api: Api;
let gate: Reply['body'];
beforeEach(async () => {
  api = await startApi();
  gate = await api.createGate();
});
afterEach(() => api.close());

const ed25519 = chooseEd25519();
const own = ed25519.signer(Buffer.alloc(32, 77));
const ownKid = thumbprint(own.publicKey);
const ownPublicKey = encodeBase64url(own.publicKey);

/** A row with an own public half; the sealed half is whatever the statement makes of a row that is there. */
const insert = (purpose: KeyPurpose, sealed: 'made up' | 'copied') => api.deps.sql`
  INSERT INTO signing_keys (kid, purpose, public_key, sealed_private_key, not_before_ms, created_at_ms)
  SELECT ${ownKid}, ${purpose}, ${ownPublicKey},
    CASE WHEN ${sealed} = 'copied' THEN sealed_private_key ELSE 'v1.AAAAAAAAAAAAAAAA.AAAA' END, not_before_ms, created_at_ms
  FROM signing_keys WHERE purpose = ${purpose}`;

const claimsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
/** A passport as the service issues it, signed by the own key. */
const mint = async (): Promise<string> => {
  const { jwt } = await api.issuePassport();
  return signPassportToken(claimsOf(jwt), { kid: ownKid, signer: own });
};

async function published() {
  const { key } = await connectSidecar(api);
  const { body } = await api.call({ url: '/v1/sync/snapshot', key });
  const signed = parseSignedSnapshot(JSON.stringify(body));
  const snapshot = signed === null ? null : parseSnapshot(signed.snapshot);
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  return {
    snapshot: snapshot?.signing_keys ?? [],
    jwks: jwks.body.keys as { kid: string; compromised: boolean; x: string }[],
  };
}
const kidsOf = (keys: readonly { kid: string }[]) => keys.map(({ kid }) => kid).sort();
const badRows = async (): Promise<number> =>
  (await api.call({ url: '/readyz', key: null })).body.bad_signing_keys;

describe.each(['made up', 'copied'] as const)(
  'a row with an own public half and a %s sealed one',
  (sealed) => {
    it.each(['passport', 'sync', 'attestation', 'catalog'] as const)(
      'of purpose %s is published nowhere, and harms no key beside it',
      async (purpose) => {
        const before = await published();
        await insert(purpose, sealed);
        expect(kidsOf((await published()).snapshot)).toEqual(kidsOf(before.snapshot));
        await api.deps.signingKeys.reload();
        expect(await published()).toEqual(before);
        expect(await badRows()).toBe(1);
        const passport = await api.issuePassport();
        const checked = await api.call({
          url: `/v1/gates/${gate.gate_id}/check`,
          body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
        });
        expect(checked.body.decision).toBe('PERMIT');
      },
    );

    it('mints no passport, at the control plane or at a sidecar that starts then', async () => {
      await insert('passport', sealed);
      await api.deps.signingKeys.reload();
      const token = await mint();
      const refused = { decision: 'BLOCK', reason: 'passport_unknown_key' };
      const body = { passport: token, request: { permission_key: 'orders:create' } };
      expect((await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body })).body).toMatchObject(refused);
      const sidecar = await startTestSidecar({ api });
      try {
        await sidecar.caughtUp();
        const answer = await sidecar.check(gate.gate_id, token, { permission_key: 'orders:create' });
        expect(answer.body).toMatchObject(refused);
      } finally {
        await sidecar.close();
        sidecar.removeFolder();
      }
    });

    it('is neither retired nor announced by a rotation', async () => {
      await insert('passport', sealed);
      await api.deps.sql`UPDATE signing_keys SET not_before_ms = not_before_ms + 1 WHERE kid = ${ownKid}`;
      const rotated = await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'passport' } });
      expect(rotated.status).toBe(201);
      expect(rotated.body.previous.kid).not.toBe(ownKid);
      const told = (await api.changes('global')).filter(({ kind }) => kind === 'signing_key.put');
      expect(told).toHaveLength(2);
      expect(told.map(({ body }) => body.kid)).not.toContain(ownKid);
    });

    it('is named once, at the start, with its fault', async () => {
      await insert('passport', sealed);
      const signingKeys = await loadSigningKeys(api.deps);
      expect(signingKeys.bad()).toEqual([
        { kid: ownKid, purpose: 'passport', fault: expect.stringContaining('MASTER_KEY') },
      ]);
      const logged: object[] = [];
      const logger = { ...api.deps.logger, error: (fields: object) => void logged.push(fields) };
      const following = followSigningKeys({ bus: api.deps.bus, signingKeys, logger });
      await until(async () => logged.length > 0, { what: 'the row is named' });
      await following.stop();
      expect(logged).toEqual([{ count: 1, rows: signingKeys.bad() }]);
    });
  },
);

describe('a row that is changed while the service runs', () => {
  it('to an own public half: the key is published no more, and never with that half', async () => {
    await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'passport' } });
    const [{ kid = '' } = {}] = await api.deps.sql<{ kid: string }[]>`
      SELECT kid FROM signing_keys WHERE purpose = 'passport' ORDER BY not_before_ms LIMIT 1`;
    await api.deps.sql`UPDATE signing_keys SET public_key = ${ownPublicKey} WHERE kid = ${kid}`;
    const inSnapshot = (await published()).snapshot;
    expect(kidsOf(inSnapshot)).not.toContain(kid);
    await api.deps.signingKeys.reload();
    const { jwks, snapshot } = await published();
    for (const keys of [jwks.map(({ x }) => x), snapshot.map(({ publicKey }) => publicKey)])
      expect(keys).not.toContain(ownPublicKey);
    expect(await badRows()).toBe(1);
  });

  it('to another kid, so that tokens name it: published no more', async () => {
    await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'catalog' } });
    const renamed = await api.deps.sql`
      UPDATE signing_keys SET kid = 'renamed' WHERE kid = (
        SELECT kid FROM signing_keys WHERE purpose = 'catalog' ORDER BY not_before_ms DESC LIMIT 1)`;
    expect(renamed.count).toBe(1);
    await api.deps.signingKeys.reload();
    const { jwks, snapshot } = await published();
    expect([...kidsOf(jwks), ...kidsOf(snapshot)]).not.toContain('renamed');
  });

  it('to a key that is not compromised any more: it stays so for this process', async () => {
    const { body } = await api.call({
      url: '/v1/signing-keys/rotate',
      body: { purpose: 'passport', compromised: true },
    });
    const { kid } = body.previous;
    await api.deps.sql`
      UPDATE signing_keys SET compromised = false, retired_at_ms = NULL, not_before_ms = not_before_ms + 1
      WHERE kid = ${kid}`;
    await api.deps.signingKeys.reload();
    const { jwks, snapshot } = await published();
    expect(jwks.find((key) => key.kid === kid)).toMatchObject({ compromised: true });
    expect(snapshot.find((key) => key.kid === kid)).toMatchObject({ compromised: true });
    expect(api.deps.signingKeys.current('passport').kid).toBe(body.kid);
    expect(await badRows()).toBe(1);
  });

  it('to nothing sound where no other key of its purpose is left: the last good state stays', async () => {
    const before = api.deps.signingKeys.all();
    await api.deps.sql`UPDATE signing_keys SET sealed_private_key = 'x' WHERE purpose = 'passport'`;
    await expect(api.deps.signingKeys.reload()).rejects.toThrow('cannot be opened');
    expect(api.deps.signingKeys.all()).toBe(before);
    await expect(loadSigningKeys(api.deps)).rejects.toThrow('cannot be opened');
  });
});
