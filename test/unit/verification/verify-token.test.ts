import { describe, expect, it } from 'vitest';
import { renderPublicKey } from '../../../shared/crypto/agent-key.ts';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { sha256Hex } from '../../../shared/crypto/content-hash.ts';
import { digestWordsOf } from '../../../shared/crypto/id-digest.ts';
import { keyset, thumbprint } from '../../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../../shared/crypto/passport-token.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { KeyPurpose } from '../../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { admitToken, openToken } from '../../../shared/verification/verify-token.ts';

const ed25519 = chooseEd25519();
const signer = ed25519.signer(new Uint8Array(32).fill(3));
const kid = thumbprint(signer.publicKey);
const timeMs = 0 as UnixMillis;
const bytes = new Uint8Array(10);

const claims = {
  ...{ iss: makeId('iss', timeMs, bytes), sub: 'agent-1', jti: makeId('pass', timeMs, bytes), iat: 100 },
  ...{ nbf: 100, exp: 200, agent_name: 'Agent 1', permissions: ['orders:create'], trust_tier: 'L2' },
  ...{ constraints: { spend_limits: { per_transaction_usd: 5 } }, acct: makeId('acct', timeMs, bytes) },
  mode: 'live',
  cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: encodeBase64url(signer.publicKey) } },
};

const keys = (options: { readonly purpose?: KeyPurpose; readonly compromised?: boolean } = {}) =>
  keyset(ed25519, [
    {
      kid,
      purpose: options.purpose ?? 'passport',
      publicKey: encodeBase64url(signer.publicKey),
      notBeforeMs: timeMs,
      retiredAtMs: timeMs,
      compromised: options.compromised ?? false,
    },
  ]);

function verify(payload: object, known = keys()) {
  const opened = openToken(signPassportToken(payload, { kid, signer }), known);
  if (opened.kind === 'refused') return opened;
  return admitToken(opened, opened.key.verify(opened.open.signingInput, opened.open.signature));
}

describe('a token that the service signed', () => {
  it('is a passport, also when its key has been retired since', () => {
    const token = signPassportToken(claims, { kid, signer });
    expect(verify(claims)).toEqual({
      kind: 'verified',
      passport: {
        ...{ passportId: claims.jti, issuerId: claims.iss, accountId: claims.acct, agentId: 'agent-1' },
        ...{ mode: 'live', trustTier: 'L2', permissions: new Set(['orders:create']), notBeforeS: 100 },
        ...{ expiresAtS: 200, allowedDomains: null, perTransactionMicroUsd: 5_000_000, spendWindows: [] },
        ...{ spendNeedsAmount: true, rateWindows: [], approvals: null, proof: 'off' },
        ...{ agentKey: renderPublicKey(signer.publicKey), hasWallet: false, keyId: kid },
        ...{ tokenHash: sha256Hex(token), digests: digestWordsOf(claims.jti, claims.iss, claims.acct) },
        ...{
          owner: null,
          user: null,
          userKey: null,
          actors: [],
          conditions: [],
          foreignClaims: {},
          source: null,
          among: '',
        },
      },
    });
  });

  it('never expires without exp', () => {
    const { exp: _exp, ...endless } = claims;
    expect(verify(endless)).toMatchObject({ passport: { expiresAtS: null } });
  });

  it('may say more than we read', () => {
    expect(verify({ ...claims, aud: 'somebody' }).kind).toBe('verified');
  });

  it.each([
    ['iss', 'iss_1'],
    ['sub', ''],
    ['nbf', 100.5],
    ['exp', 'never'],
    ['permissions', ['orders']],
    ['permissions', Array(65).fill('orders:create')],
    ['trust_tier', 'L4'],
    // Whoever does not know a restriction must not let its bearer pass.
    ['constraints', { only_on_sundays: true }],
    ['acct', 'acct_1'],
    ['mode', 'dev'],
    ['iss_domain', 5],
    ['cnf', { jwk: { kty: 'OKP', crv: 'Ed25519', x: 'AAAA' } }],
    ['cnf', { jwk: { kty: 'OKP', crv: 'Ed25519', x: encodeBase64url(new Uint8Array(32)) } }],
  ])('is malformed with %s: %j', (claim, value) => {
    expect(verify({ ...claims, [claim]: value })).toEqual({ kind: 'refused', reason: 'passport_malformed' });
  });

  it.each(['catalog', 'attestation', 'sync'] as const)(
    'is not believed when a %s key signed it',
    (purpose) => {
      expect(verify(claims, keys({ purpose }))).toEqual({ kind: 'refused', reason: 'passport_unknown_key' });
    },
  );

  it('is not believed when its key was compromised', () => {
    const verdict = verify(claims, keys({ compromised: true }));
    expect(verdict).toEqual({ kind: 'refused', reason: 'passport_unknown_key' });
  });

  it('has its signature judged before its claims', () => {
    const opened = openToken(signPassportToken({ ...claims, sub: 5 }, { kid, signer }), keys());
    if (opened.kind === 'refused') throw new Error('the envelope is in order');
    expect(admitToken(opened, false)).toEqual({ kind: 'refused', reason: 'passport_signature_invalid' });
    expect(admitToken(opened, true)).toEqual({ kind: 'refused', reason: 'passport_malformed' });
  });
});
