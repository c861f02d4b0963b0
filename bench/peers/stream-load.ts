import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { must } from '../../shared/errors/assert.ts';

/**
 * The least that a client of `GET /v1/stream` can do: a closed loop over STREAMS streams, each with IN_FLIGHT
 * frames under way, for SECONDS seconds. The frames are made and masked once, FRAME under one id for each
 * place in flight; an answer is read as far as its id and its decision, and its place gets the next frame.
 *
 * Prints `RESULT <answers> <microseconds> <microseconds of processor time>` once every frame that was sent
 * has its PERMIT. Throws for any other answer, and for a second one to a frame.
 */
const { ORIGIN = '', API_KEY = '', FRAME = '', STREAMS = '', IN_FLIGHT = '', SECONDS = '' } = process.env;
const inFlight = Number(IN_FLIGHT);

const idOf = (place: number): string => String(place).padStart(4, '0');
const permitOf = (place: number): string => `{"id":"${idOf(place)}","decision":"PERMIT"`;
const permits = Array.from({ length: inFlight }, (_, place) => permitOf(place));
const permitChars = permitOf(0).length;
const idAt = '{"id":"'.length;

/** RFC 6455 §5.2: the first two bytes of a text whose length follows in 16 bits, and the bit of a mask. */
const wholeText = 0x81;
const lengthIn16Bits = 126;
const isMasked = 0x80;

const frames = Array.from({ length: inFlight }, (_, place) =>
  maskedFrame(JSON.stringify({ id: idOf(place), ...JSON.parse(FRAME) })),
);
/** Places that follow each other lie one after the other, and leave with one write. */
const allFrames = Buffer.concat(frames);
const frameBytes = allFrames.length / inFlight;

function maskedFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  const mask = randomBytes(4);
  const header = Buffer.from([wholeText, isMasked | lengthIn16Bits, 0, 0, ...mask]);
  header.writeUInt16BE(payload.length, 2);
  return Buffer.concat([header, payload.map((byte, index) => byte ^ must(mask[index % 4], 'four bytes'))]);
}

let isOver = false;
let answers = 0;
let unanswered = 0;
let whenAnswered: () => void = () => undefined;

async function openStream(): Promise<Socket> {
  const handshake = request(`${ORIGIN}/v1/stream`, {
    headers: {
      authorization: `Bearer ${API_KEY}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    },
  });
  handshake.once('response', ({ statusCode }: IncomingMessage) => {
    throw new Error(`the handshake was answered ${statusCode}`);
  });
  handshake.end();
  const [, socket] = (await once(handshake, 'upgrade')) as [IncomingMessage, Socket];
  return socket.setNoDelay();
}

function run(socket: Socket): void {
  const isUnderWay = new Uint8Array(inFlight).fill(1);
  let rest: Buffer | null = null;
  socket.on('close', () => {
    throw new Error('the sidecar has closed a stream');
  });
  socket.on('data', (chunk: Buffer) => {
    const bytes: Buffer = rest === null ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    /** Places whose next frames are not written yet, from the first to before the last. */
    let [first, last] = [0, 0];
    socket.cork();
    for (let end = endOf(bytes, at); end !== null; end = endOf(bytes, at)) {
      const place = placeOf(bytes, end - lengthAt(bytes, at), isUnderWay);
      at = end;
      answers++;
      if (isOver) {
        isUnderWay[place] = 0;
        unanswered--;
        continue;
      }
      if (place !== last) {
        write(socket, first, last);
        first = place;
      }
      last = place + 1;
    }
    write(socket, first, last);
    socket.uncork();
    rest = at === bytes.length ? null : bytes.subarray(at);
    if (unanswered === 0) whenAnswered();
  });
  unanswered += inFlight;
  socket.write(allFrames);
}

function write(socket: Socket, first: number, last: number): void {
  if (first < last) socket.write(allFrames.subarray(first * frameBytes, last * frameBytes));
}

const headerBytes = 4;
const lengthAt = (bytes: Buffer, at: number): number => bytes.readUInt16BE(at + 2);

/** Where the message that begins here ends; null: not all of it is here. */
function endOf(bytes: Buffer, at: number): number | null {
  if (bytes.length < at + headerBytes) return null;
  if (bytes[at] !== wholeText || bytes[at + 1] !== lengthIn16Bits)
    throw new Error(`no answer: ${bytes.toString('latin1', at, at + 200)}`);
  const end = at + headerBytes + lengthAt(bytes, at);
  return end <= bytes.length ? end : null;
}

/** Of the answer that begins here. */
function placeOf(bytes: Buffer, at: number, isUnderWay: Uint8Array): number {
  const place = Number(bytes.toString('latin1', at + idAt, at + idAt + idOf(0).length));
  const isPermit = bytes.toString('latin1', at, at + permitChars) === permits[place];
  if (!isPermit || isUnderWay[place] !== 1)
    throw new Error(`not the PERMIT of a frame under way: ${bytes.toString('latin1', at, at + 500)}`);
  return place;
}

const sockets = await Promise.all(Array.from({ length: Number(STREAMS) }, openStream));
const cpuBefore = process.cpuUsage();
const before = performance.now();
for (const socket of sockets) run(socket);
await new Promise<void>((resolve) => {
  whenAnswered = resolve;
  setTimeout(() => {
    isOver = true;
  }, Number(SECONDS) * 1_000);
});
const microseconds = (performance.now() - before) * 1_000;
const { user, system } = process.cpuUsage(cpuBefore);
console.log(`RESULT ${answers} ${Math.round(microseconds)} ${user + system}`);
process.exit(0);
