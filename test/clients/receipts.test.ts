import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyReceipt as byClient } from '../../clients/node/src/verify.ts';
import {
  certify,
  parseRevokedKeys,
  signTurn,
  verifyReceipt,
} from '../../shared/attestation/decision-receipt.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { keyset, parseJwks, renderJwks, thumbprint } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import type { KeyPurpose } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type DecisionReceipt, receiptFormat } from '../../shared/wire/evidence/decision-receipt.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const ed25519 = chooseEd25519();
const signer = (fill: number) => ed25519.signer(Buffer.alloc(32, fill));
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
const request = { permission_key: 'orders:create', amount: 3.5, receipt: true };

const jwksOf = (purpose: KeyPurpose, compromised = false) =>
  renderJwks([
    {
      ...{ kid: thumbprint(signer(1).publicKey), purpose, publicKey: text(signer(1).publicKey) },
      ...{ notBeforeMs: 0 as UnixMillis, retiredAtMs: null, compromised },
    },
  ]);
const jwks = jwksOf('attestation');
const serviceKey = {
  kid: thumbprint(signer(1).publicKey),
  sign: (message: string) => text(signer(1).sign(Buffer.from(message))),
};

/** One of a turn of `size`, by a sidecar with this key, whose certificate names `certified`. */
function receiptOf({ size = 1, at = 0, key = 2, certified = 2, issued = '2026-11-27T12:00:00.000Z' } = {}) {
  const statements = Array.from({ length: size }, (_, place) => ({
    ...{ attestation_id: `att_${place}`, chain_id: 'pass_1', decision: 'PERMIT' as const, gate_id: 'gate_1' },
    ...{ issued_at: issued, log_by: '2026-11-28T12:00:00.000Z', reason: null },
    request_hash: contentHash(request),
  }));
  const certificate = certify(
    {
      account_id: 'acct_1',
      expires_at: '2026-12-01T00:00:00.000Z',
      kid: thumbprint(signer(certified).publicKey),
      not_before: '2026-11-24T00:00:00.000Z',
      sidecar_id: 'side_1',
      x: text(signer(certified).publicKey),
    },
    serviceKey,
  );
  const receipt: DecisionReceipt = {
    format: receiptFormat,
    ...must(signTurn(signer(key), statements)[at], 'a receipt'),
    ...{ certificate, history: { text: '{}', mac: 'x' } },
  };
  return receipt;
}

const good = receiptOf({ size: 13, at: 11 });
const { statement, certificate } = good;
const cases: Readonly<Record<string, readonly [receipt: unknown, jwks: object, fault: string | null]>> = {
  'one alone': [receiptOf(), jwks, null],
  'one of a turn': [good, jwks, null],
  'the first of a full turn': [receiptOf({ size: 1_024 }), jwks, null],
  'the last of a turn': [receiptOf({ size: 1_000, at: 999 }), jwks, null],
  'another statement': [{ ...good, statement: { ...statement, decision: 'BLOCK' } }, jwks, 'forged'],
  'another place': [{ ...good, index: 10 }, jwks, 'forged'],
  'another size': [{ ...good, size: 14 }, jwks, 'forged'],
  'a hash less': [{ ...good, path: good.path.slice(1) }, jwks, 'forged'],
  'a hash more': [{ ...good, path: [...good.path, ...good.path.slice(0, 1)] }, jwks, 'forged'],
  'another hash': [{ ...good, path: good.path.with(0, must(good.path[1], 'a hash')) }, jwks, 'forged'],
  'a place after the turn': [{ ...good, index: 13 }, jwks, 'any'],
  'the key of another sidecar': [receiptOf({ key: 2, certified: 3 }), jwks, 'forged'],
  'a signature that is none': [{ ...good, signature: 'A'.repeat(86) }, jwks, 'forged'],
  'a longer certificate': [
    { ...good, certificate: { ...certificate, expires_at: '2027-12-01T00:00:00.000Z' } },
    jwks,
    'certificate_forged',
  ],
  'a certificate of another key': [
    { ...good, certificate: { ...certificate, x: text(signer(3).publicKey) } },
    jwks,
    'certificate_forged',
  ],
  'before its certificate': [receiptOf({ issued: '2026-11-23T23:59:59.999Z' }), jwks, 'not_in_time'],
  'at the start of it': [receiptOf({ issued: '2026-11-24T00:00:00.000Z' }), jwks, null],
  'a promise that is over': [receiptOf({ issued: '2026-11-28T12:00:00.000Z' }), jwks, 'not_in_time'],
  'a key of another purpose': [good, jwksOf('passport'), 'certificate_key_unknown'],
  'a compromised key': [good, jwksOf('attestation', true), 'certificate_key_compromised'],
  'without history': [{ ...good, history: null }, jwks, null],
  'a member more': [{ ...good, more: 1 }, jwks, 'malformed'],
  'a member less': [{ ...good, history: undefined }, jwks, 'malformed'],
  'a statement with more': [{ ...good, statement: { ...statement, more: 1 } }, jwks, 'malformed'],
  'a turn that is too large': [{ ...good, size: 1_025 }, jwks, 'malformed'],
  'a SUSPEND': [{ ...good, statement: { ...statement, decision: 'SUSPEND' } }, jwks, 'malformed'],
  'another format': [{ ...good, format: 'agent-trust.receipt.v2' }, jwks, 'malformed'],
  'a certificate of another purpose': [
    { ...good, certificate: { ...certificate, purpose: 'attestation' } },
    jwks,
    'malformed',
  ],
  nothing: [null, jwks, 'malformed'],
};

