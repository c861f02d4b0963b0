import { setTimeout as pause } from 'node:timers/promises';
import { JwksError, parseJwks } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import { parseSignedCheckpoint, type SignedCheckpoint } from '../../shared/log/checkpoint.ts';
import type { LoggedHead } from '../../shared/log/entry.ts';
import { inclusionRanges, type Range, rangeHash } from '../../shared/log/merkle.ts';
import { noteKeyId, renderVkey, signatureTypes } from '../../shared/log/note.ts';
import { parseLogProof, renderLogProof } from '../../shared/log/proof.ts';
import {
  readFromTiles,
  type TileName,
  tileNumberPath,
  tileOf,
  tileWidth,
  widthOf,
} from '../../shared/log/tiles.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type ApiAccess, CommandError, reasonOf } from '../base/call-api.ts';
import { cliLimits } from '../base/limits.ts';
import { readBytes, readText } from '../base/read-body.ts';

/** The first head that the log has at or after a record. */
export interface Logged {
  readonly index: number;
  readonly head: LoggedHead;
  /** The newest one when it was asked. */
  readonly checkpoint: string;
}

/** Null: no checkpoint covers the record yet. Throws CommandError. */
export async function findLogged(
  { origin, key }: ApiAccess,
  recordId: string,
  signal: AbortSignal,
): Promise<Logged | null> {
  const response = await asked(`${origin}/v1/attestations/${recordId}/proof`, signal, key);
  if (response.status === 409) return null;
  const text = await textOf(response, `the proof of ${recordId}`, cliLimits.proofBytesMax);
  const proof = parseLogProof(text);
  if (proof === null)
    throw new CommandError(`The answer is no proof of ${recordId}. Is ${origin} the control plane?`);
  return { index: proof.index, head: proof.head, checkpoint: proof.checkpoint };
}

const retriesMax = 4;
/** Longer than a control plane takes what it knows of the log for new. */
const tilePauseMs = 1_000;

/** Again after 429 and 503, when the service says so; a plan may allow few calls in a minute. */
async function asked(url: string, signal?: AbortSignal, key: string | null = null): Promise<Response> {
  const stops = signal === undefined ? [] : [signal];
  for (let left = retriesMax; ; left--) {
    const response = await fetch(url, {
      ...(key !== null && { headers: { authorization: `Bearer ${key}` } }),
      redirect: 'error',
      signal: AbortSignal.any([...stops, AbortSignal.timeout(cliLimits.packCallMsMax)]),
    }).catch((error: unknown) => {
      throw new CommandError(`${new URL(url).origin} cannot be reached: ${reasonOf(error)}`);
    });
    if (left === 0 || (response.status !== 429 && response.status !== 503)) return response;
    const waitS = Math.min(Number(response.headers.get('retry-after') ?? 1) || 1, 60);
    await response.body?.cancel();
    await pause(waitS * secondMs, undefined, signal === undefined ? {} : { signal });
  }
}

async function textOf(response: Response, what: string, bytesMax: number): Promise<string> {
  if (!response.ok)
    throw new CommandError(`${what} could not be fetched: the service answered ${response.status}.`);
  return readText(response, bytesMax);
}

/** Of a JWKS of the service. Throws CommandError. */
export function keysIn(jwks: unknown): VerificationKey[] {
  try {
    return parseJwks(jwks);
  } catch (error) {
    if (!(error instanceof JwksError)) throw error;
    throw new CommandError(`The JWKS of the service cannot be used: ${error.message}`);
  }
}

/** As it is. Throws CommandError. */
export async function fetchJwks({ origin }: ApiAccess, signal?: AbortSignal): Promise<unknown> {
  const response = await asked(`${origin}/.well-known/jwks.json`, signal);
  const text = await textOf(response, 'The JWKS', cliLimits.jwksBytesMax);
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandError(`The answer is no JWKS. Is ${origin} the control plane?`);
  }
}

/** Null: not a checkpoint of a log of this service. */
export function parseCheckpoint(text: string): SignedCheckpoint | null {
  const signed = parseSignedCheckpoint(text);
  return signed !== null && logPath(signed.checkpoint.origin) !== null ? signed : null;
}

const logPath = (origin: string): string | null => /\/log(?:\/\d+)?$/.exec(origin)?.[0] ?? null;

