import { assert, must, unreachable } from '../errors/assert.ts';
import { attachmentLine } from './attachments.ts';
import { chainLine, type ExportWriter, endLine, manifestLine, recordLine } from './export.ts';

/*
 * The export as one JSON value (contract §9), `{manifest, chains: [{..., attestations}], attachments, end}`,
 * laid out in lines, so that verifying it needs no more memory than jsonl:
 *
 *     {"manifest":{...},"chains":[
 *     {"chain_id":...,"attestations":[
 *     {...},                              records, a comma between two
 *     {...}
 *     ]},                                 chains, likewise
 *     {"chain_id":...,"attestations":[
 *     {...}
 *     ]}
 *     ],"attachments":[                  only where there is one
 *     {"policy":{...}},                    as in jsonl, a comma between two
 *     {"passport":{...}}
 *     ],"end":{...}}
 *
 * Each line is one of the jsonl export in other brackets, or closes a chain. Both are written and read by way
 * of those lines: what verifies as the one verifies as the other, there is one spelling of each, and every
 * changed byte shows.
 */

/** Brackets around the content of a line, per format. */
interface Brackets {
  readonly jsonl: readonly [string, string];
  readonly json: readonly [string, string];
}

const ofManifest: Brackets = { jsonl: ['{"manifest":', '}'], json: ['{"manifest":', ',"chains":['] };
/** A chain's object continues with its records; its closing brace follows them. */
const ofChain: Brackets = { jsonl: ['{"chain":', '}}'], json: ['', ',"attestations":['] };
const ofEnd: Brackets = { jsonl: ['{"end":', '}'], json: ['],"end":', '}'] };
const chainClosed = ']}';
const attachmentsBegin = '],"attachments":[';

/** The next line ends a record, because it decides whether the chain goes on. */
export function jsonWriter(): ExportWriter {
  let place: 'outside' | 'chain' | 'record' | 'attachment' = 'outside';
  const closing = (end: string) =>
    place === 'outside' ? '' : `${place === 'record' ? '\n' : ''}${chainClosed}${end}\n`;
  const attach = (line: string): string => {
    const text = place === 'attachment' ? ',\n' : `${closing('')}${attachmentsBegin}\n`;
    place = 'attachment';
    return text + withoutNewline(line);
  };
  return {
    manifest: (manifest) => toJson(ofManifest, manifestLine(manifest)),
    chain: (next) => {
      const text = closing(',') + toJson(ofChain, chainLine(next));
      place = 'chain';
      return text;
    },
    record: (attestation) => {
      assert(place !== 'outside', 'a record stands in a chain');
      const text = (place === 'record' ? ',\n' : '') + withoutNewline(recordLine(attestation));
      place = 'record';
      return text;
    },
    attachment: (attachment) => attach(attachmentLine(attachment)),
    end: (end) => (place === 'attachment' ? '\n' : closing('')) + toJson(ofEnd, endLine(end)),
  };
}

/** Whether this line begins an export as JSON. */
export const isJsonStart = (line: string): boolean =>
  rebracket(line, ofManifest.json, ofManifest.jsonl) !== null;

/** A line of JSON: equal to a jsonl line, only closing a chain, or misplaced. */
export type LineRead =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'closing' }
  | { readonly kind: 'misplaced' };

/**
 * Reads an export as JSON line by line, each without its newline. Checks the brackets only and leaves their
 * content to the jsonl reader. After a misplaced line, results are meaningless.
 *
 *     start ──> first ──chain──> records ──last record──> closing ──"]},"──> chain ──chain──> records
 *                 └────end────> ended                        └─────"]}"────> end ────end────> ended
 *
 * A chain without records is closed in place of its first one. Attachments stand in place of the end, and are
 * read until it.
 */
export function jsonLineReader(): (line: string) => LineRead {
  let expected:
    | 'start'
    | 'first'
    | 'empty'
    | 'records'
    | 'closing'
    | 'chain'
    | 'end'
    | 'attachments'
    | 'last'
    | 'ended' = 'start';

  function readAttachment(line: string): LineRead {
    const isLast = !line.endsWith(',');
    if (isLast) expected = 'last';
    return found(isLast ? line : line.slice(0, -1));
  }

  function readHeader(line: string): LineRead {
    if (expected === 'end' && line === attachmentsBegin) {
      expected = 'attachments';
      return { kind: 'closing' };
    }
    const end = expected === 'chain' ? null : rebracket(line, ofEnd.json, ofEnd.jsonl);
    const chain =
      expected === 'end' || expected === 'last' ? null : rebracket(line, ofChain.json, ofChain.jsonl);
    expected = end === null ? 'empty' : 'ended';
    return found(end ?? chain);
  }

  function readClosing(line: string): LineRead {
    expected = line === chainClosed ? 'end' : 'chain';
    return line === chainClosed || line === `${chainClosed},` ? { kind: 'closing' } : { kind: 'misplaced' };
  }

  return (line) => {
    switch (expected) {
      case 'start':
        expected = 'first';
        return found(rebracket(line, ofManifest.json, ofManifest.jsonl));
      case 'first':
      case 'chain':
      case 'end':
      case 'last':
        return readHeader(line);
      case 'empty':
      case 'records':
        if (expected === 'empty' && line.startsWith(chainClosed)) return readClosing(line);
        expected = 'records';
        if (line.endsWith(',')) return found(line.slice(0, -1));
        expected = 'closing';
        return found(line);
      case 'attachments':
        return readAttachment(line);
      case 'closing':
        return readClosing(line);
      case 'ended':
        return { kind: 'misplaced' };
      default:
        return unreachable(expected);
    }
  };
}

const found = (line: string | null): LineRead =>
  line === null ? { kind: 'misplaced' } : { kind: 'line', line };

function toJson({ jsonl, json }: Brackets, line: string): string {
  return `${must(rebracket(withoutNewline(line), jsonl, json), 'a line of jsonl has its brackets')}\n`;
}

/** The text with its brackets replaced; null if it has other brackets. */
function rebracket(
  text: string,
  [open, close]: readonly [string, string],
  [newOpen, newClose]: readonly [string, string],
): string | null {
  if (!text.startsWith(open) || !text.endsWith(close) || text.length < open.length + close.length)
    return null;
  return newOpen + text.slice(open.length, text.length - close.length) + newClose;
}

function withoutNewline(line: string): string {
  assert(line.endsWith('\n'), 'a line ends in a newline');
  return line.slice(0, -1);
}
