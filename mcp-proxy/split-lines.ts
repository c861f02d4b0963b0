/**
 * The lines of a stream without their ends, a last one without an end among them. Null in place of a line of
 * more bytes than that, of which nothing is kept.
 */
export async function* splitLines(
  source: AsyncIterable<Buffer>,
  lineBytesMax: number,
): AsyncGenerator<Buffer | null> {
  let open: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', from)) {
      const last = chunk.subarray(from, end);
      yield bytes + last.length > lineBytesMax ? null : Buffer.concat([...open, last]);
      open = [];
      bytes = 0;
      from = end + 1;
    }
    const rest = chunk.subarray(from);
    bytes += rest.length;
    if (bytes > lineBytesMax) open = [];
    else if (rest.length > 0) open.push(rest);
  }
  if (bytes > 0) yield bytes > lineBytesMax ? null : Buffer.concat(open);
}
