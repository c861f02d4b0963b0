import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AgentTrustError } from '../../clients/node/src/errors.ts';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { parseWitnessPolicy, WitnessPolicyError } from '../../shared/log/witness-policy.ts';
import { limits } from '../../shared/model/limits.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { minuteMs, parseTime, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { syncFolder } from '../../shared/runtime/sync-folder.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { arriving } from '../base/arriving.ts';
import { CommandError, reasonOf, UsageError } from '../base/call-api.ts';
import { eachOf } from '../base/each-of.ts';
import type { Work } from '../base/host.ts';
import { cliLimits } from '../base/limits.ts';
import { isNoRoom } from '../base/no-room.ts';
import { given } from '../base/options.ts';
import { publishFile } from '../base/publish-file.ts';
import { readNamedFile } from '../verify/verify-attestations.ts';
import { checkPack, isSoundPack, type PackCheck, PackError, smallBytesMax } from './check-pack.ts';
import {
  fetchJwks,
  findLogged,
  keysIn,
  type Logged,
  LogProver,
  logKeysOf,
  parseCheckpoint,
  policyOfLog,
} from './pack-log.ts';
import { renderPackPage } from './pack-page.ts';
import { type Cut, cutExport, joinExport, keepExport, type Survey, type Written } from './pack-records.ts';
import { type PackScope, packFiles, packFormat } from './pack-scope.ts';
import { packVerifiers } from './pack-verifiers.ts';
import { writeStoredZip, type ZipEntry } from './stored-zip.ts';

export interface PackOptions {
  readonly out: string;
  readonly since: string;
  readonly until: string;
  readonly gate?: string;
  readonly passport?: string;
  /** Path of the checkpoint of an earlier pack, by which the log is proved again. Default: the newest one. */
  readonly checkpoint?: string;
  /** Path of the tlog-policy that says which witnesses count. Default: the log alone. */
  readonly logPolicy?: string;
  /** Of the service in the middle of an export; default: `cliLimits.exportSilenceMsMax`. */
  readonly silenceMsMax?: number;
}

/**
 * What becomes of passports and approvals is stated up to so long after the newest record, because the clock
 * of a sidecar may be behind that of the service.
 */
const clockLeewayMs = minuteMs;
/** Chains go on to their first logged head after the period: some seconds, as a rule less than this. */
const usualTailMs = minuteMs;

/**
 * `agent-trust evidence pack`: fetches what proves the decisions of a period, checks it, and writes it as one
 * zip with the verifiers and a page for people. The bytes are determined by the records, by what is stated of
 * passports and approvals up to `as_of`, the checkpoint, the keys, and the version of this program; by no
 * clock. The file is there whole, or not at all. Exit code 5: it is there, and does not hold.
 */
