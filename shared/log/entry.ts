import { sha256Bytes } from '../crypto/content-hash.ts';
import { assert } from '../errors/assert.ts';

/**
 * What an entry of the log stands for: a chain has got as far as `sequence`, and the hash there is `hash`.
 * `chainId` of records is that of their chain; other names are below.
 */
export interface LoggedHead {
  readonly chainId: string;
  readonly sequence: number;
  /** `sha256:` and 64 digits in hex. */
  readonly hash: string;
}

/** Names a place of a chain, to find what was logged of it. */
export const headKey = ({ chainId, sequence }: Omit<LoggedHead, 'hash'>): string => `${chainId} ${sequence}`;

export const auditChainName = (accountId: string, mode: string): string => `audit:${accountId}:${mode}`;
/** A policy is a chain of one, whose head is its hash. */
export const policyChainName = (policyHash: string): string => `policy:${policyHash}`;
/** A key has a new hash when it is published, retired and declared compromised. */
export const keyChainName = (kid: string): string => `key:${kid}`;

/** What is hashed into an entry: no other text has the same lines. */
function entryText({ chainId, sequence, hash }: LoggedHead): string {
  assert(!chainId.includes('\n'), 'the name of a chain is one line of its entry');
  assert(!hash.includes('\n'), 'a hash is one line of its entry');
  assert(sequence >= 1, 'a chain is logged once it has a record');
  return `agent-trust.log.v1\n${chainId}\n${sequence}\n${hash}\n`;
}

/** The 32 bytes of an entry. It names nobody: whoever knows the head finds it, and nothing else is in it. */
export const entryOf = (head: LoggedHead): Uint8Array => sha256Bytes(entryText(head));
const entryBytes = 32;

/** C2SP tlog-tiles: each entry after its length. */
export function entryBundle(entries: readonly Uint8Array[]): Uint8Array {
  for (const entry of entries) assert(entry.length === entryBytes, 'each entry has the length before it');
  const length = Buffer.from([0, entryBytes]);
  return Buffer.concat(entries.flatMap((entry) => [length, entry]));
}
