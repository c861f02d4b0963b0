import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { type SignPool, signPool } from '../../control-plane/signing/sign-pool.ts';
import type { SigningKeys } from '../../control-plane/signing/signing-keys.ts';
import { type ChainHead, emptyChain, linkAttestation } from '../../shared/attestation/chain.ts';
import { must } from '../../shared/errors/assert.ts';
import { emptyExtras } from '../../shared/model/attestation.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { until } from '../support/base/until.ts';
import { type AttestationRow, attestationOf } from '../support/data/attestation-row.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { append, newRecord, operatorOf } from '../support/service/exports.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';

/** Each with an end of its own, so that a test sees which signature is whose; more than a task needs. */
const messages = Array.from({ length: 100 }, (_, i) => `agent-trust.test:${String(i).padStart(4, '0')}`);

let api: Api;
let owner: Owner;
const threads: Worker[] = [];
const onThread = (thread: Worker) => threads.push(thread);

beforeAll(async () => {
  process.on('worker', onThread);
  api = await startOwnApi();
  owner = await operatorOf(api);
});
afterAll(async () => {
  process.off('worker', onThread);
  await api?.close();
});
beforeEach(() => {
  threads.length = 0;
});

/** The keys of the service, with threads that end with the test. */
async function withThreads(
  work: (keys: SigningKeys, pool: SignPool) => Promise<void>,
  taskMsMax?: number,
): Promise<void> {
  const pool = signPool({
    threads: 2,
    logger: silentLogger,
    ...(taskMsMax === undefined ? {} : { taskMsMax }),
  });
  try {
    await work(await loadSigningKeys({ ...api.deps, signPool: pool }), pool);
  } finally {
    await pool.close();
  }
}

/** What the event loop signs, one by one. */
const signedOneByOne = (): string =>
  messages.map((message) => api.deps.signingKeys.current('attestation').sign(message)).join();
const signedTogether = async (keys: SigningKeys): Promise<string> => {
  const bytes = await keys.current('attestation').signAll(messages);
  return messages.map((_, i) => bytes.subarray(64 * i, 64 * (i + 1)).toString('base64url')).join();
};

const hexOf = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString('hex');

describe('signing threads', () => {
  it('that die over their task lose nothing, and the next task finds others', () =>
    withThreads(async (keys) => {
      const signed = signedTogether(keys);
      await until(() => threads.length > 0, { what: 'the pool has started a thread' });
      await Promise.all(threads.map((thread) => thread.terminate()));
      expect(await signed).toBe(signedOneByOne());
      const before = threads.length;
      expect(await signedTogether(keys)).toBe(signedOneByOne());
      expect(threads.length).toBeGreaterThan(before);
    }));

  it('that do not answer in time are replaced, and the event loop signs', () =>
    // A thread takes longer than this to load.
    withThreads(async (keys, pool) => {
      const key = keys.current('attestation');
      expect(await pool.sign(new Uint8Array(32), messages)).toBeNull();
      expect((await key.signAll(messages)).length).toBe(64 * messages.length);
      expect(await signedTogether(keys)).toBe(signedOneByOne());
    }, 1));

  it('sign what is proven, and nothing else, with the signatures of the event loop', () =>
    withThreads(async (keys) => {
      const key = keys.current('attestation');
      const [another, own] = ['catalog', 'attestation'].map((purpose) =>
        must(
          keys.all().find((each) => each.purpose === purpose),
          'each purpose has a key',
        ),
      );
      const publicKey = must(own, 'it has a key').publicKey;
      const asked = messages.map((proof, i) => ({
        message: `${'ä'.repeat(i)} ${proof}`,
        proof: {
          publicKey: i % 5 === 4 ? must(another, 'it has a key').publicKey : publicKey,
          message: proof,
          signature: key.signer.sign(Buffer.from(i % 5 === 3 ? `${proof}.` : proof)),
        },
      }));
      const inThreads = await key.signProven(asked);
      expect(threads.length).toBeGreaterThan(0);
      expect(inThreads.map((each) => each !== null)).toEqual(asked.map((_, i) => i % 5 < 3));
      const oneByOne = await api.deps.signingKeys.current('attestation').signProven(asked);
      expect(inThreads.map(hexOf)).toEqual(oneByOne.map(hexOf));
      const [first] = asked;
      expect(hexOf(inThreads[0])).toBe(hexOf(key.signer.sign(Buffer.from(first?.message ?? '', 'utf8'))));
    }));

  it('are not needed for a few signatures', () =>
    withThreads(async (keys) => {
      const key = keys.current('attestation');
      const [message = ''] = messages;
      expect((await key.signAll([message])).toString('base64url')).toBe(key.sign(message));
      expect(threads).toEqual([]);
    }));
});

it('stores of a batch what linking and signing its records one by one gives', () =>
  withThreads(async (signingKeys) => {
    const passports = [(await api.issuePassport()).passport_id, (await api.issuePassport()).passport_id];
    const gateId = (await api.createGate()).gate_id;
    const records = Array.from({ length: 60 }, (_, i) =>
      newRecord(
        api,
        { passport: i % 3 === 2 ? null : { id: passports[i % 2], owner }, gateId, gateOwner: owner },
        {
          ...(i % 5 === 0 ? { pii: [{ pointer: '/a"\\ä\u2028', type: 'email' }] } : {}),
          ...(i % 7 === 0 ? { constraintsEvaluated: [], permissionKey: null, amountMicroUsd: null } : {}),
        },
      ),
    );
    await append({ ...api, deps: { ...api.deps, signingKeys } }, records);

    const heads = new Map<string, ChainHead>();
    const expected = records.map(({ record }) => {
      const linked = linkAttestation(
        { ...record, ...emptyExtras },
        heads.get(record.chainId) ?? emptyChain,
        api.deps.signingKeys.current('attestation'),
      );
      heads.set(record.chainId, linked);
      return linked;
    });
    const rows = await api.deps.sql<AttestationRow[]>`SELECT * FROM attestations ORDER BY position`;
    const ids = new Set(records.map(({ record }) => record.id));
    const stored = rows.map(attestationOf).filter(({ id }) => ids.has(id));
    expect(stored).toEqual(expected);
    expect(must(expected.at(-1), 'there are some').sequence).toBeGreaterThan(10);
    await expectSoundStore(api);
  }));