export async function packEvidence(work: Work, options: PackOptions): Promise<ExitCode> {
  const { out } = options;
  const period = periodOf(options);
  if (
    await lstat(out).then(
      () => true,
      () => false,
    )
  )
    throw existing(out);
  const files = await filesOf(options);
  const signal = work.host.stopSignal();
  const folder = await mkdtemp(`${out}.`).catch((error: unknown) => {
    throw new UsageError(`${out} cannot be written: ${reasonOf(error)}`);
  });
  try {
    return await new Packing({ work, options, period, files, folder, signal }).run();
  } catch (error) {
    if (signal.aborted) throw new CommandError('Stopped. Nothing was written.');
    // What was just written is gone or was changed.
    if (error instanceof PackError) throw new CommandError(`${error.message}: nothing was written.`);
    if (isFileError(error)) throw new CommandError(`${out} cannot be written: ${error.message}`);
    throw error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const existing = (out: string): UsageError => new UsageError(`${out} exists. Name a new file.`);

/** An error of an open file has no path. */
const isFileError = (error: unknown): error is Error =>
  error instanceof Error &&
  (('syscall' in error && 'path' in error) || isNoRoom(error) || hasCode(error, 'EIO'));

type Period = Pick<PackScope, 'since' | 'until'> & { readonly untilMs: UnixMillis };

function periodOf({ since, until }: PackOptions): Period {
  const read = (name: string, text: string) => {
    const time = parseTime(text);
    if (time === null)
      throw new UsageError(`${name} must be a time such as 2026-11-27T00:00:00Z, not "${text}".`);
    return time;
  };
  const [sinceMs, untilMs] = [read('--since', since), read('--until', until)];
  if (sinceMs >= untilMs) throw new UsageError('--since must lie before --until.');
  return { since: renderTime(sinceMs), until: renderTime(untilMs), untilMs };
}

interface GivenFiles {
  readonly checkpoint: string | null;
  readonly policy: string | null;
}

async function filesOf({ checkpoint, logPolicy }: PackOptions): Promise<GivenFiles> {
  const read = async (path: string | undefined) =>
    path === undefined
      ? null
      : readNamedFile(path, smallBytesMax).catch((error: unknown) => {
          throw new UsageError(`${path} cannot be read: ${reasonOf(error)}`);
        });
  const note = await read(checkpoint);
  const policy = await read(logPolicy);
  if (note !== null && parseCheckpoint(note.toString()) === null)
    throw new UsageError(`${checkpoint} is no checkpoint of a log.`);
  try {
    if (policy !== null) parseWitnessPolicy(chooseEd25519(), policy);
  } catch (error) {
    if (error instanceof WitnessPolicyError)
      throw new UsageError(`${logPolicy} cannot be used: ${error.message}`);
    throw error;
  }
  return { checkpoint: note?.toString() ?? null, policy: policy?.toString() ?? null };
}

interface Proven {
  readonly cuts: ReadonlyMap<string, Cut>;
  /** Null: the log has none of the chains. */
  readonly checkpoint: string | null;
  /** Whether the log has heads that the export does not reach yet. */
  readonly isBehind: boolean;
}

interface PackingOf {
  readonly work: Work;
  readonly options: PackOptions;
  readonly period: Period;
  readonly files: GivenFiles;
  /** Of what is not whole yet. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

class Packing {
  readonly #of: PackingOf;
  /** By record. */
  readonly #logged = new Map<string, Logged | null>();

  constructor(of: PackingOf) {
    this.#of = of;
  }

  async run(): Promise<ExitCode> {
    const { scope, survey, written, checkpoint } = await this.#collect();
    const keys = await this.#writeKeys(survey, { scope, written, checkpoint });
    await this.#write('scope', `${canonicalJson({ ...scope })}\n`);
    if (checkpoint !== null) {
      await this.#write('checkpoint', checkpoint);
      const signed = parseCheckpoint(checkpoint);
      const own = signed === null ? 'quorum none\n' : policyOfLog(signed, keys);
      await this.#write('policy', this.#of.files.policy ?? own);
    }
    const check = await checkPack(this.#of.folder, (text) => this.#progress(text));
    await this.#write('page', renderPackPage(check));
    this.#progress('packing');
    await this.#zip(checkpoint !== null);
    return this.#report(check, survey);
  }

  /** Reads the export until it reaches what the log has, and states what its records need. */
  async #collect() {
    let asOfMs = (this.#of.period.untilMs + usualTailMs + clockLeewayMs) as UnixMillis;
    for (let left = cliLimits.packReadsMax; ; left--) {
      const scope = this.#scopeAsOf(asOfMs);
      const survey = await this.#download(scope);
      if (survey.chains.length === 0) throw await this.#nothing();
      const { cuts, checkpoint, isBehind } = await this.#prove(survey);
      const written = await this.#cut(survey, cuts);
      const neededMs = (Date.parse(written.latest) + clockLeewayMs) as UnixMillis;
      if (left <= 1 || (!isBehind && neededMs <= asOfMs)) return { scope, survey, written, checkpoint };
      if (neededMs > asOfMs) asOfMs = neededMs;
    }
  }

  #scopeAsOf(asOfMs: UnixMillis): PackScope {
    const { gate = null, passport = null } = this.#of.options;
    const { since, until } = this.#of.period;
    return {
      ...{ format: packFormat, since, until, gate_id: gate, passport_id: passport },
      ...{ as_of: renderTime(asOfMs), made_with: packageVersion },
    };
  }

  async #download(scope: PackScope): Promise<Survey> {
    const file = await open(this.#path('raw'), 'w', 0o600);
    try {
      const { client } = this.#of.work;
      const query = { format: 'jsonl', since: scope.since, as_of: scope.as_of } as const;
      const deadlineMs = limits.exportMsMax;
      const stream = arriving((signal) => client.attestations.export(query, { signal, deadlineMs }), {
        ...{ signal: this.#of.signal, ...given({ silenceMsMax: this.#of.options.silenceMsMax }) },
      });
      const survey = await keepExport(stream, {
        ...{ file, scope },
        progress: (records) => {
          if (records % progressEveryRecords === 0)
            this.#progress(`${records.toLocaleString('en-US')} records read`);
        },
      });
      if (survey.manifest.created_at < scope.until)
        throw new UsageError('--until lies ahead: a pack is of a period that is over.');
      return survey;
    } finally {
      await file.close();
    }
  }

  /** Why there is nothing to pack. */
  async #nothing(): Promise<CommandError> {
    const { gate, passport } = this.#of.options;
    const { client } = this.#of.work;
    const isUnknown = (error: unknown) => error instanceof AgentTrustError && error.http_status === 404;
    const unknown = async (id: string | undefined, find: (id: string) => Promise<unknown>) =>
      id !== undefined && (await find(id).then(() => false, isUnknown));
    if (await unknown(gate, (id) => client.gates.get(id)))
      return new CommandError(`There is no gate ${gate}.`);
    if (await unknown(passport, (id) => client.passports.get(id)))
      return new CommandError(`There is no passport ${passport}.`);
    return new CommandError(
      'No record of this account fits: nothing was written. An export has the chains of its own passports and gates.',
    );
  }

  async #prove({ chains }: Survey): Promise<Proven> {
    this.#progress('looking the chains up in the log');
    const found = await eachOf(chains, (chain) => this.#findLogged(chain.last.id));
    const covered = found.filter((each) => each !== null);
    const newest = covered
      .map(({ checkpoint }) => checkpoint)
      .toSorted((one, other) => sizeOf(other) - sizeOf(one))[0];
    const checkpoint = this.#of.files.checkpoint ?? newest ?? null;
    const prover =
      checkpoint === null ? null : new LogProver(this.#of.work.access, checkpoint, this.#of.signal);
    const cuts = new Map<string, Cut>();
    let [isBehind, proven] = [false, 0];
    for (const [place, { header, last, through }] of chains.entries()) {
      const logged = found[place] ?? null;
      const isProven =
        logged !== null && prover?.covers(logged) === true && logged.head.chainId === header.chain_id;
      if (isProven && logged.head.sequence > through) isBehind = true;
      if (prover === null || !isProven || logged.head.sequence > through) {
        cuts.set(header.chain_id, { sequence: last.sequence, hash: last.hash, proof: null });
        continue;
      }
      const { sequence, hash } = logged.head;
      cuts.set(header.chain_id, { sequence, hash, proof: await prover.prove(logged) });
      proven += 1;
    }
    return { cuts, checkpoint: proven > 0 ? checkpoint : null, isBehind };
  }

  async #findLogged(recordId: string): Promise<Logged | null> {
    const known = this.#logged.get(recordId);
    if (known !== undefined && known !== null) return known;
    const found = await findLogged(this.#of.work.access, recordId, this.#of.signal);
    this.#logged.set(recordId, found);
    return found;
  }

  async #cut(survey: Survey, cuts: ReadonlyMap<string, Cut>): Promise<Written> {
    const output = await open(this.#path('body'), 'w', 0o600);
    try {
      return await cutExport(this.#path('raw'), survey, cuts, output);
    } finally {
      await output.close();
    }
  }

  /** The keys that the files name, and the records after a manifest that names them. */
  async #writeKeys(
    { manifest }: Survey,
    of: { readonly scope: PackScope; readonly written: Written; readonly checkpoint: string | null },
  ): Promise<readonly VerificationKey[]> {
    const { scope, written, checkpoint } = of;
    const jwks = await fetchJwks(this.#of.work.access, this.#of.signal);
    const keys = keysIn(jwks);
    const signed = checkpoint === null ? null : parseCheckpoint(checkpoint);
    const named = new Set([
      ...[...written.keyIds, ...written.catalogKeyIds],
      ...(signed === null ? [] : logKeysOf(signed, keys)).map(({ kid }) => kid),
    ]);
    const entries = isJsonObject(jwks) && Array.isArray(jwks['keys']) ? jwks['keys'] : [];
    const kept = entries.filter((key) => isJsonObject(key) && named.has(String(key['kid'])));
    await this.#write('jwks', `${canonicalJson({ keys: kept })}\n`);
    const begins = keys.filter(({ kid }) => written.keyIds.has(kid)).map(({ notBeforeMs }) => notBeforeMs);
    const createdAtMs = Math.max(Date.parse(scope.as_of), ...begins) as UnixMillis;
    const listed = [...manifest.key_ids.filter((kid) => written.keyIds.has(kid))];
    const complete = { ...manifest, created_at: renderTime(createdAtMs), key_ids: listed };
    await joinExport(complete, this.#path('body'), this.#path(packFiles.records));
    await rm(this.#path('raw'));
    await rm(this.#path('body'));
    return keys;
  }

  async #zip(hasLog: boolean): Promise<void> {
    const { out } = this.#of.options;
    const names = Object.entries(packFiles).flatMap(([kind, name]) =>
      kind === 'verifier' || (!hasLog && (kind === 'checkpoint' || kind === 'policy')) ? [] : [name],
    );
    const files = names.map((name): ZipEntry => ({ name, content: { path: this.#path(name) } }));
    const entries = [...files, ...(await packVerifiers())]
      .map(({ name, content }) => ({ name: `evidence/${name}`, content }))
      .sort((one, other) => (one.name < other.name ? -1 : 1));
    const path = this.#path('pack.zip');
    const output = await open(path, 'wx', 0o644);
    try {
      await writeStoredZip(output, entries);
      await output.sync();
    } finally {
      await output.close();
    }
    this.#of.signal.throwIfAborted();
    if (!(await publishFile(path, out))) throw existing(out);
    await syncFolder(dirname(out));
  }

  async #report(check: PackCheck, survey: Survey): Promise<ExitCode> {
    const { out } = this.#of.options;
    const { print } = this.#of.work;
    const hash = createHash('sha256');
    for await (const piece of createReadStream(out)) hash.update(piece);
    const { all } = check.totals;
    const isSound = isSoundPack(check);
    print.item({
      file: basename(out),
      sha256: hash.digest('hex'),
      as_of: check.scope.as_of,
      permitted: all.permitted,
      refused: all.refused,
      ended_by_a_person: all.asked,
      records: check.verdict.valid ? check.verdict.records : null,
      verifies: isSound,
      unproven: check.unproven,
    });
    if (survey.manifest.created_at < check.scope.as_of)
      print.say(
        'The period has only just ended: what is stated of passports and approvals may still change.',
      );
    if (check.unproven > 0)
      print.say(`${check.unproven} records of the period are in no checkpoint of the log yet.`);
    if (!isSound) print.say(`${out} does not hold: its page says why.`);
    return isSound ? exitCode.success : exitCode.notVerified;
  }

  #path(name: string): string {
    return join(this.#of.folder, name);
  }

  async #write(name: keyof typeof packFiles, text: string): Promise<void> {
    await writeFile(this.#path(packFiles[name]), text, { mode: 0o600 });
  }

  #progress(text: string): void {
    this.#of.signal.throwIfAborted();
    const { errors } = this.#of.work.host;
    if (errors.isTTY === true) errors.write(`${text}\n`);
  }
}

const progressEveryRecords = 50_000;

const sizeOf = (checkpoint: string): number => parseCheckpoint(checkpoint)?.checkpoint.size ?? 0;
