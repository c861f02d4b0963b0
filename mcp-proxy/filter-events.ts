import type { HideTools } from './hide-tools.ts';
import { proxyLimits } from './limits.ts';

/**
 * Passes a stream of server-sent events on, byte for byte but for the events in which tools are hidden. An
 * event is passed on when it is whole; one that never becomes whole is not, as no client would read it.
 * Throws for an event beyond `heldAnswerBytesMax`, and for one that leads to another address: `endpoint` of
 * the old transport, to which a client would send its calls past the proxy.
 */
export async function* filterEvents(source: AsyncIterable<Buffer>, hide: HideTools): AsyncIterable<Buffer> {
  let event: string[] = [];
  let eventBytes = 0;
  for await (const line of linesOf(source)) {
    event.push(line);
    eventBytes += line.length;
    if (eventBytes > proxyLimits.heldAnswerBytesMax) throw new Error('an event is too large');
    // A comment on its own keeps the connection alive and belongs to no event.
    const isComment = event.length === 1 && line.startsWith(':');
    if (!isComment && !/^[\r\n]/.test(line)) continue;
    if (event.some((each) => /^endpoint$/i.test(nameOf(each) ?? ''))) {
      throw new Error(
        'the MCP server speaks the transport of 2024 (HTTP with SSE): it needs Streamable HTTP',
      );
    }
    yield Buffer.from(await filtered(event, hide), 'latin1');
    event = [];
    eventBytes = 0;
  }
}

/**
 * Whole lines with their ends, in Latin-1, which gives each byte a character and back, whatever the bytes
 * are. A CR at the end of a chunk may be half of a CRLF, and waits for the next one.
 */
async function* linesOf(source: AsyncIterable<Buffer>): AsyncIterable<string> {
  let open: string[] = [];
  let openBytes = 0;
  for await (const chunk of source) {
    const text = chunk.toString('latin1');
    open.push(text);
    openBytes += text.length;
    if (openBytes > proxyLimits.heldAnswerBytesMax + chunk.length) throw new Error('an event is too large');
    if (!/[\r\n]/.test(text) && !open.at(-2)?.endsWith('\r')) continue;
    const all = open.join('');
    let taken = 0;
    for (const end of all.matchAll(/\r\n|\n|\r(?!$)/g)) {
      yield all.slice(taken, end.index + end[0].length);
      taken = end.index + end[0].length;
    }
    open = [all.slice(taken)];
    openBytes = all.length - taken;
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

async function filtered(lines: readonly string[], hide: HideTools): Promise<string> {
  const data = lines.map(contentOf).filter((content) => content !== null);
  const text = Buffer.from(data.join('\n'), 'latin1').toString('utf8');
  const message = text.includes('"tools"') ? parse(text) : null;
  const shown = message === null ? null : await hide(message);
  if (shown === message) return lines.join('');
  const others = lines.slice(0, -1).filter((line) => contentOf(line) === null);
  return `${others.join('')}data: ${Buffer.from(JSON.stringify(shown)).toString('latin1')}\n\n`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // No client reads it either.
    return null;
  }
}
