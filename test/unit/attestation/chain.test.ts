import { describe, expect, it } from 'vitest';
import { type ChainHead, emptyChain, linkAttestation } from '../../../shared/attestation/chain.ts';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { Attestation } from '../../../shared/model/attestation.ts';
import { renderAttestation } from '../../../shared/wire/evidence/attestation.ts';
import {
  chainOf,
  keysetOf,
  sampleCarried,
  sampleChain,
  sampleExtras,
  sampleId,
  sampleKey,
  sampleRecord,
} from '../../support/data/sample-chains.ts';
import { recordFaultOf } from '../../support/data/verify-export.ts';

const key = sampleKey(1);
const keys = keysetOf(key);
const chain = sampleChain(key, 3);
const first = must(chain[0], 'three records');
const second = must(chain[1], 'three records');
const wire = renderAttestation(second);
/** In form 2, after a record in form 1. */
const [secondOf2] = chainOf([sampleRecord(41, sampleExtras)], key, first) as [Attestation];
const faultOf = (value: unknown, previous: ChainHead | null = first, set = keys) =>
  recordFaultOf(value, previous, set);

describe('linkAttestation', () => {
  it('does not link to a head that cannot be', () => {
    expect(() => linkAttestation(sampleRecord(1), { sequence: 1, hash: null }, key)).toThrow();
    expect(() => linkAttestation(sampleRecord(1), { sequence: 0, hash: first.hash }, key)).toThrow();
  });

  it('does not link a record without an account, or a resolution of nothing', () => {
    const link = (change: Parameters<typeof sampleRecord>[1]) =>
      linkAttestation(sampleRecord(1, change), emptyChain, key);
    expect(() => link({ sourceAccount: null })).toThrow('names the account');
    expect(() => link({ resolution: 'voided' })).toThrow('names what it resolves');
    expect(() => link({ refersTo: sampleId('att', 1) })).toThrow('names what it resolves');
    expect(link({ resolution: 'voided', refersTo: sampleId('att', 1) })).toMatchObject({ sequence: 1 });
  });
});

describe('findRecordFault', () => {
  it('accepts a record in its place, and alone', async () => {
    expect(await faultOf(wire, first)).toBeNull();
    expect(await faultOf(wire, null)).toBeNull();
    expect(await faultOf(renderAttestation(first), emptyChain)).toBeNull();
  });

  it('finds a change of any member', async () => {
    const wire = renderAttestation(secondOf2);
    const changes: Record<keyof typeof wire, unknown> = {
      ...{ amount_micro_usd: 12_500_001, chain_id: wire.chain_id.replace('pass_', 'gate_') },
      ...{ constraints_evaluated: ['passport'], decision: 'BLOCK', gate_id: null, hash: first.hash },
      ...{ id: first.id, passport_id: null, permission_key: 'orders:delete' },
      ...{ pii: [{ pointer: '/a', type: 'email' }], previous_attestation_hash: null, reason: 'state_stale' },
      ...{ request_hash: first.requestHash, refers_to: sampleId('appr', 1), resolution: 'approved' },
      ...{ sequence: 3, signature: first.signature, signing_key_id: `${key.kid.slice(0, -1)}x` },
      ...{ source: 'control-plane', source_account: sampleId('acct', 2), test: true },
      ...{ timestamp: '2026-11-20T09:00:02.001Z', approval_id: null, asserted: true },
      ...{ domain: 'api.example.org', hold_expires_at: '2026-11-20T10:00:00.001Z', policy_hash: first.hash },
      ...{ proof: 'httpsig', state_age_ms: 351, trust_level: 'L2', wallet_id: null, wallet_path: [] },
      ...{ ...sampleCarried, units: { mb: 1 } },
    };
    expect(Object.keys(changes).sort()).toEqual(Object.keys(wire).sort());
    for (const [name, value] of Object.entries(changes)) {
      const fault = await faultOf({ ...wire, [name]: value });
      expect(fault, name).toBe(name === 'signature' ? 'signature_invalid' : 'hash_mismatch');
    }
  });

  it('finds a record that was hashed anew but not signed anew', async () => {
    const { hash: _, signature, ...body } = { ...wire, decision: 'BLOCK' };
    expect(await faultOf({ ...body, hash: contentHash(body), signature })).toBe('signature_invalid');
  });

  it('accepts only keys of purpose attestation that it knows', async () => {
    expect(await faultOf(wire, first, keysetOf(sampleKey(2)))).toBe('unknown_key');
    expect(await faultOf(wire, first, keysetOf(sampleKey(1, {}, 'passport')))).toBe('unknown_key');
    const forged = renderAttestation(must(chainOf([sampleRecord(9)], sampleKey(2), first)[0], 'one'));
    expect(await faultOf(forged)).toBe('unknown_key');
  });

  it('finds a gap, a repetition and a broken link', async () => {
    const third = renderAttestation(must(chain[2], 'three records'));
    expect(await faultOf(third)).toBe('sequence_gap');
    expect(await faultOf(wire, second)).toBe('sequence_gap');
    expect(await faultOf(wire, { sequence: 1, hash: second.hash })).toBe('link_broken');
  });

  it('refuses anything but a record, and never throws', async () => {
    const { reason: _, ...missing } = wire;
    // Records of earlier builds lack both; one of the two alone is no form of a record.
    const { source_account: __, ...withoutAccount } = wire;
    const { refers_to: ___, ...withoutReference } = wire;
    const others = [
      undefined,
      null,
      'x',
      [],
      {},
      missing,
      withoutAccount,
      withoutReference,
      { ...wire, refers_to: sampleId('gate', 1) },
      { ...wire, source_account: null },
      { ...wire, extra: 1 },
      { ...wire, sequence: '2' },
      { ...wire, sequence: 0 },
      { ...wire, amount_micro_usd: -1 },
      { ...wire, timestamp: '2026-11-20T09:00:02Z' },
      { ...wire, timestamp: '2026-11-20T10:00:02.000+01:00' },
      { ...wire, id: wire.id.toUpperCase() },
      { ...wire, source: 'somebody' },
      { ...wire, hash: wire.hash.toUpperCase() },
      { ...wire, signature: `${wire.signature}==` },
      { ...wire, pii: Array.from({ length: 33 }, () => ({ pointer: '/a', type: 'email' })) },
      { ...wire, pii: [{ pointer: '/a', type: 'email', value: 'x' }] },
      { ...wire, pii: [{ pointer: '/\ud800', type: 'email' }] },
    ];
    for (const other of others) expect(await faultOf(other), JSON.stringify(other)).toBe('malformed');
  });

  it('refuses a second spelling of the signature', async () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet.indexOf(wire.signature.slice(-1));
    const twin = wire.signature.slice(0, -1) + alphabet.charAt(last + 1);
    expect(Buffer.from(twin, 'base64url')).toEqual(Buffer.from(wire.signature, 'base64url'));
    expect(await faultOf({ ...wire, signature: twin })).toBe('signature_invalid');
  });
});
