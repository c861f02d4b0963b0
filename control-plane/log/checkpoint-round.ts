import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import { checkpointText, isPossible } from '../../shared/log/checkpoint.ts';
import { areSame, consistencyRanges, type Tree } from '../../shared/log/merkle.ts';
import {
  type NoteKey,
  type NoteSignature,
  noteKeyId,
  parseNote,
  renderNote,
  signatureTypes,
  signNote,
} from '../../shared/log/note.ts';
import { isQuorum } from '../../shared/log/witness-policy.ts';
import { askWitness, type Heard, type Question, type ShownTree, type Witness } from './ask-witness.ts';
import type { LogDeps } from './deps.ts';
import { logLimits } from './limits.ts';
import { type LogTree, publish, readPublished, readRanges, writeWitnesses } from './log-store.ts';

/** A checkpoint, signed by the current key and by the newest before it: who trusts one of them goes on. */
export function signCheckpoint(
  { signingKeys }: Pick<LogDeps, 'signingKeys'>,
  tree: Pick<LogTree, 'origin' | 'size' | 'root'>,
): string {
  const text = checkpointText(tree);
  const [current, ...retired] = signingKeys.vouching('log');
  const keys = [must(current, 'a key signs'), ...retired.slice(1 - logLimits.logSignaturesMax)];
  return renderNote({ text, signatures: keys.map(({ signer }) => signNote(tree.origin, signer, text)) });
}

/** The keys that may have signed the log, as verifiers of its notes. */
export function logKeysOf(
  { signingKeys, ed25519 }: Pick<LogDeps, 'signingKeys' | 'ed25519'>,
  origin: string,
): NoteKey[] {
  return signingKeys
    .all()
    .filter(({ purpose, compromised }) => purpose === 'log' && !compromised)
    .map(({ publicKey }) => {
      const bytes = must(decodeBase64url(publicKey), 'a key of ours is base64url');
      const type = signatureTypes.ed25519;
      return {
        ...{ name: origin, keyId: noteKeyId(origin, type, bytes), type, publicKey: bytes },
        verify: ed25519.verifier(bytes),
      };
    });
}

export interface Round {
  /** Whether those that cosigned are a quorum. */
  readonly isWitnessed: boolean;
  readonly signatures: readonly NoteSignature[];
  readonly shown: readonly (ShownTree & { readonly witness: string })[];
}

/** Either way `witnessMsMax` at most. */
export type WaitFor = 'quorum' | 'all';

/**
 * The witnesses, of which this replica remembers what they hold. A round asks all of them at once; one that
 * has not answered the round before is left alone, so each has one request at most.
 */
export class Witnesses {
  readonly #deps: LogDeps;
  readonly #held = new Map<string, number | null>();
  readonly #asked = new Map<string, Promise<Heard>>();
  /** What is not reported yet: a witness may show its tree only when its round is over. */
  readonly #shown = new Map<string, ShownTree>();
  #heard = new Map<string, { readonly fault: string | null; readonly size: number }>();

  constructor(deps: LogDeps) {
    this.#deps = deps;
  }

  /**
   * Asks for cosignatures of the signed checkpoint of this tree, and waits for the quorum or for all. Without
   * LOG_WITNESSES nobody is asked.
   */
  async cosign(tree: LogTree, waitFor: WaitFor): Promise<Round> {
    const policy = this.#deps.witnesses;
    if (policy === null) return { isWitnessed: false, signatures: [], shown: [] };
    const question = this.#question(tree);
    const heard = new Map<string, Heard>();
    const isEnough = () => {
      const cosigned = [...heard].filter(([, { kind }]) => kind === 'cosigned').map(([name]) => name);
      return isQuorum(policy.quorum, new Set(cosigned));
    };
    const all = policy.witnesses.map(async (witness) => {
      const answer = await this.#ask(witness, question);
      if (answer !== null) heard.set(witness.name, answer);
    });
    await settled(all, waitFor === 'all' ? () => false : isEnough);
    await this.#note(policy.witnesses, tree, heard);
    return {
      isWitnessed: isEnough(),
      signatures: [...heard.values()].flatMap((each) => (each.kind === 'cosigned' ? each.signatures : [])),
      shown: this.shown(tree),
    };
  }