describe('verifiers of receipts', () => {
  const folder = temporaryFolder();
  let byPython: Readonly<Record<string, string | null>>;

  beforeAll(async () => {
    const python = await findDebianProgram('python3');
    const input = { cases, good, request, jwks, kid: certificate.kid };
    writeFileSync(join(folder.path, 'cases.json'), JSON.stringify(input));
    const script = `
import json, sys
from agent_trust.verify import verify_receipt
given = json.load(open(sys.argv[1]))
found = {name: verify_receipt(receipt, jwks).fault for name, (receipt, jwks, _) in given["cases"].items()}
good, jwks = given["good"], given["jwks"]
found["request"] = verify_receipt(good, jwks, request={**given["request"], "proof": 1}).fault
found["other"] = verify_receipt(good, jwks, request={"amount": 3.25}).fault
found["revoked"] = verify_receipt(good, jwks, revoked={"revoked": [{"kid": given["kid"]}]}).fault
print(json.dumps(found))`;
    const env = { ...process.env, PYTHONPATH: join(root, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' };
    const { stdout } = await run(python, ['-c', script, join(folder.path, 'cases.json')], { env });
    byPython = JSON.parse(stdout);
  });
  afterAll(() => folder.remove());

  it.each(Object.entries(cases))('agree on %s', async (name, [given, keys, fault]) => {
    const receipt = given === null ? null : JSON.parse(JSON.stringify(given));
    const revoked = must(parseRevokedKeys({ revoked: [] }), 'a list');
    const own = verifyReceipt(receipt, { ed25519, keys: keyset(ed25519, parseJwks(keys)), revoked });
    const client = await byClient(receipt, keys);
    const found = {
      own: own.kind === 'valid' ? null : own.fault,
      node: client.valid ? null : client.fault,
      python: byPython[name],
    };
    if (fault === 'any') for (const each of Object.values(found)) expect(each).not.toBe(null);
    else expect(found).toEqual({ own: fault, node: fault, python: fault });
  });

  it('compare it with the request, and refuse revoked keys', async () => {
    expect(byPython).toMatchObject({ request: null, other: 'other_request', revoked: 'key_revoked' });
    const fault = async (options: object) => {
      const verdict = await byClient(good, jwks, options);
      return verdict.valid ? null : verdict.fault;
    };
    expect(await fault({ request: { ...request, proof: 1 } })).toBe(null);
    expect(await fault({ request: { amount: 3.25 } })).toBe('other_request');
    expect(await fault({ revoked: { revoked: [{ kid: certificate.kid }] } })).toBe('key_revoked');
    await expect(fault({ revoked: {} })).rejects.toThrow(TypeError);
  });
});
