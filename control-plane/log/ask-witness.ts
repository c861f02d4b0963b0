import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { type Checkpoint, parseSignedCheckpoint, parseSize } from '../../shared/log/checkpoint.ts';
import { isTimely, verifiesCosignature, witnessClockMsMax } from '../../shared/log/cosignature.ts';
import type { Tree, TreeHash } from '../../shared/log/merkle.ts';
import {
  encodeBase64,
  isSignedBy,
  type NoteKey,
  type NoteSignature,
  parseSignatureLine,
} from '../../shared/log/note.ts';
import type { WitnessPolicy } from '../../shared/log/witness-policy.ts';
import { logLimits } from './limits.ts';

export type Witness = WitnessPolicy['witnesses'][number];

/** Why a witness has not cosigned, as `/readyz` and the alerts name it. */
export const witnessFaults = {
  away: 'it does not answer',
  no_url: 'the policy has no URL for it',
  unknown_log: 'it does not know this log: give its operator the origin and the vkey',
  key_refused: 'it does not accept the key that signs this log',
  refused: 'it refuses the checkpoint and shows none of its own that would say why',
  claims_more: 'it claims a larger tree and shows no checkpoint of it',
  forged: 'its cosignature does not verify',
  untimely: 'its cosignature is of a time more than 5 minutes from that of the database: set its clock',
  bad_answer: 'its answer is not one of tlog-witness',
  contradicts: 'it holds a tree of this log that is not here: history went back',
} as const;
export type WitnessFault = keyof typeof witnessFaults;

/** A tree with the signature of this log that the log here does not contain. */
export interface ShownTree extends Checkpoint {
  readonly checkpoint: string;
}

export type Heard =
  | { readonly kind: 'cosigned'; readonly signatures: readonly NoteSignature[] }
  | { readonly kind: 'fault'; readonly fault: WitnessFault }
  | { readonly kind: 'contradicts'; readonly shown: ShownTree };

/** What a witness is asked to cosign, and how its answer is judged. */
export interface Question extends Tree {
  readonly origin: string;
  readonly noteText: string;
  readonly signed: string;
  /** Of the database. */
  nowMs(): number;
  /** Those that sign this log, none of them compromised. */
  readonly logKeys: readonly NoteKey[];
  /** That this tree begins with that of an earlier size. */
  consistency(oldSize: number): Promise<readonly TreeHash[]>;
  /**
   * Whether the log begins with this tree by now: another replica may have written since the question, and
   * the witness may have cosigned what it wrote.
   */
  holds(tree: Tree): Promise<boolean>;
}

const fault = (named: WitnessFault): Heard => ({ kind: 'fault', fault: named });

/**
 * Asks a witness to cosign (C2SP tlog-witness). `heldSize`: of the tree that it holds, as far as is known.
 * Whatever it answers, within `witnessMsMax` for each try; never throws for what the witness does. A claim
 * that it holds another tree counts where it shows that tree with a signature of this log: otherwise any
 * witness could stop the log.
 */
export async function askWitness(
  witness: Witness,
  question: Question,
  heldSize: number | null,
): Promise<{ readonly heard: Heard; readonly heldSize: number | null }> {
  if (witness.url === null) return { heard: fault('no_url'), heldSize };
  let oldSize = heldSize ?? question.size;
  for (let tries = 1; ; tries++) {
    if (oldSize > question.size)
      return { heard: await explain(witness, question, 'claims_more'), heldSize: null };
    const answer = await post(witness.url, await requestBody(question, oldSize));
    if (answer === null) return { heard: fault('away'), heldSize };
    const { status, body } = answer;
    if (status === 200) return readCosignatures(witness, question, body);
    if (status === 409) {
      const size = parseSize(body.replace(/\n$/, ''));
      if (size === null) return { heard: fault('bad_answer'), heldSize: null };
      if (tries < logLimits.witnessTriesMax || size > question.size) {
        oldSize = size;
        continue;
      }
    }
    return { heard: await refusalOf(witness, question, status), heldSize: null };
  }
}

async function refusalOf(witness: Witness, question: Question, status: number): Promise<Heard> {
  if (status === 404) return fault('unknown_log');
  if (status === 403) return fault('key_refused');
  if (status === 422) return explain(witness, question, 'refused');
  return fault(status >= 500 ? 'away' : 'bad_answer');
}

async function requestBody({ size, signed, consistency }: Question, oldSize: number): Promise<string> {
  const proof = oldSize === 0 || oldSize === size ? [] : await consistency(oldSize);
  return `old ${oldSize}\n${proof.map((hash) => `${encodeBase64(hash)}\n`).join('')}\n${signed}`;
}

function readCosignatures(
  { key }: Witness,
  { noteText, size, nowMs }: Question,
  body: string,
): { readonly heard: Heard; readonly heldSize: number | null } {
  const lines = body.endsWith('\n') ? body.slice(0, -1).split('\n') : [];
  const signatures = lines.map(parseSignatureLine);
  if (lines.length === 0 || !signatures.every((each) => each !== null))
    return { heard: fault('bad_answer'), heldSize: null };
  // Those of keys that are not known say nothing.
  const own = signatures.filter(({ name, keyId }) => name === key.name && keyId === key.keyId);
  const isForged =
    own.length === 0 || own.some(({ signature }) => !verifiesCosignature(key, noteText, signature));
  if (isForged) return { heard: fault('forged'), heldSize: null };
  const times = { fromMs: nowMs() - witnessClockMsMax, untilMs: nowMs() + witnessClockMsMax };
  const timely = own.filter(({ signature }) => isTimely(signature, times));
  if (timely.length === 0) return { heard: fault('untimely'), heldSize: size };
  return { heard: { kind: 'cosigned', signatures: timely.slice(0, 1) }, heldSize: size };
}

/** Whether the witness shows a tree that is not here; else `otherwise`. */
async function explain(witness: Witness, question: Question, otherwise: WitnessFault): Promise<Heard> {
  const { origin, logKeys, holds } = question;
  const body = await get(`${prefixOf(witness.url ?? '')}/${sha256Hex(origin)}/checkpoint`);
  const shown = body === null ? null : parseSignedCheckpoint(body);
  if (body === null || shown === null || shown.checkpoint.origin !== origin) return fault(otherwise);
  const states = logKeys.map((key) => isSignedBy(shown.note, key));
  if (!states.includes('signed') || states.includes('forged')) return fault(otherwise);
  if (await holds(shown.checkpoint)) return fault(otherwise);
  return { kind: 'contradicts', shown: { ...shown.checkpoint, checkpoint: body } };
}

const prefixOf = (url: string): string => url.replace(/\/+$/, '');

interface Answered {
  readonly status: number;
  readonly body: string;
}

/** Null: no answer in time, or none that is read. */
const post = (url: string, body: string): Promise<Answered | null> =>
  ask(`${prefixOf(url)}/add-checkpoint`, { method: 'POST', body });

async function get(url: string): Promise<string | null> {
  const answer = await ask(url, { method: 'GET' });
  return answer?.status === 200 ? answer.body : null;
}

async function ask(
  url: string,
  request: { readonly method: string; readonly body?: string },
): Promise<Answered | null> {
  try {
    const response = await fetch(url, {
      ...request,
      redirect: 'error',
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      signal: AbortSignal.timeout(logLimits.witnessMsMax),
    });
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length;
      // Leaving the loop cancels the body.
      if (bytes > logLimits.witnessAnswerBytesMax) return null;
      chunks.push(chunk);
    }
    return { status: response.status, body: Buffer.concat(chunks).toString('utf8') };
  } catch {
    return null;
  }
}