  /** Trees of this log that witnesses have shown, each once, and that are not here. */
  shown({ origin }: Pick<LogTree, 'origin'>): Round['shown'] {
    const shown = [...this.#shown].map(([witness, each]) => ({ witness, ...each }));
    this.#shown.clear();
    // One of the log before is settled by the recovery that ended it.
    return shown.filter((each) => each.origin === origin);
  }

  #question(tree: LogTree): Question {
    const signed = must(tree.signed, 'a tree that is shown is signed');
    const { log, size, origin } = tree;
    const { sql, clock } = this.#deps;
    return {
      ...{ origin, size, root: tree.root, signed },
      nowMs: () => clock.now(),
      noteText: must(parseNote(signed), 'what was signed is a note').text,
      logKeys: logKeysOf(this.#deps, origin),
      consistency: (oldSize) => readRanges(sql, log, consistencyRanges(oldSize, { from: 0, to: size }), size),
      holds: (shown) => this.#holds(log, shown),
    };
  }

  /** Also true of a log that a recovery has ended: what it lacks is settled. */
  async #holds(log: number, shown: Tree): Promise<boolean> {
    const { sql } = this.#deps;
    const newest = await readPublished(sql);
    if (newest?.log !== log) return true;
    if (shown.size > newest.size) return false;
    if (shown.size === 0) return isPossible(shown);
    const [root] = await readRanges(sql, log, [{ from: 0, to: shown.size }], newest.size);
    return areSame(must(root, 'one range has one hash'), shown.root);
  }

  /** Null: it still has the question before. */
  async #ask(witness: Witness, question: Question): Promise<Heard | null> {
    const { name } = witness;
    if (this.#asked.has(name)) return null;
    const asked = askWitness(witness, question, this.#held.get(name) ?? null).then(({ heard, heldSize }) => {
      this.#held.set(name, heldSize);
      if (heard.kind === 'contradicts') this.#shown.set(name, heard.shown);
      return heard;
    });
    this.#asked.set(name, asked);
    try {
      return await asked;
    } finally {
      this.#asked.delete(name);
    }
  }

  async #note(
    witnesses: readonly Witness[],
    { size }: LogTree,
    heard: ReadonlyMap<string, Heard>,
  ): Promise<void> {
    const next = new Map(this.#heard);
    for (const { name } of witnesses) {
      const answer = heard.get(name);
      const fault =
        answer === undefined ? 'away' : answer.kind === 'contradicts' ? 'contradicts' : faultOf(answer);
      next.set(name, { fault, size });
    }
    this.#heard = next;
    await writeWitnesses(
      this.#deps.sql,
      [...next].map(([witness, each]) => ({ witness, ...each })),
    );
  }
}

const faultOf = (heard: Exclude<Heard, { kind: 'contradicts' }>): string | null =>
  heard.kind === 'fault' ? heard.fault : null;

/** All have answered; or enough have, and the others had `witnessGraceMs` more; or the time is over. */
async function settled(all: readonly Promise<void>[], isEnough: () => boolean): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve, reject) => {
    let open = all.length;
    if (open === 0) resolve();
    timer = setTimeout(resolve, logLimits.witnessMsMax);
    let isGrace = false;
    for (const each of all) {
      each.then(() => {
        open -= 1;
        if (open === 0) resolve();
        if (isGrace || !isEnough()) return;
        isGrace = true;
        clearTimeout(timer);
        timer = setTimeout(resolve, logLimits.witnessGraceMs);
      }, reject);
    }
  });
  clearTimeout(timer);
}

/**
 * Has the newest checkpoint cosigned, and publishes it: with what cosignatures there are, so that readers
 * without a policy see the log go on while witnesses are away.
 */
export async function publishTree(
  deps: LogDeps,
  witnesses: Witnesses,
  tree: LogTree,
  waitFor: WaitFor,
): Promise<Round> {
  const round = await witnesses.cosign(tree, waitFor);
  if (round.shown.length > 0) return round;
  const note = must(
    parseNote(must(tree.signed, 'a tree is signed with its growth')),
    'what was signed is a note',
  );
  await publish(deps.sql, {
    tree,
    note: renderNote({ ...note, signatures: [...note.signatures, ...round.signatures] }),
    isWitnessed: round.isWitnessed,
  });
  return round;
}
