import { decodeBase64url } from '../../crypto/base64url.ts';
import { contentHash, textHash } from '../../crypto/content-hash.ts';
import type { UnixMillis } from '../../model/time.ts';
import type { FeedId } from './sync.ts';
import type { Change, ChangeEntry, Heartbeat, SealedEntry, SignedSnapshot } from './sync-schema.ts';

/**
 * The service's current sync key. Messages pass through a Redis and lie on disks that others can write to;
 * the signature alone makes them trustworthy.
 */
interface SyncSigner {
  readonly kid: string;
  /** base64url Ed25519 over the UTF-8 of the message. */
  sign(message: string): string;
}

/** Finds keys of the sync purpose; a Keyset is one. */
export interface SyncKeys {
  find(purpose: 'sync', kid: string): { verify(message: Uint8Array, signature: Uint8Array): boolean } | null;
}

const changeMessage = (entry: Omit<SealedEntry, 'signing_key_id' | 'signature'>): string =>
  `agent-trust.change.v1:${contentHash({
    feed_id: entry.feed_id,
    revision: entry.revision,
    previous: entry.previous,
    kind: entry.kind,
    body: entry.body,
  })}`;

const heartbeatMessage = (beat: Pick<Heartbeat, 'feed_id' | 'head' | 'replica' | 'at_ms'>): string =>
  `agent-trust.heartbeat.v1:${contentHash({
    feed_id: beat.feed_id,
    head: beat.head,
    replica: beat.replica,
    at_ms: beat.at_ms,
  })}`;

const snapshotMessage = (hash: string): string => `agent-trust.snapshot.v1:${hash}`;

export function signChange(
  key: SyncSigner,
  place: { readonly feedId: FeedId; readonly revision: number; readonly previous: string },
  change: Change,
): ChangeEntry {
  const { feedId, revision, previous } = place;
  const unsigned = { feed_id: feedId, revision, previous, ...change };
  return { ...unsigned, signing_key_id: key.kid, signature: key.sign(changeMessage(unsigned)) };
}

export function signHeartbeat(
  key: SyncSigner,
  beat: {
    readonly feed_id: FeedId;
    readonly head: number;
    readonly replica: string;
    readonly at_ms: UnixMillis;
  },
): Heartbeat {
  return { kind: 'heartbeat', ...beat, signing_key_id: key.kid, signature: key.sign(heartbeatMessage(beat)) };
}

export const signSnapshot = (keys: readonly SyncSigner[], snapshot: string): SignedSnapshot => ({
  snapshot,
  signatures: snapshotSignatures(keys, textHash(snapshot)),
});

/** Signatures of the snapshot with this `textHash`. */
export function snapshotSignatures(keys: readonly SyncSigner[], hash: string): SignedSnapshot['signatures'] {
  const message = snapshotMessage(hash);
  return keys.map((key) => ({ signing_key_id: key.kid, signature: key.sign(message) }));
}

const encoder = new TextEncoder();

function verifies(
  keys: SyncKeys,
  signed: { readonly signing_key_id: string; readonly signature: string },
  message: string,
): boolean {
  const key = keys.find('sync', signed.signing_key_id);
  const signature = decodeBase64url(signed.signature);
  return key !== null && signature !== null && key.verify(encoder.encode(message), signature);
}

/** Whether the service signed exactly this entry at exactly this place. Never throws. */
export const changeVerifies = (keys: SyncKeys, entry: SealedEntry): boolean =>
  verifies(keys, entry, changeMessage(entry));

export const heartbeatVerifies = (keys: SyncKeys, beat: Heartbeat): boolean =>
  verifies(keys, beat, heartbeatMessage(beat));

/** Whether any of these keys signed it. */
export function snapshotVerifies(keys: SyncKeys, { snapshot, signatures }: SignedSnapshot): boolean {
  const message = snapshotMessage(textHash(snapshot));
  return signatures.some((each) => verifies(keys, each, message));
}
