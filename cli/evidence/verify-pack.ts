import { join } from 'node:path';
import { nodeEd25519 } from '../../shared/crypto/ed25519-node.ts';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { parseJwks } from '../../shared/crypto/keyset.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { parseNote } from '../../shared/log/note.ts';
import { judgeNote, parseWitnessPolicy } from '../../shared/log/witness-policy.ts';
import { visible } from '../../shared/model/plain-text.ts';
import { type FileForm, readPlainFile } from '../../shared/runtime/plain-file.ts';
import { checkPack, isSoundPack, type PackCheck, PackError, smallBytesMax } from './check-pack.ts';
import { renderPackPage } from './pack-page.ts';
import { packFiles } from './pack-scope.ts';

interface Sink {
  write(text: string): void;
  readonly isTTY?: boolean;
}

/**
 * `agent-trust evidence verify FOLDER`, and the program in a pack: whether its files hold, and whether its
 * page says what they say. With a JWKS or a policy of one's own: also whether these know the keys, and accept
 * the checkpoint. 0: all of it holds. 5: something does not. 2: a file is missing, or nothing was verified.
 */
export async function verifyPackCommand(of: {
  readonly folder: string;
  /** Path of a JWKS, fetched from the service by oneself. */
  readonly jwks?: string;
  /** Path of a tlog-policy, of whom one believes. */
  readonly logPolicy?: string;
  readonly output: Sink;
  readonly errors: Sink;
}): Promise<0 | 2 | 5> {
  const { folder, jwks, logPolicy, output, errors } = of;
  try {
    const check = await checkPack(folder, (text) => {
      if (errors.isTTY === true) errors.write(`${text}\n`);
    });
    const findings = [
      ...found(check),
      await pageFinding(folder, check),
      ...(jwks === undefined ? [] : [await keysFinding(folder, jwks)]),
      ...(logPolicy === undefined ? [] : [await checkpointFinding(folder, logPolicy)]),
    ];
    for (const { isGood, text } of findings) output.write(`${isGood ? 'OK' : 'NOT OK'}: ${visible(text)}.\n`);
    if (check.unproven > 0 || check.log === null)
      output.write(`Note: ${check.unproven} records of the period are covered by no proof of the log.\n`);
    return findings.every(({ isGood }) => isGood) ? 0 : 5;
  } catch (error) {
    if (!(error instanceof PackError)) throw error;
    errors.write(`${visible(error.message)}. Nothing was verified.\n`);
    return 2;
  }
}

interface Finding {
  readonly isGood: boolean;
  /** Without a full stop. */
  readonly text: string;
}

function found(check: PackCheck): Finding[] {
  const { verdict, log, replay, chains } = check;
  const records: Finding = verdict.valid
    ? {
        isGood: true,
        text: `${verdict.records} records in ${verdict.chains} chains: every hash, link and signature verifies`,
      }
    : { isGood: false, text: `${packFiles.records}, line ${verdict.line}: ${verdict.fault}` };
  const proofs: Finding[] =
    log === null
      ? []
      : [
          log.fault === null
            ? {
                isGood: true,
                text: `the log ${log.origin} has ${chains.proven} of these ${chains.all} chains${log.witnesses === null || log.witnesses.length === 0 ? ', without witnesses' : `, cosigned by ${log.witnesses.join(', ')}`}`,
              }
            : { isGood: false, text: `a proof of the log: ${log.fault}` },
        ];
  if (replay === null) return [records, ...proofs];
  const wrong = replay.contradictions.length + replay.over_limits.length;
  const total = (kind: 'agrees' | 'unjudged') =>
    Object.values(replay.decisions).reduce((sum, counts) => sum + counts[kind], 0);
  const again = `${total('agrees')} decisions made again alike, ${total('unjudged')} not judged`;
  const first = replay.contradictions[0]?.id ?? replay.over_limits[0]?.counter;
  return [
    records,
    ...proofs,
    wrong === 0
      ? { isGood: true, text: again }
      : { isGood: false, text: `${again}, and ${wrong} contradicted, the first of them ${first}` },
  ];
}

async function pageFinding(folder: string, check: PackCheck): Promise<Finding> {
  const page = await bytesOf(join(folder, packFiles.page));
  const isSame = page.equals(Buffer.from(renderPackPage(check)));
  const because = isSoundPack(check) ? '' : ', which contradict each other';
  return isSame
    ? { isGood: true, text: `${packFiles.page} says what these files say${because}` }
    : { isGood: false, text: `${packFiles.page} is not the page that these files make` };
}

async function keysFinding(folder: string, path: string): Promise<Finding> {
  const own = await keysOf(path, ownForms);
  const shown = await keysOf(join(folder, packFiles.jwks));
  const wrong = shown.find(({ kid, purpose, compromised }) => {
    const known = own.find((each) => each.kid === kid && each.purpose === purpose);
    return known === undefined || known.compromised !== compromised;
  });
  return wrong === undefined
    ? { isGood: true, text: `${path} has every key of the pack` }
    : { isGood: false, text: `${path} does not have the key ${wrong.kid} of the pack as the pack shows it` };
}

async function keysOf(path: string, also: readonly FileForm[] = []) {
  try {
    const value: unknown = JSON.parse((await bytesOf(path, also)).toString());
    if (!isJsonObject(value)) throw new Error('it is no JWKS');
    return parseJwks(value);
  } catch (cause) {
    if (cause instanceof PackError) throw cause;
    throw new PackError(`${path} cannot be used: ${messageOf(cause)}`);
  }
}

async function checkpointFinding(folder: string, path: string): Promise<Finding> {
  const note = parseNote((await bytesOf(join(folder, packFiles.checkpoint))).toString());
  const rules = await bytesOf(path, ownForms);
  const policy = (() => {
    try {
      return parseWitnessPolicy(nodeEd25519(), rules);
    } catch (cause) {
      throw new PackError(`${path} cannot be used: ${messageOf(cause)}`);
    }
  })();
  const clock = { nowMs: Date.now(), keys: await keysOf(join(folder, packFiles.jwks)) };
  const standing = note === null ? null : judgeNote(policy, note, clock);
  const isGood = standing?.isLogSigned === true && standing.isWitnessed && standing.forged.length === 0;
  const by =
    standing === null || standing.witnesses.length === 0
      ? ''
      : `, cosigned by ${standing.witnesses.join(', ')}`;
  const untimely = standing?.untimely ?? [];
  const others =
    untimely.length === 0 ? '' : `; not counted, because of its time: that of ${untimely.join(', ')}`;
  return isGood
    ? { isGood, text: `${path} accepts the checkpoint${by}${others}` }
    : { isGood, text: `${path} does not accept the checkpoint${others}` };
}

/** Of a file of the person who verifies. */
const ownForms: readonly FileForm[] = ['link', 'pipe'];

async function bytesOf(path: string, also: readonly FileForm[] = []): Promise<Buffer> {
  try {
    return await readPlainFile(path, smallBytesMax, also);
  } catch (cause) {
    throw new PackError(`${path} cannot be read: ${messageOf(cause)}`);
  }
}
