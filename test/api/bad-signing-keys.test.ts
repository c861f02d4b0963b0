import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { followSigningKeys } from '../../control-plane/signing/follow-signing-keys.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../shared/crypto/passport-token.ts';
import type { KeyPurpose } from '../../shared/model/signing-key.ts';
import { parseSignedSnapshot, parseSnapshot } from '../../shared/wire/sync/sync-schema.ts';
import { until } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { connectSidecar } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/** What somebody can do who writes to the database and has no MASTER_KEY. */
const api = useApi(startOwnApi);
let gate: Reply['body'];
/** The rows of all keys before the test, as JSON. */
let kept: string;
beforeAll(async () => {
  gate = await api.createGate();
});
beforeEach(async () => {
  const [row] = await api.deps.sql<
    { rows: string }[]
  >`SELECT jsonb_agg(key)::text AS rows FROM signing_keys AS key`;
  kept = row?.rows ?? '';
});
const putBack = async () => {
  await api.deps.sql.begin(async (tx) => {
    const rows = tx`jsonb_populate_recordset(NULL::signing_keys, ${kept}::text::jsonb)`;
    await tx`DELETE FROM signing_keys WHERE kid NOT IN (SELECT kid FROM ${rows})`;
    await tx`
      INSERT INTO signing_keys SELECT * FROM ${rows} ON CONFLICT (kid) DO UPDATE SET
        public_key = excluded.public_key, sealed_private_key = excluded.sealed_private_key,
        not_before_ms = excluded.not_before_ms, retired_at_ms = excluded.retired_at_ms, compromised = excluded.compromised`;
  });
  await api.deps.signingKeys.reload();
};

const purposes = ['passport', 'sync', 'attestation', 'catalog'] as const satisfies readonly KeyPurpose[];
const ed25519 = chooseEd25519();
const ownKey = (purpose: (typeof purposes)[number]) => {
  const signer = ed25519.signer(Buffer.alloc(32, 77 + purposes.indexOf(purpose)));
  return { signer, kid: thumbprint(signer.publicKey), publicKey: encodeBase64url(signer.publicKey) };
};
const own = ownKey('passport');

/** A row with an own public half; the sealed half is made up, or that of the row that is there. */
const insert = (purpose: (typeof purposes)[number], sealed: 'made up' | 'copied' = 'copied') => api.deps.sql`
  INSERT INTO signing_keys (kid, purpose, public_key, sealed_private_key, not_before_ms, created_at_ms)
  SELECT ${ownKey(purpose).kid}, purpose, ${ownKey(purpose).publicKey},
    CASE WHEN ${sealed} = 'copied' THEN sealed_private_key ELSE 'v1.AAAAAAAAAAAAAAAA.AAAA' END, not_before_ms, created_at_ms
  FROM signing_keys WHERE purpose = ${purpose}`;

const claimsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
/** A passport as the service issues it, signed by the own key. */
const mint = async (): Promise<string> => {
  const { jwt } = await api.issuePassport();
  return signPassportToken(claimsOf(jwt), own);
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

describe('a row with an own public half', () => {
  afterEach(putBack);

  it.each(['made up', 'copied'] as const)(
    'of any purpose, with a %s sealed one, is published nowhere, and harms no key beside it',
    async (sealed) => {
      const before = await published();
      for (const purpose of purposes) await insert(purpose, sealed);
      expect(kidsOf((await published()).snapshot)).toEqual(kidsOf(before.snapshot));
      await api.deps.signingKeys.reload();
      expect(await published()).toEqual(before);
      expect(await badRows()).toBe(purposes.length);
      const passport = await api.issuePassport();
      const checked = await api.call({
        url: `/v1/gates/${gate.gate_id}/check`,
        body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
      });
      expect(checked.body.decision).toBe('PERMIT');
    },
  );

  it('mints no passport, at the control plane or at a sidecar that starts then', async () => {
    await insert('passport');
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
    await insert('passport');
    await api.deps.sql`UPDATE signing_keys SET not_before_ms = not_before_ms + 1 WHERE kid = ${own.kid}`;
    const rotated = await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'passport' } });
    expect(rotated.status).toBe(201);
    expect(rotated.body.previous.kid).not.toBe(own.kid);
    const told = (await api.changes('global')).filter(({ kind }) => kind === 'signing_key.put');
    expect(told).toHaveLength(2);
    expect(told.map(({ body }) => body.kid)).not.toContain(own.kid);
  });

  it('is named once, at the start, with its fault', async () => {
    await insert('passport');
    const signingKeys = await loadSigningKeys(api.deps);
    expect(signingKeys.bad()).toEqual([
      { kid: own.kid, purpose: 'passport', fault: expect.stringContaining('MASTER_KEY') },
    ]);
    const logged: object[] = [];
    const logger = { ...api.deps.logger, error: (fields: object) => void logged.push(fields) };
    const following = followSigningKeys({ ...api.deps, signingKeys, logger });
    await until(async () => logged.length > 0, { what: 'the row is named' });
    await following.stop();
    expect(logged).toEqual([{ count: 1, rows: signingKeys.bad() }]);
  });
});

describe('a row that is changed while the service runs', () => {
  afterEach(putBack);

  it('to an own public half: the key is published no more, and never with that half', async () => {
    await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'passport' } });
    const [{ kid = '' } = {}] = await api.deps.sql<{ kid: string }[]>`
      SELECT kid FROM signing_keys WHERE purpose = 'passport' ORDER BY not_before_ms LIMIT 1`;
    await api.deps.sql`UPDATE signing_keys SET public_key = ${own.publicKey} WHERE kid = ${kid}`;
    const inSnapshot = (await published()).snapshot;
    expect(kidsOf(inSnapshot)).not.toContain(kid);
    await api.deps.signingKeys.reload();
    const { jwks, snapshot } = await published();
    for (const keys of [jwks.map(({ x }) => x), snapshot.map(({ publicKey }) => publicKey)])
      expect(keys).not.toContain(own.publicKey);
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
});

/** At last: these rows cannot be put back. */
it('a key that is said to be compromised no more stays so for this process', async () => {
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
