import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import {
  type Chain,
  chainOf,
  type End,
  endOf,
  type Manifest,
  manifestOf,
} from '../../clients/node/src/verify/export-shapes.ts';
import { parseAttachment } from '../../shared/attestation/attachments.ts';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { CommandError } from '../base/call-api.ts';
import { exportLinesOf, readExportLines, recordOf } from '../verify/export-lines.ts';
import { isInScope, type PackScope } from './pack-scope.ts';

/** A chain with records of the period. */
export interface FoundChain {
  readonly header: Chain;
  /** The last of these records. */
  last: { readonly id: string; readonly sequence: number; readonly hash: string };
  /** How far the chain goes in the export. */
  through: number;
}

export interface Survey {
  readonly manifest: Manifest;
  readonly chains: readonly FoundChain[];
  readonly end: End;
}

/** Keeps an export as it arrives, and finds its chains with records of the period. Throws CommandError. */
export async function keepExport(
  bytes: AsyncIterable<Uint8Array>,
  {
    file,
    scope,
    progress,
  }: { readonly file: FileHandle; readonly scope: PackScope; readonly progress: (records: number) => void },
): Promise<Survey> {
  let manifest: Manifest | null = null;
  let end: End | null = null;
  let header: Chain | null = null;
  let found: FoundChain | null = null;
  let records = 0;
  let line = 0;
  const chains: FoundChain[] = [];
  for await (const { value } of readExportLines(kept(bytes, file))) {
    line += 1;
    // Not read on: what follows could be without end.
    if (line === 1 && manifestOf(value) === null)
      throw new CommandError('The answer is no export: nothing was written. Is this the control plane?');
    if (value === undefined)
      throw new CommandError(
        `The export cannot be read: nothing was written. Line ${line} is too long, breaks off or is no JSON.`,
      );
    if (end !== null) throw new CommandError('The export goes on after its end: nothing was written.');
    const record = recordOf(value);
    if (record !== null && header !== null) {
      records += 1;
      progress(records);
      const { id, sequence, hash } = record;
      if (isInScope(scope, record)) {
        const last = { id, sequence, hash };
        if (found === null) {
          found = { header, last, through: sequence };
          chains.push(found);
        }
        found.last = last;
      }
      if (found !== null) found.through = sequence;
      continue;
    }
    const chain = chainOf(value);
    if (chain !== null) [header, found] = [chain, null];
    else {
      manifest ??= manifestOf(value);
      end ??= endOf(value);
    }
  }
  if (manifest === null || end === null)
    throw new CommandError('The export broke off before its end: nothing was written.');
  return { manifest, chains, end };
}

async function* kept(bytes: AsyncIterable<Uint8Array>, file: FileHandle): AsyncGenerator<Uint8Array> {
  for await (const piece of bytes) {
    await file.writeFile(piece);
    yield piece;
  }
}

/** Where a chain ends in the pack. */
export interface Cut {
  readonly sequence: number;
  readonly hash: string;
  /** That the log has this record; null: it has not. */
  readonly proof: string | null;
}

/** What was written, beside the lines. */
export interface Written {
  /** Keys that have signed something in it, but for catalogs. */
  readonly keyIds: ReadonlySet<string>;
  readonly catalogKeyIds: ReadonlySet<string>;
  /** Of the newest record. */
  readonly latest: string;
}

/**
 * Writes of an export its chains with records of the period, each from where it begins to its cut, and what
 * these records name: all lines but the manifest, which names the keys.
 */
export async function cutExport(
  raw: string,
  { chains, end }: Survey,
  cuts: ReadonlyMap<string, Cut>,
  output: FileHandle,
): Promise<Written> {
  const wanted = new Map(chains.map((chain) => [chain.header.chain_id, chain]));
  const names = new Set<string>();
  const keyIds = new Set<string>();
  const catalogKeyIds = new Set<string>();
  let latest = '';
  let cut: Cut | null = null;
  let records = 0;
  let lines: string[] = [];
  const write = async (line: string) => {
    lines.push(line);
    if (lines.length >= linesAtOnce) lines = await written(output, lines);
  };
  for await (const { text, value } of exportLinesOf(raw)) {
    const record = recordOf(value);
    if (record !== null) {
      if (cut === null || record.sequence > cut.sequence) continue;
      const { chain_id: chainId, policy_hash: policy, passport_id: passport, timestamp } = record;
      if (typeof policy === 'string') names.add(policy);
      if (passport !== null) names.add(passport);
      for (const id of [record.approval_id, record.refers_to])
        if (typeof id === 'string' && !id.startsWith('att_')) names.add(`${chainId} ${id}`);
      keyIds.add(record.signing_key_id);
      if (timestamp > latest) latest = timestamp;
      records += 1;
      await write(text);
      continue;
    }
    const header = chainOf(value);
    if (header !== null) {
      cut = wanted.has(header.chain_id) ? (cuts.get(header.chain_id) ?? null) : null;
      if (cut !== null) await write(canonicalJson({ chain: cutHeader(header, cut) }));
      continue;
    }
    const statement = parseAttachment(value);
    if (statement === null) continue;
    if ('policy' in statement) {
      const { policy_hash: hash, body, signing_key_id: kid } = statement.policy;
      if (!names.has(hash)) continue;
      if (typeof body['catalog_hash'] === 'string') names.add(body['catalog_hash']);
      keyIds.add(kid);
    } else if ('catalog' in statement) {
      if (!names.has(statement.catalog.content_hash)) continue;
      catalogKeyIds.add(statement.catalog.signing_key_id);
    } else if ('passport' in statement) {
      if (!names.has(statement.passport.body.passport_id)) continue;
      keyIds.add(statement.passport.signing_key_id);
    } else if ('condition' in statement) {
      // For a replay, which a pack is not for.
      continue;
    } else {
      const { body, signing_key_id: kid } = statement.approval;
      if (!names.has(`${body.passport_id} ${body.approval_id}`)) continue;
      keyIds.add(kid);
    }
    await write(text);
  }
  await write(canonicalJson({ end: { ...end, chains: chains.length, records } }));
  await written(output, lines);
  return { keyIds, catalogKeyIds, latest };
}

/** Some hundred kilobytes. */
const linesAtOnce = 512;

async function written(output: FileHandle, lines: readonly string[]): Promise<string[]> {
  if (lines.length > 0) await output.writeFile(`${lines.join('\n')}\n`);
  return [];
}

function cutHeader({ log_proof: _newest, ...header }: Chain, { sequence, hash, proof }: Cut): Chain {
  return { ...header, last_sequence: sequence, last_hash: hash, ...(proof !== null && { log_proof: proof }) };
}

/** The manifest, and after it what `cutExport` has written. */
export async function joinExport(manifest: Manifest, body: string, path: string): Promise<void> {
  const output = await open(path, 'wx', 0o600);
  try {
    await output.writeFile(`${canonicalJson({ manifest })}\n`);
    for await (const piece of createReadStream(body, { highWaterMark: 256 * 1024 }))
      await output.writeFile(piece);
  } finally {
    await output.close();
  }
}
