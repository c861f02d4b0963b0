/** A line that is too long: no more of it is kept. */
export interface LongLine {
  readonly head: Buffer;
  readonly tail: Buffer;
}

/** Of a line that is too long, at both ends: an id and what stands beside it. */
const endBytesMax = 256;

/**
 * The lines of a stream without their ends, a last one without an end among them. In place of a line of more
 * bytes than that, its ends.
 */
export async function* splitLines(
  source: AsyncIterable<Buffer>,
  lineBytesMax: number,
): AsyncGenerator<Buffer | LongLine> {
  let open: Buffer[] = [];
  let bytes = 0;
  let ends: LongLine | null = null;
  const lineOf = (last: Buffer): Buffer | LongLine => {
    const all = Buffer.concat([...(ends === null ? open : [ends.tail]), last]);
    if (bytes + last.length <= lineBytesMax) return all;
    // Copies: a part of a buffer would keep the whole.
    const tail = Buffer.from(all.subarray(-endBytesMax));
    return { head: ends?.head ?? Buffer.from(all.subarray(0, endBytesMax)), tail };
  };
  for await (const chunk of source) {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', from)) {
      const last = chunk.subarray(from, end);
      yield lineOf(last);
      open = [];
      ends = null;
      bytes = 0;
      from = end + 1;
    }
    const rest = chunk.subarray(from);
    if (bytes + rest.length > lineBytesMax) {
      ends = lineOf(rest) as LongLine;
      open = [];
    } else if (rest.length > 0) open.push(rest);
    bytes += rest.length;
  }
  if (bytes > 0) yield lineOf(Buffer.alloc(0));
}
