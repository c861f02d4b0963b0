import { assert, must } from '../errors/assert.ts';
import { attachmentLine } from './attachments.ts';
import { chainLine, type ExportWriter, endLine, factsLine, manifestLine, recordLine } from './export.ts';

/*
 * The export as one JSON value (contract §9), `{manifest, chains: [{..., attestations}], attachments, end}`,
 * laid out in lines, so that verifying it needs no more memory than jsonl:
 *
 *     {"manifest":{...},"chains":[
 *     {"chain_id":...,"attestations":[
 *     {...},                              records and facts, a comma between two
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
  const item = (line: string): string => {
    assert(place !== 'outside', 'a record stands in a chain');
    const text = (place === 'record' ? ',\n' : '') + withoutNewline(line);
    place = 'record';
    return text;
  };
  return {
    manifest: (manifest) => toJson(ofManifest, manifestLine(manifest)),
    chain: (next) => {
      const text = closing(',') + toJson(ofChain, chainLine(next));
      place = 'chain';
      return text;
    },
    record: (attestation) => item(recordLine(attestation)),
    facts: (facts) => item(factsLine(facts)),
    attachment: (attachment) => attach(attachmentLine(attachment)),
    end: (end) => (place === 'attachment' ? '\n' : closing('')) + toJson(ofEnd, endLine(end)),
  };
}

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
