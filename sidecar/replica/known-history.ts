import { appendFile, cp, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { type Receipt, reportReceiptsMax } from '../../shared/wire/sync/receipt.ts';
import { parseReceipt, type SealedEntry, type SignedSnapshot } from '../../shared/wire/sync/sync-schema.ts';
import { replicaLimits } from './limits.ts';
import { snapshotFile } from './snapshot-file.ts';

/** A signed state that the control plane's database lacks by now. */
export interface KnownState {
  readonly signed: SignedSnapshot;
  readonly entries: readonly SealedEntry[];
}

/**
 * What this sidecar was told, beside its spool, so that neither the control plane nor a restart of this
 * program makes it unknown (contract §17):
 *
 *     known/feeds.json          the last receipt of a position
 *     known/chains-<0|1>.jsonl  receipts of chains, newest last; a full file takes the place of the older one
 *     known/floor-<n>/          a state as it lay on disk when the control plane's went back behind it
 *
 * Receipts are written as they come, and never synced. They may be lost with the machine, or where the disk
 * is full: they make a loss known, and prove no decision.
 */
export class KnownHistory {
  readonly #folder: string;
  readonly #directory: string;
  #feeds: Receipt | null = null;
  #lastChains: Receipt | null = null;
  #unwritten: Receipt[] = [];
  #isFeedsWritten = true;
  /** Ends with the last write that was begun. */
  #writing: Promise<void> = Promise.resolve();
  #isWritePending = false;

  constructor(directory: string) {
    this.#directory = directory;
    this.#folder = join(directory, 'known');
  }

  /** What a report says each time: the newest of both kinds. */
  get newest(): readonly Receipt[] {
    return [this.#feeds, this.#lastChains].filter((receipt) => receipt !== null);
  }

  /** The last position that was told; null: none. */
  get feeds(): Receipt | null {
    return this.#feeds;
  }

  noteFeeds(receipt: Receipt): void {
    if (receipt.text === this.#feeds?.text) return;
    this.#feeds = receipt;
    this.#isFeedsWritten = false;
  }

  noteChains(receipts: readonly Receipt[]): void {
    this.#lastChains = receipts.at(-1) ?? this.#lastChains;
    this.#unwritten.push(...receipts);
    const excess = this.#unwritten.length - replicaLimits.receiptsUnwrittenMax;
    if (excess > 0) this.#unwritten.splice(0, excess);
    // What fails is tried again with the next receipts, and by `write`, which reports it.
    if (receipts.length > 0) this.write().catch(() => undefined);
  }

  /** Of an earlier run. */
  async load(): Promise<void> {
    await makeFolder(this.#folder, { mode: 0o700 });
    this.#feeds = parseReceipt(await readOr(join(this.#folder, 'feeds.json'), ''));
    const lines = [...(await this.#lines(1)), ...(await this.#lines(0))];
    this.#lastChains = lines.at(-1) ?? null;
  }

  /** One at a time; what comes meanwhile is one write. */
  write(): Promise<void> {
    if (!this.#isWritePending) {
      this.#isWritePending = true;
      this.#writing = this.#writing
        .catch(() => undefined)
        .then(() => {
          this.#isWritePending = false;
          return this.#write();
        });
    }
    return this.#writing;
  }

  async #write(): Promise<void> {
    if (!this.#isFeedsWritten && this.#feeds !== null) {
      this.#isFeedsWritten = true;
      await this.#replace('feeds.json', JSON.stringify(this.#feeds));
    }
    if (this.#unwritten.length === 0) return;
    const receipts = this.#unwritten.splice(0);
    const path = this.#chains(0);
    const bytes = await stat(path).then(
      ({ size }) => size,
      () => 0,
    );
    if (bytes > replicaLimits.receiptsFileBytesMax) await rename(path, this.#chains(1));
    await appendFile(path, receipts.map((each) => `${JSON.stringify(each)}\n`).join(''), { mode: 0o600 });
  }

  /** All receipts of chains, newest first, as many at a time as a report takes. */
  async *pages(): AsyncGenerator<readonly Receipt[]> {
    await this.write();
    for (const file of [0, 1] as const) {
      const lines = (await this.#lines(file)).reverse();
      for (let first = 0; first < lines.length; first += reportReceiptsMax)
        yield lines.slice(first, first + reportReceiptsMax);
    }
  }

  /**
   * Keeps the state that is on disk, whatever replaces it there. Throws where there are too many of them:
   * then nothing may replace it.
   */
  async setAside(): Promise<void> {
    const floors = await this.#floorNames();
    if (floors.length >= replicaLimits.floorsMax) {
      throw new Error(
        `the control plane went back more than ${replicaLimits.floorsMax} times: run agent-trust recover there`,
      );
    }
    const name = `floor-${floors.length + 1}`;
    const unfinished = join(this.#folder, `${name}.new`);
    await rm(unfinished, { recursive: true, force: true });
    await makeFolder(unfinished, { mode: 0o700 });
    for (const file of await readdir(this.#directory)) {
      if (file === 'snapshot.json' || file.startsWith('changes-'))
        await cp(join(this.#directory, file), join(unfinished, file));
    }
    await rename(unfinished, join(this.#folder, name));
    const folder = await open(this.#folder, 'r');
    await folder.sync().finally(() => folder.close());
  }

  async floorCount(): Promise<number> {
    return (await this.#floorNames()).length;
  }

  async floors(): Promise<readonly KnownState[]> {
    const states: KnownState[] = [];
    for (const name of await this.#floorNames()) {
      const state = await snapshotFile(join(this.#folder, name)).load();
      if (state !== null) states.push(state);
    }
    return states;
  }

  async dropFloors(): Promise<void> {
    for (const name of await this.#floorNames())
      await rm(join(this.#folder, name), { recursive: true, force: true });
  }

  async #floorNames(): Promise<string[]> {
    const names = await readdir(this.#folder).catch(() => []);
    return names.filter((name) => /^floor-\d+$/.test(name)).sort();
  }

  async #lines(file: 0 | 1): Promise<Receipt[]> {
    const text = await readOr(this.#chains(file), '');
    // A torn last line is none.
    return text.split('\n').flatMap((line) => parseReceipt(line) ?? []);
  }

  #chains(file: 0 | 1): string {
    return join(this.#folder, `chains-${file}.jsonl`);
  }

  async #replace(name: string, text: string): Promise<void> {
    const path = join(this.#folder, name);
    const file = await open(`${path}.new`, 'w', 0o600);
    await file.writeFile(text).finally(() => file.close());
    await rename(`${path}.new`, path);
  }
}

const readOr = (path: string, otherwise: string): Promise<string> =>
  readFile(path, 'utf8').catch(() => otherwise);
