/** The last line of an export, by its format. Of csv and ocsf nothing tells. */
const ends: Readonly<Record<string, (line: string) => boolean>> = {
  jsonl: (line) => line.startsWith('{"end":'),
  json: (line) => line.startsWith('],"end":'),
  dsse: (line) => {
    const payload = /"payload":"([\w+/=-]*)"/.exec(line)?.[1] ?? '';
    return Buffer.from(payload, 'base64').includes('"urn:agent-trust:attestation-export-end:v');
  },
};

/** Longer than any line of an export; more of a line without an end is not kept. */
const lineBytesMax = 4 * 1024 * 1024;
const newline = 0x0a;

/**
 * Passes an export on as it comes. Throws an Error after the last byte where the line is missing with which
 * each ends: the answer was cut off by somebody who ended it as if it were whole.
 */
export async function* wholeExport(
  pieces: AsyncIterable<Uint8Array>,
  format: unknown = 'jsonl',
): AsyncGenerator<Uint8Array> {
  const isEnd = typeof format === 'string' && Object.hasOwn(ends, format) ? ends[format] : undefined;
  let last: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    if (isEnd !== undefined) last = lastLine(Buffer.concat([last, piece]));
    yield piece;
  }
  if (isEnd === undefined || (last.at(-1) === newline && isEnd(last.toString()))) return;
  throw new Error('the export ends without its last line');
}

function lastLine(bytes: Buffer): Buffer {
  const begin = bytes.subarray(0, -1).lastIndexOf(newline) + 1;
  return Buffer.from(bytes.subarray(Math.max(begin, bytes.length - lineBytesMax)));
}
