import type { HeldBytes } from './held-bytes.ts';

/** The message of an event as the client gets it. Null: it gets none. */
type LookAtEvent = (text: string) => Promise<string | null>;

/**
 * Passes a stream of server-sent events on, byte for byte but for messages that are changed. An event is
 * passed on when it is whole; one that never becomes whole is not, as no client would read it. Throws
 * AnswerTooLarge, and an Error for an event that leads to another address: `endpoint` of the old transport,
 * to which a client would send its calls past the proxy.
 */
export async function* filterEvents(
  source: AsyncIterable<Buffer>,
  { look, held }: { readonly look: LookAtEvent; readonly held: HeldBytes },
): AsyncIterable<Buffer> {
  const room = held.open();
  let event: string[] = [];
  try {
    for await (const line of linesOf(source, room.take)) {
      event.push(line);
      // A comment on its own keeps the connection alive and belongs to no event.
      const isComment = event.length === 1 && line.startsWith(':');
      if (!isComment && !/^[\r\n]/.test(line)) continue;
      if (event.some((each) => /^endpoint$/i.test(nameOf(each) ?? ''))) {
        throw new Error(
          'the MCP server speaks the transport of 2024 (HTTP with SSE): it needs Streamable HTTP',
        );
      }
      const passed = Buffer.from(await filtered(event, look), 'latin1');
      event = [];
      room.free();
      yield passed;
    }
  } finally {
    room.free();
  }
}

/**
 * Whole lines with their ends, in Latin-1, which gives each byte a character and back, whatever the bytes
 * are. A CR at the end of a chunk may be half of a CRLF, and waits for the next one.
 */
async function* linesOf(source: AsyncIterable<Buffer>, take: (bytes: number) => void): AsyncIterable<string> {
  let open: string[] = [];
  for await (const chunk of source) {
    const text = chunk.toString('latin1');
    open.push(text);
    if (!/[\r\n]/.test(text) && !open.at(-2)?.endsWith('\r')) {
      take(text.length);
      continue;
    }
    const all = open.join('');
    let taken = 0;
    for (const end of all.matchAll(/\r\n|\n|\r(?!$)/g)) {
      const line = all.slice(taken, end.index + end[0].length);
      take(Math.min(line.length, text.length));
      yield line;
      taken = end.index + end[0].length;
    }
    open = [all.slice(taken)];
    take(Math.min(all.length - taken, text.length));
  }
  const last = open.join('');
  if (last.endsWith('\r')) yield last;
}

/** Which clients drop at the start of a stream. */
const byteOrderMark = /^\u00ef\u00bb\u00bf/;
const contentOf = (line: string): string | null =>
  /^data(?:: ?(.*)|)[\r\n]/.exec(line.replace(byteOrderMark, ''))?.slice(1).join('') ?? null;

const nameOf = (line: string): string | undefined =>
  /^event: ?(.*?)\s*[\r\n]/.exec(line.replace(byteOrderMark, ''))?.[1];

async function filtered(lines: readonly string[], look: LookAtEvent): Promise<string> {
  const data = lines.map(contentOf).filter((content) => content !== null);
  const text = Buffer.from(data.join('\n'), 'latin1').toString('utf8');
  if (text === '') return lines.join('');
  const shown = await look(text);
  if (shown === text) return lines.join('');
  const others = lines.slice(0, -1).filter((line) => contentOf(line) === null);
  // Without data the event is none for the client, but its id is kept.
  if (shown === null) return `${others.join('')}\n`;
  const escaped = Buffer.from(shown.replaceAll(/[\r\n]/g, ' ')).toString('latin1');
  return `${others.join('')}data: ${escaped}\n\n`;
}
