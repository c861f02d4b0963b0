import { type ChainHead, placeRecord } from '../../shared/attestation/chain.ts';
import { type PlacedRecord, recordHash, signatureMessage } from '../../shared/attestation/record.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord, ChainId } from '../../shared/model/attestation.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SigningKey } from '../signing/signing-keys.ts';

/** The last record of a chain, as the next one follows it. */
export interface ChainTip extends ChainHead {
  /**
   * The latest time of any record of the chain: exports with `since` find their place by it. 0 where there is
   * no record yet.
   */
  readonly latestMs: UnixMillis;
}

/** Records in their places, in the order given. Until they are stored they have no effect. */
export interface LinkedRecords {
  /** Of the key that signs them. */
  readonly keyId: string;
  readonly placed: readonly {
    readonly attestation: PlacedRecord;
    /** The latest time of its chain up to this record. */
    readonly latestMs: UnixMillis;
  }[];
  /** By chain, what the first of its records follows. */
  readonly before: ReadonlyMap<ChainId, ChainTip>;
  /** By chain, the last of its records. */
  readonly after: ReadonlyMap<ChainId, ChainTip>;
  /** 64 bytes for each record, one after the other. */
  readonly signatures: Promise<Buffer>;
}

/** Puts records behind the tips of their chains and begins to sign them. `tips` has each of the chains. */
export function linkRecords(
  records: readonly AttestationRecord[],
  tips: ReadonlyMap<ChainId, ChainTip>,
  key: SigningKey,
): LinkedRecords {
  const before = new Map<ChainId, ChainTip>();
  const after = new Map<ChainId, ChainTip>();
  const messages: string[] = [];
  const placed = records.map((record) => {
    const { chainId } = record;
    let tip = after.get(chainId);
    if (tip === undefined) {
      tip = must(tips.get(chainId), 'a chain that is added to has a tip');
      before.set(chainId, tip);
    }
    const attestation = placeRecord(record, tip, key.kid);
    const hash = recordHash(attestation);
    messages.push(signatureMessage(hash));
    const latestMs = Math.max(tip.latestMs, attestation.timestampMs) as UnixMillis;
    after.set(chainId, { sequence: attestation.sequence, hash, latestMs });
    return { attestation, latestMs };
  });
  return { keyId: key.kid, placed, before, after, signatures: key.signAll(messages) };
}

/** Whether `linkRecords` would give the same for these tips and this key. */
export const isLinkedTo = (
  links: LinkedRecords,
  tips: ReadonlyMap<ChainId, ChainTip>,
  key: SigningKey,
): boolean =>
  links.keyId === key.kid &&
  [...links.before].every(([chainId, tip]) => {
    const now = tips.get(chainId);
    return now?.sequence === tip.sequence && now.hash === tip.hash && now.latestMs === tip.latestMs;
  });
