import { LineSplitter } from '../../clients/node/src/verify/export-lines.ts';
import { isRecord } from '../../clients/node/src/verify/export-shapes.ts';
import { openPlainFile } from '../../shared/runtime/plain-file.ts';
import type { AttestationAnswer } from '../../shared/wire/evidence/attestation.ts';
import { cliLimits } from '../base/limits.ts';

/** A line of an export as jsonl, without its newline, with what it holds; undefined: it is no JSON. */
export interface ExportLine {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Cuts bytes as the verifiers cut them: a record may hold other line breaks than a newline. Null: it is no
 * text, or no whole line.
 */
async function* cut(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string | null> {
  const splitter = new LineSplitter({ lineBytesMax: cliLimits.exportLineBytesMax });
  for await (const piece of bytes) for (const line of splitter.push(piece)) yield line;
  yield* splitter.end();
}

export async function* readExportLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ExportLine> {
  for await (const line of cut(bytes)) yield { text: line ?? '', value: parseText(line) };
}

/** Of a file that is read more than once: no pipe. */
async function* bytesOf(path: string): AsyncGenerator<Uint8Array> {
  const handle = await openPlainFile(path, ['link']);
  yield* handle.createReadStream({ highWaterMark: 256 * 1024 });
}

/** The lines of an export that verifies, in any of its formats. */
export const textLinesOf = (path: string) => cut(bytesOf(path));

export const exportLinesOf = (path: string): AsyncGenerator<ExportLine> => readExportLines(bytesOf(path));

/** Undefined: it is no JSON. */
export function parseText(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** By exactly the members of a record; whether it is signed is for the verifier. */
export const recordOf = (value: unknown): AttestationAnswer | null =>
  isRecord(value) ? (value as unknown as AttestationAnswer) : null;