/**
 * Proves entries by one checkpoint, from the tiles that the service publishes. Memory: the last
 * `packTilesKeptMax` tiles.
 */
export class LogProver {
  readonly #access: ApiAccess;
  readonly #signal: AbortSignal;
  readonly #text: string;
  readonly #signed: SignedCheckpoint;
  readonly #tiles = new Map<string, Uint8Array>();

  constructor(access: ApiAccess, checkpoint: string, signal: AbortSignal) {
    this.#access = access;
    this.#signal = signal;
    this.#text = checkpoint;
    this.#signed = must(parseCheckpoint(checkpoint), 'a checkpoint is parsed before it is used');
  }

  covers({ index }: Logged): boolean {
    return index < this.#signed.checkpoint.size;
  }

  /** As a tlog-proof. Throws CommandError where the service does not have the tree. */
  async prove({ index, head }: Logged): Promise<string> {
    const { size } = this.#signed.checkpoint;
    const ranges = inclusionRanges(index, { from: 0, to: size });
    const hashes = await this.#hashes(ranges, size);
    return renderLogProof({ head, index, hashes, checkpoint: this.#text });
  }

  async #hashes(ranges: readonly Range[], size: number): Promise<Uint8Array[]> {
    const names = new Map<string, TileName>();
    const nothing = new Uint8Array(32);
    for (const range of ranges)
      rangeHash(range, (height, index) => {
        const name = tileOf(height, index);
        names.set(`${name.level}/${name.number}`, name);
        return nothing;
      });
    const tiles = new Map<string, Uint8Array>();
    for (const [key, name] of names) tiles.set(key, await this.#tile(key, name, size));
    const read = readFromTiles(({ level, number }) =>
      must(tiles.get(`${level}/${number}`), 'it was fetched'),
    );
    return ranges.map((range) => rangeHash(range, read));
  }

  async #tile(key: string, name: TileName, size: number): Promise<Uint8Array> {
    const kept = this.#tiles.get(key);
    if (kept !== undefined) return kept;
    const width = widthOf(name, size);
    const partial = width === tileWidth ? '' : `.p/${width}`;
    const path = `${logPath(this.#signed.checkpoint.origin)}/tile/${name.level}/${tileNumberPath(name.number)}${partial}`;
    const bytes = await this.#fetchTile(path, width * 32);
    this.#tiles.set(key, bytes);
    const [oldest] = this.#tiles.keys();
    if (this.#tiles.size > cliLimits.packTilesKeptMax && oldest !== undefined) this.#tiles.delete(oldest);
    return bytes;
  }

  /** Again where a replica does not know yet how far the log was published. */
  async #fetchTile(path: string, length: number): Promise<Uint8Array> {
    const { origin } = this.#access;
    for (let left = retriesMax; left > 0; left--) {
      const response = await asked(`${origin}${path}`, this.#signal);
      const bytes = await readBytes(response, cliLimits.tileBytesMax);
      if (response.ok && bytes.length === length) return bytes;
      await pause(tilePauseMs, undefined, { signal: this.#signal });
    }
    throw new CommandError(
      `${origin}${path} is not there: the checkpoint is not one of the log of this service, or it lost its tree.`,
    );
  }
}

/** The policy that names the log alone: each of its keys that signed the checkpoint. */
export function policyOfLog(
  { checkpoint, note }: SignedCheckpoint,
  keys: readonly VerificationKey[],
): string {
  const lines = logKeysOf({ checkpoint, note }, keys).map(
    ({ publicKey }) =>
      `log ${renderVkey(checkpoint.origin, signatureTypes.ed25519, Buffer.from(publicKey, 'base64url'))}\n`,
  );
  return `${lines.join('')}quorum none\n`;
}

export const logKeysOf = (
  { checkpoint, note }: SignedCheckpoint,
  keys: readonly VerificationKey[],
): readonly VerificationKey[] =>
  keys.filter(({ purpose, publicKey }) => {
    if (purpose !== 'log') return false;
    const id = noteKeyId(checkpoint.origin, signatureTypes.ed25519, Buffer.from(publicKey, 'base64url'));
    return note.signatures.some(({ name, keyId }) => name === checkpoint.origin && keyId === id);
  });
