/**
 * A process that sends frames over streams as fast as the sidecar takes them, and reads all answers. Prints
 * how many answers came and of which kinds when its input ends.
 */
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

const { port, key, gateId, passport, streams, idFirst } = JSON.parse(process.argv[2]);
const framesPerRound = 2_048;

/** Masked with zeros: the server need not care, and the client saves its time. */
function frameOf(text) {
  const body = Buffer.from(text);
  const head = Buffer.alloc(8);
  head[0] = 0x81;
  head[1] = 0x80 | 126;
  head.writeUInt16BE(body.byteLength, 2);
  return Buffer.concat([head, body]);
}

const note = 'x'.repeat(Math.max(0, 1_900 - passport.length));
const frames = Array.from({ length: framesPerRound }, (_, n) => {
  const others = { gate_id: gateId, passport, request: { permission_key: 'orders:create', note } };
  return frameOf(JSON.stringify(idFirst ? { id: `f${n}`, ...others } : { ...others, id: `f${n}` }));
});
const round = Buffer.concat(frames);
const seen = { sent: 0, permits: 0, overloaded: 0, others: 0, nameless: 0, closed: 0 };
let isEnding = false;

for (let n = 0; n < streams; n++) open();

function open() {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  socket.write(
    `GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nConnection: Upgrade\r\n` +
      `Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
  );
  const pump = () => {
    while (!isEnding && socket.write(round)) seen.sent += framesPerRound;
  };
  socket.on('drain', () => {
    seen.sent += framesPerRound;
    pump();
  });
  socket.once('data', pump);
  let rest = '';
  socket.on('data', (bytes) => {
    // Answers are ASCII, and no head of a frame of theirs holds these words.
    const all = rest + bytes.toString('latin1');
    const end = all.lastIndexOf('}') + 1;
    const text = all.slice(0, end);
    rest = all.slice(end);
    seen.permits += text.split('"decision":"PERMIT"').length - 1;
    seen.overloaded += text.split('"code":"overloaded"').length - 1;
    seen.others += text.split('"code":"').length - text.split('"code":"overloaded"').length;
    seen.nameless += text.split('{"id":null').length - 1;
  });
  socket.on('close', () => {
    if (isEnding) return;
    seen.closed++;
    open();
  });
}
process.stdout.write('flooding\n');
process.stdin.resume();
process.stdin.once('end', () => {
  isEnding = true;
  process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit(0));
});
