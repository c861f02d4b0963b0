import { type ChainHead, placeRecord } from '../../shared/attestation/chain.ts';
import { type PlacedRecord, recordHash, signatureMessage } from '../../shared/attestation/record.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord, ChainId, RecordForm } from '../../shared/model/attestation.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SigningKey } from '../signing/signing-keys.ts';

/** The last record of a chain, as needed to link the next. */
export interface ChainTip extends ChainHead {
  /** The latest time of any record of the chain, for exports with `since`. 0 for an empty chain. */
  readonly latestMs: UnixMillis;
}

/** Linked records, in the order given. They have no effect until stored. */
export interface LinkedRecords {
  /** Id of the signing key. */
  readonly keyId: string;
  readonly placed: readonly {
    readonly attestation: PlacedRecord;
    /** Latest time of the chain up to this record. */
    readonly latestMs: UnixMillis;
  }[];
  /** Per chain, the tip before its first record. */
  readonly before: ReadonlyMap<ChainId, ChainTip>;
  /** Per chain, its last record. */
  readonly after: ReadonlyMap<ChainId, ChainTip>;
  /** 64 bytes per record, concatenated. */
  readonly signatures: Promise<Buffer>;
}

/**
 * Links records to the tips of their chains, in this form, and starts signing them. `tips` has every chain.
 */
export function linkRecords(
  records: readonly AttestationRecord[],
  tips: ReadonlyMap<ChainId, ChainTip>,
  { key, form }: { readonly key: SigningKey; readonly form: RecordForm },
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
    const attestation = placeRecord(record, tip, key.kid, form);
    const hash = recordHash(attestation);
    messages.push(signatureMessage(hash));
    const latestMs = Math.max(tip.latestMs, attestation.timestampMs) as UnixMillis;
    after.set(chainId, { sequence: attestation.sequence, hash, latestMs });
    return { attestation, latestMs };
  });
  return { keyId: key.kid, placed, before, after, signatures: key.signAll(messages) };
}

/** Whether `linkRecords` would give the same result for these tips and this key. */
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
